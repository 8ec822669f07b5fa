"""The figure of the table `learners`: accuracy of agents on SR25 while they learn, replay beside exact lookahead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from maggnn.apps.draw.style import COLOURS, GREYS, INK, new_figure, save, tidy
from maggnn.errors import InputError
from maggnn_paper.ledger import LedgerRow, newest
from maggnn_paper.tables.learners import (
    CURVES,
    EXACT,
    LEARNERS,
    MOVES,
    is_large,
    learner_and_updates,
    set_name,
    variant,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    False: "128 states in an update, 4 layers of width 64",
    True: "768 states in an update, 6 layers of width 128",
}
"""Of the panels: learners without and with the networks `LARGE`."""


def draw_learners(rows: Sequence[LedgerRow], path: Path) -> None:
    """One panel for each environment and one curve for each learner: accuracy after six moves against updates.

    Random moves in the same environment are a dashed line.
    """
    current = newest(rows)
    curves: dict[str, list[tuple[int, float]]] = {}
    for row in current:
        if row.table == "ablation" and row.dataset.startswith(CURVES) and row.mean is not None:
            name, updates = learner_and_updates(row)
            if updates is not None:
                curves.setdefault(name, []).append((updates, row.mean))
    if not curves:
        raise InputError("the ledger has no learning curves: `maggnn-paper reproduce learners` makes them")
    panels = [large for large in TITLES if any(_in_panel(name, large, curves) for name in LEARNERS)]
    figure = new_figure(width=5.8 * len(panels), height=4.8)
    for number, large in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), number)
        _panel(axes, {name: curves[variant(name)] for name in LEARNERS if _in_panel(name, large, curves)})
        random = ("moves", set_name(large), "random-moves", MOVES, "last")
        for row in current:
            if (row.table, row.dataset, row.method, row.t, row.keep) == random:
                axes.axhline(row.mean or 0.0, color=GREYS[0], linestyle=(0, (4, 2)), label="random moves")
        tidy(axes, "updates of the Q-network", f"accuracy after {MOVES} moves, percent", TITLES[large])
        axes.legend(frameon=False, fontsize=10, labelcolor=INK, loc="lower right")
    save(figure, path)


def _in_panel(name: str, large: bool, curves: dict[str, list[tuple[int, float]]]) -> bool:
    return is_large(name) == large and variant(name) in curves


def _panel(axes: Axes, curves: dict[str, list[tuple[int, float]]]) -> None:
    colours = iter(COLOURS * 2)
    for name, points in curves.items():
        updates, accuracy = zip(*sorted(points), strict=True)
        colour = INK if name == EXACT else next(colours)
        axes.plot(updates, accuracy, marker="o", markeredgecolor="white", color=colour, linewidth=2.0, label=name)
