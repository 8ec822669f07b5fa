"""Scores and names of the user's as the card writes them in Markdown."""

from __future__ import annotations

import math
import re

from maggnn.apps.fit.card.intervals import Judged

LONGEST_NAME = 100
"""Of a column or a class, in the card."""


def number(value: float, metric: str) -> str:
    """A score as the card writes it; those in percent as shares, as people report them."""
    if not math.isfinite(value):
        return "–"
    return f"{value:.4g}" if metric == "mae" else f"{value / 100:.3f}"


def with_interval(judged: Judged, metric: str) -> str:
    """A score and where it may lie."""
    low, high = judged.interval
    return f"{number(judged.value, metric)} ({number(low, metric)} to {number(high, metric)})"


def plain(text: str) -> str:
    """A name of the user's as Markdown that shows it as it is: no markup, no HTML, no formula of a spreadsheet."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    line = line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 3] + "..."
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"[\\`*\[\]|#~!${}=]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^[-+@]|:(?=//)", r"\\\g<0>", line)
