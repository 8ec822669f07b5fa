"""A measure of how much a predictor depends on its marks: the spread of its scores over all marked copies of a graph.

A score is the individual loss of U, for standardised targets, when one of its m tuples takes every position and the
others stay at random ones. If V^k is large, a fixed number of random tuples is used instead of all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.config import AgentConfig
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.runtime import make_generator
from maggnn.model.state import State
from maggnn.model.tuples import all_tuples, sample_tuples
from maggnn.training.environment import Environment

MOST_TUPLES = 400


@torch.no_grad()
def score_spread(
    environment: Environment, packed: PackedGraphs, ids: Tensor, agent: AgentConfig
) -> tuple[float, float]:
    """Return the means over graphs `ids` of the scores' standard deviation and range (worst minus best)."""
    generator = make_generator(0, packed.device)
    spreads, ranges = [], []
    for graph in ids:
        scores = _scores(environment, packed, graph[None], agent, generator)
        spreads.append(scores.std(correction=0))
        ranges.append(scores.max() - scores.min())
    return float(torch.stack(spreads).mean()), float(torch.stack(ranges).mean())


def _scores(
    environment: Environment, packed: PackedGraphs, graph: Tensor, agent: AgentConfig, generator: torch.Generator
) -> Tensor:
    """Return the loss for each position of one tuple, [positions]."""
    batch, order = packed[graph], agent.tuple_order
    num_nodes = int(packed.num_nodes[graph])
    others = sample_tuples(batch, agent.num_tuples - 1, order, generator)
    if num_nodes**order <= MOST_TUPLES:
        places = all_tuples(num_nodes, order, packed.device)[None]
    else:
        places = sample_tuples(batch, MOST_TUPLES, order, generator)
    return environment.losses_at(State.start(batch, others, 0), places)
