"""The lines of a run's log that are new since the last look, while training still writes them.

A look gives a place, and the next look goes on from there. A place knows the bytes before it: where a resumed run has
dropped lines and written others, it no longer fits, and the log is read again from its beginning.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_BYTES = 2_000_000
"""Of one look; a longer log takes several."""

BEFORE = 256
"""Bytes before a place that have to be what they were."""


@dataclass(frozen=True)
class NewLines:
    """What a look found.

    Attributes:
        lines: phase, step and scalars of each; None for a value that is not a number.
        place: to go on from.
        fresh: whether these lines are the log's first, so that what was read before no longer counts.
        more: whether another look would find something at once.
        unreadable: whole lines that are not what training writes.
    """

    lines: list[dict[str, float | None]]
    place: str
    fresh: bool
    more: bool
    unreadable: int


def new_lines(path: Path, place: str = "") -> NewLines:
    """Whole lines of the log after `place`; a line without its end is still being written and waits."""
    try:
        with path.open("rb") as file:
            start = _start(file, place)
            file.seek(start)
            block = file.read(MOST_BYTES)
            whole = block[: block.rfind(b"\n") + 1]
            if not whole and len(block) == MOST_BYTES:
                whole = block  # no line of ours is that long
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
    """A line's numbers; None where it is not a line of a log."""
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict) or not all(isinstance(entry[name], int) for name in ("phase", "step")):
            return None
        return {name: _number(value) for name, value in entry.items()}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _number(value: Any) -> float | None:
    """JSON has no word for NaN, and training may log one."""
    return value if isinstance(value, int) else float(value) if math.isfinite(float(value)) else None
