"""The picture of an explanation: a row for the agent and one for random moves from the same start, a panel per step.

In a panel the shade of a node is the largest gain that Q expects from moving a mark there. Marks are rings, with one
hue for each tuple and the number of their slot; a dashed ring and an arrow show where a mark came from.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from maggnn.apps.draw import marked
from maggnn.apps.draw.shapes import (
    Drawing,
    Line,
    Point,
    Shape,
    Words,
    moved_by,
    on_white,
    room_for,
    save_png,
    to_svg,
)
from maggnn.apps.draw.style import INK, SOFT_INK
from maggnn.apps.explain.depiction import AROMATIC, Depicted
from maggnn.apps.explain.trace import Trace, node_gains

if TYPE_CHECKING:
    from maggnn.apps.explain.explanation import Explanation  # which draws itself in notebooks

NARROWEST, WIDEST, NEIGHBOURS = 220.0, 340.0, 44.0
"""The smallest and largest width of a panel, and the wanted distance of neighbouring nodes between these limits."""

MARGIN = 16.0

HEAD, LINE_HEIGHT = 26.0, 15.0
MOST_PANELS = 7
"""The largest number of panels in a row; longer searches show their start, their end and evenly spaced steps."""

LEAST_NUMBERED, ANGLES = 7.0, 16
"""The smallest radius of nodes with numbers, and the number of places around an atom that are tried for its number."""

BOND, AROMATIC_GAP = "#9aa3ab", 3.0


def write_svg(explanation: Explanation, path: Path) -> None:
    """Write the picture as an SVG file."""
    path.write_text(to_svg(picture(explanation), explanation.name) + "\n", encoding="utf-8")


def write_png(explanation: Explanation, path: Path) -> None:
    """Write the picture as a PNG file."""
    save_png(picture(explanation), path)


def picture(explanation: Explanation) -> Drawing:
    """Draw both rows, with a title and a legend."""
    rows = [("agent", explanation.agent), ("random moves, from the same start", explanation.random[0])]
    shown, size = shown_steps(len(explanation.agent.steps)), panel_width(explanation.graph)
    key = legend(explanation)
    width = max(len(shown) * size + 20, key.width)
    true = explanation.target_text()
    shapes: list[Shape] = []
    top = 22.0
    for line in _lines(explanation.name, room_for(width - 28, 16, bold=True)):
        shapes.append(Words((14, top), line, 16, anchor="start", bold=True))
        top += 20
    for line in _lines(f"true {true}" if true else "", room_for(width - 28, 12)):
        shapes.append(Words((14, top), line, 12, SOFT_INK, "start"))
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
        for line in _lines(note, room_for(width - 28, 11)):
            shapes.append(Words((14, top), line, 11, SOFT_INK, "start"))
            top += LINE_HEIGHT
    return on_white(Drawing(width, top + 4, shapes))


def shown_steps(count: int) -> list[int]:
    """Return which of `count` steps have a panel."""
    if count <= MOST_PANELS:
        return list(range(count))
    return [round(place * (count - 1) / (MOST_PANELS - 1)) for place in range(MOST_PANELS)]


def panel(explanation: Explanation, walk: Trace, number: int, size: float) -> Drawing:
    """Draw step `number` of a walk: the graph with its marks, and below it the answer and the score."""
    step, graph = walk.steps[number], explanation.graph
    before = walk.steps[number - 1] if number else None
    points, height = _on_panel(graph, size)
    radius = _node_radius(points)
    still = before is not None and before.tuples == step.tuples
    heading = marked.step_name(number) + (", marks stay" if still else "")
    shapes: list[Shape] = [Words((size / 2, 12), heading, 12, SOFT_INK)]
    shapes += _edges(graph, points, radius)
    shapes += marked.nodes(points, radius, node_gains(step), explanation.q_range, _labels(graph, radius), graph.roots)
    shapes += _atom_numbers(graph, points, radius, (size, height))
    came_from = None if before is None else before.tuples
    shapes += marked.came_from(came_from, step.tuples, points, radius, (HEAD, size, height))
    shapes += marked.marks(step.tuples, points, radius)
    lines = [*explanation.answer_text(step), *([] if step.score is None else [f"score {step.score:.3g}"])]
    for place, text in enumerate(lines):
        at = (size / 2, height + 4 + (place + 0.5) * LINE_HEIGHT)
        short = _shortened(text, room_for(size, 12, bold=place == 0))
        shapes.append(Words(at, short, 12, INK if place == 0 else SOFT_INK, bold=place == 0))
    return Drawing(size, height + 8 + LINE_HEIGHT * len(lines), shapes)


def panel_width(graph: Depicted) -> float:
    """Return a width at which neighbours are far enough apart, within bounds."""
    return min(WIDEST, max(NARROWEST, NEIGHBOURS / _nearest(graph.positions) + 2 * MARGIN))


def _on_panel(graph: Depicted, size: float) -> tuple[list[Point], float]:
    """Return the nodes on a panel of width `size`, and its height, which depends on the graph."""
    inner = size - 2 * MARGIN
    low = min(y for _, y in graph.positions)
    span = max(max(y for _, y in graph.positions) - low, 0.25)
    middle = (max(y for _, y in graph.positions) + low) / 2
    top = HEAD + MARGIN
    points = [(MARGIN + x * inner, top + (y - middle + span / 2) * inner) for x, y in graph.positions]
    return points, top + span * inner + MARGIN


def _node_radius(points: Sequence[Point]) -> float:
    """Return a radius at which neighbours do not touch."""
    return min(13.0, max(3.0, 0.34 * _nearest(points)))


def _nearest(points: Sequence[Point]) -> float:
    """Return a typical distance to the nearest node, which a single close pair does not determine.

    A node that is alone is as far from others as the narrowest panel allows.
    """
    if len(points) == 1:
        return NARROWEST
    nearest = sorted(min(math.dist(p, q) for q in points if q is not p) for p in points)
    return max(nearest[len(nearest) // 5], 1e-3)


def _labels(graph: Depicted, radius: float) -> list[str]:
    """Return the text in each node: the symbols of atoms, else the numbers of nodes where there is room for them."""
    if graph.labels or radius < LEAST_NUMBERED:
        return graph.signs or graph.labels
    return [graph.node_name(node) for node in range(len(graph.positions))]


def _atom_numbers(graph: Depicted, points: Sequence[Point], radius: float, room: Point) -> list[Shape]:
    """Draw the number of each atom in the SMILES next to it, away from bonds, marks and the edge of the panel."""
    if not graph.labels or radius < LEAST_NUMBERED:
        return []
    bonds: list[list[Point]] = [[] for _ in points]
    for u, v, _ in graph.edges:
        bonds[u].append(points[v])
        bonds[v].append(points[u])
    away, placed = radius + (11 if radius > 10 else 8), list[Point]()
    for node, (x, y) in enumerate(points):
        shares = [(end, share) for end in bonds[node] for share in (away / (math.dist(end, (x, y)) or 1.0), 0.75)]
        along = [(x + share * (u - x), y + share * (v - y)) for (u, v), share in shares]
        badge = (x + (radius + 5) * math.sqrt(0.5), y - (radius + 5) * math.sqrt(0.5))
        others = (point for place, point in enumerate(points) if place != node)
        taken = [*along, badge, *others, *placed]
        angles = [math.tau * place / ANGLES for place in range(ANGLES)]
        around = [(x + away * math.cos(angle), y + away * math.sin(angle)) for angle in angles]
        inside = [(u, v) for u, v in around if 7 < u < room[0] - 7 and HEAD < v < room[1] - 5] or around
        placed.append(max(inside, key=lambda point: min(math.dist(point, other) for other in taken)))
    return [
        Words(place, str(graph.numbers[node] if graph.numbers else node), 9, SOFT_INK)
        for node, place in enumerate(placed)
    ]


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
    """Return the line from start to end, shifted sideways by `offset`."""
    length = math.dist(start, end) or 1.0
    dx, dy = -(end[1] - start[1]) / length * offset, (end[0] - start[0]) / length * offset
    return (start[0] + dx, start[1] + dy), (end[0] + dx, end[1] + dy)


def legend(explanation: Explanation) -> Drawing:
    """Draw the legend of shades, rings and numbers."""
    return marked.legend(explanation.q_range, len(explanation.agent.steps[0].tuples))


def _lines(text: str, most: int) -> list[str]:
    """Break a text into lines of at most `most` characters, at spaces if it has any; SMILES have none."""
    return textwrap.wrap(text, most, break_on_hyphens=False)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
