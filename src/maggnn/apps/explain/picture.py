"""The picture of an explanation: one row for the agent and one for random moves from the same start, a panel a step.

In a panel the shade of a node is the best gain that Q promises for moving a mark there. Marks are rings, one hue a
tuple, with the number of their slot; a dashed ring and an arrow show where a mark came from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from maggnn.apps.draw.arrows import Room, arrow
from maggnn.apps.draw.shapes import Area, Disc, Drawing, Line, Point, Shape, Words, moved_by, save_png, to_svg
from maggnn.apps.draw.style import GREYS, INK, SOFT_INK
from maggnn.apps.explain.depiction import AROMATIC, Depicted
from maggnn.apps.explain.explanation import Explanation, node_gains
from maggnn.apps.explain.trace import Step, Trace

NARROWEST, WIDEST, NEIGHBOURS = 220.0, 340.0, 44.0
"""Widths of a panel, between which neighbouring nodes are that far apart."""

MARGIN = 16.0

HEAD, LINE_HEIGHT = 26.0, 15.0
MOST_PANELS = 7
"""Panels in a row; longer searches show their start, their end and even spaces between."""

HUES = ("#c25200", "#00805c", "#b5478f", "#8a6d00", "#000000")
"""Of the tuples: apart for colour-blind readers, and from the blue of the nodes; white on them can be read.

`--tuple-0` to `--tuple-4` of `show/page/page.css` are these, in this order.
"""

SHADES = ((243, 246, 250), (190, 212, 233), (107, 164, 209), (40, 105, 170), (11, 47, 102))
"""Light to dark blue, even in lightness: the darker, the more Q promises."""

BOND, AROMATIC_GAP = "#9aa3ab", 3.0


def write_svg(explanation: Explanation, path: Path) -> None:
    """The picture as an SVG file."""
    path.write_text(to_svg(picture(explanation), explanation.name) + "\n", encoding="utf-8")


def write_png(explanation: Explanation, path: Path) -> None:
    """The picture as a PNG file."""
    save_png(picture(explanation), path)


def picture(explanation: Explanation) -> Drawing:
    """Both rows, with a title and a legend."""
    rows = [("agent", explanation.agent), ("random moves, from the same start", explanation.random[0])]
    shown, size = shown_steps(len(explanation.agent.steps)), panel_width(explanation.graph)
    key = legend(explanation)
    width = max(len(shown) * size + 20, key.width)
    true = explanation.target_text()
    shapes: list[Shape] = [
        Words((14, 22), _shortened(explanation.name, int(width / 9.5)), 16, anchor="start", bold=True)
    ]
    top = 42.0
    if true:
        shapes.append(Words((14, top), _shortened(f"true {true}", int(width / 7)), 12, SOFT_INK, "start"))
        top += 18
    for title, walk in rows:
        shapes.append(Words((14, top + 10), title, 13, anchor="start", bold=True))
        panels = [panel(explanation, walk, step, size) for step in shown]
        for place, drawing in enumerate(panels):
            shapes += moved_by(drawing.shapes, 10 + place * size, top + 20)
        top += 20 + max(drawing.height for drawing in panels) + 12
    shapes += moved_by(key.shapes, 0, top)
    top += key.height + 6
    for note in explanation.notes:
        shapes.append(Words((14, top), _shortened(note, int(width / 5.5)), 11, SOFT_INK, "start"))
        top += LINE_HEIGHT
    return Drawing(width, top + 4, [_sheet(width, top + 4), *shapes])


def _sheet(width: float, height: float) -> Area:
    return Area(((0, 0), (width, 0), (width, height), (0, height)), "#ffffff")


def shown_steps(count: int) -> list[int]:
    """Which of `count` steps have a panel."""
    if count <= MOST_PANELS:
        return list(range(count))
    return [round(place * (count - 1) / (MOST_PANELS - 1)) for place in range(MOST_PANELS)]


def panel(explanation: Explanation, walk: Trace, number: int, size: float) -> Drawing:
    """Step `number` of a walk: the graph with its marks, and below it the answer and the score."""
    step, graph = walk.steps[number], explanation.graph
    before = walk.steps[number - 1] if number else None
    points, height = _on_panel(graph, size)
    radius = _node_radius(points)
    still = before is not None and before.tuples == step.tuples
    heading = step_name(number) + (", marks stay" if still else "")
    shapes: list[Shape] = [Words((size / 2, 12), heading, 12, SOFT_INK)]
    shapes += _edges(graph, points, radius)
    shapes += _nodes(graph, points, radius, node_gains(step), explanation.q_range)
    shapes += _came_from(step, before, points, radius, (HEAD, size, height))
    shapes += _marks(step.tuples, points, radius)
    lines = [*explanation.answer_text(step), *([] if step.score is None else [f"score {step.score:.3g}"])]
    for place, text in enumerate(lines):
        at = (size / 2, height + 4 + (place + 0.5) * LINE_HEIGHT)
        shapes.append(Words(at, _shortened(text, 36), 12, INK if place == 0 else SOFT_INK, bold=place == 0))
    return Drawing(size, height + 8 + LINE_HEIGHT * len(lines), shapes)


def step_name(number: int) -> str:
    """As "after 2 moves"."""
    return "start" if number == 0 else f"after {number} move{'s' if number > 1 else ''}"


def panel_width(graph: Depicted) -> float:
    """Wide enough that neighbours do not crowd, within bounds."""
    return min(WIDEST, max(NARROWEST, NEIGHBOURS / _nearest(graph.positions) + 2 * MARGIN))


def _on_panel(graph: Depicted, size: float) -> tuple[list[Point], float]:
    """Nodes on a panel of width `size`, and how far down they reach: a flat graph has a flat panel."""
    inner = size - 2 * MARGIN
    low = min(y for _, y in graph.positions)
    span = max(max(y for _, y in graph.positions) - low, 0.25)
    middle = (max(y for _, y in graph.positions) + low) / 2
    top = HEAD + MARGIN
    points = [(MARGIN + x * inner, top + (y - middle + span / 2) * inner) for x, y in graph.positions]
    return points, top + span * inner + MARGIN


def _node_radius(points: Sequence[Point]) -> float:
    """So that neighbours do not touch."""
    return min(13.0, max(3.0, 0.34 * _nearest(points)))


def _nearest(points: Sequence[Point]) -> float:
    """How far a node is from the next; one close pair does not decide for all."""
    nearest = sorted(min(math.dist(p, q) for q in points if q is not p) for p in points)
    return max(nearest[len(nearest) // 5], 1e-3)


def _edges(graph: Depicted, points: Sequence[Point], radius: float) -> list[Shape]:
    thin = 1.5 if len(graph.edges) <= 60 else 0.8
    colour = BOND if len(graph.edges) <= 60 else "#c9cfd4"
    shapes: list[Shape] = []
    for u, v, order in graph.edges:
        gap = min(AROMATIC_GAP, 0.4 * radius)
        offsets = {1.0: [0.0], AROMATIC: [-gap / 2, gap / 2], 2.0: [-gap / 2, gap / 2], 3.0: [-gap, 0.0, gap]}[order]
        for number, offset in enumerate(offsets):
            line = _beside(points[u], points[v], offset)
            shapes.append(Line(line, colour, thin, dashed=order == AROMATIC and number == 1))
    return shapes


def _beside(start: Point, end: Point, offset: float) -> tuple[Point, Point]:
    """The line from start to end, shifted across by `offset`."""
    length = math.dist(start, end) or 1.0
    dx, dy = -(end[1] - start[1]) / length * offset, (end[0] - start[0]) / length * offset
    return (start[0] + dx, start[1] + dy), (end[0] + dx, end[1] + dy)


def _nodes(
    graph: Depicted, points: Sequence[Point], radius: float, gains: Sequence[float], q_range: tuple[float, float]
) -> list[Shape]:
    shapes: list[Shape] = []
    for node, (point, gain) in enumerate(zip(points, gains, strict=True)):
        depth = _depth(gain, q_range)
        if node in graph.roots:
            square = [(point[0] + sx * 1.3 * radius, point[1] + sy * 1.3 * radius) for sx, sy in CORNERS]
            shapes.append(Area(tuple(square), INK))
        shapes.append(Disc(point, radius, shade(depth), GREYS[0], 0.8))
        if graph.labels:
            size = {1: 1.25, 2: 1.0}.get(len(graph.labels[node]), 0.7) * radius
            shapes.append(Words(point, graph.labels[node], size, "#ffffff" if depth > 0.55 else INK))
    return shapes


CORNERS = ((-1, -1), (1, -1), (1, 1), (-1, 1))


def _depth(gain: float, q_range: tuple[float, float]) -> float:
    low, high = q_range
    return (gain - low) / (high - low) if high > low else 0.0


def shade(depth: float) -> str:
    """The colour of a node from 0, the least promising, to 1."""
    place = min(max(depth, 0.0), 1.0) * (len(SHADES) - 1)
    below = min(int(place), len(SHADES) - 2)
    share = place - below
    mixed = (round(a + share * (b - a)) for a, b in zip(SHADES[below], SHADES[below + 1], strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def _marks(tuples: Sequence[Sequence[int]], points: Sequence[Point], radius: float) -> list[Shape]:
    """A ring around the node for each mark, further out where a node has several, with the number of its slot."""
    shapes: list[Shape] = []
    badges: list[Shape] = []
    count: dict[int, int] = {}
    for number, row in enumerate(tuples):
        for slot, node in enumerate(row):
            place, hue = count.get(node, 0), HUES[number % len(HUES)]
            count[node] = place + 1
            ring = ring_radius(radius, place)
            shapes.append(Disc(points[node], ring, rim=hue, width=2.6))
            angle = math.radians(-45 + 75 * place)
            x, y = points[node][0] + (ring + 2) * math.cos(angle), points[node][1] + (ring + 2) * math.sin(angle)
            badges += _badge((x, y), slot + 1, hue)
    return shapes + badges


def _badge(place: Point, number: int, hue: str) -> list[Shape]:
    return [Disc(place, 6.2, hue, "#ffffff", 1.0), Words(place, str(number), 9, "#ffffff", bold=True)]


def ring_radius(radius: float, place: int = 0) -> float:
    """Of mark number `place` on a node."""
    return radius + 3.2 + 4.0 * place


def _came_from(step: Step, before: Step | None, points: Sequence[Point], radius: float, room: Room) -> list[Shape]:
    """A dashed ring where a mark was and an arrow to where it is."""
    if before is None:
        return []
    shapes: list[Shape] = []
    for number, slot, node in step.moved:
        old, hue = before.tuples[number][slot], HUES[number % len(HUES)]
        if old == node:
            continue
        ring = ring_radius(radius)
        shapes.append(Disc(points[old], ring, rim=hue, width=1.6, dashed=True))
        others = [point for place, point in enumerate(points) if place not in (old, node)]
        shapes += arrow(points[old], points[node], others, ring, hue, room)
    return shapes


def legend(explanation: Explanation) -> Drawing:
    """What shades, rings and numbers mean."""
    row, x = 46.0, 26.0
    shapes = _shade_key(explanation.q_range)
    several = len(explanation.agent.steps[0].tuples) > 1
    for hue in HUES[: len(explanation.agent.steps[0].tuples)]:
        shapes += [Disc((x, row), 7.2, rim=hue, width=2.6), *_badge((x + 6.5, row - 6.5), 1, hue)]
        x += 26
    text = "marks with the numbers of their slots" + (", one hue a tuple" if several else "")
    shapes.append(Words((x - 6, row), text, 11, INK, "start"))
    x += 14 + 5.7 * len(text)
    shapes.append(Disc((x, row), 7.2, rim=HUES[0], width=1.6, dashed=True))
    shapes.append(Words((x + 14, row), "where a mark came from", 11, INK, "start"))
    return Drawing(max(500.0, x + 160), row + 20, shapes)


def _shade_key(q_range: tuple[float, float]) -> list[Shape]:
    """A bar of all shades with the gains at its ends."""
    top, left, bar, parts = 18.0, 14.0, 130.0, 26
    shapes: list[Shape] = []
    for part in range(parts):
        x, width = left + bar * part / parts, bar / parts + 0.5
        corners = ((x, top - 6), (x + width, top - 6), (x + width, top + 6), (x, top + 6))
        shapes.append(Area(corners, shade(part / (parts - 1))))
    low, high = (f"{value:.3g}" for value in q_range)
    text = f"from {low} to {high}: the gain that Q promises for moving a mark here"
    return [*shapes, Words((left + bar + 10, top), text, 11, INK, "start")]


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
