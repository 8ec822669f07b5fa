"""Checks and encodes the targets y of an estimator: labels of one or several columns, or numbers.

In several columns a missing value is NaN or None. A row without any value, and a missing value of a single column, are
errors.

Shapes: n graphs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from maggnn.data.molecules.target_column import LARGEST, LEAST_SPREAD
from maggnn.errors import InputError, first_line

NO_NUMBERS = {"c": "complex numbers", "M": "dates", "m": "differences of dates"}
"""Kinds of numpy's types that numpy would convert to numbers without a warning."""


def has_columns(y: Any) -> bool:
    """Whether y has two columns or more."""
    shape = _array(y).shape
    return len(shape) == 2 and shape[1] > 1


def several_labels(y: Any, who: str) -> tuple[list[np.ndarray], Tensor]:
    """Return the two sorted labels of each column, and which of them each graph has, [n, targets]; NaN if missing."""
    _check_given(y, who)
    table = np.asarray(_array(y), dtype=object)
    numbers = np.full(table.shape, np.nan, dtype=np.float32)
    classes = []
    for place, column in enumerate(table.T):
        known = np.array([not _is_missing(label) for label in column])
        labels, places = class_numbers(column[known].tolist(), who, f"y[:, {place}]")
        if len(labels) > 2:
            raise InputError(f"y[:, {place}] has {len(labels)} classes: several columns must have two classes each")
        numbers[known, place] = places.numpy()
        classes.append(labels)
    _check_rows(numbers)
    return classes, torch.from_numpy(numbers)


def class_numbers(y: Any, who: str, name: str = "y") -> tuple[np.ndarray, Tensor]:
    """Return the sorted labels, and the number of each graph's label, [n]."""
    _check_given(y, who)
    try:
        column = column_or_1d(_array(y), warn=True)
        _check_not_missing(column)
        check_classification_targets(column)
        classes, numbers = np.unique(column, return_inverse=True)
    except (ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} cannot be used as labels: {first_line(error)}") from error
    if len(classes) < 2:
        what = f"the one class {classes.tolist()[0]!r}" if len(classes) else "no labels"
        raise InputError(f"{name} has {what}: a classifier needs at least two classes")
    return classes, torch.from_numpy(numbers.astype(np.int64))


def finite_numbers(y: Any, who: str) -> np.ndarray:
    """Return finite numbers, [n] or [n, targets]; in several columns, NaN is allowed as a missing value."""
    _check_given(y, who)
    try:
        values = _without_objects(_array(y))
        if values.dtype.kind in NO_NUMBERS:
            raise TypeError(f"it holds {NO_NUMBERS[values.dtype.kind]}")
        numbers = values.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(f"y cannot be used as numbers: {first_line(error)}") from error
    if not numbers.size:
        raise InputError("y is empty: there is nothing to learn from")
    if numbers.ndim not in (1, 2):
        raise InputError(f"y has shape {numbers.shape}, expected [graphs] or [graphs, targets]")
    bad = ~(np.abs(numbers) <= LARGEST)  # true for NaN, too
    if has_columns(numbers):
        bad &= ~np.isnan(numbers)
        _check_rows(numbers)
        empty = np.flatnonzero(np.isnan(numbers).all(axis=0))
        if len(empty):
            raise InputError(f"y[:, {empty[0]}] has no value: leave that column out")
    if bad.any():
        place = np.argwhere(bad)[0].tolist()
        where = ", ".join(map(str, place))
        raise InputError(f"y[{where}] is {numbers[tuple(place)]}: drop or repair that row (NaN, infinite or too large)")
    spread = np.nanmax(numbers, axis=0) - np.nanmin(numbers, axis=0)
    if ((spread > 0) & (spread < LEAST_SPREAD)).any():
        raise InputError(f"values of y differ by less than {LEAST_SPREAD:g}: use other units")
    return numbers


def _check_given(y: Any, who: str) -> None:
    if y is None:
        raise InputError(f"{who} requires y to be passed, but the target y is None")


def _check_not_missing(labels: np.ndarray) -> None:
    """Raise an `InputError` for missing labels."""
    for index, label in enumerate(labels.tolist()):
        if _is_missing(label):
            raise InputError(f"y[{index}] is {label}: drop or repair that row")


def target_names(y: Any, count: int) -> tuple[str, ...]:
    """Return the names of the targets: those of a pandas or Polars frame or column, else y, or y0, y1 and so on."""
    columns = getattr(y, "columns", None)
    named = getattr(y, "name", None)
    found = [str(name) for name in columns] if columns is not None else [] if named is None else [str(named)]
    if len(found) == count and len(set(found)) == count and all(found):
        return tuple(found)
    return ("y",) if count == 1 else tuple(f"y{number}" for number in range(count))


def _array(y: Any) -> np.ndarray:
    """Convert y to a numpy array; pandas and Polars have their own conversions. Masked values become None."""
    if isinstance(y, np.ma.MaskedArray):  # an ordinary array would have the values below the mask
        hidden, y = np.ma.getmaskarray(y), y.data.astype(object)
        y[hidden] = None
    try:
        return np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"y cannot be used as targets: {first_line(error)}") from error


def _without_objects(values: np.ndarray) -> np.ndarray:
    """Return numbers with NaN for missing values, including None and the NA of pandas."""
    if values.dtype.kind != "O":
        return values
    return np.array([np.nan if _is_missing(value) else value for value in values.ravel()]).reshape(values.shape)


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN (which differs from itself) or the NA of pandas (whose comparison is undefined)."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def _check_rows(numbers: np.ndarray) -> None:
    """Check that every row has a value."""
    empty = np.flatnonzero(np.isnan(numbers).all(axis=1))
    if len(empty):
        raise InputError(f"y[{empty[0]}] has no value: drop that row")
