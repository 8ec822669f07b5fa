"""Searches that do not depend on the numbering, by nauty's canonical form (McKay and Piperno 2014; extra `canonical`).

Isomorphic graphs have the same canonical form, so a start on its first nodes, with ties broken by the first node, gives
them the same search and the same answer. The form itself decides isomorphism by other means, so tables of results that
start from it say so.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.canonical_order import reordered
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import search
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.state import State

Kind = tuple[Any, ...]
"""The features that distinguish nodes or edges, as comparable values."""


def canonical_order(packed: PackedGraphs, graph: int) -> Tensor:
    """Return the nodes of one graph in canonical order, [n]; features of nodes and edges are colours."""
    try:
        import pynauty  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("canonical forms need pynauty: pip install 'maggnn[canonical]'") from None
    nodes = slice(int(packed.node_offsets[graph]), int(packed.node_offsets[graph + 1]))
    num_nodes = nodes.stop - nodes.start
    joined, inner = _as_simple_graph(_edges(packed, graph), num_nodes)
    colours: dict[Kind, set[int]] = {}
    for node, kind in enumerate([*_kinds(packed.x, nodes, num_nodes), *inner]):
        colours.setdefault(kind, set()).add(node)
    ordered = [colours[kind] for kind in sorted(colours, key=str)]
    form = pynauty.Graph(num_nodes + len(inner), adjacency_dict=joined, vertex_coloring=ordered)
    return torch.tensor([node for node in pynauty.canon_label(form) if node < num_nodes])


def _edges(packed: PackedGraphs, graph: int) -> dict[tuple[int, int], Kind]:
    """Return the kind of each pair of joined nodes; for parallel edges, all their kinds."""
    rows = slice(int(packed.edge_offsets[graph]), int(packed.edge_offsets[graph + 1]))
    source, target = packed.edge_index[:, rows].tolist()
    found: dict[tuple[int, int], list[Kind]] = {}
    for u, v, kind in zip(source, target, _kinds(packed.edge_attr, rows, len(source)), strict=True):
        found.setdefault((u, v), []).append(kind)
    return {pair: tuple(sorted(kinds, key=str)) for pair, kinds in found.items()}


def _as_simple_graph(edges: dict[tuple[int, int], Kind], num_nodes: int) -> tuple[dict[int, list[int]], list[Kind]]:
    """Return the neighbours in an equivalent undirected graph without kinds of edges, and the kinds of its added nodes.

    If edges have several kinds or are directed, u -> v becomes u - tail - head - v with the kind on tail and head.
    """
    joined: dict[int, list[int]] = {node: [] for node in range(num_nodes)}
    inner: list[Kind] = []
    if len(set(edges.values())) <= 1 and all((v, u) in edges for u, v in edges):
        for u, v in edges:
            joined[u].append(v)
        return joined, inner
    for (u, v), kind in edges.items():
        tail = num_nodes + len(inner)
        joined[u].append(tail)
        joined[tail], joined[tail + 1] = [tail + 1], [v]
        inner += [("tail", kind), ("head", kind)]
    return joined, inner


def canonical_form(packed: PackedGraphs) -> PackedGraphs:
    """Return the same graphs, on the CPU, with their nodes in canonical order."""
    if packed.level == "node" or packed.roots is not None:
        raise InputError("canonical forms are for targets of graphs: nodes and roots would be renumbered too")
    packed = packed.to("cpu")
    orders = [canonical_order(packed, graph) for graph in range(len(packed))]
    return reordered(packed, torch.cat([order + packed.node_offsets[graph] for graph, order in enumerate(orders)]))


def needs_last_state(model: MagGNN) -> None:
    """Check that the model reads the last state: the most confident one may depend on rounding, and so on numbering."""
    if model.agent.keep != "last":
        raise InputError("answers independent of the numbering need the last state: set agent.keep to last")


@torch.no_grad()
def answer_canonically(model: MagGNN, packed: PackedGraphs, ids: Tensor, batch_size: int = 512) -> Tensor:
    """Return the answers for graphs `ids` [B], each from one search in its canonical form, [B, out]."""
    needs_last_state(model)
    model.eval()
    agent = model.agent
    form = model.precomputed(canonical_form(packed.select(ids)).to(packed.device))
    answers = []
    for rows in torch.arange(len(ids)).split(batch_size):
        graphs = form[rows]
        starts = _first_nodes(graphs, agent.num_tuples, agent.tuple_order)
        start = State.start(graphs, starts, model.history_width)
        last = search(model.scores, start, agent.num_moves, agent.actions, ties="first")[-1]
        answers.append(model.in_target_units(model.predictor(graphs, last.tuples), graphs))
    return torch.cat(answers)


def _first_nodes(graphs: GraphBatch, num_tuples: int, tuple_order: int) -> Tensor:
    """Return the first nodes, slot by slot, [B, m, k]; a graph with fewer nodes repeats them."""
    slots = torch.arange(num_tuples * tuple_order, device=graphs.device)
    return (slots % graphs.num_nodes[:, None]).unflatten(1, (num_tuples, tuple_order))


def _kinds(values: Tensor | None, rows: slice, count: int) -> list[Kind]:
    if values is None:
        return [()] * count
    return [tuple(row) for row in (values[rows] + 0).tolist()]  # + 0 makes -0.0 equal to 0.0
