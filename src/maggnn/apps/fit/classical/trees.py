"""Decision trees of gradient boosting and random forests as plain arrays, evaluated by numpy.

Pickles from untrusted folders are unsafe, and predicting should not need scikit-learn. All trees of a part are stored
back to back. A node's left child is the next node, its right child comes later, and a leaf has no feature, so every
walk from a root ends. Before use it is checked that every index is in range and every child belongs to its tree.

Shapes: n nodes, T trees, W values of a leaf, F folds, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from maggnn.errors import InputError

WALKS = 500_000
"""The largest number of simultaneous walks (rows times trees) times the values of a leaf; it bounds the memory."""

LEAF = -1
TYPES = {"start": "int32", "column": "int32", "right": "int32", "feature": "int16", "threshold": "float32",
         "missing_left": "bool", "value": "float32", "base": "float64"}  # fmt: skip


@dataclass(frozen=True)
class Trees:
    """All trees of one part, of all folds.

    Attributes:
        start: the root of each tree, [T].
        column: the column to which a tree's values are added, ascending, [T].
        right: the right child, 0 for a leaf, [n].
        feature: the column that is compared, -1 for a leaf, [n].
        threshold: a row goes left if its value is not larger, [n].
        missing_left: whether a row without a value goes left, [n].
        value: the values that a leaf adds, [n, W].
        base: the initial values of the sums, [F * O].
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
        """Return the base plus the values of all trees for rows x [rows, columns]: [rows, F * O]."""
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
        """Return the leaf of each row in each tree, [rows, T]."""
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
        """Return the arrays by name, in the smallest types, for a file."""
        return {name: np.ascontiguousarray(getattr(self, name), dtype=kind) for name, kind in TYPES.items()}

    @classmethod
    def checked(cls, arrays: Mapping[str, np.ndarray], columns: int, width: int) -> Self:
        """Check the arrays of a file and make trees of them; raises an `InputError` that says what is wrong.

        Args:
            columns: the number of columns of the inputs.
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
                return f"{name} contains NaN or infinity"
        nodes, values = len(self.right), self.value.shape[1]
        if any(len(array) != nodes for array in (self.feature, self.threshold, self.missing_left, self.value)):
            return "arrays of nodes have different lengths"
        if not len(self.start) or len(self.start) != len(self.column) or len(self.base) != width or not values:
            return "arrays of trees have wrong lengths"
        if self.start[0] != 0 or (np.diff(self.start) <= 0).any() or self.start[-1] >= nodes:
            return "trees are not consecutive"
        if (np.diff(self.column) < 0).any() or self.column[0] < 0 or self.column[-1] + values > width:
            return "a tree adds to a column that does not exist"
        inner = np.flatnonzero(self.feature != LEAF)
        if len(inner) and (self.feature[inner].min() < 0 or self.feature[inner].max() >= columns):
            return "a node reads a column that does not exist"
        last = np.append(self.start[1:], nodes)[np.searchsorted(self.start, inner, side="right") - 1]
        inside = (self.right[inner] > inner + 1) & (self.right[inner] < last)
        return "" if inside.all() else "a child lies outside its tree"
