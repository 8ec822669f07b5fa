"""How the time of a search and answer grows with graphs, nodes, m, k and t: one small log-log plot for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from maggnn.apps.draw.style import COLOURS, SOFT_INK, new_figure, save, tidy
from maggnn.errors import InputError
from maggnn_paper.ledger import LedgerRow

NAMES = {
    "graphs": "graphs",
    "nodes": "nodes a graph",
    "num_tuples": "tuples m",
    "tuple_order": "tuple order k",
    "num_moves": "moves t",
}
SHORT = {"num_tuples": "m", "tuple_order": "k", "num_moves": "t"}


def draw_scaling(rows: Iterable[LedgerRow], path: Path) -> None:
    """Plot the rows of `maggnn-paper bench scaling` (table `bench_scaling`), one line for each machine."""
    points: dict[str, dict[str, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    exponents: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.table != "bench_scaling" or row.mean is None:
            continue
        if row.metric.startswith("exponent_"):
            exponents[row.metric.removeprefix("exponent_"), row.hardware] = row.mean
        elif row.dataset.startswith("regular-"):
            axis, size = row.dataset.removeprefix("regular-").rsplit("-", 1)
            points[axis][row.hardware].append((int(size), row.mean))
    if not points:
        raise InputError("no rows of `maggnn-paper bench scaling` to draw")
    figure = new_figure(height=2.8, width=2.6 * len(points))
    for number, (axis, machines) in enumerate(points.items()):
        plot = figure.add_subplot(1, len(points), number + 1)
        sizes: tuple[int, ...] = (0,)
        for colour, (hardware, line) in zip(COLOURS, machines.items(), strict=False):
            sizes, times = zip(*sorted(line), strict=True)
            slope = exponents.get((SHORT.get(axis, axis), hardware))
            label = hardware if slope is None else f"{hardware}: {slope:.2f}"
            plot.loglog(sizes, times, "o-", color=colour, label=label, markersize=3)
        plot.minorticks_off()
        if sizes[-1] < 100:  # a power of ten would say nothing
            plot.set_xticks(sizes, [str(size) for size in sizes])
        plot.legend(frameon=False, fontsize=7, labelcolor=SOFT_INK)
        tidy(plot, NAMES.get(axis, axis), "" if number else "ms")
    save(figure, path)
