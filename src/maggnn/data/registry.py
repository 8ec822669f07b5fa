"""The visible table of data sets: what there is, where it comes from, how it is split, what is known of it.

`DATASETS` has the sets that come with this package, `all_datasets` those of other distributions too; `load` reads a
set, `check` compares it with what is known about it. Any `supergraph<n>` can be loaded; the table shows the sizes of
common use. A name that ends in `.npz` is a packed file of your own (`maggnn data pack` makes one from a table of
SMILES), one that ends in `.graphs` a folder that `maggnn data map` makes of such files where they exceed memory.

A distribution adds sets of its own through the entry points `maggnn.datasets`: each names a dictionary from names to
`DatasetEntry`. They are imported when a name is asked for that the package does not know, or when all sets are listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from maggnn.data.dataset import Dataset, DatasetEntry, Fact
from maggnn.data.mapped import ENDING
from maggnn.data.own_file import load_own
from maggnn.data.synthetic import sets
from maggnn.errors import InputError, did_you_mean

DATASETS: dict[str, DatasetEntry] = {**sets.ENTRIES}
"""The data sets of this package by name. `supergraph<n>` works for other n too."""

GROUP = "maggnn.datasets"
"""The entry points that name further tables."""

PAPER = EntryPoint("maggnn-paper", "maggnn_paper.datasets.registry:DATASETS", GROUP)
"""The sets of the paper's tables. Known here too, so that a checkout on the path needs no metadata."""

PAPER_NAMES = re.compile(
    r"exp|brec|links(_unmarked)?|sr(26|28|35|36|40)|cycle[3-6](_nodes|_edges)?|zinc(_rings|_full)?|molhiv|qm9(_\w+)?"
)
"""What those sets are called, to say what to install where they are absent."""


def load(name: str) -> Dataset:
    """Load a data set.

    Args:
        name: a name of `maggnn data list`, or the path of a packed .npz file.

    Returns:
        The data set.
    """
    return dataset_entry(name).load()


def check(name: str) -> list[Fact]:
    """Load a data set and compare it with what is known about it.

    Args:
        name: a name of `maggnn data list`.

    Returns:
        Each fact in words, and whether it holds.
    """
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
    entry = known_entry(name)
    if entry is None:
        raise InputError(f"no data set {name!r} (`maggnn data list` shows all){did_you_mean(name, all_datasets())}")
    return entry


def known_entry(name: str) -> DatasetEntry | None:
    """The row of `name`, None where nobody knows it; the paper's sets are an error where they are not installed."""
    if name in DATASETS:
        return DATASETS[name]
    if name.endswith((".npz", ENDING)):
        return DatasetEntry("a packed file", 0, "data root", lambda: load_own(Path(name)))
    if super_graph_size := re.fullmatch(r"supergraph([1-9]\d?)", name):
        return sets.super_graph_entry(int(super_graph_size[1]))
    points = _points()
    for point in points:
        rows = _rows(point)
        if name in rows:
            return rows[name]
    if PAPER_NAMES.fullmatch(name) and not _has_paper(points):
        raise InputError(f"the data set {name!r} comes with {PAPER.name}: pip install {PAPER.name}")
    return None


def all_datasets() -> dict[str, DatasetEntry]:
    """The table together with the rows of all distributions that are installed.

    Returns:
        The rows by name.
    """
    table = dict(DATASETS)
    for point in _points():
        rows = _rows(point)
        again = sorted(table.keys() & rows.keys())
        if again:
            raise InputError(f"the entry point {point.name} ({point.value}) names a second data set {again[0]!r}")
        table |= rows
    return table


def _points() -> list[EntryPoint]:
    """Where further tables are; the paper's also where it can be imported without being installed."""
    points = list(entry_points(group=GROUP))
    if _has_paper(points):
        return points
    try:
        import_module(PAPER.module.partition(".")[0])
    except ImportError:
        return points
    return [PAPER, *points]


def _has_paper(points: list[EntryPoint]) -> bool:
    return any(point.name == PAPER.name for point in points)


def _rows(point: EntryPoint) -> Mapping[str, DatasetEntry]:
    """The table that an entry point names, imported now."""
    where = f"the data sets of the entry point {point.name} ({point.value}) cannot be used"
    try:
        rows = point.load()
    except Exception as error:  # whatever another distribution's code may raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{where}: {reason}") from error
    if not isinstance(rows, Mapping) or not all(isinstance(entry, DatasetEntry) for entry in rows.values()):
        raise InputError(f"{where}: it must name a dictionary from names to maggnn.data.DatasetEntry")
    return rows
