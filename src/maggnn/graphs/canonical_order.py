"""A canonical numbering of a graph's nodes, independent of the given one: isomorphic graphs become equal.

A model that breaks ties by the first node then has one answer for a graph. The method is individualisation and
refinement (McKay, "Practical Graph Isomorphism", 1981). Colours are refined; while nodes share a colour, one of them is
individualised (it gets a unique colour) and the colours are refined again. Colours do not depend on the numbering, so
once all are different they order the nodes. All nodes of a shared colour are tried, and the choices whose colours have
the smallest hash are kept. Most shared colours are due to symmetries, in which case all choices are equivalent and one
is enough: two choices are equivalent if continuing from each, in any way, leads to the same colours, because nodes of
equal colour then correspond to each other. Graphs with too many different choices get a `NumberingWarning`.

The search itself is in `canonical_search`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from maggnn.graphs.canonical_search import NumberingWarning, Outgoing, nodes_in_order
from maggnn.graphs.colours import row_hashes
from maggnn.graphs.hashes import mixed
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.stable_colours import SideBySide

__all__ = ["NumberingWarning", "canonical_rows", "in_canonical_order", "reordered"]


def in_canonical_order(packed: PackedGraphs) -> PackedGraphs:
    """Return the same graphs with their nodes and edges in canonical order, independent of the given one.

    Precomputed structure, rings and distances are left out; the model computes them again.
    """
    if packed.canonical:
        return packed
    return reordered(packed, canonical_rows(packed.to("cpu")))


def reordered(packed: PackedGraphs, rows: Tensor) -> PackedGraphs:
    """Return the same graphs with their nodes in the order of `rows`.

    Args:
        rows: the nodes of the set in their new order, which is within each graph, [total nodes] on the CPU.
    """
    on_cpu = packed.to("cpu")
    first = torch.repeat_interleave(on_cpu.node_offsets[:-1], on_cpu.num_nodes)
    place = torch.empty_like(rows)
    place[rows] = torch.arange(len(rows)) - first  # each node's new number in its graph
    edge_first = torch.repeat_interleave(on_cpu.node_offsets[:-1], on_cpu.num_edges)
    ends = (on_cpu.edge_index + edge_first).flatten()
    edge_index, edge_attr = place.index_select(0, ends).reshape(2, -1), on_cpu.edge_attr
    if edge_attr is not None and on_cpu.has_parallel_edges:  # which `build` does not reorder
        graph = torch.repeat_interleave(torch.arange(len(on_cpu)), on_cpu.num_edges)
        order = torch.from_numpy(np.lexsort([row_hashes(edge_attr).numpy(), graph.numpy()]))
        edge_index, edge_attr = edge_index[:, order], edge_attr[order]
    y = on_cpu.y[rows] if on_cpu.y is not None and on_cpu.level == "node" else on_cpu.y
    x = None if on_cpu.x is None else on_cpu.x.index_select(0, rows)
    sizes = on_cpu.num_nodes, on_cpu.num_edges  # targets were checked when the set was made
    made = PackedGraphs.build(*sizes, edge_index, x, edge_attr, y, on_cpu.level, missing_targets=True)
    made = replace(made, graph_attr=on_cpu.graph_attr)
    if on_cpu.roots is not None:
        made = replace(made, roots=place[on_cpu.roots + on_cpu.node_offsets[:-1, None]])
    return made.to(packed.device)


def canonical_rows(packed: PackedGraphs) -> Tensor:
    """Return the nodes of all graphs (rows of `x`) in canonical order, [total nodes]; for a set on the CPU."""
    kind = None if packed.edge_attr is None else row_hashes(packed.edge_attr).numpy()
    graphs = _side_by_side(packed, kind)
    outgoing = None if _is_symmetric(packed, kind) else _outgoing(packed, graphs)
    return torch.from_numpy(nodes_in_order(graphs, _node_hashes(packed, graphs), outgoing))


def _side_by_side(packed: PackedGraphs, kind: np.ndarray | None) -> SideBySide:
    num_edges, first = packed.num_edges.numpy(), packed.node_offsets[:-1].numpy()
    source = packed.edge_index[0].numpy() + np.repeat(first, num_edges)
    return SideBySide(packed.num_nodes.numpy(), num_edges, source, kind, packed.in_degree.numpy())


def _is_symmetric(packed: PackedGraphs, kind: np.ndarray | None) -> bool:
    """Whether every edge has a reverse edge with the same features."""
    return packed.symmetric and (kind is None or np.array_equal(kind[packed.edges_by_source().numpy()], kind))


def _outgoing(packed: PackedGraphs, graphs: SideBySide) -> Outgoing:
    target = packed.edge_index[1].numpy() + np.repeat(graphs.first, graphs.num_edges)
    return Outgoing(target, packed.edges_by_source().numpy(), packed.out_degree.numpy())


def _node_hashes(packed: PackedGraphs, graphs: SideBySide) -> np.ndarray:
    """Return a hash of the features of each node, and of its place among the roots, [total nodes]."""
    total = len(graphs.degree)
    hashes = np.zeros(total, dtype=np.int64) if packed.x is None else row_hashes(packed.x).numpy()
    if packed.roots is not None:
        slots = mixed(np.arange(1, packed.roots.shape[1] + 1))
        np.add.at(hashes, packed.roots.numpy() + graphs.first[:, None], slots)
    return hashes
