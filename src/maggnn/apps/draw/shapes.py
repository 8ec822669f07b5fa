"""A drawing as a list of shapes, and two output formats: SVG text, and PNG by matplotlib.

Units are pixels of the SVG, x to the right and y downwards, from the upper left corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from maggnn.apps.draw import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float]

UNITS_AN_INCH = 75
"""A PNG has two of its pixels for each unit."""

POINTS = 72 / UNITS_AN_INCH
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Line:
    """A line through points; with `curve`, a quadratic Bézier curve, whose control point is the second of three."""

    points: tuple[Point, ...]
    colour: str
    width: float = 1.0
    dashed: bool = False
    curve: bool = False


@dataclass(frozen=True)
class Area:
    """A filled polygon."""

    points: tuple[Point, ...]
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Disc:
    """A circle, filled or not, with or without a rim."""

    centre: Point
    radius: float
    fill: str = "none"
    rim: str = "none"
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Words:
    """A line of text, centred on the height of `place`."""

    place: Point
    text: str
    size: float = 11.0
    colour: str = style.INK
    anchor: Literal["start", "middle", "end"] = "middle"
    bold: bool = False


Shape = Line | Area | Disc | Words

REGULAR, BOLD = 0.62, 0.72
"""The mean width of a character in font sizes: of DejaVu Sans, the widest of `FONT`, with some capital letters."""


def room_for(width: float, size: float, bold: bool = False) -> int:
    """Return the number of characters that fit into a width, whichever font of `FONT` the reader has."""
    return max(int(width / (size * (BOLD if bold else REGULAR))), 8)


def width_of(text: str, size: float) -> float:
    """Return an upper estimate of the width of a text."""
    return REGULAR * size * len(text)


@dataclass(frozen=True)
class Drawing:
    """Shapes on a canvas, the first at the bottom."""

    width: float
    height: float
    shapes: list[Shape]


def moved_by(shapes: Sequence[Shape], dx: float, dy: float) -> list[Shape]:
    """Return the same shapes, shifted."""

    def moved(point: Point) -> Point:
        return point[0] + dx, point[1] + dy

    result: list[Shape] = []
    for shape in shapes:
        values = dict(vars(shape))
        for name in ("centre", "place"):
            if name in values:
                values[name] = moved(values[name])
        if "points" in values:
            values["points"] = tuple(map(moved, values["points"]))
        result.append(type(shape)(**values))
    return result


def on_white(drawing: Drawing) -> Drawing:
    """Return the same drawing on a white background."""
    corners = ((0.0, 0.0), (drawing.width, 0.0), (drawing.width, drawing.height), (0.0, drawing.height))
    return Drawing(drawing.width, drawing.height, [Area(corners, "#ffffff"), *drawing.shapes])


# ---- SVG ------------------------------------------------------------------------------------------------


def to_svg(drawing: Drawing, label: str = "") -> str:
    """Return one self-contained <svg> element; `label` is for screen readers."""
    size = f'viewBox="0 0 {drawing.width:g} {drawing.height:g}" width="{drawing.width:g}" height="{drawing.height:g}"'
    body = "\n".join(_svg(shape) for shape in drawing.shapes)
    name = f' role="img" aria-label="{escape(label)}"' if label else ""
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}"{name}>\n{body}\n</svg>'


def _svg(shape: Shape) -> str:
    if isinstance(shape, Words):
        weight = ' font-weight="bold"' if shape.bold else ""
        return (
            f'<text x="{shape.place[0]:.1f}" y="{shape.place[1]:.1f}" font-size="{shape.size:g}" fill="{shape.colour}"'
            f' text-anchor="{shape.anchor}" dominant-baseline="central"{weight}>{escape(shape.text)}</text>'
        )
    if isinstance(shape, Area):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        opacity = f' opacity="{shape.opacity:g}"' if shape.opacity < 1 else ""
        return f'<polygon points="{points}" fill="{shape.colour}"{opacity}/>'
    dashes = ' stroke-dasharray="3 2.5"' if shape.dashed else ""
    if isinstance(shape, Disc):
        rim = "" if shape.rim == "none" else f' stroke="{shape.rim}" stroke-width="{shape.width:g}"{dashes}'
        x, y = shape.centre
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{shape.radius:.1f}" fill="{shape.fill}"{rim}/>'
    return f'<path d="{_path(shape)}" fill="none" stroke="{shape.colour}" stroke-width="{shape.width:g}"{dashes}/>'


def _path(line: Line) -> str:
    places = [f"{x:.1f} {y:.1f}" for x, y in line.points]
    return f"M{places[0]}Q{places[1]} {places[2]}" if line.curve else "M" + "L".join(places)


# ---- PNG ------------------------------------------------------------------------------------------------


def save_png(drawing: Drawing, path: Path) -> None:
    """Write the drawing as a PNG by matplotlib, as all PNGs of this package."""
    from matplotlib.figure import Figure

    size = (drawing.width / UNITS_AN_INCH, drawing.height / UNITS_AN_INCH)
    figure = Figure(figsize=size, dpi=style.DPI, facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.set_axis_off()
    for layer, shape in enumerate(drawing.shapes):
        _draw(axes, shape, layer)
    style.save(figure, path)


def _draw(axes: Axes, shape: Shape, layer: int) -> None:
    from matplotlib.patches import Circle, PathPatch, Polygon
    from matplotlib.path import Path as Curve

    if isinstance(shape, Words):
        sides = {"start": "left", "middle": "center", "end": "right"}
        weight = "bold" if shape.bold else "normal"
        axes.text(*shape.place, shape.text, fontsize=0.92 * shape.size * POINTS, color=shape.colour, weight=weight,
                  ha=sides[shape.anchor], va="center_baseline" if len(shape.text) <= 2 else "center",
                  parse_math=False, zorder=layer)  # fmt: skip
        return
    if isinstance(shape, Area):
        patch = Polygon(shape.points, closed=True, facecolor=shape.colour, alpha=shape.opacity, linewidth=0)
    elif isinstance(shape, Disc):
        dashes = (0, (2.2, 1.6)) if shape.dashed else "solid"
        width = 0.0 if shape.rim == "none" else shape.width * POINTS
        patch = Circle(shape.centre, shape.radius, facecolor=shape.fill, edgecolor=shape.rim, linewidth=width,
                       linestyle=dashes)  # fmt: skip
    else:
        bent = [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3] if shape.curve else None
        patch = PathPatch(Curve(shape.points, bent), facecolor="none", edgecolor=shape.colour,
                          linewidth=shape.width * POINTS, linestyle=(0, (3, 2.5)) if shape.dashed else "solid",
                          capstyle="round")  # fmt: skip
    patch.set_zorder(layer)
    axes.add_patch(patch)
