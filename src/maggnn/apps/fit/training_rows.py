"""The molecules of a model's table, stored in its folder as two plain tables of canonical SMILES and targets.

`known_molecules.csv` has the rows to train and validate on: `maggnn explain` shows those that resemble a new molecule.
`test_molecules.csv` has some of the test split: `maggnn show` has them in its gallery. Nothing else reads these files,
so they can be deleted before a model of confidential molecules is shared.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maggnn.apps.fit.row_files import cell_text
from maggnn.data.files import whole_file
from maggnn.errors import InputError

FILE, TEST_FILE = "known_molecules.csv", "test_molecules.csv"
MOST_ROWS, MOST_TEST_ROWS = 10_000, 200
"""The largest number of rows in each file; they are spread evenly over the table."""

MOST_BYTES = 50_000_000


@dataclass(frozen=True)
class TrainingRows:
    """Molecules with their targets.

    Attributes:
        smiles: canonical SMILES.
        targets: names of the columns.
        values: for each molecule the text of each target; empty if the target is missing.
    """

    smiles: list[str]
    targets: list[str]
    values: list[list[str]]


def training_rows(
    smiles: Sequence[str],
    targets: Sequence[str],
    y: np.ndarray,
    labels: Sequence[Sequence[str]],
    rows: np.ndarray,
    most: int = MOST_ROWS,
) -> TrainingRows:
    """Select molecules of a table with their targets.

    Args:
        smiles: canonical SMILES of all molecules.
        y: classes [G] or numbers [G, targets]; NaN for missing ones.
        labels: names of the classes of each target; empty for numbers.
        rows: the ids of the molecules, ascending.
        most: the largest number of rows to keep.
    """
    kept = rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(int)] if len(rows) else rows
    values = y[kept].reshape(len(kept), -1)
    named = labels or [()] * values.shape[1]
    shown = [[_cell(value, names) for value, names in zip(row, named, strict=True)] for row in values]
    return TrainingRows([smiles[int(row)] for row in kept], list(targets), shown)


def _cell(value: np.number, names: Sequence[str]) -> str:
    """Write a class by its name, and a number with the digits of its precision; a missing value is empty."""
    if np.isnan(value):
        return ""
    return names[int(value)] if names else str(value).removesuffix(".0")


def write_training_rows(folder: Path, known: TrainingRows, name: str = FILE) -> None:
    """Write the table `name` atomically; names that could begin a spreadsheet formula are made harmless."""
    with whole_file(folder / name) as waiting, waiting.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *map(cell_text, known.targets)])
        for smiles, values in zip(known.smiles, known.values, strict=True):
            writer.writerow([smiles, *map(cell_text, values)])


def read_training_rows(folder: Path, name: str = FILE) -> TrainingRows | None:
    """Read what `write_training_rows` wrote; returns None if the folder has no such file."""
    path = folder / name
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES} bytes")
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        if any(len(row) != len(header) for row in rows):
            raise ValueError("rows and header have different numbers of cells")
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: damaged ({error}); it can be deleted, since the rest works without it") from error
    return TrainingRows([row[0] for row in rows], header[1:], [row[1:] for row in rows])
