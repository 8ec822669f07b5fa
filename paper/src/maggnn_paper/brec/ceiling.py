"""Which of BREC's pairs k marks can distinguish at all, by exact colour refinement: the upper bound for agents."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from maggnn.data import registry
from maggnn.graphs.packed import PackedGraphs
from maggnn.theory.refinement import graph_hashes


def distinguished_by(graphs: PackedGraphs, pairs: Tensor, order: int) -> Tensor:
    """Whether the copies of graphs 2i and 2i + 1 that `order` marks make differ, for each i of `pairs` [P]: [P].

    Pairs that are distinguished with fewer marks are not refined with more.
    """
    told = torch.zeros(len(pairs), dtype=torch.bool)
    for marks in range(order + 1):
        left = (~told).nonzero()[:, 0]
        ids = (2 * pairs[left, None] + torch.arange(2)).flatten()
        hashes = graph_hashes(graphs.select(ids), marks).hashes.view(-1, 2)
        told[left] = hashes[:, 0] != hashes[:, 1]
    return told


@cache
def out_of_reach(pairs: tuple[int, ...], order: int) -> frozenset[int]:
    """Those of some of BREC's pairs that no tuples of this order distinguish."""
    numbers = torch.tensor(pairs)
    return frozenset(numbers[~distinguished_by(registry.load("brec").graphs, numbers, order)].tolist())
