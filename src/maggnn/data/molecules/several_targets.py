"""Several targets of one table: the columns that a pattern names, and the stratification of splits.

A missing value is NaN. If targets are sparse or classes rare, a random part may have no positives of a target, so
splits are stratified by the rarest label of each row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maggnn.data.molecules.rows import open_table
from maggnn.errors import InputError

WILDCARDS = "*?["
ROW_NUMBERS = re.compile(r"|__index_level_[0-9]+__")
"""The names of columns in which pandas writes the numbers of rows: none in CSV, and these in Parquet."""


class Known(NamedTuple):
    """The numbers of known values, and of those of the second class, of one target in one part of a split."""

    values: int
    positive: int


def chosen_targets(path: Path, targets: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the names of target columns, in the given order; a pattern such as "NR-*" names all matching columns.

    Args:
        targets: names or patterns (`*`, `?` and `[...]` as in file names); the exact name of a column is no pattern.
        others: columns with another use, which no pattern matches. Neither does it match the column in which pandas
            writes the numbers of rows.
    """
    if not any(mark in name for name in targets for mark in WILDCARDS):
        return list(targets)
    header = open_table(path).names
    chosen: list[str] = []
    for name in targets:
        if name in header or not any(mark in name for mark in WILDCARDS):
            found = [name]
        else:
            found = [
                column
                for column in header
                if fnmatchcase(column, name) and column not in {*others, *chosen} and not ROW_NUMBERS.fullmatch(column)
            ]
            if not found:
                raise InputError(f"{path}: no column without another use matches the pattern {name!r}")
        chosen += found
    return chosen


def strata(y: np.ndarray) -> np.ndarray:
    """Return a stratum for each row by its rarest label, so that stratified splits distribute rare labels evenly.

    Args:
        y: one column of classes as integers [G], or values that may be NaN [G, targets]. Labels are the classes; for
            targets with only 0 and 1, each target's classes; for numbers, whether each target is known.

    Returns:
        The strata, [G]; all 0 if there is nothing to balance, such as for one column of numbers.
    """
    if y.dtype.kind != "f":
        return y.reshape(len(y))
    y = y.reshape(len(y), -1)
    known = ~np.isnan(y)
    two_class = y.shape[1] > 1 and bool(np.isin(y[known], (0.0, 1.0)).all())
    if two_class:
        labels = np.concatenate([known & (y == 1.0), known & (y == 0.0)], axis=1)  # [G, 2 * targets]
    elif known.all():
        return np.zeros(len(y), dtype=np.int64)
    else:
        labels = known
    counts = np.where(labels, labels.sum(axis=0), len(y) + 1)  # [G, labels]
    return counts.argmin(axis=1)


def known_counts(y: np.ndarray, names: Sequence[str], parts: dict[str, np.ndarray]) -> dict[str, dict[str, Known]]:
    """Count the known values of each target [G, targets] in each part, by target and part."""
    return {
        name: {
            part: Known(int((~np.isnan(column[ids])).sum()), int((column[ids] == 1.0).sum()))
            for part, ids in parts.items()
        }
        for name, column in zip(names, y.reshape(len(y), -1).T, strict=True)
    }
