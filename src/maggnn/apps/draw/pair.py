"""A picture of two graphs side by side, each with the marks that tell it from the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from maggnn.apps.draw import style
from maggnn.apps.draw.drawing import _draw_edges, _draw_marks, _draw_nodes, _green_edges
from maggnn.apps.draw.layouts import Edge, Layout, LayoutFunction, components_apart
from maggnn.graphs.packed import PackedGraphs

PANEL = style.WIDTH / 2
"""Inches a graph."""


@dataclass(frozen=True)
class MarkedGraph:
    """One graph of the picture, the nodes its marks are on (none, if it has no marks), and what is said of it."""

    graph: PackedGraphs
    marks: tuple[int, ...]
    title: str
    note: str


def draw_pair(first: MarkedGraph, second: MarkedGraph, path: Path, layout: LayoutFunction = components_apart) -> None:
    """Both graphs with their marks; edges to common neighbours of the marks and between these are green."""
    sides = [_placed(side, layout) for side in (first, second)]
    x, y = np.max([placed.reach for _, placed, _ in sides], axis=0)  # one scale, so that the two can be compared
    figure = style.new_figure(height=PANEL * float(y / x) + 0.8)
    for axes, (side, placed, green) in zip(figure.subplots(1, 2), sides, strict=True):
        _draw_edges(axes, placed, green)
        _draw_nodes(axes, placed, np.zeros(len(placed.positions)), (0.0, 0.0))
        _draw_marks(axes, placed, _tuples(side), 72 * PANEL)
        axes.set_title(side.title, fontsize=11, color=style.INK, weight="bold")
        axes.set_xlabel(side.note, fontsize=9, color=style.SOFT_INK)
        axes.set_aspect("equal")
        axes.set(xlim=(-x, x), ylim=(-y, y), xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    style.save(figure, path)


def _placed(side: MarkedGraph, layout: LayoutFunction) -> tuple[MarkedGraph, Layout, dict[Edge, str]]:
    """Where the graph lies, with what is green in it close together where the layout has a choice."""
    graph = side.graph[torch.tensor([0])]
    green = _green_edges(graph, _tuples(side))
    return side, layout(graph, sorted({node for edge in green for node in edge} | set(side.marks))), green


def _tuples(side: MarkedGraph) -> Tensor:
    return torch.tensor([side.marks], dtype=torch.long)  # [1, k]
