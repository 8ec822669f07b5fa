"""All cycles of a batch's graphs, found for the whole batch at once by growing paths.

A cycle is written from its smallest node on, towards the smaller of that node's two neighbours, so that each comes
once. Paths start at every node, take only larger nodes, and close where their end is joined to their start:

    simple       no node twice                                                 targets of data sets, features of GSN
    chordless    nor an edge between nodes that do not follow each other       cells of CIN

Which way an edge goes does not matter, and parallel edges count as one.

Shapes: B graphs, N nodes and E edges of the batch, V the largest graph's nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, expanded
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import adjacency, as_undirected

GRAPHS_A_CHUNK = 500
"""Of a data set, whose cycles are listed at once."""


@dataclass(frozen=True)
class Neighbours:
    """Who is joined to whom by an edge of either direction; nobody to itself, and padding to nobody.

    Attributes:
        table: whether two nodes are joined, [B, V, V].
        pairs: joined nodes (a, b) by batch ids, each in both orders, in the order of a and then of b, [2, pairs].
        first, degree: where the pairs of a node begin, and how many there are, [real nodes] both.
    """

    graphs: GraphBatch
    table: Tensor
    pairs: Tensor
    first: Tensor
    degree: Tensor

    def joined(self, a: Tensor, b: Tensor) -> Tensor:
        """Whether a node and another of its graph are joined, for two tensors of batch ids of one shape."""
        return between(self.table, self.graphs, a, b)

    def of(self, node: Tensor) -> tuple[Tensor, Tensor]:
        """For rows of nodes: a row's number and one of its node's neighbours, for all rows and neighbours."""
        pair, row = expanded(self.first[node], self.degree[node])
        return row, self.pairs[1, pair]


def between(table: Tensor, graphs: GraphBatch, a: Tensor, b: Tensor) -> Tensor:
    """Return entries [a, b] of a table [B, V, V] for nodes of one graph, given as batch ids of any equal shape."""
    return table[graphs.node_graph[a], graphs.local_id[a], graphs.local_id[b]]


def neighbours(graphs: GraphBatch) -> Neighbours:
    """The neighbours of all nodes of a batch."""
    itself = torch.eye(graphs.max_num_nodes, dtype=torch.bool, device=graphs.device)
    table = (as_undirected(adjacency(graphs)) > 0) & ~itself
    graph, a, b = table.nonzero(as_tuple=True)
    degree = table.sum(dim=2)[graphs.is_node]
    pairs = torch.stack([a, b]) + graphs.first_node[graph]
    return Neighbours(graphs, table, pairs, degree.cumsum(0) - degree, degree)


def simple_cycles(near: Neighbours, largest: int) -> list[Tensor]:
    """The cycles of 3, 4, ..., `largest` nodes, [cycles, length] batch ids each."""
    return _grown(near, largest, chordless=False)


def chordless_cycles(near: Neighbours, largest: int) -> list[Tensor]:
    """Those of them that have no chord, which are the induced ones."""
    return _grown(near, largest, chordless=True)


def cycles_through_edges(packed: PackedGraphs, length: int) -> Tensor:
    """The number of simple cycles of `length` through each edge, in the order of `packed.edge_index`, [total edges].

    Each undirected edge is there twice and gets its count twice. Fast enough for graphs of some thirty nodes and small
    degree.
    """
    if length < 3:
        raise InputError(f"cycles of length {length}: the shortest has 3 nodes")
    if not packed.symmetric:
        raise InputError("cycles are counted in undirected graphs: every edge must go both ways")
    chunks = [packed[ids] for ids in torch.arange(len(packed)).split(GRAPHS_A_CHUNK)]
    return torch.cat([through_edges(graphs, simple_cycles(neighbours(graphs), length)[-1]) for graphs in chunks])


def through_edges(graphs: GraphBatch, cycles: Tensor) -> Tensor:
    """How many of the `cycles` [C, length] (batch ids) go through each edge, in either direction, [E]."""
    local = graphs.local_id.clamp(max=graphs.max_num_nodes - 1)  # padding lies past the table
    shape = (graphs.num_graphs, graphs.max_num_nodes, graphs.max_num_nodes)
    table = torch.zeros(shape, dtype=torch.long, device=graphs.device)
    graph, ends = graphs.node_graph[cycles], (local[cycles], local[cycles.roll(-1, dims=1)])  # [C, length] each
    for a, b in (ends, ends[::-1]):
        table.index_put_((graph, a, b), torch.ones_like(graph), accumulate=True)
    source, target = graphs.edge_index
    return table[graphs.node_graph[target], local[source], local[target]]


def _grown(near: Neighbours, largest: int, chordless: bool) -> list[Tensor]:
    path = near.pairs[:, near.pairs[0] < near.pairs[1]].T  # [paths, 2]
    found = []
    for size in range(3, largest + 1):
        row, node = _next_nodes(near, path, chordless)
        closes = near.joined(path[row, 0], node)
        ring = closes & (path[row, 1] < node)  # the same ring the other way round ends with its smaller neighbour
        found.append(_longer(path, row[ring], node[ring]))
        if size < largest:
            # With a chord back to its start, a path can close but not go on.
            path = _longer(path, row[~closes], node[~closes]) if chordless else _longer(path, row, node)
    return found


def _next_nodes(near: Neighbours, path: Tensor, chordless: bool) -> tuple[Tensor, Tensor]:
    """Every path's number and a node that it may take next, for all of these."""
    row, node = near.of(path[:, -1])
    larger = node > path[row, 0]
    row, node = row[larger], node[larger]
    before = path[row, 1:-1]  # the end itself is a neighbour, and so another node
    node_again = node[:, None].expand_as(before)
    refused = before == node_again
    if chordless:
        refused |= near.joined(before, node_again)
    new = ~refused.any(dim=1)
    return row[new], node[new]


def _longer(path: Tensor, row: Tensor, node: Tensor) -> Tensor:
    return torch.cat([path[row], node[:, None]], dim=1)
