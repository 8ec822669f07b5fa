"""Distances of nodes from given nodes of their graph, by breadth-first search or from a table of the whole set.

A distance counts edges along their direction, in which messages are passed, from a source to other nodes. In an
undirected graph it is the shortest-path length.

Shapes: B graphs, N nodes of the batch; M sets of k sources in each graph; V the largest graph's nodes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch, PairTable, offsets_of
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import adjacency, balls, chunks_of_similar_size

FARTHEST = 10
"""Distances 0, 1, ..., FARTHEST - 1 are distinguished; FARTHEST is any larger distance, or no path."""

MOST_PAIRS = 4_000_000_000
"""The largest number of pairs of nodes of a set whose distances are stored, one byte each."""


def distances_from(graphs: GraphBatch, sources: Tensor) -> Tensor:
    """Return the distance of each node from each of its graph's sources, at most FARTHEST.

    Args:
        sources: node ids local to their graph, [B, M, k].

    Returns:
        Integers [N, M, k]. The distances of padding rows are meaningless.
    """
    if graphs.pairs is None:
        return breadth_first(graphs, sources)
    # The position at which the distances of each source begin, [B, M, k].
    row = graphs.pairs.first[:, None, None] + sources * graphs.num_nodes[:, None, None]
    local = torch.minimum(graphs.local_id, (graphs.num_nodes - 1)[graphs.node_graph])  # any node for padding
    return graphs.pairs.table[row[graphs.node_graph] + local[:, None, None]].long()


def breadth_first(graphs: GraphBatch, sources: Tensor) -> Tensor:
    """Compute `distances_from` without a table, by FARTHEST - 1 steps from all sources at once, [N, M, k]."""
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
    """Return the same set with stored distances of all pairs of nodes of each graph, if there are not too many."""
    squares = packed.num_nodes**2
    if packed.pairs is not None or int(squares.sum()) > MOST_PAIRS:
        return packed
    first = offsets_of(squares)[:-1]
    table = torch.empty(int(squares.sum()), dtype=torch.uint8, device=packed.device)
    for chunk in chunks_of_similar_size(packed, packed.num_nodes, lambda size: size**2):
        _store(table, first[chunk].to(packed.device), packed[chunk])
    return replace(packed, pairs=PairTable(table, first.to(packed.device)))


def _store(table: Tensor, first: Tensor, graphs: GraphBatch) -> None:
    """Write the distances of a batch's graphs to the table, [source, node] within each graph."""
    steps = adjacency(graphs).transpose(1, 2)  # [B, V, V] as [source, target]
    distance = torch.full_like(steps, FARTHEST, dtype=torch.long)
    for length, reached in enumerate(islice(balls(steps), FARTHEST)):
        distance = torch.where((reached > 0) & (distance == FARTHEST), length, distance)
    cell = graphs.is_node[:, :, None] & graphs.is_node[:, None, :]
    node = torch.arange(graphs.max_num_nodes, device=graphs.device)
    place = first[:, None, None] + node[:, None] * graphs.num_nodes[:, None, None] + node
    table[place[cell]] = distance[cell].to(table.dtype)
