"""How many cycles of a given length go through each edge, counted by walking them.

Simple paths are extended by one node at a time, all paths of a set of graphs at once; those whose ends are joined are
cycles. Exact, and fast enough for graphs of some thirty nodes and small degree.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs

GRAPHS_A_CHUNK = 500


def cycles_through_edges(packed: PackedGraphs, length: int) -> Tensor:
    """The number of simple cycles of `length` through each edge, in the order of `packed.edge_index`, [total edges].

    Each undirected edge is there twice and gets its count twice.
    """
    if length < 3:
        raise InputError(f"cycles of length {length}: the shortest has 3 nodes")
    if not packed.symmetric:
        raise InputError("cycles are counted in undirected graphs: every edge must go both ways")
    chunks = torch.arange(len(packed)).split(GRAPHS_A_CHUNK)
    return torch.cat([_count(packed[chunk], length) for chunk in chunks])


def _count(graphs: GraphBatch, length: int) -> Tensor:
    """Counts of one batch's edges, [E]."""
    source, target = graphs.edge_index
    following = target[graphs.by_source]
    first, degree = graphs.source_offsets[:-1], graphs.out_degree
    edge = torch.arange(len(source))
    paths = torch.stack([source, target], dim=1)  # [P, 2]
    for _ in range(length - 2):
        end = paths[:, -1]
        row = torch.repeat_interleave(torch.arange(len(paths)), degree[end])
        within = torch.arange(len(row)) - torch.repeat_interleave(degree[end].cumsum(0) - degree[end], degree[end])
        node = following[first[end][row] + within]
        fresh = (paths[row] != node[:, None]).all(dim=1)
        paths, edge = torch.cat([paths[row], node[:, None]], dim=1)[fresh], edge[row][fresh]
    closed = _joined(paths[:, -1], paths[:, 0], source, target, graphs.total_nodes)
    return torch.bincount(edge[closed], minlength=len(source))


def _joined(first: Tensor, second: Tensor, source: Tensor, target: Tensor, total: int) -> Tensor:
    """Which pairs of nodes [P] are edges."""
    known = (source * total + target).sort().values
    wanted = first * total + second
    place = torch.searchsorted(known, wanted).clamp(max=max(len(known) - 1, 0))
    return known[place] == wanted if len(known) else torch.zeros_like(wanted, dtype=torch.bool)
