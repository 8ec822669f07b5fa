"""Losses for custom training loops: what `maggnn.train` does in a step, as functions of a model and a batch.

    SIMUL (Algorithm 3)   loss, terms = training_loss(model, batch, y)
    ORD (Algorithm 2)     loss = predictor_loss(model, batch, y)    until the predictor is trained, then
                          loss = agent_loss(model, batch, y)        with a fixed predictor

    optimiser.zero_grad(); loss.backward(); optimiser.step()

They are functions and not methods of `MagGNN`, because the model does not import how it is trained. There is no replay
buffer: Q learns from the states of a new walk on the batch.

Shapes: B graphs, N nodes of the batch, m tuples, k nodes of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from maggnn.errors import InputError, did_you_mean
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.call_forms import as_batch
from maggnn.graphs.conversions import targets_of
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.normalise import Whitening, in_evaluation
from maggnn.model.state import State
from maggnn.training.environment import Environment, individual_loss, mean_loss, table_fingerprints
from maggnn.training.q_learning import lookahead_loss, q_table_of, random_mover, sampled_lookahead_loss

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data

EPSILON = 0.1
"""The probability of a random move in the walks of training, the default of `training.epsilon_end`."""

REWARDS = ("error", "loss")
"""What a good move may lower."""


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
    """Compute the loss of the predictor and of the agent on one batch (SIMUL, Algorithm 3), from one walk.

    The agent moves the marks of the batch t times, with some random moves. The predictor learns from the marks at a
    random state of each graph's walk, so that it can evaluate moves from the first to the last. Q learns, at another
    state, how much each move would lower the predictor's loss. The first term has gradients only for the predictor, the
    second only for the Q-network: one optimiser over `model.parameters()` trains both.

    Args:
        model: the model, in training mode (`model.train()`).
        batch: the graphs.
        y: the targets, classes [rows] or numbers [rows, out], a row for each graph or node; by default the batch's.
            A number that is NaN is missing and adds nothing to the loss.
        mask: at node level, the nodes whose targets are used, such as `data.train_mask`, [N].
        epsilon: the probability of a random move in the walk.
        outcomes: the number of random moves of each state whose reward is computed; by default all k |V| moves.
        reward: what a good move lowers: `error`, 1 - p(y) of a classifier, or `loss`. Regression always uses the loss.
        generator: draws starts and moves; by default torch's global one.

    Returns:
        The loss to differentiate, and its terms `predictor` and `agent` without gradients.

    Example:
        >>> loss, terms = maggnn.training_loss(model, batch, batch.y)
        >>> loss.backward()
    """
    _check_options(epsilon, outcomes, reward)
    graphs = learnable(model, batch, y, mask)
    states = model.walk(graphs, epsilon=epsilon, generator=generator)
    predicted = _predictor_loss(model, graphs, _random_state_of(states, generator).tuples, 1, mask)
    if model.q_network is None or model.pretrained is not None or not model.agent.num_moves:
        return predicted, {"predictor": predicted.detach()}
    state = _random_state_of(states[:-1], generator)
    environment = Environment(model.predictor, model.task, reward, mask)
    learned = _agent_loss(model, state, environment, outcomes, generator, _with_batch_statistics)
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
    """Compute the loss of the predictor on starting marks: the first phase of ORD (Algorithm 2, lines 2 to 4).

    Args:
        model: the model, in training mode.
        batch: the graphs.
        y: the targets, as in `training_loss`; by default the batch's.
        mask: at node level, the nodes whose targets are used, [N].
        starts: the number of sets of marks for each graph; they share the edges, so they cost less than more graphs.
        generator: draws the marks; by default torch's global one.

    Returns:
        The loss to differentiate.
    """
    if starts < 1:
        raise InputError(f"starts is {starts}, must be at least 1")
    graphs = learnable(model, batch, y, mask)
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
    """Compute the loss of the agent, with the present predictor as its environment: the second phase of ORD.

    The Q-network is fitted to the exact rewards of moves (`lookahead` of `maggnn.training.q_learning`) at a random
    state of a walk (Algorithm 2, lines 9 to 13). The predictor gets no gradient. If the graphs have the attribute
    `tuple_losses` (`with_tuple_losses`), rewards are read from there, and the predictor is not evaluated; they must
    have been computed with its present weights, the same targets and the same `reward`.

    Args:
        model: the model, in training mode.
        batch: the graphs.
        y: the targets, as in `training_loss`; by default the batch's.
        mask: at node level, the nodes whose targets are used, [N].
        epsilon: the probability of a random move in the walk.
        outcomes: the number of random moves of each state whose reward is computed; by default all k |V| moves.
        reward: what a good move lowers, `error` or `loss`, as in `training_loss`.
        generator: draws starts and moves; by default torch's global one.

    Returns:
        The loss to differentiate; it has gradients only for the Q-network.
    """
    if model.q_network is None or not model.agent.num_moves:
        raise InputError("this model has no agent to train: set tuple_order and num_moves above 0 in AgentConfig")
    _check_options(epsilon, outcomes, reward)
    graphs = learnable(model, batch, y, mask)
    before_last = model.walk(graphs, num_moves=model.agent.num_moves - 1, epsilon=epsilon, generator=generator)
    state = _random_state_of(before_last, generator)
    environment = Environment(model.predictor, model.task, reward, mask)
    losses = getattr(batch, "tuple_losses", None)
    if losses is not None:
        state = replace(state, ids=torch.arange(graphs.num_graphs, device=graphs.device))
        first_rows = _first_rows(model, graphs, losses)
        _check_table(model, graphs, getattr(batch, "tuple_losses_of", None), reward)
        environment.look_up(losses, first_rows)
    return _agent_loss(model, state, environment, outcomes, generator, in_evaluation)


def _check_table(model: MagGNN, graphs: GraphBatch, made_of: Tensor | None, reward: str) -> None:
    """Check that losses of tuples are those of the present predictor and targets."""
    assert graphs.y is not None
    now = table_fingerprints(model.predictor, graphs.y, model.agent.tuple_order, model.task, reward)
    if made_of is None or not torch.equal(made_of, now):
        raise InputError(
            "tuple_losses were computed with other weights of the predictor, other targets, another reward or another "
            "tuple_order: make them again with maggnn.with_tuple_losses"
        )


def _first_rows(model: MagGNN, graphs: GraphBatch, losses: Tensor) -> Tensor:
    """Return where the losses of each graph begin in those of the batch, [B]."""
    if model.agent.num_tuples != 1 or model.predictor.level != "graph":
        raise InputError("tuple_losses are for graph-level targets and one tuple: leave them out of the batch")
    rows = graphs.num_nodes**model.agent.tuple_order
    if losses.shape != (int(rows.sum()),):
        raise InputError(
            f"tuple_losses have the shape {tuple(losses.shape)}, the tuples of these graphs are {int(rows.sum())}: "
            "make them with maggnn.with_tuple_losses for this model"
        )
    return rows.cumsum(0) - rows


def learnable(
    model: MagGNN, batch: GraphBatch | Batch | Data, y: Tensor | None = None, mask: Tensor | None = None
) -> GraphBatch:
    """Return the batch with checked and standardised targets.

    Args:
        model: the model that reads them.
        batch: the graphs.
        y: the targets, as in `training_loss`; by default the batch's.
        mask: at node level, the nodes whose targets are used, [N].
    """
    graphs = as_batch(batch)
    model.check_features(graphs)
    given = cast("Data", batch).y if y is None else y  # a Batch is a Data, which type checkers cannot see
    if given is None:
        raise InputError("the batch has no y: give the targets, as in training_loss(model, batch, y)")
    y = targets_of("y", given, graphs.device)
    rows = graphs.num_graphs if model.predictor.level == "graph" else graphs.total_nodes
    if len(y) != rows:
        raise InputError(f"y has {len(y)} rows, but this model gives {rows} answers ({model.predictor.level} level)")
    if mask is not None and (model.predictor.level != "node" or mask.shape != (rows,)):
        raise InputError("mask says which nodes have targets: give one boolean for each node, at node level")
    if mask is not None and not bool(mask.any()):
        raise InputError("mask has no node: a loss needs at least one node with a target")
    if model.task == "classification":
        return replace(graphs, y=_classes(model, y, mask))
    graphs = replace(graphs, y=_numbers(model, y))
    return graphs if model.targets is None else replace(graphs, y=model.targets.standardised(graphs))


def _classes(model: MagGNN, y: Tensor, mask: Tensor | None) -> Tensor:
    """Return checked classes, [rows]; outside the mask, where unknown classes often are -1, they are 0."""
    if y.is_floating_point() or y.numel() != len(y):
        raise InputError(f"y is {y.dtype} of shape {tuple(y.shape)}, must be one integer class for each row")
    y = y.reshape(-1).long()
    y = y if mask is None else y.where(mask.bool(), 0)
    unknown = (y < 0) | (y >= model.num_outputs)
    if bool(unknown.any()):
        row = int(unknown.nonzero()[0])
        raise InputError(f"y has class {int(y[row])} in row {row}, the model knows 0 to {model.num_outputs - 1}")
    return y


def _numbers(model: MagGNN, y: Tensor) -> Tensor:
    """Return checked numbers, or 0 and 1 of two-class targets, [rows, out]; a missing one is NaN."""
    columns = y.reshape(len(y), -1)
    if columns.shape[1] != model.num_outputs:
        raise InputError(f"y has {columns.shape[1]} columns, the model was made for {model.num_outputs}")
    bad = columns.isinf() if model.task == "regression" else (columns != 0) & (columns != 1) & ~columns.isnan()
    if bool(bad.any()):
        row, column = bad.nonzero()[0].tolist()
        allowed = "a finite number" if model.task == "regression" else "0 or 1"
        raise InputError(
            f"y has {columns[row, column]:g} in row {row}, column {column}, must be {allowed}, or NaN if it is missing"
        )
    return columns if columns.is_floating_point() else columns.float()


def _check_options(epsilon: float, outcomes: int | None, reward: str) -> None:
    if not 0 <= epsilon <= 1:
        raise InputError(f"epsilon is {epsilon}, must be a probability from 0 to 1")
    if outcomes is not None and outcomes < 1:
        raise InputError(f"outcomes is {outcomes}, must be at least 1, or None for all moves")
    check_reward(reward)


def check_reward(reward: str) -> None:
    """Reject an unknown reward."""
    if reward not in REWARDS:
        raise InputError(f"unknown reward {reward!r}{did_you_mean(reward, REWARDS)}")


def _predictor_loss(model: MagGNN, graphs: GraphBatch, tuples: Tensor, starts: int, mask: Tensor | None) -> Tensor:
    """Compute Eq. 4 for tuples [B, starts * m, k]."""
    assert graphs.y is not None
    loss = individual_loss(model.predictor(graphs, tuples, starts), graphs.y, model.task)
    return mean_loss(loss, graphs, model.predictor.level, mask)


def _agent_loss(
    model: MagGNN,
    state: State,
    environment: Environment,
    outcomes: int | None,
    generator: torch.Generator | None,
    mode: Callable[[nn.Module], AbstractContextManager[None]],
) -> Tensor:
    """Compute the error of Q at a state, with the predictor in the mode that the context `mode` sets."""
    network = model.q_network
    assert network is not None
    network.trained = True
    mover = random_mover(state, generator)
    with mode(model.predictor):
        table = q_table_of(network, state, model.agent, environment)
        if outcomes is None:
            return lookahead_loss(table, state, mover, environment)
        return sampled_lookahead_loss(table, state, mover, environment, outcomes, generator)


def _random_state_of(states: list[State], generator: torch.Generator | None) -> State:
    """Return a uniformly random state of each graph's walk."""
    count = states[0].graphs.num_graphs
    pick = torch.randint(len(states), (count,), device=states[0].turn.device, generator=generator)
    graph = torch.arange(count, device=pick.device)

    def drawn(field: str) -> Tensor:
        return torch.stack([getattr(state, field) for state in states])[pick, graph]

    return replace(states[0], tuples=drawn("tuples"), history=drawn("history"), turn=drawn("turn"))


@contextmanager
def _with_batch_statistics(predictor: nn.Module) -> Iterator[None]:
    """Make the predictor normalise with batch statistics, as in training, without changing its running statistics.

    While weights change quickly, running statistics lag behind them: in evaluation mode the predictor is then hardly
    better than chance, and the rewards are noise.
    """
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
