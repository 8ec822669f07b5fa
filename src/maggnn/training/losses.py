"""Losses for a training loop of one's own: what `maggnn.train` does in a step, as functions of a model and a batch.

    SIMUL (Algorithm 3)   loss, terms = training_loss(model, batch, y)
    ORD (Algorithm 2)     loss = predictor_loss(model, batch, y)    until the predictor is trained, then
                          loss = agent_loss(model, batch, y)        with the predictor as it is

    optimiser.zero_grad(); loss.backward(); optimiser.step()

They are functions and no methods of `MagGNN`, because the model does not know how it is trained (the ranks of imports).
There is no replay buffer: the states that Q learns from are those of a fresh walk on the batch.

Shapes: B graphs, N nodes of the batch, m tuples, k nodes of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.call_forms import as_batch
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.normalise import Whitening
from maggnn.model.state import State
from maggnn.training.environment import Environment, individual_loss, mean_loss
from maggnn.training.q_learning import lookahead_loss, q_table_of, random_mover, sampled_lookahead_loss

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data

EPSILON = 0.1
"""Share of random moves in the walks that a model learns from: where `training.epsilon_end` ends by default."""


def training_loss(
    model: MagGNN,
    batch: GraphBatch | Batch | Data,
    y: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    epsilon: float = EPSILON,
    outcomes: int | None = None,
    reward: str = "error",
    generator: torch.Generator | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of the predictor and of the agent on one batch (SIMUL, Algorithm 3): one walk serves both.

    The agent moves the marks of the batch t times, with some random moves. The predictor learns from the marks at a
    random state of each graph's walk, so that it can judge moves from the first to the last. Q learns, at another
    state, how much each move would lower the predictor's loss. The gradient of the first term reaches the predictor
    alone, that of the second the Q-network alone: one optimiser over `model.parameters()` trains both.

    Args:
        model: in training mode (`model.train()`), as for any PyG model.
        batch: the graphs.
        y: the targets, classes [rows] or numbers [rows, out], a row for each graph or node; by default the batch's.
        mask: node level: the nodes whose targets may be learned from, such as `data.train_mask`, [N].
        epsilon: probability of a random move in the walk.
        outcomes: moves of each state that are tried out, drawn at random; by default all k |V| of them.
        reward: what a good move lowers: `error`, 1 - p(y) of a classifier, or `loss`. Regression always uses the loss.
        generator: draws starts and moves; by default torch's own.

    Returns:
        The loss to differentiate, and its terms `predictor` and `agent` without gradients.

    Example:
        >>> loss, terms = maggnn.training_loss(model, batch, batch.y)
        >>> loss.backward()
    """
    graphs = _learnable(model, batch, y, mask)
    states = model.walk(graphs, epsilon=epsilon, generator=generator)
    predicted = _predictor_loss(model, graphs, _one_of(states, generator).tuples, 1, mask)
    if model.q_network is None or model.pretrained is not None or not model.agent.num_moves:
        return predicted, {"predictor": predicted.detach()}
    state = _one_of(states[:-1], generator)
    learned = _agent_loss(model, state, mask, outcomes, reward, generator, _as_it_learns)
    return predicted + learned, {"predictor": predicted.detach(), "agent": learned.detach()}


def predictor_loss(
    model: MagGNN,
    batch: GraphBatch | Batch | Data,
    y: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    starts: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The loss of the predictor on marks that have not been moved: the first phase of ORD (Algorithm 2, lines 2 to 4).

    Args:
        model: in training mode.
        batch: the graphs.
        y: the targets, as in `training_loss`; by default the batch's.
        mask: node level: the nodes whose targets may be learned from, [N].
        starts: sets of marks drawn for each graph; they share the edges, so this costs less than as many graphs.
        generator: draws the marks; by default torch's own.

    Returns:
        The loss to differentiate.
    """
    graphs = _learnable(model, batch, y, mask)
    return _predictor_loss(model, graphs, model.starts(graphs, generator, starts), starts, mask)


def agent_loss(
    model: MagGNN,
    batch: GraphBatch | Batch | Data,
    y: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    epsilon: float = EPSILON,
    outcomes: int | None = None,
    reward: str = "error",
    generator: torch.Generator | None = None,
) -> Tensor:
    """The loss of the agent in the environment that the predictor is now: the second phase of ORD (lines 9 to 13).

    The Q-network is fitted to the exact rewards of moves (`lookahead` of `maggnn.training.q_learning`) at a random
    state of a walk. The predictor gets no gradient.

    Args:
        model: in training mode.
        batch: the graphs.
        y: the targets, as in `training_loss`; by default the batch's.
        mask: node level: the nodes whose targets may be learned from, [N].
        epsilon: probability of a random move in the walk.
        outcomes: moves of each state that are tried out; by default all k |V| of them.
        reward: what a good move lowers, `error` or `loss`, as in `training_loss`.
        generator: draws starts and moves; by default torch's own.

    Returns:
        The loss to differentiate; its gradient reaches the Q-network alone.
    """
    if model.q_network is None or not model.agent.num_moves:
        raise InputError("this model has no agent to train: set tuple_order and num_moves above 0 in AgentConfig")
    graphs = _learnable(model, batch, y, mask)
    before_last = model.walk(graphs, num_moves=model.agent.num_moves - 1, epsilon=epsilon, generator=generator)
    return _agent_loss(model, _one_of(before_last, generator), mask, outcomes, reward, generator, _as_it_answers)


def _learnable(model: MagGNN, batch: GraphBatch | Batch | Data, y: Tensor | None, mask: Tensor | None) -> GraphBatch:
    """The batch with its targets as the networks learn them."""
    graphs = as_batch(batch)
    model.check_features(graphs)
    y = graphs.y if y is None else y
    if y is None:
        raise InputError("the batch has no y: give the targets, as in training_loss(model, batch, y)")
    rows = graphs.num_graphs if model.predictor.level == "graph" else graphs.total_nodes
    if len(y) != rows:
        raise InputError(f"y has {len(y)} rows, but this model gives {rows} answers ({model.predictor.level} level)")
    if mask is not None and (model.predictor.level != "node" or mask.shape != (rows,)):
        raise InputError("mask says which nodes have targets: give one truth value for each node, at node level")
    return replace(graphs, y=_checked_targets(model, replace(graphs, y=y), y))


def _checked_targets(model: MagGNN, graphs: GraphBatch, y: Tensor) -> Tensor:
    """Classes [rows], or numbers [rows, out] in units of their spread where the model knows it."""
    if model.task == "regression":
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != model.num_outputs:
            raise InputError(f"y has {columns.shape[1]} columns, the model was made for {model.num_outputs}")
        return columns.float() if model.targets is None else model.targets.standardised(graphs)
    if y.is_floating_point() or y.numel() != len(y):
        raise InputError(f"y is {y.dtype} of shape {tuple(y.shape)}, must be one integer class for each row")
    return y.reshape(-1).long()


def _predictor_loss(model: MagGNN, graphs: GraphBatch, tuples: Tensor, starts: int, mask: Tensor | None) -> Tensor:
    """Eq. 4 for tuples [B, starts * m, k]."""
    assert graphs.y is not None
    loss = individual_loss(model.predictor(graphs, tuples, starts), graphs.y, model.task)
    return mean_loss(loss, graphs, model.predictor.level, mask)


def _agent_loss(
    model: MagGNN,
    state: State,
    mask: Tensor | None,
    outcomes: int | None,
    reward: str,
    generator: torch.Generator | None,
    judging: Callable[[nn.Module], AbstractContextManager[None]],
) -> Tensor:
    """The error of Q at a state, judged by the predictor in the mode into which `judging` puts it."""
    network = model.q_network
    assert network is not None
    network.trained = True
    environment = Environment(model.predictor, model.task, reward, mask)
    mover = random_mover(state, generator)
    with judging(model.predictor):
        table = q_table_of(network, state, model.agent, environment)
        if outcomes is None:
            return lookahead_loss(table, state, mover, environment)
        return sampled_lookahead_loss(table, state, mover, environment, outcomes, generator)


def _one_of(states: list[State], generator: torch.Generator | None) -> State:
    """A state of each graph's walk, drawn uniformly."""
    count = states[0].graphs.num_graphs
    pick = torch.randint(len(states), (count,), device=states[0].turn.device, generator=generator)
    graph = torch.arange(count, device=pick.device)

    def drawn(field: str) -> Tensor:
        return torch.stack([getattr(state, field) for state in states])[pick, graph]

    return replace(states[0], tuples=drawn("tuples"), history=drawn("history"), turn=drawn("turn"))


@contextmanager
def _as_it_answers(predictor: nn.Module) -> Iterator[None]:
    """The predictor is in evaluation mode within the block."""
    before = predictor.training
    predictor.eval()
    try:
        yield
    finally:
        predictor.train(before)


@contextmanager
def _as_it_learns(predictor: nn.Module) -> Iterator[None]:
    """The predictor normalises with statistics of the batch, as when it learns, and keeps those that it has.

    While weights change quickly, running statistics lag behind them: in evaluation mode the predictor then judges
    hardly better than chance, and the rewards are noise.
    """
    before = predictor.training
    norms = [module for module in predictor.modules() if isinstance(module, nn.BatchNorm1d)]
    whitenings = [module for module in predictor.modules() if isinstance(module, Whitening)]
    momenta, memories = [norm.momentum for norm in norms], [whitening.memory for whitening in whitenings]
    for norm in norms:
        norm.momentum = 0.0
    for whitening in whitenings:
        whitening.memory = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for whitening, memory in zip(whitenings, memories, strict=True):
            whitening.memory = memory
        predictor.train(before)
