"""Reads the new lines of a run's log while training writes it.

Each read returns a position, from which the next read continues. A position includes a digest of the bytes before it:
if a resumed run has removed lines and written others, it no longer matches, and the log is read again from the start.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_BYTES = 2_000_000
"""The largest number of bytes of one read; a longer log takes several."""

BEFORE = 256
"""The number of bytes before a position that must be unchanged."""


@dataclass(frozen=True)
class NewLines:
    """The result of a read.

    Attributes:
        lines: phase, step and scalars of each line; None for a value that is not a number.
        place: the position from which to continue.
        fresh: whether these lines are the log's first, so that lines read before are invalid.
        more: whether another read would find more lines at once.
        unreadable: the number of complete lines that are not log entries.
    """

    lines: list[dict[str, float | None]]
    place: str
    fresh: bool
    more: bool
    unreadable: int


def new_lines(path: Path, place: str = "") -> NewLines:
    """Return the complete lines of the log after `place`; a line without an end is still being written."""
    if not path.is_file():  # reading a pipe would wait for ever, and a device may have no end
        return NewLines([], "", True, False, 0)
    try:
        with path.open("rb") as file:
            start = _start(file, place)
            file.seek(start)
            block = file.read(MOST_BYTES)
            whole = block[: block.rfind(b"\n") + 1]
            if not whole and len(block) == MOST_BYTES:
                whole = block  # no log entry is that long
            end = start + len(whole)
            read = [_entry(line) for line in whole.splitlines() if line.strip()]
            lines = [entry for entry in read if entry is not None]
            more = len(block) == MOST_BYTES
            return NewLines(lines, _place(file, end), start == 0, more, len(read) - len(lines))
    except OSError:
        return NewLines([], "", True, False, 0)


def _start(file: Any, place: str) -> int:
    offset = place.partition(":")[0]
    if not (offset.isascii() and offset.isdigit() and len(offset) < 16):
        return 0
    return int(offset) if place == _place(file, int(offset)) else 0


def _place(file: Any, offset: int) -> str:
    file.seek(max(0, offset - BEFORE))
    return f"{offset}:{zlib.crc32(file.read(min(offset, BEFORE)))}"


def _entry(line: bytes) -> dict[str, float | None] | None:
    """Return a line's numbers; None if it is not a log entry."""
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict) or not all(isinstance(entry[name], int) for name in ("phase", "step")):
            return None
        return {name: _number(value) for name, value in entry.items()}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _number(value: Any) -> float | None:
    """Return None for NaN, which training may log and JSON does not have."""
    return value if isinstance(value, int) else float(value) if math.isfinite(float(value)) else None
