"""Molecules of ZINC whose target is not determined by the molecule.

The target of ZINC and ZINC-FULL, the penalised logP, contains the size of the largest ring of a cycle basis, minus six
where it is larger. A graph has several cycle bases, and NetworkX returns one that depends on the order of nodes and
edges. Where three rings share an atom, the largest ring may be one of the three or the ring around all of them, so the
target of the benchmark is that of the order in which the molecule happened to be written: one more atom in the largest
ring changes it by 3.5.
"""

from __future__ import annotations

import random

import networkx as nx
import torch
from torch import Tensor

from maggnn.graphs.packed import PackedGraphs

ORDERS = 20
"""The number of random orders in which a molecule is read: of two equally likely values, one is missed with a
probability of 2 in a million."""

FREE = 6
"""Rings up to this size have no penalty."""

Edges = list[tuple[int, int]]


def undetermined(packed: PackedGraphs, ids: Tensor, orders: int = ORDERS) -> Tensor:
    """Find the graphs whose ring penalty depends on the order of their nodes and edges.

    Args:
        packed: molecules.
        ids: the graphs in question, [B].
        orders: the number of random orders in which each is read.

    Returns:
        For each of them whether two orders give different penalties, [B].
    """
    return torch.tensor([len(ring_penalties(_edges(packed, int(graph)), orders)) > 1 for graph in ids])


def ring_penalties(edges: Edges, orders: int, seed: int = 0) -> set[int]:
    """Return the penalties of a graph in random orders: how far the largest ring of a cycle basis exceeds six.

    Args:
        edges: each undirected edge once.
        orders: the number of orders.
        seed: the seed of the orders.
    """
    systems: list[Edges] = [list(system) for system in nx.biconnected_component_edges(nx.Graph(edges))]
    fused = [system for system in systems if len(system) > len({node for edge in system for node in edge})]
    rings = max((len(system) for system in systems if len(system) > 1 and system not in fused), default=0)
    generator = random.Random(seed)
    orders = orders if fused else 1
    return {
        max(0, rings - FREE, *(_largest_ring(_reordered(system, generator)) - FREE for system in fused))
        for _ in range(orders)
    }


def _largest_ring(edges: Edges) -> int:
    return max(map(len, nx.cycle_basis(nx.Graph(edges))))


def _reordered(edges: Edges, generator: random.Random) -> Edges:
    """Return the same graph with other node ids, in another order of edges."""
    nodes = sorted({node for edge in edges for node in edge})
    new = dict(zip(nodes, generator.sample(nodes, len(nodes)), strict=True))
    renamed = [(new[first], new[second]) for first, second in edges]
    return generator.sample(renamed, len(renamed))


def _edges(packed: PackedGraphs, graph: int) -> Edges:
    batch = packed[torch.tensor([graph])]
    source, target = batch.edge_index.tolist()
    return [(first, second) for first, second in zip(source, target, strict=True) if first < second]
