"""Theorem 1 in numbers: of pairs of random regular graphs, how many have a node whose marked graph the other lacks?

The theorem says: almost all, as the number of nodes grows, for 3 <= r < sqrt(2 log n). Message passing tells no pair of
regular graphs apart. Colour refinement decides it exactly, so nothing is trained here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from maggnn.theory.refinement import compare
from maggnn_paper.datasets.regular_graphs import random_regular
from maggnn_paper.ledger import LedgerRow

SIZES = (8, 10, 12, 16, 20, 30, 50, 100)
DEGREE = 3
PAIRS = 200


def telling_shares(num_nodes: int, seed: int = 0) -> torch.Tensor:
    """For each of the pairs the share of the first graph's nodes whose marked graph never occurs in the second.

    Where the first has none of them, that of the second's against the first. Zero too where the two graphs are
    isomorphic, which happens among few nodes.
    """
    graphs = random_regular(num_nodes, DEGREE, 2 * PAIRS, seed)
    shares = []
    for pair in torch.arange(2 * PAIRS).view(-1, 2):
        first, second = (graphs.select(graph[None]) for graph in pair)
        shares.append(compare(first, second, 1, shares=True).share or 0.0)
    return torch.tensor(shares, dtype=torch.float64)


def reproduce(folder: Path, sizes: Sequence[int] = SIZES) -> list[LedgerRow]:
    """Two rows for each number of nodes: the share of pairs with a telling node, and that of telling nodes."""
    rows = []
    for num_nodes in sizes:
        shares = telling_shares(num_nodes)
        for what, values in (("pairs", (shares > 0).double()), ("nodes", shares)):
            rows.append(
                LedgerRow(
                    table="theorem1",
                    dataset=f"regular{DEGREE}_n{num_nodes}:{what}",
                    method="random-marks",
                    metric="score",
                    mean=round(float(values.mean()), 4),
                    runs=1,
                    tests_per_run=PAIRS,
                    m=1,
                    k=1,
                    config=f"{PAIRS} pairs of random {DEGREE}-regular graphs, colour refinement",
                    note=f"share of {what} that tell; without a mark none does",
                )
            )
    return rows
