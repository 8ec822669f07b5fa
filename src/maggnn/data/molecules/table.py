"""Converts a table of SMILES and targets to a packed set: reads it as a stream, reports bad rows, and splits it.

The rules for rows are in `rows`, those for targets in `target_column`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial as partial_of
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import torch

from maggnn.data.molecules.atom_features import DEFAULT
from maggnn.data.molecules.fragments import chosen_fragments
from maggnn.data.molecules.rows import Record, RowTable, open_table
from maggnn.data.molecules.several_targets import strata
from maggnn.data.molecules.smiles import Molecule, RowError, featurise_all
from maggnn.data.molecules.table_splits import SplitFunction, SplitInput, random_parts
from maggnn.data.molecules.target_column import TargetKind, target_kind
from maggnn.data.packing import Arrays, pack, shared_between_parts, smallest
from maggnn.data.splits import PARTS
from maggnn.errors import InputError
from maggnn.graphs.batch import Task
from maggnn.graphs.checks import short_floats

DUPLICATES = ("keep", "mean", "refuse")

Parser = Callable[[str], float]
"""A function that converts a cell to a number, or raises an `InputError` that says why it cannot."""


class NumberColumn(NamedTuple):
    """A further column of numbers.

    Attributes:
        parse: converts a cell to a number.
        merge: what to do when rows of the same molecule are merged: keep rows with different values "apart", as
            measurements under other conditions, take the "least" value, or take the "total", by which the targets of
            the rows are weighted.
    """

    parse: Parser
    merge: Literal["apart", "least", "total"] = "apart"


PART_NAMES = {"train": "train", "val": "val", "valid": "val", "test": "test"}
"""The values of a split column, and the part that each means."""


@dataclass(frozen=True)
class PackedTable:
    """A table that has been read and packed.

    Attributes:
        arrays: the arrays of a packed file.
        errors: the rows left out, in order.
        num_rows: the number of rows of the table.
        shared: canonical SMILES of molecules in more than one part of the split.
        canonical: canonical SMILES of the packed molecules, in their order.
        target: how the targets were interpreted.
        numbers: additional columns that were requested, by name, each [G].
        num_merged: the number of rows that were merged with another row of the same molecule.
    """

    arrays: Arrays
    errors: list[RowError]
    num_rows: int
    shared: list[str]
    canonical: list[str]
    target: TargetKind
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    num_merged: int = 0


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
    deal: SplitFunction | None = None,
    partial: bool = False,
    numbers: Mapping[str, NumberColumn] = MappingProxyType({}),
    duplicates: str = "keep",
    salts: str = "keep",
) -> PackedTable:
    """Featurise and pack a table with a header, a .csv or a .parquet.

    Classes are stored as integers, the indices of their labels in `target.classes`, numbers as floats, and several
    two-class columns as 0.0 and 1.0. One column gives y [G], several [G, columns]. Molecules in more than one part of
    the split cause a `DuplicateWarning`.

    Args:
        path: the table.
        smiles_column: the name of the column of SMILES.
        target_columns: the names of the columns to predict.
        features: "mol", "ogb", "zinc" or "qm9".
        split_column: a column with train, val (or valid) or test; without it the split is random, 80/10/10.
        seed: the seed of the random split.
        workers: the number of processes that featurise.
        on_row: called with the number of processed rows.
        task: "auto", "classification" or "regression" (see `target_kind`), or the known kind of the targets.
        deal: assigns molecules to parts, instead of a random split.
        partial: whether to keep rows with some of several targets; the others are NaN.
        numbers: additional columns to read, with functions that convert a cell; a row with an invalid cell is left out.
        duplicates: "keep" all rows with the same molecule, "refuse" them, or merge them ("mean": the mean of numbers,
            and the most frequent class, if there is one).
        salts: "keep" all fragments of molecules, or read only the "largest" (`fragments`).

    Returns:
        The packed molecules with their targets and split, and the rows that were left out.
    """
    table = open_table(path)
    if duplicates not in DUPLICATES:
        raise InputError(f"--duplicates is {duplicates!r}: give {', '.join(DUPLICATES)}")
    columns = _columns(table, smiles_column, target_columns, split_column, numbers)
    kind = task if isinstance(task, TargetKind) else target_kind(path, target_columns, task)
    reading = _Reading(table, columns, kind, partial, duplicates)
    stream = featurise_all(chosen_fragments(reading.smiles(), salts), features, workers)
    arrays = pack(reading.molecules(stream, on_row or (lambda _: None)))
    if duplicates == "refuse" and reading.merged:
        line, other, smiles = reading.merged[0]
        raise InputError(
            f"{path}: {len(reading.merged)} rows repeat a molecule, such as {smiles} in lines {line} and {other}: give "
            "--duplicates mean or --duplicates keep"
        )
    targets = np.array(reading.merged_targets())
    undecided = np.asarray(np.isnan(targets).all(axis=1))  # rows of one molecule that contradict each other
    y = _y(np.where(undecided[:, None] & bool(kind.classes), 0.0, targets), kind)
    found = {name: np.array(column) for name, column in reading.numbers.items()}
    if split_column is not None:
        parts = reading.parts
    else:
        parts = (deal or partial_of(random_parts, seed=seed))(SplitInput(reading.canonical, strata(y), found))
    parts = ["" if unknown else part for part, unknown in zip(parts, undecided.tolist(), strict=True)]
    reading.leave_out(np.flatnonzero(undecided))
    shared = shared_between_parts(reading.canonical, parts)
    ids = {part: np.flatnonzero(np.array(parts) == part) for part in PARTS}
    arrays |= smallest(ids) | {"y": _stored(y)}
    arrays |= {"target_names": np.array(list(columns.targets)), "features": np.array(features)}
    errors = sorted(reading.errors, key=lambda error: error.row)
    merged = len(reading.merged)
    return PackedTable(arrays, errors, reading.num_rows, shared, reading.canonical, kind, found, merged)


@dataclass(frozen=True)
class _Columns:
    """The indices of the table's columns; `targets` by name."""

    smiles: int
    targets: dict[str, int]
    split: int | None
    numbers: dict[str, tuple[int, NumberColumn]]


class _Reading:
    """The rows of a table while they are read; those that are being featurised wait in `sent` for their molecule."""

    def __init__(self, table: RowTable, columns: _Columns, kind: TargetKind, partial: bool, duplicates: str) -> None:
        self.table, self.columns, self.kind, self.partial = table, columns, kind, partial
        self.merges = duplicates != "keep"
        self.places: dict[tuple[object, ...], int] = {}
        self.lines: list[int] = []
        self.numbers: dict[str, list[float]] = {name: [] for name in columns.numbers}
        self.merged: list[tuple[int, int, str]] = []
        """For each row that repeats a molecule: the molecule's first line, the row's line, and the molecule."""
        self.repeated: dict[int, list[_Row]] = {}
        self.num_rows = 0
        self.errors: list[RowError] = []
        self.sent: deque[_Row] = deque()
        self.targets: list[tuple[float, ...]] = []
        self.parts: list[str] = []
        self.canonical: list[str] = []

    def smiles(self) -> Iterator[str]:
        """Yield the SMILES of every row whose other columns are valid."""
        for record in self.table.records():
            self.num_rows += 1
            try:
                row = _row(record, self.columns, self.kind, self.partial)
            except InputError as error:
                smiles = record.cells[self.columns.smiles] if self.columns.smiles < len(record.cells) else ""
                self.errors.append(RowError(record.line, smiles, str(error)))
            else:
                self.sent.append(row)
                yield row.smiles

    def molecules(self, stream: Iterator[Molecule | RowError], on_row: Callable[[int], None]) -> Iterator[Molecule]:
        """Yield the molecules of `stream` and store their targets and parts."""
        for result in stream:
            row = self.sent.popleft()
            if isinstance(result, RowError):
                self.errors.append(replace(result, row=row.line))
            elif self.merges and self._measured(result, row) in self.places:
                self._repeat(self.places[self._measured(result, row)], row)
            else:
                self.places.setdefault(self._measured(result, row), len(self.targets))
                self.lines.append(row.line)
                self.targets.append(row.targets)
                self.parts.append(row.part)
                self.canonical.append(result.canonical)
                for name, value in zip(self.numbers, row.numbers, strict=True):
                    self.numbers[name].append(value)
                yield result
            on_row(len(self.targets) + len(self.errors))
        if not self.targets:
            raise InputError(f"{self.table.path}: {self._why_nothing()}")

    def _measured(self, molecule: Molecule, row: _Row) -> tuple[object, ...]:
        """Return what identifies repeated measurements: the molecule, and the values of columns that are kept apart."""
        found = zip(self.columns.numbers.values(), row.numbers, strict=True)
        return (molecule.canonical, *(str(value) for (_, column), value in found if column.merge == "apart"))

    def _repeat(self, place: int, row: _Row) -> None:
        """Keep another row of a molecule until all of its rows are known."""
        if row.part != self.parts[place]:
            raise InputError(
                f"{self.table.path}: lines {self.lines[place]} and {row.line} are the same molecule, but their split "
                f"is {self.parts[place]} and {row.part}: correct it, or give --duplicates keep"
            )
        self.merged.append((self.lines[place], row.line, self.canonical[place]))
        first = tuple(column[place] for column in self.numbers.values())
        self.repeated.setdefault(place, [row._replace(targets=self.targets[place], numbers=first)]).append(row)

    def merged_targets(self) -> list[tuple[float, ...]]:
        """Return the targets of each molecule, merged if it was repeated."""
        for place, rows in self.repeated.items():
            weights = np.ones(len(rows))
            for (name, (_, column)), values in zip(
                self.columns.numbers.items(), zip(*(row.numbers for row in rows), strict=True), strict=True
            ):
                if column.merge == "total":
                    weights = np.array(values)
                self.numbers[name][place] = sum(values) if column.merge == "total" else min(values)
            self.targets[place] = merged_values(np.array([row.targets for row in rows]), self.kind.task, weights)
        return self.targets

    def leave_out(self, places: np.ndarray) -> None:
        """Leave molecules out, because their rows have different classes equally often."""
        for place in places.tolist():
            reason = "rows of this molecule have different classes with equal frequency"
            self.errors.append(RowError(self.lines[place], self.canonical[place], reason))

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
    numbers: tuple[float, ...]


def merged_values(rows: np.ndarray, task: Task, weights: np.ndarray | None = None) -> tuple[float, ...]:
    """Merge several rows of a molecule [rows, targets]: the mean of numbers, and the most frequent class.

    If two classes are equally frequent, the value is missing; missing values do not count.

    Args:
        weights: how much each row counts, [rows]; all count equally if it is None or if all weights are 0.
    """
    values = []
    weights = np.ones(len(rows)) if weights is None else weights
    for column in rows.T:
        known, own = column[~np.isnan(column)], weights[~np.isnan(column)]
        own = own if own.any() else np.ones(len(known))
        if task == "regression" or not len(known):
            values.append(float(np.average(known, weights=own)) if len(known) else math.nan)
            continue
        labels, places = np.unique(known, return_inverse=True)
        counts = np.bincount(places.reshape(-1), weights=own)
        values.append(float(labels[counts.argmax()]) if (counts == counts.max()).sum() == 1 else math.nan)
    return tuple(values)


def _columns(
    table: RowTable,
    smiles_column: str,
    target_columns: Sequence[str],
    split_column: str | None,
    numbers: Mapping[str, NumberColumn],
) -> _Columns:
    if not target_columns:
        raise InputError(f"{table.path}: name at least one target column")
    if smiles_column in target_columns:
        raise InputError(f"{table.path}: column {smiles_column!r} is both the SMILES and a target")
    return _Columns(
        smiles=table.place(smiles_column),
        targets={name: table.place(name) for name in target_columns},
        split=None if split_column is None else table.place(split_column),
        numbers={name: (table.place(name), column) for name, column in numbers.items()},
    )


def _row(record: Record, columns: _Columns, kind: TargetKind, partial: bool) -> _Row:
    if record.reason:
        raise InputError(record.reason)
    cells = record.cells
    targets = kind.values(list(columns.targets), [cells[place] for place in columns.targets.values()], partial)
    part = "" if columns.split is None else _part(cells[columns.split])
    numbers = tuple(column.parse(cells[place]) for place, column in columns.numbers.values())
    return _Row(record.line, cells[columns.smiles], targets, part, numbers)


def _part(text: str) -> str:
    name = text.strip().lower()
    if name not in PART_NAMES:
        raise InputError(f"split {text!r} is none of {', '.join(PART_NAMES)}")
    return PART_NAMES[name]


def _stored(y: np.ndarray) -> np.ndarray:
    """Convert classes to the smallest type, and numbers to float32 unless that would lose their differences."""
    return short_floats(torch.from_numpy(y)).numpy() if y.dtype.kind == "f" else smallest({"y": y})["y"]


def _y(targets: np.ndarray, kind: TargetKind) -> np.ndarray:
    """Convert targets [G, columns] to y: a single column loses its axis, and classes become integers."""
    if kind.classes:
        return targets[:, 0].astype(np.int64)
    return targets if targets.shape[1] > 1 else targets[:, 0]
