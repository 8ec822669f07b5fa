"""EXP and BREC: pairs of graphs that message passing takes for equal, from packed files."""

from __future__ import annotations

from dataclasses import replace

import torch

from maggnn.data.dataset import Dataset, DatasetEntry, Fact
from maggnn.data.sources import load_packed_file
from maggnn.data.splits import Split, stratified_folds
from maggnn.data.synthetic.sets import NUM_FOLDS, all_equal

BREC_CATEGORIES = {"basic": 60, "regular": 50, "str": 50, "extension": 100, "cfi": 100, "4vtx": 20, "dr": 20}


def _ten_folds_of_pairs(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    """Graphs 2i and 2i + 1 are similar but have different labels: a pair must not lie on both sides of a split."""
    return stratified_folds(dataset.y, NUM_FOLDS, generator, groups=torch.arange(len(dataset.graphs)) // 2)


def _one_for_each_pair(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    """BREC asks for each pair separately whether its two graphs can be distinguished."""
    pairs = torch.arange(len(dataset.graphs)).view(-1, 2)
    return [Split(pair, pair, pair) for pair in pairs]


def _load_exp() -> Dataset:
    graphs, extra = load_packed_file("exp")
    return Dataset("exp", graphs, "classification", 2, _ten_folds_of_pairs, extra=extra)


def _load_brec() -> Dataset:
    graphs, extra = load_packed_file("brec")
    second_of_pair = torch.arange(len(graphs)) % 2
    return Dataset("brec", replace(graphs, y=second_of_pair), "classification", 2, _one_for_each_pair, extra=extra)


def _exp_facts(dataset: Dataset) -> list[Fact]:
    pairs = dataset.y.view(-1, 2)
    return [
        ("600 graphs a class", dataset.y.bincount().tolist() == [600, 600]),
        ("graphs 2i and 2i + 1 have opposite labels", all_equal(pairs.sum(1), 1)),
    ]


def _brec_facts(dataset: Dataset) -> list[Fact]:
    names, category = dataset.extra["category_names"], dataset.extra["pair_category"]
    counts = {str(name): int((category == index).sum()) for index, name in enumerate(names)}
    nodes, edges = dataset.graphs.num_nodes.view(-1, 2), dataset.graphs.num_edges.view(-1, 2)
    return [
        (" + ".join(f"{count} {name}" for name, count in BREC_CATEGORIES.items()), counts == BREC_CATEGORIES),
        ("equal numbers of nodes in each pair", all_equal(nodes.diff(dim=1), 0)),
        ("equal numbers of edges in each pair", all_equal(edges.diff(dim=1), 0)),
    ]


ENTRIES: dict[str, DatasetEntry] = {
    "exp": DatasetEntry(
        "600 pairs equal for 1-WL, one of each encodes a satisfiable formula",
        1200,
        "data root",
        _load_exp,
        _exp_facts,
    ),
    "brec": DatasetEntry(
        "400 pairs of hard graphs in 7 categories, each pair a separate task", 800, "data root", _load_brec, _brec_facts
    ),
}
"""Rows of the visible table."""
