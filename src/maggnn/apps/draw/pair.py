"""A picture of two graphs next to each other, with the marks that distinguish them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from maggnn.apps.draw import marked, style
from maggnn.apps.draw.drawing import HEAD, LINE_HEIGHT, WIDTH, Panel, green_key, laid_out
from maggnn.apps.draw.layouts import LayoutFunction, components_apart
from maggnn.apps.draw.shapes import Drawing, Shape, Words, moved_by, on_white, save_png
from maggnn.graphs.packed import PackedGraphs


@dataclass(frozen=True)
class MarkedGraph:
    """One graph of the picture, its marked nodes (possibly none), and its title and note."""

    graph: PackedGraphs
    marks: tuple[int, ...]
    title: str
    note: str


def draw_pair(first: MarkedGraph, second: MarkedGraph, path: Path, layout: LayoutFunction = components_apart) -> None:
    """Draw both graphs with their marks; edges to common neighbours of the marks and between these are green."""
    save_png(pair(first, second, layout), path)


def pair(first: MarkedGraph, second: MarkedGraph, layout: LayoutFunction = components_apart) -> Drawing:
    """Return the picture that `draw_pair` writes."""
    sides, size = (first, second), WIDTH / 2
    greens, layouts = zip(
        *(laid_out(side.graph[torch.tensor([0])], [side.marks], layout) for side in sides), strict=True
    )
    reach = np.max([placed.reach for placed in layouts], axis=0)  # the same scale, so that the two can be compared
    shapes: list[Shape] = []
    for place, side in enumerate(sides):
        panel = Panel.of(layouts[place], size, reach)
        drawn = [Words((size / 2, HEAD / 2), side.title, 14, bold=True), *panel.edges(greens[place])]
        drawn += marked.nodes(panel.points, panel.radius, [0.0] * len(panel.points), (0.0, 0.0))
        drawn += marked.marks([side.marks], panel.points, panel.radius)
        drawn.append(Words((size / 2, panel.bottom + LINE_HEIGHT / 2), side.note, 11, style.SOFT_INK))
        shapes += moved_by(drawn, place * size, 6)
    bottom = 6 + Panel.of(layouts[0], size, reach).bottom + 2 * LINE_HEIGHT
    key = green_key({colour for green in greens for colour in green.values()})
    shapes += moved_by(key, 14, bottom)
    return on_white(Drawing(WIDTH, bottom + (LINE_HEIGHT if key else 0), shapes))
