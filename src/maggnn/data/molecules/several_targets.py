"""Several targets of one table: which columns a pattern names, and how rows are dealt so that none falls short.

A value that is missing is NaN. Where targets are sparse or rare, a random part may have none of a target's positives;
so rows are dealt by their rarest label, of each label its share to every part.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maggnn.data.molecules.rows import open_table
from maggnn.errors import InputError

WILDCARDS = "*?["


class Known(NamedTuple):
    """Of one target in one part of a split: how many values are known, and how many of them are the second class."""

    values: int
    positive: int


def chosen_targets(path: Path, targets: Sequence[str], others: Sequence[str]) -> list[str]:
    """Target columns by their names, in the order given; a pattern such as "NR-*" stands for all columns it fits.

    Args:
        targets: names or patterns (`*`, `?` and `[...]` as in file names); a column's own name is never a pattern.
        others: columns that are used for something else, which no pattern stands for.
    """
    if not any(mark in name for name in targets for mark in WILDCARDS):
        return list(targets)
    header = open_table(path).names
    chosen: list[str] = []
    for name in targets:
        if name in header or not any(mark in name for mark in WILDCARDS):
            found = [name]
        else:
            found = [column for column in header if fnmatchcase(column, name) and column not in {*others, *chosen}]
            if not found:
                raise InputError(f"{path}: no column fits the pattern {name!r}, of those with no other use")
        chosen += found
    return chosen


def strata(y: np.ndarray) -> np.ndarray:
    """A number for each row by its rarest label, so that dealing each number out evenly deals rare labels out evenly.

    Args:
        y: one column of classes as integers [G], or values that may be NaN [G, targets]. Labels are the classes; of
            targets that are 0 or 1 throughout, each target's classes; of numbers, whether each target is known.

    Returns:
        [G]; all 0 where there is nothing to balance, such as one column of numbers.
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
    """How many values of each target [G, targets] each part has, by target and part."""
    return {
        name: {
            part: Known(int((~np.isnan(column[ids])).sum()), int((column[ids] == 1.0).sum()))
            for part, ids in parts.items()
        }
        for name, column in zip(names, y.reshape(len(y), -1).T, strict=True)
    }
