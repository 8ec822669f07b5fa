"""The figure of the table `passes`: accuracy against encoder passes, the agent beside controls at equal cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from maggnn.apps.draw.style import COLOURS, GREYS, INK, new_figure, save, tidy
from maggnn.errors import InputError
from maggnn_paper.ledger import LedgerRow, newest
from maggnn_paper.tables.passes import AGENT, WAYS, way_to_spend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {"sr25": "SR25", "exp": "EXP"}


def draw_passes(rows: Sequence[LedgerRow], path: Path) -> None:
    """One panel for each data set that the ledger has rows of, with the share of wrong answers on a log axis."""
    own = [row for row in newest(rows) if row.table == "passes" and row.passes is not None]
    datasets = [name for name in NAMES if any(row.dataset == name for row in own)]
    if not datasets:
        raise InputError("the ledger has no rows of table passes: `maggnn-paper reproduce passes` makes them")
    figure = new_figure(width=5.2 * len(datasets), height=4.6)
    for panel, dataset in enumerate(datasets):
        axes = figure.add_subplot(1, len(datasets), panel + 1)
        _panel(axes, [row for row in own if row.dataset == dataset], NAMES[dataset], label=panel == 0)
    figure.legend(loc="outside lower center", ncols=2 * len(datasets), frameon=False, fontsize=10, labelcolor=INK)
    save(figure, path)


def _panel(axes: Axes, rows: Sequence[LedgerRow], title: str, label: bool) -> None:
    least = min((100 - row.mean for row in rows if row.mean is not None and row.mean < 100), default=0.01) / 2
    axes.axhline(least, color=GREYS[-1], linewidth=0.8)
    axes.annotate("no wrong answer", (1, least), (0, -11), textcoords="offset points", fontsize=9, color=INK)
    greys = iter([*GREYS, INK])
    for way in WAYS:
        found = sorted((row.passes or 0, 100 - (row.mean or 0.0)) for row in rows if way_to_spend(row) == way)
        if way == AGENT:
            style = {"color": COLOURS[0], "linewidth": 2.6, "zorder": 5}
        else:
            style = {"color": next(greys), "linewidth": 1.8, "linestyle": (0, (4, 2))}
        if not found:
            continue
        passes, wrong = [p for p, _ in found], [max(error, least) for _, error in found]
        axes.plot(passes, wrong, marker="o", markeredgecolor="white", label=way if label else None, **style)
    axes.set_yscale("log")
    axes.set_xticks(range(1, max(row.passes or 1 for row in rows) + 1))
    tidy(axes, "encoder passes over a graph", "wrong answers, percent", title)
