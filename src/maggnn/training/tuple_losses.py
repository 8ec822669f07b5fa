"""The predictor's loss with every tuple of a graph, computed once for training loops of one's own.

In the second phase of ORD the predictor is fixed, so the loss with a tuple never changes. A graph has |V|^k tuples; if
they are few, their losses cost less than the rewards of the moves of one training, and every later reward is a look-up
(`environment` does the same in `maggnn.train`). The losses are an attribute of PyG's `Data`, so that any loader takes
them along.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.normalise import in_evaluation
from maggnn.model.tuples import all_tuples
from maggnn.training.environment import (
    MARKED_NODES_A_CHUNK,
    MAX_TABLE_ROWS,
    individual_loss,
    table_fingerprints,
)
from maggnn.training.losses import check_reward, learnable

if TYPE_CHECKING:
    from torch_geometric.data import Data


@torch.no_grad()
def with_tuple_losses(model: MagGNN, graphs: Sequence[Data], reward: str = "error") -> list[Data]:
    """Return copies of graphs with the predictor's loss for every tuple, from which `agent_loss` reads its rewards.

    Use it when the predictor is trained: the losses are those of its present weights, and `agent_loss` refuses them
    after a change. It is for models of graph-level targets with one tuple. Give all graphs of a batch losses, or none.

    Args:
        model: the model, whose predictor is trained.
        graphs: PyG graphs with targets `y`.
        reward: what a good move lowers, `error` or `loss`; as in the calls of `agent_loss`.

    Returns:
        The graphs with the attribute `tuple_losses`, [|V|^k], in the lexicographic order of the tuples, and with
        `tuple_losses_of`, [1], by which `agent_loss` recognises what they were computed for.

    Example:
        >>> loader = DataLoader(maggnn.with_tuple_losses(model, graphs), batch_size=64, shuffle=True)
        >>> loss = maggnn.agent_loss(model, next(iter(loader)))
    """
    from torch_geometric.data import Data

    check_reward(reward)
    if isinstance(graphs, Data):
        raise InputError("give a list of graphs, not a single Data or Batch")
    agent = model.agent
    if model.predictor.level != "graph" or agent.num_tuples != 1 or not agent.tuple_order:
        raise InputError("tuple_losses are for graph-level targets and one tuple (num_tuples = 1, tuple_order > 0)")
    with in_evaluation(model.predictor):
        return [_with_losses(model, graph, reward) for graph in graphs]


def _with_losses(model: MagGNN, graph: Data, reward: str) -> Data:
    """Return a copy of one graph with its losses."""
    batch = learnable(model, graph)
    if batch.num_graphs != 1:
        raise InputError(f"one of the graphs is a batch of {batch.num_graphs}: give a list of single graphs (Data)")
    nodes, order = batch.total_nodes, model.agent.tuple_order
    if nodes**order > MAX_TABLE_ROWS:
        raise InputError(
            f"a graph of {nodes} nodes has {nodes**order:,} tuples, which are too many to compute them all"
        )
    chunks = all_tuples(nodes, order, batch.device).split(max(1, MARKED_NODES_A_CHUNK[batch.device.type] // nodes))
    outputs = torch.cat([model.predictor(batch, chunk[None], starts=len(chunk)) for chunk in chunks], dim=1)
    assert batch.y is not None
    copied = copy.copy(graph)
    losses: Tensor = individual_loss(outputs, batch.y, model.task, reward)[0]  # [|V|^k]
    copied.tuple_losses = losses
    copied.tuple_losses_of = table_fingerprints(model.predictor, batch.y, order, model.task, reward)
    return copied
