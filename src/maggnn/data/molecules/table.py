"""A CSV table of SMILES and targets becomes a packed set: read in a stream, bad rows reported, split three ways.

How rows are read is said in `rows`, what targets mean in `target_column`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from maggnn.data.molecules.atom_features import DEFAULT
from maggnn.data.molecules.rows import Record, RowTable, open_table
from maggnn.data.molecules.smiles import Molecule, RowError, featurise_all
from maggnn.data.molecules.target_column import TargetKind, target_kind
from maggnn.data.packing import Arrays, pack, shared_between_parts, smallest
from maggnn.data.splits import PARTS
from maggnn.errors import InputError
from maggnn.graphs.checks import short_floats

PART_NAMES = {"train": "train", "val": "val", "valid": "val", "test": "test"}
"""What a split column may say, and the part it means."""

HELD_OUT = 0.1
"""Share of the molecules that val and test get each where the table does not say."""

Deal = Callable[[Sequence[str], np.ndarray | None], list[str]]
"""The part of each molecule, from their canonical SMILES and their classes [G] (None for numbers)."""


@dataclass(frozen=True)
class PackedTable:
    """What became of a table.

    Attributes:
        arrays: what the packed file holds.
        errors: rows left out, in order.
        num_rows: how many rows the table has.
        shared: canonical SMILES of molecules in more than one part of the split.
        canonical: canonical SMILES of the molecules that are packed, in their order.
        target: what the targets were taken for.
    """

    arrays: Arrays
    errors: list[RowError]
    num_rows: int
    shared: list[str]
    canonical: list[str]
    target: TargetKind


def read_table(
    path: Path,
    smiles_column: str,
    target_columns: Sequence[str],
    features: str = DEFAULT,
    split_column: str | None = None,
    seed: int = 0,
    workers: int = 1,
    on_row: Callable[[int], None] | None = None,
    task: str | TargetKind = "auto",
    deal: Deal | None = None,
) -> PackedTable:
    """Featurise and pack a table with a header, a .csv or a .parquet.

    Classes are stored as integers, the places of their labels in `target.classes`, numbers as floats. One column gives
    y [G], several [G, columns]. Molecules in more than one part of the split cause a `DuplicateWarning`.

    Args:
        path: the table.
        smiles_column: the name of the column of SMILES.
        target_columns: the names of the columns to predict.
        features: "mol", "ogb", "zinc" or "qm9".
        split_column: says train, val (or valid) or test; without it the split is random, 80/10/10.
        seed: of the random split.
        workers: processes that featurise.
        on_row: told the number of rows dealt with.
        task: "auto", "classification" or "regression" (see `target_kind`), or what the targets are known to be.
        deal: instead of a random split.

    Returns:
        The packed molecules with their targets and split, and the rows that were left out.
    """
    table = open_table(path)
    columns = _columns(table, smiles_column, target_columns, split_column)
    kind = task if isinstance(task, TargetKind) else target_kind(path, target_columns, task)
    reading = _Reading(table, columns, kind)
    stream = featurise_all(reading.smiles(), features, workers)
    arrays = pack(reading.molecules(stream, on_row or (lambda _: None)))
    y = _y(np.array(reading.targets), kind)
    if split_column is not None:
        parts = reading.parts
    elif deal is not None:
        parts = deal(reading.canonical, y if kind.classes else None)
    else:
        parts = _random_parts(y if kind.classes else np.zeros(len(y), dtype=int), seed)
    shared = shared_between_parts(reading.canonical, parts)
    ids = {part: np.flatnonzero(np.array(parts) == part) for part in PARTS}
    arrays |= smallest(ids) | {"y": _stored(y)}
    arrays |= {"target_names": np.array(list(columns.targets)), "features": np.array(features)}
    errors = sorted(reading.errors, key=lambda error: error.row)
    return PackedTable(arrays, errors, reading.num_rows, shared, reading.canonical, kind)


def count_lines(path: Path) -> int:
    """Lines of a file, to tell how far reading it has come; 0 where it cannot be opened."""
    try:
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return 0


@dataclass(frozen=True)
class _Columns:
    """Where the table has what; `targets` by name."""

    smiles: int
    targets: dict[str, int]
    split: int | None


class _Reading:
    """The rows of a table on their way: those sent to be featurised wait in `sent` for their molecule."""

    def __init__(self, table: RowTable, columns: _Columns, kind: TargetKind) -> None:
        self.table, self.columns, self.kind = table, columns, kind
        self.num_rows = 0
        self.errors: list[RowError] = []
        self.sent: deque[_Row] = deque()
        self.targets: list[tuple[float, ...]] = []
        self.parts: list[str] = []
        self.canonical: list[str] = []

    def smiles(self) -> Iterator[str]:
        """The SMILES of every row whose other columns are fit for use."""
        for record in self.table.records():
            self.num_rows += 1
            try:
                row = _row(record, self.columns, self.kind)
            except InputError as error:
                smiles = record.cells[self.columns.smiles] if self.columns.smiles < len(record.cells) else ""
                self.errors.append(RowError(record.line, smiles, str(error)))
            else:
                self.sent.append(row)
                yield row.smiles

    def molecules(self, stream: Iterator[Molecule | RowError], on_row: Callable[[int], None]) -> Iterator[Molecule]:
        """The molecules of `stream`, their targets and parts noted."""
        for result in stream:
            row = self.sent.popleft()
            if isinstance(result, RowError):
                self.errors.append(replace(result, row=row.line))
            else:
                self.targets.append(row.targets)
                self.parts.append(row.part)
                self.canonical.append(result.canonical)
                yield result
            on_row(len(self.targets) + len(self.errors))
        if not self.targets:
            raise InputError(f"{self.table.path}: {self._why_nothing()}")

    def _why_nothing(self) -> str:
        if not self.errors:
            return "there are no rows below the header"
        first = min(self.errors, key=lambda error: error.row)
        return f"none of the {self.num_rows} rows can be used; row {first.row}: {first.reason}"


class _Row(NamedTuple):
    line: int
    smiles: str
    targets: tuple[float, ...]
    part: str


def _columns(table: RowTable, smiles_column: str, target_columns: Sequence[str], split_column: str | None) -> _Columns:
    if not target_columns:
        raise InputError(f"{table.path}: name at least one target column")
    if smiles_column in target_columns:
        raise InputError(f"{table.path}: column {smiles_column!r} is both the SMILES and a target")
    return _Columns(
        smiles=table.place(smiles_column),
        targets={name: table.place(name) for name in target_columns},
        split=None if split_column is None else table.place(split_column),
    )


def _row(record: Record, columns: _Columns, kind: TargetKind) -> _Row:
    if record.reason:
        raise InputError(record.reason)
    cells = record.cells
    targets = tuple(kind.value(name, cells[place]) for name, place in columns.targets.items())
    part = "" if columns.split is None else _part(cells[columns.split])
    return _Row(record.line, cells[columns.smiles], targets, part)


def _part(text: str) -> str:
    name = text.strip().lower()
    if name not in PART_NAMES:
        raise InputError(f"split {text!r} is none of {', '.join(PART_NAMES)}")
    return PART_NAMES[name]


def _random_parts(classes: np.ndarray, seed: int) -> list[str]:
    """A part for each molecule, in which every class [G] has its share; equal seeds give equal parts."""
    count = len(classes)
    held_out = round(HELD_OUT * count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).argsort().numpy()
    parts = np.full(count, "train", dtype=object)
    labels, sizes = np.unique(classes, return_counts=True)
    for label, seats in zip(labels, _seats(sizes, held_out).tolist(), strict=True):
        members = order[classes[order] == label]
        parts[members[:seats]], parts[members[seats : 2 * seats]] = "val", "test"
    rest = order[parts[order] == "train"]
    for part in ("val", "test"):  # where classes are too small to give as many as a part should have
        lacking = held_out - int((parts == part).sum())
        parts[rest[:lacking]] = part
        rest = rest[lacking:]
    return parts.tolist()


def _seats(sizes: np.ndarray, seats: int) -> np.ndarray:
    """How many molecules of each class a part with `seats` of them gets, [classes].

    That is a class's share, at least one of a class that has one for each part, and never so many that none is left to
    train on.
    """
    share, most = seats * sizes / sizes.sum(), (sizes - 1) // 2
    given = np.minimum(np.maximum(np.floor(share).astype(int), 1), most)
    while given.sum() > seats:
        given[(given - share).argmax()] -= 1
    while given.sum() < seats and (given < most).any():
        given[np.where(given < most, share - given, -np.inf).argmax()] += 1
    return given


def _stored(y: np.ndarray) -> np.ndarray:
    """Classes in the smallest type, numbers as float32 unless that would lose their differences."""
    return short_floats(torch.from_numpy(y)).numpy() if y.dtype.kind == "f" else smallest({"y": y})["y"]


def _y(targets: np.ndarray, kind: TargetKind) -> np.ndarray:
    """Targets [G, columns] as y: one column loses its axis, classes become integers."""
    if kind.classes:
        return targets[:, 0].astype(np.int64)
    return targets if targets.shape[1] > 1 else targets[:, 0]
