"""The paper's figure "Sorted scores": how well each single marked graph identifies its graph.

A graph has |V|^k marked graphs. If many of them alone earn a score near one, a search for a few of them can
replace their enumeration: this is the observation that MAG-GNN rests on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from maggnn.apps.draw.style import COLOURS, INK, PALE, SOFT_INK, new_figure, save, tidy
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.tuples import all_tuples
from maggnn.training.environment import MARKED_NODES_A_CHUNK, individual_loss

NEAR_ONE = 0.99
"""The score from which on a marked graph is called discriminative."""


@torch.no_grad()
def sorted_scores(model: MagGNN, packed: PackedGraphs, graph_ids: Tensor) -> list[Tensor]:
    """The score p(y) of every marked graph of each graph by itself (m = 1), best first.

    Shapes:
        graph_ids: [B] on the CPU; returns B tensors [|V|^k] on the CPU.
    """
    if model.task != "classification" or model.predictor.level != "graph":
        raise InputError("sorted scores need a classifier of whole graphs: p(y) is the score")
    model.eval()
    scores = [marked_scores(model, packed[graph[None]]) for graph in graph_ids]
    return [values.sort(descending=True).values.cpu() for values in scores]


@torch.no_grad()
def marked_scores(model: MagGNN, graph: GraphBatch) -> Tensor:
    """p(y) of all marked graphs of one graph in lexicographic order, [|V|^k]."""
    assert graph.y is not None, "a score needs the true class"
    y, parts = graph.y, []
    tuples = all_tuples(graph.total_nodes, model.agent.tuple_order, graph.device)  # [|V|^k, k]
    for chunk in tuples.split(max(1, MARKED_NODES_A_CHUNK[graph.device.type] // graph.total_nodes)):
        embeddings = model.predictor.embed(graph, chunk[None])  # [1, chunk, d]
        outputs = model.predictor.read(embeddings[:, :, None], graph)  # [1, chunk, classes]
        parts.append(1 - individual_loss(outputs, y, "classification", "error")[0])
    return torch.cat(parts)


def plot_sorted_scores(
    scores: Sequence[Tensor],
    path: Path,
    names: Sequence[str] | None = None,
    highlight: Sequence[int] = (0, -1),
    title: str = "Score of each marked graph by itself",
) -> None:
    """One line for each graph; those of `highlight` (by default the first and the last) are emphasised."""
    names = [f"C{number + 1}" for number in range(len(scores))] if names is None else names
    shown = list(dict.fromkeys(position % len(scores) for position in highlight))
    figure = new_figure(height=4.6)
    axes = figure.add_subplot()
    for position, values in enumerate(scores):
        if position not in shown:
            axes.plot(values.numpy(), color=PALE, linewidth=1.2, label=_others_label(position, shown))
    for colour, position in zip(COLOURS, shown, strict=False):
        sure = int((scores[position] >= NEAR_ONE).sum())
        label = f"{names[position]}: {sure} of {len(scores[position])} at {NEAR_ONE} or more"
        axes.plot(scores[position].numpy(), color=colour, linewidth=2.4, label=label)
    axes.axhline(NEAR_ONE, color=SOFT_INK, linewidth=1.0, linestyle=(0, (5, 4)))
    axes.annotate(f"{NEAR_ONE}", (1.0, NEAR_ONE), (4, 0), xycoords=("axes fraction", "data"), color=SOFT_INK,
                  textcoords="offset points", va="center", fontsize=9, annotation_clip=False)  # fmt: skip
    axes.set_ylim(-0.02, 1.04)
    axes.set_xlim(0, max(len(values) for values in scores) - 1 or 1)
    tidy(axes, "marked graph, sorted by its score", "score p(y)", title)
    axes.legend(frameon=False, fontsize=10, labelcolor=INK, loc="lower left")
    save(figure, path)


def _others_label(position: int, shown: Sequence[int]) -> str | None:
    """The grey lines share one entry of the legend: the first of them carries it."""
    first = next(number for number in range(len(shown) + 1) if number not in shown)
    return "other graphs" if position == first else None
