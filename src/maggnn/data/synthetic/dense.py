"""Graphs of equal size as a stack of boolean adjacency matrices: functions to make, switch, distinguish and pack them.

Shapes: n nodes, G graphs.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import adjacency

FINGERPRINTS_AT_ONCE = 64


def stacked(packed: PackedGraphs) -> Tensor:
    """Return the adjacency matrices of packed graphs of equal size, [G, n, n]."""
    return adjacency(packed[torch.arange(len(packed))]) > 0


def pack(graphs: Tensor) -> PackedGraphs:
    """Pack a stack of adjacency matrices [G, n, n]; y is a graph's index."""
    count, n, _ = graphs.shape
    graph, source, target = graphs.triu(1).nonzero().T
    return PackedGraphs.build(
        num_nodes=torch.full((count,), n),
        num_edges=graph.bincount(minlength=count),
        edge_index=torch.stack([source, target]),
        y=torch.arange(count),
        undirected_once=True,
    )


def block_graph(blocks: Iterable[frozenset[int]], shared: int = 1) -> Tensor:
    """Return the block graph of blocks of equal size, joined if they share exactly `shared` points, [n, n]."""
    points = torch.tensor(sorted(sorted(block) for block in blocks))  # [blocks, size]
    incidence = torch.zeros(len(points), int(points.max()) + 1).scatter_(1, points, 1)
    return incidence @ incidence.T == shared


def with_isolated_node(graphs: Tensor) -> Tensor:
    """Add a node without edges, [..., n, n] -> [..., n + 1, n + 1]."""
    return torch.nn.functional.pad(graphs, (0, 1, 0, 1))


def switched(graph: Tensor, side: Tensor) -> Tensor:
    """Exchange edges and non-edges between a node set and the rest (Seidel).

    Shapes:
        graph: [n, n]; side: [..., n], which nodes are in the set; returns [..., n, n].
    """
    return graph ^ (side[..., :, None] != side[..., None, :])


def distinct(graphs: Tensor) -> Tensor:
    """Return the first graph of each fingerprint, [distinct, n, n]."""
    first: dict[int, Tensor] = {}
    for key, graph in zip(fingerprints(graphs), graphs, strict=True):
        first.setdefault(key, graph)
    return torch.stack(list(first.values()))


def fingerprints(graphs: Tensor) -> list[int]:
    """Return an isomorphism invariant of each graph of a stack: different numbers prove that graphs differ.

    A pair of nodes is coloured by how many neighbours it shares with every third node and how many of the two
    that node is joined to, a node by its pairs' colours, then each pair again by its own and its nodes' colours.
    Multisets of colours are hashed by sums of scrambled 64-bit numbers.

    Shapes:
        graphs: [G, n, n] boolean or 0 and 1.
    """
    return [number for part in graphs.split(FINGERPRINTS_AT_ONCE) for number in _fingerprints_at_once(part)]


def _fingerprints_at_once(graphs: Tensor) -> list[int]:
    joined = graphs.float()
    shared = torch.matmul(joined[:, :, None] * joined[:, None], joined[:, None])  # [G, n, n, n]: of nodes u, v, w
    third = 3 * shared + joined[:, :, None] + joined[:, None]
    cubes = third.pow(3).sum(-1, dtype=torch.float64).long()  # [G, n, n]; exact where no two nodes share over 80
    pair = _scramble(2 * cubes + joined.long())
    node = _scramble(pair.sum(-1))  # [G, n]
    pair = _scramble(pair + node[:, :, None] + node[:, None])
    return pair.sum((1, 2)).tolist()


def _scramble(numbers: Tensor) -> Tensor:
    """Scramble 64-bit integers by a fixed bijective map (multiply, shift and xor)."""
    mixed = (numbers + 0x1234567) * 6364136223846793005
    mixed = (mixed ^ (mixed >> 29)) * 4768777513237032717
    return mixed ^ (mixed >> 32)
