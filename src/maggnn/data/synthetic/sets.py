"""The generated data sets of the package: loaders, protocols, known facts, and their rows of the table.

Other distributions make their rows from the same parts (`strongly_regular_entry`, `all_graphs_protocol`, `all_equal`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from maggnn.data.dataset import Dataset, DatasetEntry, Fact
from maggnn.data.splits import Split, all_in_all, held_out_classes, stratified_folds
from maggnn.data.synthetic import expressivity
from maggnn.data.synthetic.dense import fingerprints, stacked
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import adjacency

NUM_FOLDS = 10
HELD_OUT_SHARE = 0.25

Parameters = tuple[int, int, int, int]
"""The parameters of a strongly regular graph: nodes, degree, common neighbours of adjacent and of other nodes."""


# ---- protocols ------------------------------------------------------------------------------------------


def _ten_folds(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    return stratified_folds(dataset.y, NUM_FOLDS, generator)


def all_graphs_protocol(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    """The protocol of sets whose graphs are to be distinguished at all: train and test on all graphs."""
    return [all_in_all(len(dataset.graphs))]


def _held_out_sequences(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    n = _super_graph_n(dataset)
    classes = [expressivity.sequence_class(sequence) for sequence in expressivity.super_sequences(n)]
    return [held_out_classes(classes, dataset.y, HELD_OUT_SHARE, generator)]


# ---- loaders --------------------------------------------------------------------------------------------


def _load_csl() -> Dataset:
    names = tuple(f"skip {skip}" for skip in expressivity.CSL_SKIPS)
    return Dataset("csl", expressivity.csl(), "classification", len(names), _ten_folds, names)


def _load_shrikhande_rook() -> Dataset:
    graphs, names = expressivity.shrikhande_rook(), ("Shrikhande", "rook 4x4")
    return Dataset("shrikhande_rook", graphs, "classification", 2, all_graphs_protocol, names)


def _load_csl8() -> Dataset:
    names = ("CSL(8, 2)", "CSL(8, 3)")
    return Dataset("csl8", expressivity.csl8_pair(), "classification", 2, all_graphs_protocol, names)


def _load_super_graphs(n: int) -> Dataset:
    # Up to n = 2 there are too few classes to hold any out and still learn the rule.
    protocol = all_graphs_protocol if n <= 2 else _held_out_sequences
    names = ("negative", "positive")
    return Dataset(f"supergraph{n}", expressivity.super_graphs(n), "classification", 2, protocol, names)


# ---- facts ----------------------------------------------------------------------------------------------


def _csl_facts(dataset: Dataset) -> list[Fact]:
    return [
        ("41 nodes each", all_equal(dataset.graphs.num_nodes, 41)),
        ("4-regular", all_equal(dataset.graphs.in_degree, 4)),
        ("15 graphs in each class", dataset.y.bincount().tolist() == [15] * 10),
    ]


def _csl8_facts(dataset: Dataset) -> list[Fact]:
    return [
        ("8 nodes each", all_equal(dataset.graphs.num_nodes, 8)),
        ("4-regular", all_equal(dataset.graphs.in_degree, 4)),
        (
            "triangles in CSL(8, 2), none in CSL(8, 3)",
            [t > 0 for t in _triangles(dataset.graphs)] == [True, False],
        ),
    ]


def _strongly_regular_facts(dataset: Dataset, parameters: Parameters) -> list[Fact]:
    graphs, count = dataset.graphs, len(dataset.graphs)
    known_apart = set(fingerprints(stacked(graphs)))
    return [
        (f"strongly regular {parameters}", _is_strongly_regular(graphs, *parameters)),
        ("one graph in each class", dataset.y.tolist() == list(range(count))),
        ("no two isomorphic", len(known_apart) == count),
    ]


def _shrikhande_rook_facts(dataset: Dataset) -> list[Fact]:
    return [("strongly regular (16, 6, 2, 2)", _is_strongly_regular(dataset.graphs, 16, 6, 2, 2))]


def _super_graph_facts(dataset: Dataset) -> list[Fact]:
    n = _super_graph_n(dataset)
    first_pair = adjacency(dataset.graphs[torch.arange(2)])
    return [
        (f"{32 * n} nodes each", all_equal(dataset.graphs.num_nodes, 32 * n)),
        ("20-regular", all_equal(dataset.graphs.in_degree, 20)),
        ("equally many positive and negative graphs", int(2 * dataset.y.sum()) == len(dataset.graphs)),
        (f"diameter {2 * n} (first positive and negative)", _diameters(first_pair) == [2 * n, 2 * n]),
    ]


def _super_graph_n(dataset: Dataset) -> int:
    return int(dataset.name.removeprefix("supergraph"))


def all_equal(values: Tensor, expected: int) -> bool:
    """Whether every value is `expected`."""
    return bool((values == expected).all())


def _is_strongly_regular(graphs: PackedGraphs, n: int, degree: int, adjacent: int, apart: int) -> bool:
    """Whether A² = degree·I + adjacent·A + apart·(J - I - A) in every graph."""
    if not all_equal(graphs.num_nodes, n):
        return False
    dense, identity = stacked(graphs).float(), torch.eye(n)
    expected = degree * identity + adjacent * dense + apart * (1 - identity - dense)
    return bool(torch.equal(dense @ dense, expected))


def _triangles(graphs: PackedGraphs) -> list[int]:
    dense = stacked(graphs).float()
    return ((dense @ dense * dense).sum((1, 2)) / 6).long().tolist()


def _diameters(dense: Tensor) -> list[int]:
    """Largest distance in each connected graph of a stack [B, n, n]."""
    reached = torch.eye(dense.shape[1]).expand_as(dense)
    diameter = torch.zeros(len(dense), dtype=torch.long)
    while bool((reached == 0).any()):
        further = (reached + reached @ dense).clamp(max=1)
        if torch.equal(further, reached):
            raise InputError("a super graph is not connected")
        diameter += (reached == 0).flatten(1).any(1)
        reached = further
    return diameter.tolist()


# ---- the table ------------------------------------------------------------------------------------------


def super_graph_entry(n: int) -> DatasetEntry:
    """Return the row of `supergraph<n>`."""
    return DatasetEntry(
        description=f"cycles of {4 * n} CSL(8, 2) and CSL(8, 3) blocks: are opposite ones equal? (Theorem 2)",
        num_graphs=2 * math.comb(2 * n, n),
        origin="generated",
        load=lambda: _load_super_graphs(n),
        facts=_super_graph_facts,
    )


def strongly_regular_entry(
    name: str, make: Callable[[], PackedGraphs], parameters: Parameters, num_graphs: int, description: str
) -> DatasetEntry:
    """Return the row of a set of strongly regular graphs, one in each class, which `make` generates."""
    return DatasetEntry(
        description=f"{description} {parameters}",
        num_graphs=num_graphs,
        origin="generated",
        load=lambda: Dataset(name, make(), "classification", num_graphs, all_graphs_protocol),
        facts=lambda dataset: _strongly_regular_facts(dataset, parameters),
    )


ENTRIES: dict[str, DatasetEntry] = {
    "csl": DatasetEntry(
        "circular skip links on 41 nodes, 10 skips in 15 relabellings",
        150,
        "generated",
        _load_csl,
        _csl_facts,
    ),
    "sr25": strongly_regular_entry("sr25", expressivity.sr25, (25, 12, 5, 6), 15, "the 15 strongly regular graphs"),
    "shrikhande_rook": DatasetEntry(
        "Shrikhande graph and the 4x4 rook's graph, not distinguished by 3-WL",
        2,
        "generated",
        _load_shrikhande_rook,
        _shrikhande_rook_facts,
    ),
    "csl8": DatasetEntry("CSL(8, 2) and CSL(8, 3), the blocks of Theorem 2", 2, "generated", _load_csl8, _csl8_facts),
    **{f"supergraph{n}": super_graph_entry(n) for n in (2, 3, 4)},
}
"""The rows of these sets in the table of data sets."""
