"""The figure of the table `learners`: accuracy of agents on SR25 while they learn, replay beside exact lookahead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maggnn.apps.draw.style import COLOURS, INK, new_figure, save, tidy
from maggnn.errors import InputError
from maggnn_paper.ledger import LedgerRow, newest
from maggnn_paper.tables.learners import CURVES, MOVES, learner_and_updates


def draw_learners(rows: Sequence[LedgerRow], path: Path) -> None:
    """One curve for each learner: accuracy after six moves against the states that its updates have read."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for row in newest(rows):
        if row.table == "ablation" and row.dataset.startswith(CURVES) and row.mean is not None:
            name, updates = learner_and_updates(row)
            if updates is not None:
                curves.setdefault(name, []).append((updates, row.mean))
    if not curves:
        raise InputError("the ledger has no learning curves: `maggnn-paper reproduce learners` makes them")
    figure = new_figure(width=7.4, height=5.2)
    axes = figure.add_subplot()
    for number, (name, points) in enumerate(curves.items()):
        updates, accuracy = zip(*sorted(points), strict=True)
        style = (0, (4, 2)) if number >= len(COLOURS) else "-"
        colour = COLOURS[number % len(COLOURS)] if number else INK
        axes.plot(updates, accuracy, marker="o", markeredgecolor="white", color=colour, linestyle=style, label=name)
    tidy(axes, "updates of the Q-network", f"accuracy after {MOVES} moves, percent", "Learners on SR25")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=10, labelcolor=INK)
    save(figure, path)
