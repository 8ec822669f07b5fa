"""The figure of the table `learners`: accuracy of agents on SR25 while they learn, replay beside exact lookahead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maggnn.apps.draw.style import COLOURS, GREYS, INK, new_figure, save, tidy
from maggnn.errors import InputError
from maggnn_paper.ledger import LedgerRow, newest
from maggnn_paper.tables.learners import CURVES, EXACT, LEARNERS, MOVES, RECIPE, learner_and_updates, variant


def draw_learners(rows: Sequence[LedgerRow], path: Path) -> None:
    """One curve for each learner: accuracy after six moves against updates, with random moves as a dashed line."""
    current = newest(rows)
    curves: dict[str, list[tuple[int, float]]] = {}
    for row in current:
        if row.table == "ablation" and row.dataset.startswith(CURVES) and row.mean is not None:
            name, updates = learner_and_updates(row)
            if updates is not None:
                curves.setdefault(name, []).append((updates, row.mean))
    if not curves:
        raise InputError("the ledger has no learning curves: `maggnn-paper reproduce learners` makes them")
    figure = new_figure(width=7.4, height=5.2)
    axes = figure.add_subplot()
    colours = iter(COLOURS * 2)
    for name in (name for name in LEARNERS if variant(name) in curves):
        updates, accuracy = zip(*sorted(curves[variant(name)]), strict=True)
        colour = INK if name == EXACT else next(colours)
        axes.plot(updates, accuracy, marker="o", markeredgecolor="white", color=colour, linewidth=2.0, label=name)
    for row in current:
        if (row.table, row.dataset, row.method, row.t, row.keep) == ("moves", RECIPE, "random-moves", MOVES, "last"):
            axes.axhline(row.mean or 0.0, color=GREYS[0], linestyle=(0, (4, 2)), linewidth=1.8, label="random moves")
    tidy(axes, "updates of the Q-network", f"accuracy after {MOVES} moves, percent", "Learners on SR25")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=10, labelcolor=INK)
    save(figure, path)
