"""Theorem 1 in numbers: of pairs of random regular graphs, how many have a node whose marked graph the other lacks?

The theorem says: almost all, as the number of nodes grows, for 3 <= r < sqrt(2 log n). It rests on Lemma 1: for two
such graphs, the marked graphs of any node of one and any node of the other differ, except with a probability that
falls faster than 1 / n. Message passing distinguishes no pair of regular graphs. Colour refinement decides all of this
exactly, so nothing is trained here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from maggnn.graphs.packed import PackedGraphs
from maggnn.theory.refinement import all_copy_hashes, compare
from maggnn_paper.datasets.regular_graphs import random_regular
from maggnn_paper.ledger import LedgerRow

SIZES = (8, 10, 12, 16, 20, 30, 50, 100)
DEGREE = 3
PAIRS = 200
NOTES = {
    "pairs": "share of pairs that one mark distinguishes; without a mark none is",
    "nodes": "share of nodes whose mark distinguishes the pair; without a mark none does",
    "node_pairs": "Lemma 1: share of pairs of nodes, one of each graph, whose marked graphs differ",
}


def informative_shares(graphs: PackedGraphs) -> torch.Tensor:
    """For each pair of graphs 2i and 2i + 1 the share of the first's nodes whose marked graph the second never has.

    Where the first has none of them, that of the second's against the first. Zero too where the two graphs are
    isomorphic, which happens among few nodes.
    """
    shares = []
    for pair in torch.arange(len(graphs)).view(-1, 2):
        first, second = (graphs.select(graph[None]) for graph in pair)
        shares.append(compare(first, second, 1, shares=True).share or 0.0)
    return torch.tensor(shares, dtype=torch.float64)


def unlike_shares(graphs: PackedGraphs) -> torch.Tensor:
    """Lemma 1: for each pair of graphs the share of pairs of nodes, one of each, whose marked graphs differ."""
    hashes = all_copy_hashes(graphs, 1).view(len(graphs) // 2, 2, -1)  # [pairs, 2, n]
    return (hashes[:, 0, :, None] != hashes[:, 1, None, :]).double().mean(dim=(1, 2))


def reproduce(folder: Path, sizes: Sequence[int] = SIZES) -> list[LedgerRow]:
    """Three rows for each number of nodes: pairs with an informative node, such nodes, unlike node pairs."""
    rows = []
    for num_nodes in sizes:
        graphs = random_regular(num_nodes, DEGREE, 2 * PAIRS, seed=0)
        shares = informative_shares(graphs)
        measured = {"pairs": (shares > 0).double(), "nodes": shares, "node_pairs": unlike_shares(graphs)}
        for what, values in measured.items():
            rows.append(
                LedgerRow(
                    table="theorem1",
                    dataset=f"regular{DEGREE}_n{num_nodes}:{what}",
                    method="random-marks",
                    metric="score",
                    mean=round(float(values.mean()), 6),
                    runs=1,
                    tests_per_run=PAIRS,
                    m=1,
                    k=1,
                    config=f"{PAIRS} pairs of random {DEGREE}-regular graphs, colour refinement",
                    note=NOTES[what],
                )
            )
    return rows
