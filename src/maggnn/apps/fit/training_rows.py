"""The molecules of a model's table, beside it as two plain tables of canonical SMILES and targets.

`known_molecules.csv` has the rows to train and validate on: `maggnn explain` shows those that resemble a new molecule.
`test_molecules.csv` has some of the test split: `maggnn show` has them in its gallery. Nothing else reads these files,
so whoever may not pass the molecules on deletes them from the folder.
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
"""Kept, spread evenly over the table."""

MOST_BYTES = 50_000_000


@dataclass(frozen=True)
class TrainingRows:
    """Molecules with their targets.

    Attributes:
        smiles: canonical.
        targets: names of the columns.
        values: of each molecule one a target, as they are shown; empty where a target is missing.
    """

    smiles: list[str]
    targets: list[str]
    values: list[list[str]]


def training_rows(
    smiles: Sequence[str],
    targets: Sequence[str],
    y: np.ndarray,
    classes: Sequence[str],
    rows: np.ndarray,
    most: int = MOST_ROWS,
) -> TrainingRows:
    """Those of a table.

    Args:
        smiles: canonical, of all molecules.
        y: classes [G] or numbers [G, targets]; NaN where a number is missing.
        classes: names of the classes; empty for numbers.
        rows: which molecules, ascending.
        most: rows to keep.
    """
    kept = rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(int)] if len(rows) else rows
    values = y[kept].reshape(len(kept), -1)
    if classes:
        shown = [[classes[int(value)] for value in row] for row in values]
    else:
        shown = [["" if np.isnan(value) else f"{value:.6g}" for value in row] for row in values.astype(float)]
    return TrainingRows([smiles[int(row)] for row in kept], list(targets), shown)


def write_training_rows(folder: Path, known: TrainingRows, name: str = FILE) -> None:
    """Write the table `name`, all or nothing; names that begin like a spreadsheet's formula are made harmless."""
    with whole_file(folder / name) as waiting, waiting.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *map(cell_text, known.targets)])
        for smiles, values in zip(known.smiles, known.values, strict=True):
            writer.writerow([smiles, *map(cell_text, values)])


def read_training_rows(folder: Path, name: str = FILE) -> TrainingRows | None:
    """What `write_training_rows` wrote; None where the folder has no such file."""
    path = folder / name
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES} bytes")
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        if any(len(row) != len(header) for row in rows):
            raise ValueError("rows have other numbers of cells than the header")
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: damaged ({error}); without this file everything else works") from error
    return TrainingRows([row[0] for row in rows], header[1:], [row[1:] for row in rows])
