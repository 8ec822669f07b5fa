"""One search on one graph: the marks, the probabilities of the true class, and the Q-tables of all states."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.model.mag_gnn import MagGNN
from maggnn.training.environment import individual_loss


@dataclass(frozen=True)
class Trajectory:
    """The t + 1 states of a search on one graph of n nodes.

    Attributes:
        tuples: the marks in each state, [m, k] each.
        probabilities: p(y), the predicted probability of the true class, in each state.
        q_tables: the Q-table of each state, [n, m, k] each; the last one's move was not made.
    """

    tuples: list[Tensor]
    probabilities: list[float]
    q_tables: list[Tensor]


@torch.no_grad()
def trajectory(
    model: MagGNN,
    graphs: GraphBatch,
    tuples: Tensor | None,
    num_moves: int,
    generator: torch.Generator | None = None,
) -> Trajectory:
    """Follow the agent on a batch of one graph from `tuples` [1, m, k]; by default from random ones."""
    if graphs.num_graphs != 1:
        raise InputError(f"a trajectory needs one graph, not {graphs.num_graphs}")
    if model.task != "classification" or model.predictor.level != "graph" or graphs.y is None:
        raise InputError("a trajectory needs a classifier of whole graphs and the graph's true class")
    model.eval()
    y = graphs.y
    states = model.walk(graphs, tuples, num_moves, generator=generator)
    outputs = torch.cat([model.predictor(graphs, state.tuples) for state in states])  # [t + 1, classes]
    probability = 1 - individual_loss(outputs, y.expand(len(states)), "classification", "error")
    return Trajectory(
        tuples=[state.tuples[0].cpu() for state in states],
        probabilities=probability.tolist(),
        q_tables=[model.scores(state)[0].cpu() for state in states],
    )


def node_values(q_table: Tensor) -> Tensor:
    """Return the Q-value of the best move to each node, over slots and tuples: [n, m, k] -> [n]."""
    return q_table.flatten(1).amax(dim=1)
