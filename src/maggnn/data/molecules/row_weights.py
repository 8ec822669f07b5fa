"""Weights of rows and classes in training: a column of weights, and classes of equal total weight.

Weights are scaled so that their mean over the training rows is 1, which keeps the size of optimiser steps.

Shapes: G molecules, T targets.
"""

from __future__ import annotations

import numpy as np

from maggnn.data.molecules.target_column import LARGEST, as_number, is_missing
from maggnn.errors import InputError


def weight_value(text: str) -> float:
    """Convert a cell of the column of weights to a number, at least 0 and small enough for sums of many rows."""
    value = None if is_missing(text) else as_number(text)
    if value is None or not 0 <= value <= LARGEST:
        raise InputError(f"its weight is {text[:40]!r}, not a number from 0 to {LARGEST:g}")
    return value


def training_weights(y: np.ndarray, train: np.ndarray, rows: np.ndarray | None, balance: bool) -> np.ndarray | None:
    """Return the weight of each target of each molecule, in the shape of y; None if all are equal.

    Args:
        y: classes [G], or values [G, T], NaN for missing ones.
        train: ids of the molecules to learn from, whose weights have the mean 1.
        rows: a weight for each molecule, [G].
        balance: whether all classes of a target get the same total weight, for classes and for targets of 0 and 1.
    """
    if rows is None and not balance:
        return None
    columns = y.reshape(len(y), -1).astype(np.float64)
    weights = np.ones(columns.shape) if rows is None else np.tile(rows[:, None], columns.shape[1]).astype(np.float64)
    if balance:
        pairs = zip(columns.T, weights.T, strict=True)
        weights = np.stack([_balanced(column, own, train) for column, own in pairs], axis=1)
    counted = weights[train][~np.isnan(columns[train])]
    if counted.sum() <= 0:
        raise InputError("all rows to train on have the weight 0: there is nothing to learn")
    for column, own in zip(columns[train].T, weights[train].T, strict=True):
        if len(np.unique(column[~np.isnan(column) & (own > 0)])) < 2:
            raise InputError(
                "of a target, the rows to train on whose weight is above 0 have only one value: nothing to learn"
            )
    return (weights / counted.mean()).reshape(y.shape).astype(np.float32)


def _balanced(y: np.ndarray, weights: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Scale the weights [G] of one target so that each of its classes has the same total over the rows `train`."""
    found, own = y[train], weights[train]
    labels = np.unique(found[~np.isnan(found)])
    share = own[~np.isnan(found)].sum() / max(len(labels), 1)
    balanced = weights.copy()
    for label in labels:
        total = own[found == label].sum()
        balanced[y == label] *= share / total if total > 0 else 1.0
    return balanced
