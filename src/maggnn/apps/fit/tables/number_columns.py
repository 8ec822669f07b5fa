"""`--feature COLUMN`: columns of numbers in a table that boosting and Gaussian processes read beside descriptors.

A temperature or a dose says what no molecule does. Networks and forests do not read these columns; how much a part
says is chosen out of fold, so columns that do not help cost little. A missing value stays missing, which boosting can
use.
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
    """How each column is read."""
    return {name: NumberColumn(partial(number_value, name)) for name in columns}


def check_numbers(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Refuse columns whose differences float32, in which they are read, cannot hold."""
    for name, values in columns.items():
        known = values[~np.isnan(values)]
        if len(known) and known.min() < known.max() and short_floats(torch.from_numpy(known)).dtype != torch.float32:
            raise InputError(
                f"{path}: values of column {name!r} differ by less than float32 can hold: subtract a constant"
            )


def number_value(name: str, text: str) -> float:
    """A cell as a number; NaN where it is missing."""
    if is_missing(text):
        return math.nan
    value = as_number(text)
    if value is None or abs(value) > LARGEST:
        raise InputError(f"column {name!r} is {text[:40]!r}, not a number")
    return value


def stacked(numbers: dict[str, np.ndarray], columns: Sequence[str]) -> np.ndarray | None:
    """The columns of a table side by side, [rows, columns] in float32; None where there are none."""
    return np.stack([numbers[name] for name in columns], axis=1).astype(np.float32) if columns else None


def column_places(source: Source, columns: Sequence[str]) -> list[int]:
    """Where a table to predict for has the columns."""
    return [column_place(source.path, source.names, name) for name in columns]


def with_numbers(chunk: Chunk, columns: Sequence[str], places: Sequence[int]) -> Chunk:
    """The chunk with the numbers of its rows; a row whose cell is no number cannot be used."""
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
    """A value of Python, pandas or Parquet as a cell of a table; what is missing is said by its text."""
    return "" if value is None else str(value)
