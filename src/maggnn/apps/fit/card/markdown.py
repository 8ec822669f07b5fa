"""Formats scores and the user's names for the card, in Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from maggnn.apps.fit.card.intervals import Judged

LONGEST_NAME = 100
"""The largest number of characters of a column's or class's name in the card."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *(f"| {' | '.join(row)} |" for row in rows)]


def number(value: float, metric: str) -> str:
    """Format a score for the card; scores in percent become shares, as is usual in reports."""
    if not math.isfinite(value):
        return "–"
    return f"{value:.4g}" if metric == "mae" else f"{value / 100:.3f}"


def better(metric: str) -> str:
    """Return which direction of a metric is better."""
    return "lower is better" if metric == "mae" else "higher is better"


def with_interval(judged: Judged, metric: str) -> str:
    """Format a score with its 95 % interval, if it has one."""
    low, high = judged.interval
    if not math.isfinite(low):
        return number(judged.value, metric)
    return f"{number(judged.value, metric)} ({number(low, metric)} to {number(high, metric)})"


def plain(text: str, most: int = LONGEST_NAME) -> str:
    """Escape a user's name for Markdown, so that it cannot be markup, HTML or a spreadsheet formula."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    line = line if len(line) <= most else line[: most - 3] + "..."
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"[\\`*\[\]|#~!${}=]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^[-+@]|:(?=//)", r"\\\g<0>", line)
