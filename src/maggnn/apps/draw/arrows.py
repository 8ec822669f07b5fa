"""An arrow from the rim of one node to that of another, bent to avoid the nodes between."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maggnn.apps.draw.shapes import Area, Line, Point, Shape

Room = tuple[float, float, float]
"""The area of an arrow, which begins at the left edge: (top, right, bottom)."""

BENDS = (0.2, -0.2, 0.4, -0.4, 0.6, -0.6, 0.0)
"""The possible bends of an arrow, in units of its length, in order of preference."""

HEAD = 8.0
"""The length of the sides of an arrow head."""


def arrow(
    start: Point, end: Point, others: Sequence[Point], gaps: tuple[float, float], colour: str, room: Room
) -> list[Shape]:
    """Draw an arrow from rim to rim, bent to avoid other nodes; nothing if the rims touch.

    Args:
        gaps: the radii of the rims around its start and its end.
    """
    if math.dist(start, end) < sum(gaps) + 6:
        return []
    pulls = [_pulled(start, end, bend) for bend in BENDS]
    pull = max(pulls, key=lambda point: _clear(_curve(start, point, end), others, room, gaps[0]))
    leave, tip = _towards(start, pull, gaps[0] + 1), _towards(end, pull, gaps[1] + 3)
    shaft = _towards(tip, pull, 6)
    return [Line((leave, pull, shaft), colour, 2.0, curve=True), _head(tip, shaft, colour)]


def _pulled(start: Point, end: Point, bend: float) -> Point:
    across = (start[1] - end[1], end[0] - start[0])
    return (start[0] + end[0]) / 2 + bend * across[0], (start[1] + end[1]) / 2 + bend * across[1]


def _curve(start: Point, pull: Point, end: Point) -> list[Point]:
    """Return points along a quadratic Bézier curve."""
    shares = [part / 8 for part in range(1, 8)]
    weights = [((1 - t) ** 2, 2 * t * (1 - t), t**2) for t in shares]
    return [(a * start[0] + b * pull[0] + c * end[0], a * start[1] + b * pull[1] + c * end[1]) for a, b, c in weights]


def _clear(curve: Sequence[Point], others: Sequence[Point], room: Room, enough: float) -> float:
    """Return the distance of a curve from the nearest of `others`, at most `enough`; below 0 outside the room."""
    top, right, bottom = room
    if any(not (2 < x < right - 2 and top < y < bottom) for x, y in curve):
        return -1.0
    return min([math.dist(point, other) for point in curve for other in others] + [enough])


def _towards(start: Point, end: Point, far: float) -> Point:
    length = math.dist(start, end) or 1.0
    return start[0] + (end[0] - start[0]) / length * far, start[1] + (end[1] - start[1]) / length * far


def _head(tip: Point, behind: Point, colour: str) -> Area:
    """Return an arrow head at `tip` that points away from `behind`."""
    along = math.atan2(tip[1] - behind[1], tip[0] - behind[0])
    angles = (along + math.pi - 0.42, along + math.pi + 0.42)
    return Area((tip, *((tip[0] + HEAD * math.cos(a), tip[1] + HEAD * math.sin(a)) for a in angles)), colour)
