"""The answers for a chunk of rows, and the work of the process that writes them, which never imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maggnn.apps.fit.parts import Parts
from maggnn.apps.fit.row_files import Counted, cell_text, write_part


@dataclass(frozen=True)
class AnsweredRows:
    """The answers for a chunk of rows.

    Attributes:
        columns: the values of the added columns without the reason, for rows with a molecule, each [n].
        places: the rows with a molecule, [n].
        finite: whether the answer of each is finite, [n]; others are not shown.
        reasons: the column of reasons, one for each row.
    """

    columns: list[np.ndarray | list[str]]
    places: np.ndarray
    finite: np.ndarray
    reasons: list[str]

    @property
    def without(self) -> int:
        """The number of rows without a prediction."""
        return len(self.reasons) - int(self.finite.sum())

    def below(self, limit: float) -> int:
        """Count the rows with a prediction whose last number, the similarity to training, is below a limit."""
        return int((np.asarray(self.columns[-1])[self.finite] < limit).sum())

    def cells(self) -> list[list[Any]]:
        """Return the added columns with a cell for each row, which is None where there is no value."""
        return [*(self._cells(column) for column in self.columns), self.reasons]

    def _cells(self, column: np.ndarray | list[str]) -> list[Any]:
        shown = self.finite & np.isfinite(column) if isinstance(column, np.ndarray) else self.finite
        cells: list[Any] = [None] * len(self.reasons)
        for place, value, good in zip(self.places.tolist(), column, shown.tolist(), strict=True):
            if good:
                cells[place] = value
        return cells


class Layout(NamedTuple):
    """The form of the parts of an output: the ending of its name, and the names and types of all columns."""

    kind: str
    names: list[str]
    types: list[Any]


def write_answers(
    parts: Parts,
    number: int,
    layout: Layout,
    columns: Sequence[Sequence[Any]],
    answers: AnsweredRows,
    limit: float,
) -> Counted:
    """Write a chunk's own columns and its answers as a part. Returns counts of its rows; `limit` as in `below`."""
    added = answers.cells()
    if layout.kind == ".csv":
        added = [[cell_text(value) for value in column] for column in added]
    parts.add(number, lambda path: write_part(path, *layout, [*columns, *added]))
    return Counted(len(answers.reasons), answers.without, answers.below(limit))
