"""`--feature COLUMN`: numeric columns of a table that are read besides descriptors, by all parts that read these.

A temperature or a dose is information that no molecule contains. Boosting and the Gaussian process read these columns,
and networks where they read descriptors; forests do not. The weights of the parts are chosen on out-of-fold rows, so
columns that do not help cost little. Missing values stay missing, which boosting can use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maggnn.apps.fit.row_files import Chunk, Source
from maggnn.data.molecules.rows import column_place
from maggnn.data.molecules.table import NumberColumn
from maggnn.data.molecules.target_column import LARGEST, as_number, is_missing
from maggnn.errors import InputError
from maggnn.graphs.checks import short_floats


def number_parsers(columns: Sequence[str]) -> dict[str, NumberColumn]:
    """Return how each column is read."""
    return {name: NumberColumn(partial(number_value, name)) for name in columns}


def check_numbers(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Refuse columns without a number, and those whose differences are lost in float32, in which they are read."""
    for name, values in columns.items():
        known = values[~np.isnan(values)]
        if not len(known):
            raise InputError(f"{path}: column {name!r} has no number in any row: leave --feature {name!r} out")
        if known.min() < known.max() and short_floats(torch.from_numpy(known)).dtype != torch.float32:
            raise InputError(
                f"{path}: values of column {name!r} differ by less than float32 can hold: subtract a constant"
            )


def number_value(name: str, text: str) -> float:
    """Convert a cell to a number; NaN if it is missing."""
    if is_missing(text):
        return math.nan
    value = as_number(text)
    if value is None:
        raise InputError(f"column {name!r} is {text[:40]!r}, not a number")
    if abs(value) > LARGEST:
        raise InputError(f"column {name!r} is {text[:40]!r}, but the largest possible value is {LARGEST:g}")
    return value


def stacked(numbers: dict[str, np.ndarray], columns: Sequence[str]) -> np.ndarray | None:
    """Stack the columns of a table, [rows, columns] in float32; None if there are none."""
    return np.stack([numbers[name] for name in columns], axis=1).astype(np.float32) if columns else None


def column_places(source: Source, columns: Sequence[str]) -> list[int]:
    """Return the indices of the columns in a table to predict for."""
    return [column_place(source.path, source.names, name) for name in columns]


def with_numbers(chunk: Chunk, columns: Sequence[str], places: Sequence[int]) -> Chunk:
    """Return the chunk with the numbers of its rows; a row with a cell that is not a number cannot be used."""
    if not columns:
        return chunk
    numbers = np.full((len(chunk.smiles), len(columns)), np.nan, dtype=np.float32)
    reasons = list(chunk.reasons)
    for column, (name, place) in enumerate(zip(columns, places, strict=True)):
        for row, cell in enumerate(chunk.columns[place]):
            try:
                numbers[row, column] = number_value(name, cell_of(cell))
            except InputError as error:
                reasons[row] = reasons[row] or str(error)
    return replace(chunk, reasons=reasons, numbers=numbers)


def cell_of(value: Any) -> str:
    """Return a value of Python, pandas or Parquet as the text of a cell, by which missing values are recognised."""
    return "" if value is None else str(value)
