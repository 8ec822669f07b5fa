"""Shapes of a marked graph: nodes shaded by expected gains, marks as numbered rings, and arrows for moves.

All drawings of marks use these: `drawing` and `pair` here, and the pictures of `maggnn explain`. Points are those of a
panel, in the units of `shapes`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from maggnn.apps.draw.arrows import Room, arrow
from maggnn.apps.draw.shapes import Area, Disc, Drawing, Point, Shape, Words, width_of
from maggnn.apps.draw.style import GREYS, INK

HUES = ("#c25200", "#00805c", "#b5478f", "#8a6d00", "#000000")
"""The hues of tuples, which colour-blind readers can distinguish from each other and from blue nodes, with white text.

`--tuple-0` to `--tuple-4` of `show/page/page.css` are these, in this order.
"""

SHADES = ((243, 246, 250), (190, 212, 233), (107, 164, 209), (40, 105, 170), (11, 47, 102))
"""Light to dark blue, in even steps of lightness: darker means a larger expected gain."""

CORNERS = ((-1, -1), (1, -1), (1, 1), (-1, 1))

Tuples = Sequence[Sequence[int]]
"""The marked nodes by their local ids, [m][k]."""

Range = tuple[float, float]
"""The smallest and the largest gain of a whole picture, so that the shades of all panels can be compared."""


# ---- nodes ----------------------------------------------------------------------------------------------


def nodes(
    points: Sequence[Point],
    radius: float,
    gains: Sequence[float],
    q_range: Range,
    labels: Sequence[str] = (),
    roots: Collection[int] = (),
) -> list[Shape]:
    """Draw a disc for each node.

    Args:
        gains: the gain that Q expects from moving a mark to each node.
        labels: the labels of atoms; none for graphs that are not molecules.
        roots: the roots of a rooted graph, drawn on a square.
    """
    shapes: list[Shape] = []
    for node, (point, gain) in enumerate(zip(points, gains, strict=True)):
        depth = _depth(gain, q_range)
        if node in roots:
            square = [(point[0] + sx * 1.3 * radius, point[1] + sy * 1.3 * radius) for sx, sy in CORNERS]
            shapes.append(Area(tuple(square), INK))
        shapes.append(Disc(point, radius, shade(depth), GREYS[0], 0.8))
        if labels and labels[node]:
            size = {1: 1.25, 2: 1.0}.get(len(labels[node]), 0.7) * radius
            shapes.append(Words(point, labels[node], size, "#ffffff" if depth > 0.55 else INK))
    return shapes


def _depth(gain: float, q_range: Range) -> float:
    low, high = q_range
    return (gain - low) / (high - low) if high > low else 0.0


def shade(depth: float) -> str:
    """Return the colour of a node for a depth from 0, the smallest gain, to 1."""
    place = min(max(depth, 0.0), 1.0) * (len(SHADES) - 1)
    below = min(int(place), len(SHADES) - 2)
    share = place - below
    mixed = (round(a + share * (b - a)) for a, b in zip(SHADES[below], SHADES[below + 1], strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


# ---- marks ----------------------------------------------------------------------------------------------


def marks(tuples: Tuples, points: Sequence[Point], radius: float) -> list[Shape]:
    """Draw a numbered ring around the node of each mark, with larger rings if a node has several marks."""
    shapes: list[Shape] = []
    badges: list[Shape] = []
    count: dict[int, int] = {}
    for number, row in enumerate(tuples):
        for slot, node in enumerate(row):
            place, hue = count.get(node, 0), HUES[number % len(HUES)]
            count[node] = place + 1
            ring = _ring_radius(radius, place)
            shapes.append(Disc(points[node], ring, rim=hue, width=2.6))
            angle = math.radians(-45 + 75 * place)
            x, y = points[node][0] + (ring + 2) * math.cos(angle), points[node][1] + (ring + 2) * math.sin(angle)
            badges += _badge((x, y), slot + 1, hue)
    return shapes + badges


def came_from(before: Tuples | None, tuples: Tuples, points: Sequence[Point], radius: float, room: Room) -> list[Shape]:
    """Draw a dashed ring at a mark's previous node and an arrow to the new one; nothing at the start."""
    shapes: list[Shape] = []
    count = Counter(node for row in tuples for node in row)
    ring = _ring_radius(radius)
    for number, (old_row, row) in enumerate(zip(before or [], tuples, strict=before is not None)):
        hue = HUES[number % len(HUES)]
        for old, node in zip(old_row, row, strict=True):
            if old == node:
                continue
            shapes.append(Disc(points[old], ring, rim=hue, width=1.6, dashed=True))
            others = [point for place, point in enumerate(points) if place not in (old, node)]
            gaps = (ring, _ring_radius(radius, count[node] - 1))  # the end may have several rings
            shapes += arrow(points[old], points[node], others, gaps, hue, room)
    return shapes


def _badge(place: Point, number: int, hue: str) -> list[Shape]:
    return [Disc(place, 6.2, hue, "#ffffff", 1.0), Words(place, str(number), 9, "#ffffff", bold=True)]


def _ring_radius(radius: float, place: int = 0) -> float:
    """Return the radius of the ring of mark number `place` on a node."""
    return radius + 3.2 + 4.0 * place


# ---- words ----------------------------------------------------------------------------------------------


def step_name(number: int) -> str:
    """Return a name such as "after 2 moves"."""
    return "start" if number == 0 else f"after {number} move{'s' if number > 1 else ''}"


def legend(q_range: Range, num_tuples: int) -> Drawing:
    """Draw the legend of shades, rings and numbers."""
    row, x = 46.0, 26.0
    shapes, shades_end = _shade_key(q_range)
    for hue in HUES[:num_tuples]:
        shapes += [Disc((x, row), 7.2, rim=hue, width=2.6), *_badge((x + 6.5, row - 6.5), 1, hue)]
        x += 26
    text = "marks and their numbers" + (", one hue for each tuple" if num_tuples > 1 else "")
    shapes.append(Words((x - 6, row), text, 11, INK, "start"))
    x += 8 + width_of(text, 11)
    shapes.append(Disc((x, row), 7.2, rim=HUES[0], width=1.6, dashed=True))
    origin = "where a mark came from"
    shapes.append(Words((x + 14, row), origin, 11, INK, "start"))
    return Drawing(max(500.0, shades_end, x + 24 + width_of(origin, 11)), row + 20, shapes)


def _shade_key(q_range: Range) -> tuple[list[Shape], float]:
    """Draw a bar of all shades with the gains at its ends. Returns also its right end."""
    top, left, bar, parts = 18.0, 14.0, 130.0, 26
    shapes: list[Shape] = []
    for part in range(parts):
        x, width = left + bar * part / parts, bar / parts + 0.5
        corners = ((x, top - 6), (x + width, top - 6), (x + width, top + 6), (x, top + 6))
        shapes.append(Area(corners, shade(part / (parts - 1))))
    low, high = (f"{value:.3g}" for value in q_range)
    text = f"{low} to {high}: expected gain (Q-value) of moving a mark here"
    return [*shapes, Words((left + bar + 10, top), text, 11, INK, "start")], left + bar + 20 + width_of(text, 11)
