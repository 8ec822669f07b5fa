"""The visible table of data sets: what there is, where it comes from, how it is split, what is known of it.

`DATASETS` is the table, `load` reads a set, `check` compares it with what is known about it. Any
`supergraph<n>` can be loaded; the table shows the sizes of common use. A name that ends in `.npz` is a packed file of
your own (`maggnn data pack` makes one from a table of SMILES).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from maggnn.data import benchmarks
from maggnn.data.dataset import Dataset, DatasetEntry, Fact
from maggnn.data.sources import load_packed_file
from maggnn.data.splits import Split, all_in_all, held_out_classes, stratified_folds
from maggnn.data.synthetic import expressivity, links, regular_graphs
from maggnn.data.synthetic.dense import fingerprints, stacked
from maggnn.errors import InputError, did_you_mean
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import adjacency

NUM_FOLDS = 10
HELD_OUT_SHARE = 0.25
BREC_CATEGORIES = {"basic": 60, "regular": 50, "str": 50, "extension": 100, "cfi": 100, "4vtx": 20, "dr": 20}

Parameters = tuple[int, int, int, int]
"""Of a strongly regular graph: nodes, degree, neighbours in common of two neighbours, and of two other nodes."""


def load(name: str) -> Dataset:
    """The data set called `name`."""
    return dataset_entry(name).load()


def check(name: str) -> list[Fact]:
    """Load `name` and compare it with what is known about it."""
    entry = dataset_entry(name)
    dataset = entry.load()
    expected = entry.num_graphs or len(dataset.graphs)  # of a file of one's own nothing is known beforehand
    general = [
        (f"{expected} graphs", len(dataset.graphs) == expected),
        ("every edge goes both ways", dataset.graphs.symmetric),
    ]
    return general + entry.facts(dataset)


def dataset_entry(name: str) -> DatasetEntry:
    """The row of `name`; for a name that is not there, the error says which one is nearest."""
    if name in DATASETS:
        return DATASETS[name]
    if name.endswith(".npz"):
        return DatasetEntry("a packed file", 0, "data root", lambda: benchmarks.load_own(Path(name)))
    if super_graph_size := re.fullmatch(r"supergraph([1-9]\d?)", name):
        return _super_graph_entry(int(super_graph_size[1]))
    raise InputError(f"no data set {name!r}{did_you_mean(name, DATASETS)} `maggnn data list` shows all")


# ---- protocols ------------------------------------------------------------------------------------------


def _ten_folds(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    return stratified_folds(dataset.y, NUM_FOLDS, generator)


def _ten_folds_of_pairs(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    """Graphs 2i and 2i + 1 look alike but for the label: a pair must not lie on both sides of a split."""
    return stratified_folds(dataset.y, NUM_FOLDS, generator, groups=torch.arange(len(dataset.graphs)) // 2)


def _one_for_all(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    return [all_in_all(len(dataset.graphs))]


def _one_for_each_pair(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    """BREC asks of each pair by itself whether its two graphs can be told apart."""
    pairs = torch.arange(len(dataset.graphs)).view(-1, 2)
    return [Split(pair, pair, pair) for pair in pairs]


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
    return Dataset("shrikhande_rook", graphs, "classification", 2, _one_for_all, names)


def _load_csl8() -> Dataset:
    names = ("CSL(8, 2)", "CSL(8, 3)")
    return Dataset("csl8", expressivity.csl8_pair(), "classification", 2, _one_for_all, names)


def _load_super_graphs(n: int) -> Dataset:
    # Up to n = 2 there are too few classes to hold any out and still learn the rule.
    protocol = _one_for_all if n <= 2 else _held_out_sequences
    names = ("negative", "positive")
    return Dataset(f"supergraph{n}", expressivity.super_graphs(n), "classification", 2, protocol, names)


def _load_exp() -> Dataset:
    graphs, extra = load_packed_file("exp")
    return Dataset("exp", graphs, "classification", 2, _ten_folds_of_pairs, extra=extra)


def _load_links(name: str, marked: bool) -> Dataset:
    graphs, parts = links.hidden_links(marked)
    names = ("no tie", "hidden tie")
    return Dataset(name, graphs, "classification", 2, benchmarks.official_split, names, metric="auroc", extra=parts)


def _load_brec() -> Dataset:
    graphs, extra = load_packed_file("brec")
    second_of_pair = torch.arange(len(graphs)) % 2
    return Dataset("brec", replace(graphs, y=second_of_pair), "classification", 2, _one_for_each_pair, extra=extra)


# ---- facts ----------------------------------------------------------------------------------------------


def _csl_facts(dataset: Dataset) -> list[Fact]:
    return [
        ("41 nodes each", _all_equal(dataset.graphs.num_nodes, 41)),
        ("4-regular", _all_equal(dataset.graphs.in_degree, 4)),
        ("15 graphs a class", dataset.y.bincount().tolist() == [15] * 10),
    ]


def _csl8_facts(dataset: Dataset) -> list[Fact]:
    return [
        ("8 nodes each", _all_equal(dataset.graphs.num_nodes, 8)),
        ("4-regular", _all_equal(dataset.graphs.in_degree, 4)),
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
        ("one graph a class", dataset.y.tolist() == list(range(count))),
        ("no two isomorphic", len(known_apart) == count),
    ]


def _shrikhande_rook_facts(dataset: Dataset) -> list[Fact]:
    return [("strongly regular (16, 6, 2, 2)", _is_strongly_regular(dataset.graphs, 16, 6, 2, 2))]


def _links_facts(dataset: Dataset) -> list[Fact]:
    assert dataset.graphs.roots is not None
    roots = dataset.graphs.roots
    shared = torch.tensor(
        [_common_neighbours(dataset.graphs, number, *roots[number].tolist()) for number in range(len(dataset.graphs))]
    )
    return [
        ("every node has four neighbours", _all_equal(dataset.graphs.in_degree, 4)),
        ("half of the pairs hide a tie", int(dataset.y.sum()) * 2 == len(dataset.graphs)),
        ("those have three neighbours in common", _all_equal(shared[dataset.y == 1], 3)),
        ("the others at most two", bool((shared[dataset.y == 0] <= 2).all())),
    ]


def _common_neighbours(graphs: PackedGraphs, number: int, first: int, second: int) -> int:
    source, target = graphs.edge_index[:, graphs.edge_offsets[number] : graphs.edge_offsets[number + 1]]
    return len(set(source[target == first].tolist()) & set(source[target == second].tolist()))


def _super_graph_facts(dataset: Dataset) -> list[Fact]:
    n = _super_graph_n(dataset)
    first_pair = adjacency(dataset.graphs[torch.arange(2)])
    return [
        (f"{32 * n} nodes each", _all_equal(dataset.graphs.num_nodes, 32 * n)),
        ("20-regular", _all_equal(dataset.graphs.in_degree, 20)),
        ("as many positive as negative", int(2 * dataset.y.sum()) == len(dataset.graphs)),
        (f"diameter {2 * n} (first positive and negative)", _diameters(first_pair) == [2 * n, 2 * n]),
    ]


def _exp_facts(dataset: Dataset) -> list[Fact]:
    pairs = dataset.y.view(-1, 2)
    return [
        ("600 graphs a class", dataset.y.bincount().tolist() == [600, 600]),
        ("graphs 2i and 2i + 1 have opposite labels", _all_equal(pairs.sum(1), 1)),
    ]


def _brec_facts(dataset: Dataset) -> list[Fact]:
    names, category = dataset.extra["category_names"], dataset.extra["pair_category"]
    counts = {str(name): int((category == index).sum()) for index, name in enumerate(names)}
    nodes, edges = dataset.graphs.num_nodes.view(-1, 2), dataset.graphs.num_edges.view(-1, 2)
    return [
        (" + ".join(f"{count} {name}" for name, count in BREC_CATEGORIES.items()), counts == BREC_CATEGORIES),
        ("equal numbers of nodes in each pair", _all_equal(nodes.diff(dim=1), 0)),
        ("equal numbers of edges in each pair", _all_equal(edges.diff(dim=1), 0)),
    ]


def _super_graph_n(dataset: Dataset) -> int:
    return int(dataset.name.removeprefix("supergraph"))


def _all_equal(values: Tensor, expected: int) -> bool:
    return bool((values == expected).all())


def _is_strongly_regular(graphs: PackedGraphs, n: int, degree: int, adjacent: int, apart: int) -> bool:
    """Whether A² = degree·I + adjacent·A + apart·(J - I - A) in every graph."""
    if not _all_equal(graphs.num_nodes, n):
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


def _super_graph_entry(n: int) -> DatasetEntry:
    return DatasetEntry(
        description=f"cycles of {4 * n} CSL(8, 2) and CSL(8, 3) blocks: are opposite ones alike? (Theorem 2)",
        num_graphs=2 * math.comb(2 * n, n),
        origin="generated",
        load=lambda: _load_super_graphs(n),
        facts=_super_graph_facts,
    )


def _strongly_regular_entry(
    name: str, make: Callable[[], PackedGraphs], parameters: Parameters, num_graphs: int, description: str
) -> DatasetEntry:
    return DatasetEntry(
        description=f"{description} {parameters}",
        num_graphs=num_graphs,
        origin="generated",
        load=lambda: Dataset(name, make(), "classification", num_graphs, _one_for_all),
        facts=lambda dataset: _strongly_regular_facts(dataset, parameters),
    )


def _links_entry(name: str) -> DatasetEntry:
    marked = name == "links"
    how = "told apart" if marked else "known to the readout alone"
    return DatasetEntry(
        f"hidden ties of rings, one graph a pair with its ends {how}",
        len(links.SIZES) * links.PAIRS_A_RING,
        "generated",
        lambda: _load_links(name, marked),
        _links_facts,
    )


STRONGLY_REGULAR: dict[str, tuple[Callable[[], PackedGraphs], Parameters, int, str]] = {
    "sr25": (expressivity.sr25, (25, 12, 5, 6), 15, "the 15 strongly regular graphs"),
    "sr26": (regular_graphs.sr26, (26, 10, 3, 4), 10, "the 10 strongly regular graphs"),
    "sr28": (regular_graphs.sr28, (28, 12, 6, 4), 4, "T(8) and the 3 Chang graphs, strongly regular"),
    "sr35": (regular_graphs.sr35, (35, 18, 9, 9), 80, "the 80 Steiner triple systems as graphs, strongly regular"),
    "sr36": (regular_graphs.sr36, (36, 15, 6, 6), 12, "the 12 kinds of 6x6 Latin squares as graphs, strongly regular"),
    "sr40": (regular_graphs.sr40, (40, 12, 2, 4), 12, "12 of the 28 strongly regular graphs"),
}
"""What makes each set, its parameters, how many graphs it has and what they are."""

DATASETS: dict[str, DatasetEntry] = {
    "csl": DatasetEntry(
        "circular skip links on 41 nodes, 10 skips in 15 relabellings",
        150,
        "generated",
        _load_csl,
        _csl_facts,
    ),
    **{name: _strongly_regular_entry(name, *row) for name, row in STRONGLY_REGULAR.items()},
    "shrikhande_rook": DatasetEntry(
        "Shrikhande graph against the 4x4 rook's graph, equal for 3-WL",
        2,
        "generated",
        _load_shrikhande_rook,
        _shrikhande_rook_facts,
    ),
    "csl8": DatasetEntry(
        "CSL(8, 2) against CSL(8, 3), the blocks of Theorem 2", 2, "generated", _load_csl8, _csl8_facts
    ),
    **{f"supergraph{n}": _super_graph_entry(n) for n in (2, 3, 4)},
    **{name: _links_entry(name) for name in ("links", "links_unmarked")},
    "exp": DatasetEntry(
        "600 pairs equal for 1-WL, one of each encodes a satisfiable formula",
        1200,
        "data root",
        _load_exp,
        _exp_facts,
    ),
    "brec": DatasetEntry(
        "400 pairs of hard graphs in 7 categories, one pair a task", 800, "data root", _load_brec, _brec_facts
    ),
    **benchmarks.ENTRIES,
}
"""Every data set by name. `supergraph<n>` works for other n too."""
