"""How far each node is from given nodes of its graph: breadth first, or looked up in a table made once for a set.

A distance counts edges along their direction, as messages travel: from a source towards the nodes that hear of it. In
an undirected graph that is the shortest-path length.

Shapes: B graphs, N nodes of the batch; M sets of k sources in each graph; V the largest graph's nodes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch, PairTable, offsets_of
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import adjacency, balls, like_sized

FARTHEST = 10
"""Distances 0, 1, ..., FARTHEST - 1 are told apart; FARTHEST stands for all farther ones and for no path."""

MOST_PAIRS = 4_000_000_000
"""Pairs of nodes of a set up to which their distances are stored, one byte each."""


def distances_from(graphs: GraphBatch, sources: Tensor) -> Tensor:
    """The distance of each node from each of its graph's sources, at most FARTHEST.

    Args:
        sources: node ids local to their graph, [B, M, k].

    Returns:
        [N, M, k], integers. A row of padding has distances that mean nothing.
    """
    if graphs.pairs is None:
        return breadth_first(graphs, sources)
    # Where the distances of each source begin, [B, M, k].
    row = graphs.pairs.first[:, None, None] + sources * graphs.num_nodes[:, None, None]
    local = torch.minimum(graphs.local_id, (graphs.num_nodes - 1)[graphs.node_graph])  # of padding: any node
    return graphs.pairs.table[row[graphs.node_graph] + local[:, None, None]].long()


def breadth_first(graphs: GraphBatch, sources: Tensor) -> Tensor:
    """`distances_from` without a table: FARTHEST - 1 steps from all sources at once, [N, M, k]."""
    (source, target), shape = graphs.edge_index, sources.shape[1:]
    node = (sources + graphs.first_node[:, None, None]).flatten(1)  # [B, M * k], ids of the batch
    column = torch.arange(node.shape[1], device=node.device).expand_as(node)
    reached = torch.zeros(graphs.total_nodes, node.shape[1], device=node.device)
    reached[node, column] = 1.0
    distance = torch.where(reached > 0, 0, FARTHEST)
    for steps in range(1, FARTHEST):
        index = target[:, None].expand(-1, reached.shape[1])
        arrived = torch.zeros_like(reached).scatter_add(0, index, reached[source])
        reached = ((arrived + reached) > 0).to(reached.dtype)
        distance = torch.where((reached > 0) & (distance == FARTHEST), steps, distance)
    return distance.unflatten(1, shape)


def with_distances(packed: PackedGraphs) -> PackedGraphs:
    """The same set with the distances of all pairs of nodes within each graph stored, where they are not too many."""
    squares = packed.num_nodes**2
    if packed.pairs is not None or int(squares.sum()) > MOST_PAIRS:
        return packed
    first = offsets_of(squares)[:-1]
    table = torch.empty(int(squares.sum()), dtype=torch.uint8, device=packed.device)
    for chunk in like_sized(packed, packed.num_nodes, lambda size: size**2):
        _store(table, first[chunk].to(packed.device), packed[chunk])
    return replace(packed, pairs=PairTable(table, first.to(packed.device)))


def _store(table: Tensor, first: Tensor, graphs: GraphBatch) -> None:
    """Write the distances of a batch's graphs to where they begin, [source, node] within each."""
    steps = adjacency(graphs).transpose(1, 2)  # [B, V, V] as [source, target]
    distance = torch.full_like(steps, FARTHEST, dtype=torch.long)
    for length, reached in enumerate(islice(balls(steps), FARTHEST)):
        distance = torch.where((reached > 0) & (distance == FARTHEST), length, distance)
    cell = graphs.is_node[:, :, None] & graphs.is_node[:, None, :]
    node = torch.arange(graphs.max_num_nodes, device=graphs.device)
    place = first[:, None, None] + node[:, None] * graphs.num_nodes[:, None, None] + node
    table[place[cell]] = distance[cell].to(table.dtype)
