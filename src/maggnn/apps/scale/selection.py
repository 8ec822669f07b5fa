"""The selection of predicted rows: all of them, those beyond a threshold, or the N best of all shards.

The best rows of many shards are among the best of each, so no process ever has more than a few times N rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from maggnn.apps.fit.row_files import arrow_stream
from maggnn.errors import InputError, did_you_mean

SHARD, PLACE = "\0shard", "\0place"
"""Columns that break ties while tables are merged; no column of a user has such a name."""


@dataclass(frozen=True)
class Selection:
    """The rows to keep.

    Attributes:
        by: the predicted column to select by; None keeps every row.
        top: the number of rows with the largest values; None keeps all rows that pass the thresholds.
        lowest: whether the smallest values are the best.
        above, below: thresholds for the values; None is no threshold.
    """

    by: str | None = None
    top: int | None = None
    lowest: bool = False
    above: float | None = None
    below: float | None = None

    def check(self, numbers: Sequence[str]) -> None:
        """Raise an `InputError` for inconsistent options.

        Args:
            numbers: the predicted columns of numbers.
        """
        given = {"--top": self.top, "--above": self.above, "--below": self.below, "--lowest": self.lowest or None}
        used = [name for name, value in given.items() if value is not None]
        if self.by is None and used:
            raise InputError(f"{used[0]} needs --by COLUMN, such as --by {numbers[0]}")
        if self.by is not None and self.by not in numbers:
            raise InputError(f"--by {self.by}: is not a predicted column of numbers"
                             f"{did_you_mean(self.by, numbers)}")  # fmt: skip
        if self.by is not None and self.top is None and self.above is None and self.below is None:
            raise InputError(f"--by {self.by} needs --top N, --above X or --below X")
        for name, value in (("--above", self.above), ("--below", self.below)):
            if value is not None and math.isnan(value):
                raise InputError(f"{name} is {value}: give a number, since nothing is beyond this one")
        if self.lowest and self.top is None:
            raise InputError("--lowest needs --top N")

    def kept(self, rows: Any) -> Any:
        """Return the rows of one shard that are kept, in their order."""
        if self.by is None:
            return rows
        from pyarrow.compute import field

        value = field(self.by)
        wanted = value.is_valid()
        if self.above is not None:
            wanted = wanted & (value > self.above)
        if self.below is not None:
            wanted = wanted & (value < self.below)
        rows = rows.filter(wanted)
        if self.top is None or rows.num_rows <= self.top:
            return rows
        best = _numbered(rows).sort_by(self._order(PLACE)).slice(0, self.top)
        return best.sort_by(PLACE).drop_columns([PLACE])

    def candidates(self, rows: Any, shard: int) -> bytes:
        """Return the kept rows of a shard in a form that can be merged with those of others."""
        import pyarrow

        number = pyarrow.array([shard] * rows.num_rows, pyarrow.int64())
        return arrow_stream(_numbered(rows.append_column(SHARD, number)))

    def merged(self, tables: Iterable[bytes]) -> bytes:
        """Return the best rows of several tables of candidates, the best first; ties keep the order of the tables."""
        import pyarrow

        rows = pyarrow.concat_tables([unpacked(table) for table in tables])
        return arrow_stream(rows.sort_by(self._order(SHARD, PLACE)).slice(0, self.top))

    def _order(self, *ties: str) -> list[tuple[str, str]]:
        assert self.by is not None
        return [(self.by, "ascending" if self.lowest else "descending"), *((name, "ascending") for name in ties)]


def unpacked(table: bytes) -> Any:
    """Deserialise an Arrow table."""
    import pyarrow

    with pyarrow.ipc.open_stream(table) as reader:
        return reader.read_all()


def _numbered(rows: Any) -> Any:
    """Append a column with the index of each row."""
    import pyarrow

    return rows.append_column(PLACE, pyarrow.array(range(rows.num_rows), pyarrow.int64()))
