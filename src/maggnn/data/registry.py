"""The table of data sets: their names, origins, splits, and known facts about them.

`DATASETS` has the sets that come with this package, `all_datasets` those of other distributions too. `load` reads a
set, and `check` compares it with the known facts. Any `supergraph<n>` can be loaded; the table lists the usual sizes. A
name that ends in `.npz` is your own packed file (`maggnn data pack` makes one from a table of SMILES), one that ends in
`.graphs` a folder that `maggnn data map` makes from such files if they exceed memory.

Other distributions add sets through the entry points `maggnn.datasets`: each names a dictionary from names to
`DatasetEntry`. They are imported when a name is requested that the package does not know, or when all sets are listed.
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
"""The data sets of this package by name; `supergraph<n>` exists for other n too."""

GROUP = "maggnn.datasets"
"""The entry points of additional tables."""

PAPER = EntryPoint("maggnn-paper", "maggnn_paper.datasets.registry:DATASETS", GROUP)
"""The sets of the paper's tables. They are listed here so that a checkout on the path needs no metadata."""

PAPER_NAMES = re.compile(
    r"exp|brec|links(_unmarked)?|sr(26|28|35|36|40)|cycle[3-6](_nodes|_edges)?|zinc(_rings|_full)?|molhiv|qm9(_\w+)?"
)
"""The names of those sets, for a message that says what to install."""


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
        Each fact, and whether it is true.
    """
    entry = dataset_entry(name)
    dataset = entry.load()
    expected = entry.num_graphs or len(dataset.graphs)  # nothing is known about a user's file
    general = [
        (f"{expected} graphs", len(dataset.graphs) == expected),
        ("every edge goes both ways", dataset.graphs.symmetric),
    ]
    return general + entry.facts(dataset)


def dataset_entry(name: str) -> DatasetEntry:
    """Return the row of `name`; for an unknown name, the error gives the most similar one."""
    entry = known_entry(name)
    if entry is None:
        raise InputError(f"no data set {name!r} (`maggnn data list` shows all){did_you_mean(name, all_datasets())}")
    return entry


def known_entry(name: str) -> DatasetEntry | None:
    """Return the row of `name`, or None if it is unknown; raises an error for sets of the paper if not installed."""
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
    """Return the table with the rows of all installed distributions.

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
    """Return the entry points of additional tables; the paper's also if it is importable without being installed."""
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
    """Import the table that an entry point names."""
    where = f"the data sets of the entry point {point.name} ({point.value}) cannot be used"
    try:
        rows = point.load()
    except Exception as error:  # the code of another distribution can raise any error
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{where}: {reason}") from error
    if not isinstance(rows, Mapping) or not all(isinstance(entry, DatasetEntry) for entry in rows.values()):
        raise InputError(f"{where}: it must name a dictionary from names to maggnn.data.DatasetEntry")
    return rows
