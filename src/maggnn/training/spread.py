"""How much the marks matter to a predictor: the spread of its scores over all marked copies of a graph.

A score is the individual loss of U = {v}, in the units that the networks learn. Where V^k is large, a fixed number of
random tuples stands for all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.environment import Environment
from maggnn.graphs import PackedGraphs
from maggnn.runtime import make_generator
from maggnn.state import State
from maggnn.tuples import all_tuples, sample_tuples

MOST_TUPLES = 400


@torch.no_grad()
def score_spread(environment: Environment, packed: PackedGraphs, ids: Tensor, tuple_order: int) -> tuple[float, float]:
    """Means over graphs `ids` of the scores' standard deviation and of their range (worst minus best)."""
    generator = make_generator(0, packed.device)
    spreads, ranges = [], []
    for graph in ids:
        scores = _scores(environment, packed, graph[None], tuple_order, generator)
        spreads.append(scores.std(correction=0))
        ranges.append(scores.max() - scores.min())
    return float(torch.stack(spreads).mean()), float(torch.stack(ranges).mean())


def _scores(
    environment: Environment, packed: PackedGraphs, graph: Tensor, tuple_order: int, generator: torch.Generator
) -> Tensor:
    """The loss of each tuple alone, [tuples]."""
    batch = packed[graph]
    num_nodes = int(packed.num_nodes[graph])
    if num_nodes**tuple_order <= MOST_TUPLES:
        tuples = all_tuples(num_nodes, tuple_order, packed.device)[None]
    else:
        tuples = sample_tuples(batch, MOST_TUPLES, tuple_order, generator)
    return environment.losses_alone(State.start(batch, tuples, 0))
