"""Plots of the results, one for each table: points with their spread, or curves against the number of moves.

They are SVG text made from a list of shapes (`maggnn.apps.draw.shapes`), not pictures of matplotlib: the same ledger
then gives the same bytes on every machine, so a test can check that the committed plots are current.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from maggnn.apps.draw.shapes import Disc, Drawing, Line, Point, Shape, Words, on_white, to_svg
from maggnn.apps.draw.style import COLOURS, GREYS, GRID, INK, PALE, SOFT_INK
from maggnn.apps.explain.chart import nice_ticks
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.published import PUBLISHED, Published
from maggnn_paper.report.cells import Setting

MOST_PANELS = 4
"""Panels side by side: the columns with published figures, or the first ones where there are none."""

MOST_LINES = 44
LONGEST = 70
"""The characters of a label: enough for a method with m, k, t, keep rule, marking and inputs."""

LABELS, PANEL, GAP, ROW, TOP, BOTTOM = 400.0, 150.0, 40.0, 17.0, 46.0, 34.0
AGENT_COLOUR, CONTROL_COLOUR, OTHER_COLOUR = COLOURS[0], GREYS[0], GREYS[2]


def dot_plot(table: str, rows: Sequence[LedgerRow], columns: Sequence[tuple[str, str]], most: int = MOST_PANELS) -> str:
    """One panel for each (data set, metric), one line for each setting: ours filled with its spread, published hollow.

    Args:
        table: Name of the table in the ledger.
        rows: Its current rows.
        columns: The (data set, metric) pairs in the order of the page.
        most: The largest number of panels.

    Returns:
        An SVG.
    """
    panels = _chosen_panels(table, columns, most)
    timed = table.startswith("bench")
    cells = {(_line_of(row, timed), row.dataset, row.metric): row for row in rows if row.mean is not None}
    settings = sorted({key[0] for key in cells if key[1:] in panels}, key=lambda setting: setting.order)[:MOST_LINES]
    shapes: list[Shape] = []
    floor = TOP + ROW * len(settings)
    for line, setting in enumerate(settings):
        y = TOP + ROW * (line + 0.5)
        shapes.append(Line(((LABELS, y), (_left(len(panels) - 1) + PANEL, y)), GRID, 0.8))
        shapes.append(Words((LABELS - 10, y), _label(setting), 10.5, _colour(setting.method), "end"))
    for place, (dataset, metric) in enumerate(panels):
        entries = []
        for line, setting in enumerate(settings):
            row = cells.get((setting, dataset, metric))
            first = not line or settings[line - 1].method != setting.method  # a published figure is drawn once
            figure = PUBLISHED.get((table, dataset, setting.method, metric)) if first else None
            entries.append((TOP + ROW * (line + 0.5), setting, row, figure))
        shapes += _panel(_left(place), floor, dataset, metric, entries)
    shapes += _key(floor + BOTTOM + 8)
    width = _left(len(panels) - 1) + PANEL + 20
    return to_svg(on_white(Drawing(width, floor + BOTTOM + 22, shapes)), f"Results of the table {table}")


def _line_of(row: LedgerRow, timed: bool) -> Setting:
    """The line of a row: its machine counts where time was measured."""
    setting = Setting.of(row)
    return setting if timed else dataclasses.replace(setting, hardware=None)


Entry = tuple[float, Setting, LedgerRow | None, Published | None]


def _panel(left: float, floor: float, dataset: str, metric: str, entries: Sequence[Entry]) -> list[Shape]:
    means = [row.mean for _, _, row, _ in entries if row and row.mean is not None]
    values = means + [figure.value for _, _, _, figure in entries if figure]
    logarithmic = min(values) > 0 and max(values) / min(values) > 30
    axis = _Axis(left, _ticks(values, logarithmic), logarithmic)
    shapes: list[Shape] = [Words((left, TOP - 28), f"{dataset}", 11.5, INK, "start", bold=True)]
    shapes.append(Words((left, TOP - 13), f"{metric}{', log scale' if logarithmic else ''}", 10, SOFT_INK, "start"))
    for tick in axis.ticks:
        shapes.append(Line(((axis.at(tick), TOP), (axis.at(tick), floor)), GRID, 0.8))
        shapes.append(Words((axis.at(tick), floor + 12), f"{tick:.5g}", 9.5, SOFT_INK))
    shapes.append(Line(((left, floor), (left + PANEL, floor)), PALE, 1.0))
    for y, setting, row, figure in entries:
        if figure:
            shapes.append(Disc((axis.at(figure.value), y), 3.6, "none", COLOURS[1], 1.4))
        if row is None or row.mean is None:
            continue
        if row.std:
            ends = (axis.at(max(row.mean - row.std, axis.least)), axis.at(row.mean + row.std))
            shapes.append(Line(((ends[0], y), (ends[1], y)), _colour(setting.method), 1.6))
        shapes.append(Disc((axis.at(row.mean), y), 3.2, _colour(setting.method)))
    return shapes


@dataclasses.dataclass(frozen=True)
class _Axis:
    """Where a value lies from left to right."""

    left: float
    ticks: list[float]
    logarithmic: bool

    @property
    def least(self) -> float:
        return self.ticks[0]

    def at(self, value: float) -> float:
        low, high, value = self.ticks[0], self.ticks[-1], min(max(value, self.ticks[0]), self.ticks[-1])
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.left + PANEL * (value - low) / (high - low)


def _ticks(values: Sequence[float], logarithmic: bool) -> list[float]:
    if not logarithmic:
        ticks = nice_ticks(min(values), max(values))
        return ticks if len(ticks) < 6 else ticks[:: (len(ticks) - 1)]
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(first, last + 1)]


def line_plot(title: str, rows: Sequence[LedgerRow]) -> str:
    """The metric of one data set against the number of moves, a curve for each method and setting.

    Args:
        title: What stands above it.
        rows: Rows of one data set and metric, each with its number of moves. Those of other keep rules than the paper's
            are only in the table; where several machines measured the same, the row with most runs is drawn.

    Returns:
        An SVG.
    """
    curves: dict[Setting, dict[int, LedgerRow]] = {}
    for row in rows:
        if row.mean is not None and row.t is not None and row.keep == "last":
            setting = dataclasses.replace(Setting.of(row), t=None, hardware=None)
            kept = curves.setdefault(setting, {}).get(row.t)
            if kept is None or kept.runs * kept.tests_per_run <= row.runs * row.tests_per_run:
                curves[setting][row.t] = row
    points = {setting: {t: row.mean for t, row in curve.items()} for setting, curve in curves.items()}
    return curve_plot(title, "moves", {_label(setting): points[setting] for setting in _in_order(points)})


def curve_plot(title: str, x_name: str, curves: dict[str, dict[int, float | None]]) -> str:
    """Curves over whole numbers, with a key to the right.

    Args:
        title: What stands above them.
        x_name: What the numbers count.
        curves: The value at each number, by the name of the curve.

    Returns:
        An SVG.
    """
    known = {name: {x: y for x, y in curve.items() if y is not None} for name, curve in curves.items()}
    values = [y for curve in known.values() for y in curve.values()]
    first, last = (pick(x for curve in known.values() for x in curve) for pick in (min, max))
    ticks = nice_ticks(min(values), max(values))
    left, width, height = 60.0, 430.0, max(220.0, 17.0 * len(curves))
    floor = TOP + height

    def at(x: float, y: float) -> Point:
        across = (x - first) / (last - first) if last > first else 0.5
        return left + width * across, floor - height * (y - ticks[0]) / (ticks[-1] - ticks[0])

    shapes: list[Shape] = [Words((left - 45, 18), title, 12.5, INK, "start", bold=True)]
    for tick in ticks:
        shapes.append(Line((at(first, tick), at(last, tick)), GRID, 0.9))
        shapes.append(Words((left - 8, at(first, tick)[1]), f"{tick:.5g}", 10, SOFT_INK, "end"))
    for x in range(first, last + 1, max(1, (last - first) // 10)):
        shapes.append(Words((at(x, 0)[0], floor + 13), str(x), 10, SOFT_INK))
    shapes.append(Words((left + width / 2, floor + 29), x_name, 10.5, SOFT_INK))
    learned = [name for name in reversed(known) if not name.startswith("random")]  # the agent itself comes last
    for place, (name, curve) in enumerate(known.items()):
        number = learned.index(name) if name in learned else -1
        colour = COLOURS[number % len(COLOURS)] if name in learned else CONTROL_COLOUR
        dashed = number >= len(COLOURS) or name not in learned
        line = tuple(at(x, curve[x]) for x in sorted(curve))
        shapes.append(Line(line, colour, 2.0, dashed=dashed))
        shapes += [Disc(point, 2.6, colour) for point in line]
        y = TOP + 8 + 17 * place
        shapes.append(Line(((left + width + 24, y), (left + width + 46, y)), colour, 2.0, dashed=dashed))
        shapes.append(Words((left + width + 52, y), name, 10.5, INK, "start"))
    return to_svg(on_white(Drawing(left + width + 340, floor + 42, shapes)), title)


def _in_order(settings: dict[Setting, dict[int, float | None]]) -> list[Setting]:
    return sorted(settings, key=lambda setting: setting.order)


def _chosen_panels(table: str, columns: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    published = [column for column in columns if any((t, d, m) == (table, *column) for t, d, _, m in PUBLISHED)]
    return (published or list(columns))[:most]


def _left(panel: int) -> float:
    return LABELS + panel * (PANEL + GAP)


def _label(setting: Setting) -> str:
    machine = " (CPU)" if (setting.hardware or "").startswith("cpu") else ""
    text = f"{setting.method}{', ' if setting.text else ''}{setting.text}"
    return (text if len(text) <= LONGEST else text[: LONGEST - 1] + "…") + machine


def _colour(method: str) -> str:
    if method.startswith("mag-gnn"):
        return AGENT_COLOUR
    return (
        CONTROL_COLOUR
        if method in ("gin", "random-marks", "random-moves", "central-marks", "central-starts")
        else OTHER_COLOUR
    )


def _key(y: float) -> list[Shape]:
    entries = [(AGENT_COLOUR, "MAG-GNN"), (CONTROL_COLOUR, "controls"), (OTHER_COLOUR, "baselines, run here")]
    shapes: list[Shape] = []
    x = LABELS
    for colour, text in entries:
        shapes.append(Disc((x, y), 3.2, colour))
        shapes.append(Words((x + 8, y), text, 10.5, SOFT_INK, "start"))
        x += 32 + 6.4 * len(text)
    shapes.append(Disc((x, y), 3.6, "none", COLOURS[1], 1.4))
    shapes.append(Words((x + 8, y), "published; bars: standard deviation over runs", 10.5, SOFT_INK, "start"))
    return shapes
