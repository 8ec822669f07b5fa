"""Decision trees as plain arrays: what gradient boosting and random forests learned, answered by numpy alone.

A folder from a stranger must not hold a pickle, and predicting should not need scikit-learn. All trees of a part lie
back to back. A node's left child is the node after it, its right child comes later still, and a leaf has no feature, so
a walk from a root always ends. Checked before use: every index is in range, and every child belongs to its tree.

Shapes: n nodes, T trees, W values of a leaf, F folds, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from maggnn.errors import InputError

WALKS = 500_000
"""Walks (rows times trees) that are under way at once, times the values that each ends with: bounds the memory."""

LEAF = -1
TYPES = {"start": "int32", "column": "int32", "right": "int32", "feature": "int16", "threshold": "float32",
         "missing_left": "bool", "value": "float32", "base": "float64"}  # fmt: skip


@dataclass(frozen=True)
class Trees:
    """All trees of one part, of all folds.

    Attributes:
        start: [T] the root of each tree.
        column: [T] where a tree's values are added; ascending.
        right: [n] the right child; 0 in a leaf.
        feature: [n] the column to look at; -1 in a leaf.
        threshold: [n] a row goes left where its value is not larger.
        missing_left: [n] whether a row without a value goes left.
        value: [n, W] what a leaf adds.
        base: [F * O] what the sums start from.
    """

    start: np.ndarray
    column: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    value: np.ndarray
    base: np.ndarray

    def sums(self, x: np.ndarray) -> np.ndarray:
        """The base and what the trees add to it for rows x [rows, columns]: [rows, F * O]."""
        block = max(1, WALKS // max(1, len(self.start) * self.value.shape[1]))
        parts = [self._sums(x[first : first + block]) for first in range(0, len(x), block)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.base)))

    def _sums(self, x: np.ndarray) -> np.ndarray:
        leaves = self._leaves(x)  # [rows, T]
        sums = np.tile(self.base, (len(x), 1))
        firsts = np.flatnonzero(np.diff(self.column, prepend=-1))
        for first, last in zip(firsts, [*firsts[1:], len(self.column)], strict=True):
            column, width = self.column[first], self.value.shape[1]
            sums[:, column : column + width] += self.value[leaves[:, first:last]].sum(axis=1, dtype=np.float64)
        return sums

    def _leaves(self, x: np.ndarray) -> np.ndarray:
        """Where each row ends in each tree, [rows, T]."""
        trees = len(self.start)
        node = np.tile(self.start, len(x))  # one walk for each row and tree
        walks = np.arange(len(node))
        while len(walks):
            here = node[walks]
            inner = self.feature[here] != LEAF
            walks, here = walks[inner], here[inner]
            value = x[walks // trees, self.feature[here]]
            left = np.where(np.isnan(value), self.missing_left[here], value <= self.threshold[here])
            node[walks] = np.where(left, here + 1, self.right[here])
        return node.reshape(len(x), trees)

    def arrays(self) -> dict[str, np.ndarray]:
        """By name, in the smallest types, for a file."""
        return {name: np.ascontiguousarray(getattr(self, name), dtype=kind) for name, kind in TYPES.items()}

    @classmethod
    def checked(cls, arrays: Mapping[str, np.ndarray], columns: int, width: int) -> Self:
        """Trees from a file, or an `InputError` that says what is wrong.

        Args:
            columns: of the rows that they will read.
            width: F * O.
        """
        missing = [entry.name for entry in fields(cls) if entry.name not in arrays]
        if missing:
            raise InputError(f"trees are damaged ({missing[0]} is missing)")
        trees = cls(**{entry.name: arrays[entry.name] for entry in fields(cls)})
        wrong = trees._wrong(columns, width)
        if wrong:
            raise InputError(f"trees are damaged ({wrong})")
        return trees

    def _wrong(self, columns: int, width: int) -> str:
        for name, kind in TYPES.items():
            array = getattr(self, name)
            if array.dtype != kind or array.ndim != (2 if name == "value" else 1):
                return f"{name} is {array.dtype} of {array.ndim} axes"
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return f"{name} holds NaN or infinity"
        nodes, values = len(self.right), self.value.shape[1]
        if any(len(array) != nodes for array in (self.feature, self.threshold, self.missing_left, self.value)):
            return "arrays of nodes have different lengths"
        if not len(self.start) or len(self.start) != len(self.column) or len(self.base) != width or not values:
            return "arrays of trees have other lengths than they should have"
        if self.start[0] != 0 or (np.diff(self.start) <= 0).any() or self.start[-1] >= nodes:
            return "trees do not follow one another"
        if (np.diff(self.column) < 0).any() or self.column[0] < 0 or self.column[-1] + values > width:
            return "a tree adds to a column that there is not"
        inner = np.flatnonzero(self.feature != LEAF)
        if len(inner) and (self.feature[inner].min() < 0 or self.feature[inner].max() >= columns):
            return "a node looks at a column that there is not"
        last = np.append(self.start[1:], nodes)[np.searchsorted(self.start, inner, side="right") - 1]
        inside = (self.right[inner] > inner + 1) & (self.right[inner] < last)
        return "" if inside.all() else "a child lies outside its tree"
