"""Pictures of searches: a panel for each state, with the shades, marks and arrows of `marked`.

A `Layout` for a family of graphs places the nodes of a panel; units are those of `shapes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch

from maggnn.apps.draw import marked, style
from maggnn.apps.draw.layouts import Edge, Layout, LayoutFunction, components_apart, layout_of, undirected_edges
from maggnn.apps.draw.shapes import Drawing, Line, Point, Shape, Words, moved_by, on_white, save_png
from maggnn.apps.explain.trace import Step, Trace, node_gains, trace
from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.model.mag_gnn import MagGNN

WIDTH, WIDEST_PANEL, NARROWEST_PANEL = 600.0, 290.0, 120.0
MARGIN, HEAD, LINE_HEIGHT = 12.0, 16.0, 16.0
"""The margin around a panel's graph (for rings and numbers), and the heights of its heading and of a line below it."""

GREENS = {style.LIGHT_GREEN: ("to common neighbours", 2.4), style.EDGE_GREEN: ("between them", 2.8)}
"""The labels and widths of green edges; the strong ones are on top."""

Row = tuple[str, GraphBatch, Trace]
"""A name, a batch of one graph with its class, and a search on it."""


def draw_walks_of(
    model: MagGNN, config: Config, dataset: Dataset, path: Path, graph_ids: Sequence[int], seed: int
) -> None:
    """Draw the searches of a trained model on graphs of its data set, a row of panels for each."""
    if model.task != "classification" or model.q_network is None:
        raise InputError("the picture of a search needs a classifier of graphs whose agent moves marks")
    rows = []
    for number in graph_ids:
        walk = trace(model, dataset.graphs, number, config.agent.num_moves, seed=seed)
        label = int(dataset.y[number])
        name = dataset.class_names[label] if dataset.class_names else f"{dataset.name} {number}"
        rows.append((name, dataset.graphs[torch.tensor([number])], walk))
    draw_trajectories(rows, path, layout_of(dataset.name))


def draw_trajectories(
    rows: Sequence[Row],
    path: Path,
    layout: LayoutFunction = components_apart,
    shown: Sequence[int] | None = None,
) -> None:
    """Draw searches in rows, as in the paper's figure of the Shrikhande and the rook's graph.

    A panel shows a state, the score p(y) it earns, the gain that the agent expects at each node (the darker, the
    higher the Q-value of the best move into it) and where the marks came from. In the last panel edges to common
    neighbours of the marked nodes are green, those between such neighbours strong green.

    Args:
        shown: the states to show, `[0, t]` for the first and the last; by default all.
    """
    save_png(trajectories(rows, layout, shown), path)


def trajectories(
    rows: Sequence[Row], layout: LayoutFunction = components_apart, shown: Sequence[int] | None = None
) -> Drawing:
    """Return the picture that `draw_trajectories` writes."""
    if not rows:
        raise InputError("no trajectory to draw")
    longest = max(len(walk.steps) for _, _, walk in rows)
    steps = list(range(longest)) if shown is None else list(shown)
    strips = [_strip(row, steps, layout) for row in rows]
    width = max(WIDTH, NARROWEST_PANEL * len(steps) + 2 * MARGIN)
    size = min((width - 2 * MARGIN) / len(steps), WIDEST_PANEL)
    q_range = _q_range([walk for _, _, walk in rows])
    shapes: list[Shape] = []
    top = 8.0
    for strip in strips:
        if strip.name:
            shapes.append(Words((14, top + 6), strip.name, 13, anchor="start", bold=True))
            top += LINE_HEIGHT
        panels = [_state(strip, place, q_range, size) for place in range(len(strip.steps))]
        for place, drawing in enumerate(panels):
            shapes += moved_by(drawing.shapes, (width - size * len(steps)) / 2 + place * size, top)
        top += max(drawing.height for drawing in panels) + MARGIN
    key = _legend(strips, q_range)
    shapes += moved_by(key.shapes, 0, top)
    return on_white(Drawing(max(width, key.width), top + key.height, shapes))


@dataclass(frozen=True)
class Strip:
    """A row of panels.

    Attributes:
        steps: the state of the search in each panel.
        numbers: the number of moves before each of these states.
        label: the class of the graph.
        green: the edges that are green in the last panel.
    """

    name: str
    steps: list[Step]
    numbers: list[int]
    label: int
    layout: Layout
    green: dict[Edge, str]


def _strip(row: Row, steps: Sequence[int], layout: LayoutFunction) -> Strip:
    name, graph, walk = row
    here = [step for step in steps if step < len(walk.steps)]
    if not here or graph.y is None:
        raise InputError(f"states {list(steps)} are not in a search of {len(walk.steps)} states with a known class")
    shown = [walk.steps[step] for step in here]
    green, placed = laid_out(graph, shown[-1].tuples, layout)
    return Strip(name, shown, here, int(graph.y[0]), placed, green)


def _state(strip: Strip, place: int, q_range: marked.Range, size: float) -> Drawing:
    """Draw one panel: the state's name, the graph with its marks, and p(y)."""
    step, last = strip.steps[place], place == len(strip.steps) - 1
    panel = Panel.of(strip.layout, size, strip.layout.reach)
    before = strip.steps[place - 1].tuples if place else None
    room = (HEAD, size, panel.bottom)
    shapes: list[Shape] = [Words((size / 2, HEAD / 2), marked.step_name(strip.numbers[place]), 12, style.SOFT_INK)]
    shapes += panel.edges(strip.green if last else {})
    shapes += marked.nodes(panel.points, panel.radius, node_gains(step), q_range)
    shapes += marked.came_from(before, step.tuples, panel.points, panel.radius, room)
    shapes += marked.marks(step.tuples, panel.points, panel.radius)
    score = f"p(y) = {step.answer[strip.label]:.3f}"
    shapes.append(Words((size / 2, panel.bottom + LINE_HEIGHT / 2), score, 12, bold=True))
    return Drawing(size, panel.bottom + LINE_HEIGHT, shapes)


@dataclass(frozen=True)
class Panel:
    """A layout on a panel, below its heading.

    Attributes:
        scale: the number of drawing units for one unit of the layout.
        centre: the position of the layout's centre.
    """

    layout: Layout
    scale: float
    centre: Point

    @classmethod
    def of(cls, layout: Layout, size: float, reach: np.ndarray) -> Panel:
        """Make a panel of width `size` that shows the layout up to `reach` [2]; equal reaches have equal scales."""
        scale = (size / 2 - MARGIN) / float(reach[0])
        return cls(layout, scale, (size / 2, HEAD + MARGIN + float(reach[1]) * scale))

    @property
    def bottom(self) -> float:
        """The lower limit of the graph."""
        return 2 * self.centre[1] - HEAD

    @property
    def radius(self) -> float:
        """The radius of a node."""
        return self.layout.node_radius * self.scale

    @property
    def points(self) -> list[Point]:
        """The positions of the nodes."""
        return [self._at(place) for place in self.layout.positions]

    def edges(self, highlighted: dict[Edge, str]) -> list[Shape]:
        """Draw bands, plain edges, then those that are `highlighted` in a colour of `GREENS`."""
        shapes: list[Shape] = [self._line(band, style.GRID, 7.3) for band in self.layout.bands]
        for edge, lines in self.layout.lines.items():
            shapes += [self._line(line, style.PALE, 0.95) for line in lines if edge not in highlighted]
        for colour, (_, width) in GREENS.items():
            green = [edge for edge, wanted in highlighted.items() if wanted == colour]
            shapes += [self._line(line, colour, width) for edge in green for line in self.layout.in_one_piece(edge)]
        return shapes

    def _line(self, places: np.ndarray, colour: str, width: float) -> Line:
        return Line(tuple(self._at(place) for place in places), colour, width)

    def _at(self, place: np.ndarray) -> Point:
        return self.centre[0] + float(place[0]) * self.scale, self.centre[1] - float(place[1]) * self.scale


def laid_out(graph: GraphBatch, tuples: marked.Tuples, layout: LayoutFunction) -> tuple[dict[Edge, str], Layout]:
    """Return the green edges of a marked graph, and a layout that keeps them close together if it has a choice."""
    green = green_edges(graph, tuples)
    focus = {node for edge in green for node in edge} | {node for row in tuples for node in row}
    return green, layout(graph, sorted(focus))


def green_edges(graph: GraphBatch, tuples: marked.Tuples) -> dict[Edge, str]:
    """Return edges from the marked nodes of a tuple to their common neighbours (light) and among these (strong)."""
    edges = undirected_edges(graph)
    neighbours: dict[int, set[int]] = {}
    for u, v in edges:
        neighbours.setdefault(u, set()).add(v)
        neighbours.setdefault(v, set()).add(u)
    colours: dict[Edge, str] = {}
    for row in tuples:
        for first, second in combinations(sorted(set(row)), 2):
            common = neighbours.get(first, set()) & neighbours.get(second, set())
            for edge in edges:
                inside = len(common & set(edge))
                if inside == 2:
                    colours[edge] = style.EDGE_GREEN
                elif inside == 1 and {first, second} & set(edge):
                    colours.setdefault(edge, style.LIGHT_GREEN)
    return colours


def _q_range(walks: Sequence[Trace]) -> marked.Range:
    gains = [gain for walk in walks for step in walk.steps for gain in node_gains(step)]
    return min(gains), max(gains)


def _legend(strips: Sequence[Strip], q_range: marked.Range) -> Drawing:
    """Draw the legend of shades, marks and lines; green edges only if there are any."""
    key = marked.legend(q_range, len(strips[0].steps[0].tuples))
    shapes, height = list(key.shapes), key.height
    colours = {colour for strip in strips for colour in strip.green.values()}
    greens = green_key(colours)
    if greens:
        shapes += moved_by(greens, 14, height + 6)
        height += 24
    if strips[0].layout.note:
        shapes.append(Words((14, height + 4), strips[0].layout.note, 11, style.SOFT_INK, "start"))
        height += 20
    return Drawing(key.width, height, shapes)


def green_key(colours: set[str]) -> list[Shape]:
    """Draw the legend of green edges of these colours."""
    shapes: list[Shape] = []
    x = 0.0
    for colour, (text, width) in GREENS.items():
        if colour in colours:
            shapes += [Line(((x, 0), (x + 24, 0)), colour, width), Words((x + 32, 0), text, 11, anchor="start")]
            x += 50 + 5.9 * len(text)
    return shapes
