"""A CSV table of SMILES and targets becomes a packed set: read in a stream, bad rows reported, split three ways."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from maggnn.data.molecules.atom_features import DEFAULT
from maggnn.data.molecules.smiles import Molecule, RowError, featurise_all
from maggnn.data.packing import Arrays, pack, shared_between_parts, smallest
from maggnn.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from _csv import Reader

PARTS = ("train", "val", "test")
PART_NAMES = {"train": "train", "val": "val", "valid": "val", "test": "test"}
"""What a split column may say, and the part it means."""

HELD_OUT = 0.1
"""Share of the molecules that val and test get each where the table does not say."""

MOST_CLASSES = 20
"""Whole numbers beyond that many are taken for numbers."""

LARGEST = float(np.finfo(np.float32).max)

_WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?")


@dataclass(frozen=True)
class PackedTable:
    """What became of a table.

    Attributes:
        arrays: what the packed file holds.
        errors: rows left out, in order.
        num_rows: how many rows the table has.
        shared: canonical SMILES of molecules in more than one part of the split.
        canonical: canonical SMILES of the molecules that are packed, in their order.
    """

    arrays: Arrays
    errors: list[RowError]
    num_rows: int
    shared: list[str]
    canonical: list[str]


def read_table(
    path: Path,
    smiles_column: str,
    target_columns: Sequence[str],
    features: str = DEFAULT,
    split_column: str | None = None,
    seed: int = 0,
    workers: int = 1,
    on_row: Callable[[int], None] | None = None,
    regression: bool = False,
    classes: Sequence[str] | None = None,
    deal: Callable[[Sequence[str]], list[str]] | None = None,
) -> PackedTable:
    """Featurise and pack a CSV table with a header.

    A single column of the whole numbers 0, 1, ..., up to 19 holds classes and is stored as integers; anything else, and
    everything where `regression` says so, is numbers to predict, stored as float32. One column gives y [G], several
    [G, columns]. Molecules in more than one part of the split cause a `DuplicateWarning`.

    Args:
        path: the table.
        smiles_column, target_columns: names from its header.
        features: "mol", "ogb", "zinc" or "qm9".
        split_column: says train, val (or valid) or test; without it the split is random, 80/10/10.
        seed: of the random split.
        workers: processes that featurise.
        on_row: told the number of rows dealt with.
        regression: whole numbers are numbers too, not classes.
        classes: the target column holds these labels, as `label_of` writes them; y is the place of each among them.
        deal: the part of each molecule from their canonical SMILES, instead of a random split.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            columns = _columns(path, reader, smiles_column, target_columns, split_column)
            reading = _Reading(path, reader, replace(columns, classes=None if classes is None else tuple(classes)))
            stream = featurise_all(reading.smiles(), features, workers)
            arrays = pack(reading.molecules(stream, on_row or (lambda _: None)))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a CSV table in UTF-8 ({error})") from error
    if split_column is not None:
        parts = reading.parts
    else:
        parts = _random_parts(len(reading.targets), seed) if deal is None else deal(reading.canonical)
    shared = shared_between_parts(reading.canonical, parts)
    ids = {part: np.flatnonzero(np.array(parts) == part) for part in PARTS}
    arrays |= smallest({"y": _y(np.array(reading.targets), regression, classes is not None), **ids})
    arrays |= {"target_names": np.array(list(reading.columns.targets)), "features": np.array(features)}
    errors = sorted(reading.errors, key=lambda error: error.row)
    return PackedTable(arrays, errors, reading.num_rows, shared, reading.canonical)


def column_labels(path: Path, column: str) -> Counter[str]:
    """How often each label stands in a column of a CSV table, without those that are missing."""
    found: Counter[str] = Counter()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            place = column_place(path, next(reader, []), column)
            found.update(label_of(record[place]) for record in reader if place < len(record))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a CSV table in UTF-8 ({error})") from error
    del found[""]
    return found


def label_of(text: str) -> str:
    """A class label as it is compared: without blanks around it, and 1.0 is 1."""
    label = text.strip()
    return str(int(float(label))) if _WHOLE.fullmatch(label) else label


def column_place(path: Path, header: Sequence[str], name: str) -> int:
    """Where a column stands in a header."""
    if not header:
        raise InputError(f"{path}: the table has no header")
    if name in header:
        return list(header).index(name)
    other = next((mark for mark in ";\t|" if len(header) == 1 and mark in header[0]), None)
    if other is not None:
        raise InputError(f"{path}: no column {name!r}: columns seem to be separated by {other!r}, commas are needed")
    raise InputError(f"{path}: no column {name!r}{did_you_mean(name, header)}")


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
    classes: tuple[str, ...] | None = None


class _Reading:
    """The rows of a table on their way: those sent to be featurised wait in `sent` for their molecule."""

    def __init__(self, path: Path, reader: Reader, columns: _Columns) -> None:
        self.path, self.reader, self.columns = path, reader, columns
        self.num_rows = 0
        self.errors: list[RowError] = []
        self.sent: deque[_Row] = deque()
        self.targets: list[tuple[float, ...]] = []
        self.parts: list[str] = []
        self.canonical: list[str] = []

    def smiles(self) -> Iterator[str]:
        """The SMILES of every row whose other columns are fit for use."""
        for record in self.reader:
            if not record:  # an empty line
                continue
            self.num_rows += 1
            try:
                row = _row(record, self.reader.line_num, self.columns)
            except InputError as error:
                smiles = record[self.columns.smiles] if self.columns.smiles < len(record) else ""
                self.errors.append(RowError(self.reader.line_num, smiles, str(error)))
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
            raise InputError(f"{self.path}: {self._why_nothing()}")

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


def _columns(
    path: Path, reader: Reader, smiles_column: str, target_columns: Sequence[str], split_column: str | None
) -> _Columns:
    header = next(reader, [])
    if header and not target_columns:
        raise InputError(f"{path}: name at least one target column")
    return _Columns(
        smiles=column_place(path, header, smiles_column),
        targets={name: column_place(path, header, name) for name in target_columns},
        split=None if split_column is None else column_place(path, header, split_column),
    )


def _row(record: list[str], line: int, columns: _Columns) -> _Row:
    needed = max(columns.smiles, *columns.targets.values(), columns.split or 0) + 1
    if len(record) < needed:
        raise InputError(f"{len(record)} columns where {needed} are needed")
    targets = tuple(_target(name, record[place], columns.classes) for name, place in columns.targets.items())
    part = "" if columns.split is None else _part(record[columns.split])
    return _Row(line, record[columns.smiles], targets, part)


def _target(name: str, text: str, classes: tuple[str, ...] | None) -> float:
    if not text.strip():
        raise InputError(f"target {name!r} is missing")
    if classes is not None:
        return _class(name, text, classes)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:  # neither is NaN
        raise InputError(f"target {name!r} is {text!r}, not a number")
    return value


def _class(name: str, text: str, classes: tuple[str, ...]) -> float:
    label = label_of(text)
    if label not in classes:
        raise InputError(f"target {name!r} is {text!r}, not one of the classes {', '.join(classes[:MOST_CLASSES])}")
    return float(classes.index(label))


def _part(text: str) -> str:
    name = text.strip().lower()
    if name not in PART_NAMES:
        raise InputError(f"split {text!r} is none of {', '.join(PART_NAMES)}")
    return PART_NAMES[name]


def _random_parts(count: int, seed: int) -> list[str]:
    """A part for each molecule; equal seeds give equal parts."""
    held_out = round(HELD_OUT * count)
    dealt = ["val"] * held_out + ["test"] * held_out + ["train"] * (count - 2 * held_out)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return [dealt[place] for place in order]


def _y(targets: np.ndarray, regression: bool, classes: bool) -> np.ndarray:
    """Targets [G, columns] as y: one column loses its axis, classes become integers."""
    if classes:
        return targets[:, 0].astype(np.int64)
    if targets.shape[1] > 1:
        return targets
    y = targets[:, 0]
    found = np.unique(y)
    are_classes = len(found) > 1 and len(found) <= MOST_CLASSES and (found == np.arange(len(found))).all()
    return y.astype(np.int64) if are_classes and not regression else y
