"""The paper's benchmarks with targets to predict: cycles of random graphs, ZINC, QM9, MOLHIV, and files of one's own.

All are packed files (see `sources`) with their official splits; QM9 has none, so each seed deals its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from maggnn.data.dataset import Dataset, DatasetEntry, Fact, Metric
from maggnn.data.sources import data_root, read_packed
from maggnn.data.splits import Split
from maggnn.data.synthetic.rooted import graphs_of_roots, rooted_at_nodes, rooted_at_pairs
from maggnn.errors import InputError
from maggnn.graphs.checks import short_floats
from maggnn.graphs.cycles import cycles_through_edges
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.rings import NUM_CATEGORIES as RING_CATEGORIES
from maggnn.graphs.rings import with_rings

ZINC_MAX_PARAMETERS = 500_000
"""The budget of the benchmark (Dwivedi et al. 2023)."""

PARTS = ("train", "val", "test")

CYCLES = (3, 4, 5, 6)
"""Lengths counted, one a column of the file."""

HARTREE = 27.211386246
"""In eV: the packed file has energies in eV, the paper in hartree."""

QM9_TARGETS = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0", "u", "h", "g", "cv")
"""In the paper's order, which is that of the file's first columns. U0, U, H and G are totals, in hartree."""

QM9_ENERGIES = ("homo", "lumo", "gap", "zpve", "u0", "u", "h", "g")
QM9_TRAIN, QM9_VAL = 0.8, 0.1


def load_own(path: Path) -> Dataset:
    """A packed file of one's own with `y`, `train`, `val` and `test`: float targets are numbers, integers classes."""
    graphs, extra = read_packed(path)
    if graphs.y is None:
        raise InputError(f"{path}: has no array y: there is nothing to learn")
    missing = [part for part in PARTS if part not in extra]
    if missing:
        raise InputError(f"{path}: has no array {missing[0]!r}: graph ids that say which part is which")
    _check_parts(extra, len(graphs), path)
    names = tuple(str(name) for name in extra["target_names"]) if "target_names" in extra else None
    if graphs.y.is_floating_point():
        y = short_floats(graphs.y.reshape(len(graphs.y), -1))
        graphs = replace(graphs, y=y)
        return Dataset(
            str(path), graphs, "regression", y.shape[1], official_split, metric="mae", target_names=names, extra=extra
        )
    if graphs.y.ndim > 1 and graphs.y.shape[1] > 1:
        raise InputError(f"{path}: y has {graphs.y.shape[1]} columns of classes: one is possible")
    classes = graphs.y.reshape(-1)
    labels = tuple(str(name) for name in extra["class_names"]) if "class_names" in extra else None
    count = int(classes.max()) + 1 if labels is None else len(labels)
    if int(classes.max()) >= count:
        raise InputError(f"{path}: y holds class {int(classes.max())}, but class_names has {count} names")
    graphs, metric = replace(graphs, y=classes), metric_of_classes(count)
    return Dataset(str(path), graphs, "classification", count, official_split, labels, metric=metric, extra=extra)


def metric_of_classes(count: int) -> Metric:
    """What classifiers are judged by: the number of classes alone decides, not how they fall into parts."""
    return "auroc" if count == 2 else "accuracy"


def official_split(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    """The one split that the file brings; every part of a classification has two classes or more, or no graph."""
    if dataset.task == "classification" and dataset.graphs.level == "graph":
        _check_classes(dataset)
    return [Split(*(torch.from_numpy(dataset.extra[part]).sort().values for part in PARTS))]


def _check_classes(dataset: Dataset) -> None:
    for part in PARTS:
        found = dataset.y[torch.from_numpy(dataset.extra[part])].unique().tolist()
        if len(found) == 1:
            raise InputError(
                f"{dataset.name}: {part} has only one class, {found[0]}: split the graphs in another way "
                "(maggnn data pack: --seed, or --split with a column)"
            )


def _check_parts(extra: Mapping[str, np.ndarray], num_graphs: int, path: Path) -> None:
    for part in PARTS:
        ids = extra[part]
        if ids.dtype.kind != "i" or ids.ndim != 1 or (len(ids) and (ids.min() < 0 or ids.max() >= num_graphs)):
            raise InputError(f"{path}: {part} must hold graph ids from 0 to {num_graphs - 1}")
    if not len(extra["train"]):
        raise InputError(f"{path}: train is empty: there is nothing to learn from")
    shared = np.intersect1d(extra["train"], np.concatenate([extra["val"], extra["test"]]))
    if len(shared):
        warnings.warn(
            f"{path}: {len(shared)} graphs are in train and in val or test, such as {shared[0]}", stacklevel=3
        )


def _qm9_split(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    """80 / 10 / 10 at random, as in the paper."""
    order = torch.randperm(len(dataset.graphs), generator=generator)
    bounds = [round(share * len(order)) for share in (QM9_TRAIN, QM9_TRAIN + QM9_VAL)]
    train, val, test = order.tensor_split(bounds)
    return [Split(train.sort().values, val.sort().values, test.sort().values)]


def _file(name: str) -> tuple[PackedGraphs, dict[str, np.ndarray]]:
    return _remembered(data_root() / f"{name}.npz")


@lru_cache(maxsize=1)  # the four lengths of cycles and QM9's targets share a file
def _remembered(path: Path) -> tuple[PackedGraphs, dict[str, np.ndarray]]:
    return read_packed(path)


def _with_targets(graphs: PackedGraphs, y: Tensor) -> PackedGraphs:
    return replace(graphs, y=y.float().reshape(len(y), -1))


def _zinc(name: str, file: str) -> Dataset:
    graphs, extra = _file(file)
    assert graphs.y is not None
    graphs = _with_targets(graphs, graphs.y)
    most = ZINC_MAX_PARAMETERS if name == "zinc" else None
    return Dataset(name, graphs, "regression", 1, official_split, metric="mae", max_parameters=most, extra=extra)


def _zinc_rings() -> Dataset:
    """The molecules of ZINC without atoms and bonds, and no label: how many bonds have a smallest ring of each size.

    What an agent learns here it learns from structure alone, so it can place marks in any molecule (PRE).
    """
    graphs, extra = _file("zinc12k")
    graphs = with_rings(replace(graphs, x=None, edge_attr=None))
    assert graphs.rings is not None
    owner = torch.repeat_interleave(torch.arange(len(graphs)), graphs.num_edges)
    in_ring = graphs.rings > 0
    y = torch.zeros(len(graphs), RING_CATEGORIES - 1)
    y.index_put_((owner[in_ring], graphs.rings[in_ring] - 1), torch.tensor(0.5), accumulate=True)  # edges go both ways
    names = tuple(f"bonds_in_rings_of_{size}" for size in range(3, RING_CATEGORIES + 2))
    graphs = replace(graphs, y=y, rings=None)
    return Dataset(
        "zinc_rings", graphs, "regression", len(names), official_split, metric="mae", target_names=names, extra=extra
    )


def _molhiv() -> Dataset:
    graphs, extra = _file("molhiv")
    names = ("inactive", "active")
    return Dataset("molhiv", graphs, "classification", 2, official_split, names, metric="auroc", extra=extra)


def _cycle(length: int) -> Dataset:
    """Counts through each node, in units of their spread over the training nodes, as the literature reports them."""
    graphs, extra = _file("cycle")
    assert graphs.y is not None
    train = graphs_of_roots(graphs, torch.from_numpy(extra["train"]))
    graphs = _with_targets(graphs, _standardised(graphs.y[:, CYCLES.index(length)], train))
    return Dataset(f"cycle{length}", graphs, "regression", 1, official_split, metric="mae", extra=extra)


def _cycle_nodes(length: int) -> Dataset:
    """The same targets, one rooted graph a node: each node has tuples and a reward of its own."""
    dataset = _cycle(length)
    parts = {name: graphs_of_roots(dataset.graphs, torch.from_numpy(dataset.extra[name])) for name in PARTS}
    extra = {name: ids.numpy() for name, ids in parts.items()}
    graphs = rooted_at_nodes(dataset.graphs)
    return replace(dataset, name=f"cycle{length}_nodes", graphs=graphs, extra=extra)


def _cycle_edges(length: int) -> Dataset:
    """Cycles through each undirected edge, one graph an edge with its two ends as roots; standardised likewise."""
    graphs, extra = _file("cycle")
    graph = torch.repeat_interleave(torch.arange(len(graphs)), graphs.num_edges)
    once = graphs.edge_index[0] < graphs.edge_index[1]
    counts, graph, pairs = cycles_through_edges(graphs, length)[once], graph[once], graphs.edge_index[:, once].T
    parts = {name: torch.isin(graph, torch.from_numpy(extra[name])).nonzero()[:, 0] for name in PARTS}
    y = _standardised(counts, parts["train"]).reshape(-1, 1)
    rooted = rooted_at_pairs(graphs, graph, pairs, y)
    extra = {name: ids.numpy() for name, ids in parts.items()}
    return Dataset(f"cycle{length}_edges", rooted, "regression", 1, official_split, metric="mae", extra=extra)


def _standardised(counts: Tensor, train: Tensor) -> Tensor:
    """In units of the spread over the rows `train`."""
    known = counts[train].float()
    return (counts.float() - known.mean()) / known.std(correction=0)


def _qm9(name: str, targets: tuple[str, ...]) -> Dataset:
    """Atoms and bonds only, no geometry."""
    graphs, extra = _file("qm9")
    assert graphs.y is not None and graphs.x is not None and graphs.edge_attr is not None
    columns = [QM9_TARGETS.index(target) for target in targets]
    unit = torch.tensor([HARTREE if target in QM9_ENERGIES else 1.0 for target in targets])
    graphs = _with_targets(graphs, graphs.y[:, columns] / unit)
    return Dataset(
        name, graphs, "regression", len(targets), _qm9_split, metric="mae", target_names=targets, extra=extra
    )


# ---- facts ----------------------------------------------------------------------------------------------


def _mean_sizes(nodes: float, edges: float) -> Callable[[Dataset], list[Fact]]:
    def facts(dataset: Dataset) -> list[Fact]:
        graphs = dataset.graphs
        mean_nodes, mean_edges = float(graphs.num_nodes.double().mean()), float(graphs.num_edges.double().mean()) / 2
        return [
            (f"{nodes} nodes a graph", abs(mean_nodes - nodes) < 0.006),
            (f"{edges} edges a graph", abs(mean_edges - edges) < 0.006),
        ]

    return facts


def _parts(train: int, val: int, test: int, nodes: float, edges: float) -> Callable[[Dataset], list[Fact]]:
    sizes = _mean_sizes(nodes, edges)

    def facts(dataset: Dataset) -> list[Fact]:
        split = dataset.split(0, 0)
        counts = (len(split.train), len(split.val), len(split.test))
        apart = len(torch.cat([split.train, split.val, split.test]).unique()) == sum(counts)
        return [
            (f"{train} / {val} / {test} graphs to train, validate, test", counts == (train, val, test)),
            ("no graph in two parts", apart),
            *sizes(dataset),
        ]

    return facts


def _molhiv_facts(dataset: Dataset) -> list[Fact]:
    split = dataset.split(0, 0)
    positive = tuple(int(dataset.y[part].sum()) for part in (split.train, split.val, split.test))
    return [
        ("1232 / 81 / 130 active molecules", positive == (1232, 81, 130)),
        *_parts(32901, 4113, 4113, 25.51, 27.47)(dataset),
    ]


def _cycle_entry(length: int) -> DatasetEntry:
    what = f"{length}-cycles through each node of random graphs, standardised"
    facts = _parts(1500, 1000, 2500, 18.80, 31.34)
    return DatasetEntry(what, 5000, "data root", lambda: _cycle(length), facts)


def _cycle_nodes_entry(length: int) -> DatasetEntry:
    what = f"the same {length}-cycles, one graph a node with that node as its root"
    facts = _parts(28_485, 18_820, 46_695, 21.71, 34.75)
    return DatasetEntry(what, 94_000, "data root", lambda: _cycle_nodes(length), facts)


def _cycle_edges_entry(length: int) -> DatasetEntry:
    what = f"{length}-cycles through each edge, one graph an edge with its ends as roots"
    facts = _parts(47_385, 31_405, 77_905, 20.85, 33.88)
    return DatasetEntry(what, 156_695, "data root", lambda: _cycle_edges(length), facts)


def _qm9_entry(name: str, targets: tuple[str, ...], what: str) -> DatasetEntry:
    return DatasetEntry(what, 130_831, "data root", lambda: _qm9(name, targets), _mean_sizes(18.03, 18.65))


ENTRIES: dict[str, DatasetEntry] = {
    **{f"cycle{length}": _cycle_entry(length) for length in CYCLES},
    **{f"cycle{length}_nodes": _cycle_nodes_entry(length) for length in CYCLES},
    **{f"cycle{length}_edges": _cycle_edges_entry(length) for length in CYCLES},
    "zinc": DatasetEntry(
        "12,000 molecules, penalised logP, at most 500k parameters",
        12_000,
        "data root",
        lambda: _zinc("zinc", "zinc12k"),
        _parts(10_000, 1000, 1000, 23.16, 24.92),
    ),
    "zinc_rings": DatasetEntry(
        "the bare graphs of ZINC: bonds in rings of 3, 4, ..., 8 atoms; trains agents without labels",
        12_000,
        "data root",
        _zinc_rings,
        _parts(10_000, 1000, 1000, 23.16, 24.92),
    ),
    "zinc_full": DatasetEntry(
        "250k molecules, penalised logP",
        249_456,
        "data root",
        lambda: _zinc("zinc_full", "zinc_full"),
        _parts(220_011, 24_445, 5000, 23.15, 24.90),
    ),
    "molhiv": DatasetEntry(
        "molecules that stop HIV or do not, scaffold split, ROC-AUC", 41_127, "data root", _molhiv, _molhiv_facts
    ),
    "qm9": _qm9_entry("qm9", QM9_TARGETS, "small molecules, twelve properties at once, no geometry"),
    **{f"qm9_{name}": _qm9_entry(f"qm9_{name}", (name,), f"small molecules, {name} alone") for name in QM9_TARGETS},
}
"""Rows of the visible table."""
