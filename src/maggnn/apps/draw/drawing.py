"""Pictures of searches: a panel for each state, marks in colour, moves as red arrows, Q-values as shades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from maggnn.apps.draw import style
from maggnn.apps.draw.layouts import (
    Edge,
    Layout,
    LayoutFunction,
    components_apart,
    undirected_edges,
)
from maggnn.apps.draw.walk import Trajectory, node_values, shifts
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREEN_LABELS = {style.LIGHT_GREEN: "to common neighbours", style.EDGE_GREEN: "between them"}

Row = tuple[str, GraphBatch, Trajectory]
"""A name, a batch of one graph, a search on it."""


def draw_trajectory(
    graph: GraphBatch,
    trajectory: Trajectory,
    path: Path,
    layout: LayoutFunction = components_apart,
    shown: Sequence[int] | None = None,
) -> None:
    """One search in a row of panels, such as the paper's figure of markings on a graph of EXP."""
    draw_trajectories([("", graph, trajectory)], path, layout, shown)


def draw_trajectories(
    rows: Sequence[Row],
    path: Path,
    layout: LayoutFunction = components_apart,
    shown: Sequence[int] | None = None,
) -> None:
    """Searches below one another, as in the paper's figure of the Shrikhande and the rook's graph.

    A panel shows a state, the score p(y) it earns, how promising the agent finds each node (the darker, the
    higher the Q-value of the best move into it) and, in red, where the marks go next. In the last panel edges
    to common neighbours of the marked nodes are green, those between such neighbours strong green.

    Args:
        shown: numbers of the states to show, `[0, t]` for the first and the last; all unless told.
    """
    if not rows:
        raise InputError("no trajectory to draw")
    longest = max(len(row.tuples) for _, _, row in rows)
    steps = list(range(longest)) if shown is None else list(shown)
    strips = [_strip(row, steps, layout) for row in rows]
    width = max(style.WIDTH, 1.6 * len(steps))
    panel = min(width / len(steps), 4.0)
    heights = [panel * strip.aspect + 0.4 for strip in strips]
    figure = style.new_figure(height=sum(heights) + 0.6, width=width)
    grid = figure.subplots(len(rows), len(steps), squeeze=False, height_ratios=heights)
    shades = _shades([row[2] for row in rows])
    for axes_row, strip in zip(grid, strips, strict=True):
        for axes, step, following in zip(axes_row, strip.steps, [*strip.steps[1:], None], strict=False):
            _draw_state(axes, strip, step, following, shades, 72 * panel)
        _prepare(axes_row, strip)
    greens = {colour for strip in strips for colour in strip.green.values()}
    _legend(figure, rows[0][2].tuples[0], greens, strips[0].layout.note)
    style.save(figure, path)


@dataclass(frozen=True)
class Strip:
    """A row of panels: what is shown, where it lies, and the edges that are green in the last panel."""

    name: str
    trajectory: Trajectory
    steps: list[int]
    layout: Layout
    green: dict[Edge, str]

    @property
    def aspect(self) -> float:
        """Height of a panel in widths."""
        x, y = self.layout.reach
        return float(y / x)


def _strip(row: Row, steps: Sequence[int], layout: LayoutFunction) -> Strip:
    name, graph, trajectory = row
    here = [step for step in steps if step < len(trajectory.tuples)]
    if not here:
        raise InputError(f"states {list(steps)} are not in a trajectory of {len(trajectory.tuples)} states")
    last = trajectory.tuples[here[-1]]
    green = _green_edges(graph, last)
    focus = {node for edge in green for node in edge} | set(last.flatten().tolist())
    return Strip(name, trajectory, here, layout(graph, sorted(focus)), green)


def _draw_state(
    axes: Axes,
    strip: Strip,
    step: int,
    following: int | None,
    shades: tuple[float, float],
    panel_points: float,
) -> None:
    trajectory, layout = strip.trajectory, strip.layout
    tuples = trajectory.tuples[step]
    _draw_edges(axes, layout, strip.green if following is None else {})
    _draw_nodes(axes, layout, node_values(trajectory.q_tables[step]).numpy(), shades)
    _draw_marks(axes, layout, tuples, panel_points)
    if following is not None:
        _draw_moves(axes, layout, tuples, trajectory.tuples[following])
    state = "start" if step == 0 else f"after {step} move{'s' if step > 1 else ''}"
    axes.set_title(state, fontsize=10, color=style.INK, pad=16)
    score = f"p(y) = {trajectory.probabilities[step]:.3f}"
    axes.annotate(score, (0.5, 1.0), (0, 2), xycoords="axes fraction", textcoords="offset points",
                  ha="center", va="bottom", fontsize=9, color=style.SOFT_INK)  # fmt: skip


def _draw_edges(axes: Axes, layout: Layout, highlighted: dict[Edge, str]) -> None:
    from matplotlib.collections import LineCollection

    for band in layout.bands:
        axes.plot(*band.T, color=style.GRID, linewidth=7, solid_capstyle="round", zorder=0)
    plain = [line for edge, lines in layout.lines.items() if edge not in highlighted for line in lines]
    axes.add_collection(LineCollection(plain, colors=style.PALE, linewidths=0.9, zorder=1))
    for strong in (False, True):
        colour = style.EDGE_GREEN if strong else style.LIGHT_GREEN
        edges = [edge for edge, wanted in highlighted.items() if wanted == colour]
        lines = [line for edge in edges for line in layout.in_one_piece(edge)]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=2.6 if strong else 2.2, zorder=2))


def _draw_nodes(axes: Axes, layout: Layout, values: np.ndarray, shades: tuple[float, float]) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle

    low, high = shades
    depth = (values - low) / (high - low) if high > low else np.zeros_like(values)
    circles = [Circle((x, y), layout.node_radius) for x, y in layout.positions]
    colours = _shade_map()(depth)
    axes.add_collection(
        PatchCollection(circles, facecolors=colours, edgecolors=style.GREYS[1], linewidths=0.7, zorder=3)
    )


def _draw_marks(axes: Axes, layout: Layout, tuples: Tensor, panel_points: float) -> None:
    """Marked nodes coloured by slot and numbered; a node with several marks is cut like a cake."""
    from matplotlib.patches import Wedge

    points = layout.mark_radius * panel_points / (2 * layout.reach[0])
    for node, marks in _marks_of_nodes(tuples).items():
        x, y = layout.positions[node]
        for piece, (number, _) in enumerate(marks):
            angles = 90 + 360 * np.array([piece, piece + 1]) / len(marks)
            colour = style.COLOURS[number % len(style.COLOURS)]
            axes.add_patch(Wedge((x, y), layout.mark_radius, *angles, facecolor=colour, linewidth=0, zorder=5))
        text = " ".join(label for _, label in marks)
        size = min(1.15 * points, 11) * (1.0 if len(text) == 1 else 0.8)
        axes.text(x, y, text, ha="center", va="center_baseline", color="white", weight="bold",
                  fontsize=size, zorder=6)  # fmt: skip


def _marks_of_nodes(tuples: Tensor) -> dict[int, list[tuple[int, str]]]:
    """The marks of each marked node: running number (the colour) and label, "2" or, in tuple b, "b2"."""
    num_tuples, order = tuples.shape
    marks: dict[int, list[tuple[int, str]]] = {}
    for number, node in enumerate(tuples.flatten().tolist()):
        letter = chr(ord("a") + number // order) if num_tuples > 1 else ""
        marks.setdefault(node, []).append((number, f"{letter}{number % order + 1}"))
    return marks


def _draw_moves(axes: Axes, layout: Layout, before: Tensor, after: Tensor) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    marked = set(before.flatten().tolist())
    look = {"arrowstyle": "-|>", "mutation_scale": 11, "color": style.MOVE_RED, "linewidth": 1.9}
    for shift in shifts(before, after):
        others = layout.positions[sorted(marked - {shift.old, shift.new})]
        points = _arrow(layout, layout.positions[shift.old], layout.positions[shift.new], others)
        curve = Path(points, [Path.MOVETO, Path.CURVE3, Path.CURVE3])
        axes.add_patch(FancyArrowPatch(path=curve, zorder=7, **look))


def _arrow(layout: Layout, start: np.ndarray, end: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Control points [3, 2] of an arrow from rim to rim, bent so that it keeps clear of `others` [n, 2]."""
    across = np.array([(start - end)[1], (end - start)[0]])
    t = np.linspace(0, 1, 9)[:, None]
    choices = []
    for bend in (0.16, -0.16, 0.35, -0.35, 0.6, -0.6):
        control = (start + end) / 2 + bend * across
        curve = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end  # [9, 2]
        apart = np.linalg.norm(curve[:, None] - others[None], axis=-1).min(initial=np.inf)
        inside = bool((np.abs(curve) <= layout.reach).all())
        choices.append((inside and apart > 1.4 * layout.mark_radius, control))
    control = next((control for clear, control in choices if clear), choices[0][1])
    leave = start + 1.05 * layout.mark_radius * _unit(control - start)
    arrive = end - 1.15 * layout.node_radius * _unit(end - control)
    return np.stack([leave, control, arrive])


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def _green_edges(graph: GraphBatch, tuples: Tensor) -> dict[Edge, str]:
    """Edges from the marked nodes of a tuple to their common neighbours (light) and among these (strong)."""
    edges = undirected_edges(graph)
    neighbours: dict[int, set[int]] = {}
    for u, v in edges:
        neighbours.setdefault(u, set()).add(v)
        neighbours.setdefault(v, set()).add(u)
    colours: dict[Edge, str] = {}
    for row in tuples.tolist():
        for first, second in combinations(sorted(set(row)), 2):
            common = neighbours.get(first, set()) & neighbours.get(second, set())
            for edge in edges:
                inside = len(common & set(edge))
                if inside == 2:
                    colours[edge] = style.EDGE_GREEN
                elif inside == 1 and {first, second} & set(edge):
                    colours.setdefault(edge, style.LIGHT_GREEN)
    return colours


def _shades(trajectories: Sequence[Trajectory]) -> tuple[float, float]:
    """Least and greatest node value of the whole picture, so that shades of all panels can be compared."""
    tables = [node_values(table) for trajectory in trajectories for table in trajectory.q_tables]
    return min(float(table.min()) for table in tables), max(float(table.max()) for table in tables)


def _shade_map() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("q_values", ["#ffffff", "#dee2e6", "#6c757d"])


def _prepare(axes_row: Sequence[Axes], strip: Strip) -> None:
    x, y = strip.layout.reach
    for axes in axes_row:
        axes.set_aspect("equal")
        axes.set(xlim=(-x, x), ylim=(-y, y), xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    axes_row[0].set_ylabel(strip.name, fontsize=11, color=style.INK, weight="bold")


def _legend(figure: Figure, tuples: Tensor, greens: set[str], note: str) -> None:
    """What the colours mean; green edges only if there are any."""
    from matplotlib.lines import Line2D

    handles, labels = [], []
    for marks in _marks_of_nodes(tuples.new_tensor(range(tuples.numel())).view(tuples.shape)).values():
        number, label = marks[0]
        colour = style.COLOURS[number % len(style.COLOURS)]
        handles.append(Line2D([], [], marker="o", linestyle="", markersize=8, color=colour))
        labels.append(f"mark {label}")
    dark = _shade_map()(1.0)
    handles += [
        Line2D([], [], marker="o", linestyle="", markersize=7, color=dark),
        Line2D([], [], color=style.MOVE_RED, linewidth=2, marker=">", markersize=5, markevery=[1]),
    ]
    labels += ["high Q-value", "next move"]
    for colour, label in GREEN_LABELS.items():
        if colour in greens:
            handles.append(Line2D([], [], color=colour, linewidth=2.6))
            labels.append(label)
    columns = len(handles) if len(handles) <= 6 else (len(handles) + 1) // 2
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8.5,
        labelcolor=style.INK, handletextpad=0.5, columnspacing=1.3, title=note, title_fontsize=8.5,
    )  # fmt: skip
    legend.get_title().set_color(style.SOFT_INK)
