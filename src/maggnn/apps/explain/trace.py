"""The trace of a search on one graph as plain values: marks, Q-table, answer and score of every state.

The walk is that of `MagGNN`: with equal starts and generators, the last answer of the agent's trace is the model's
answer (with `agent.keep = confident`, the answer of its most confident step). The score is minus the loss L of Eq. 5 in
the environment, so that the gain of a move, the reward of Eq. 8, is the difference of two scores.

Shapes: m tuples of k marks.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import epsilon_greedy
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import make_generator
from maggnn.model.state import Move, State
from maggnn.training.environment import Environment, individual_loss

MOST_MOVES = 64
"""The largest number of moves of a search that is shown."""

Policy = Literal["agent", "random moves"]


@dataclass(frozen=True)
class Step:
    """One state of a search.

    Attributes:
        tuples: the marked nodes by their local ids, [m, k].
        q_table: the gain that Q expects from every move, [V, m, k]; None without an agent (k = 0).
        answer: the prediction with these marks: probabilities of classes, or values in the targets' units.
        score: minus the loss of Eq. 5, for a regression in units of the targets' spread; None if the target is
            unknown.
        moved: the (tuple, slot, node) moves that led to this state; empty for the start.
    """

    tuples: list[list[int]]
    q_table: list[list[list[float]]] | None
    answer: list[float]
    score: float | None
    moved: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Trace:
    """The t + 1 steps of a search, beginning with the start.

    Attributes:
        policy: "agent" or "random moves".
        steps: one for each state.
    """

    policy: str
    steps: list[Step]

    def to_json(self) -> dict[str, Any]:
        """Return the search as plain values.

        Returns:
            A dictionary for `json.dumps`.
        """
        return asdict(self)


@torch.no_grad()
def trace(
    model: MagGNN,
    packed: PackedGraphs,
    graph: int,
    num_moves: int | None = None,
    policy: Policy = "agent",
    seed: int = 0,
    tuples: Tensor | None = None,
    reward: str = "loss",
) -> Trace:
    """Follow a search on graph number `graph` of `packed`, whose targets (if any) are in their own units.

    Args:
        model: a trained model.
        packed: graphs with precomputed features (`MagGNN.precomputed`).
        graph: the index of the graph.
        num_moves: by default the model's own t; a model without an agent makes no moves.
        policy: "agent" makes the best move, "random moves" a random one.
        seed: the seed of a random start, random moves and ties.
        tuples: the start, [m, k] or [1, m, k], instead of the model's own start.
        reward: the kind of score, `training.reward` of the agent's config: "loss", or "error" for 1 - p(y).

    Returns:
        The states of the search with their marks, Q-values, answers and scores.
    """
    single = _single(model, packed, graph)
    generator = make_generator(seed, packed.device)
    state = _start(model, single, tuples, generator)
    moves = model.agent.num_moves if num_moves is None else num_moves
    steps = [_step(model, state, [], reward)]
    for _ in range(moves if model.q_network is not None else 0):
        epsilon = 0.0 if policy == "agent" else 1.0
        move, state = epsilon_greedy(model.scores, state, model.agent.actions, epsilon, generator, model.ties)
        steps.append(_step(model, state, _moved(move), reward))
    return Trace(policy, steps)


@torch.no_grad()
def step_at(model: MagGNN, packed: PackedGraphs, graph: int, tuples: list[list[int]], reward: str = "loss") -> Step:
    """Return the state of graph number `graph` with these marks [m][k], before any move (W = 0)."""
    single = _single(model, packed, graph)
    return _step(model, _start(model, single, _as_tensor(tuples), None), [], reward)


@torch.no_grad()
def true_gains(
    model: MagGNN, packed: PackedGraphs, graph: int, tuples: list[list[int]], reward: str = "loss"
) -> list[list[list[float]]] | None:
    """Return the rewards (Eq. 8) of every single move from these marks, [|V|][m][k]; None if the target is unknown."""
    state = _start(model, _single(model, packed, graph), _as_tensor(tuples), None)
    if state.graphs.y is None:
        return None
    movers = torch.arange(len(tuples), device=packed.device)[:, None]  # [m, 1]
    environment = Environment(model.predictor, model.task, reward)
    gains = [environment.outcome_rewards(state, mover)[0] for mover in movers]  # m times [V, k]
    return torch.stack(gains, dim=1).tolist()


def _single(model: MagGNN, packed: PackedGraphs, graph: int) -> GraphBatch:
    """Return a batch of one graph with what the model reads of it, and with standardised regression targets."""
    if not 0 <= graph < len(packed):
        raise InputError(f"graph {graph}: there are graphs 0 to {len(packed) - 1}")
    if model.predictor.level != "graph":
        raise InputError("the model predicts for nodes, but a trace needs one answer for each graph")
    model.eval()
    alone = model.precomputed(packed.select(torch.tensor([graph])))
    if alone.y is not None and model.targets is not None:
        alone = replace(alone, y=model.targets.standardised(alone))
    return alone[torch.tensor([0])]


def _start(model: MagGNN, single: GraphBatch, tuples: Tensor | None, generator: torch.Generator | None) -> State:
    """Return the first state of a walk, with tuples that `walk` draws and checks as for the model's own answer."""
    given = None if tuples is None else tuples.reshape(1, *tuples.shape[-2:]).to(single.device)
    return model.walk(single, given, num_moves=0, generator=generator)[0]


def _as_tensor(tuples: list[list[int]]) -> Tensor:
    try:
        return torch.tensor(tuples, dtype=torch.long).reshape(len(tuples), len(tuples[0]))
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        raise InputError("marks are m lists of k node ids each, all of one length") from error


def _step(model: MagGNN, state: State, moved: list[tuple[int, int, int]], reward: str) -> Step:
    outputs = model.predictor(state.graphs, state.tuples)
    answer = model.answers(outputs, state.graphs)
    if not bool(answer.isfinite().all()):
        raise InputError("no prediction for this graph: the model's answer is not a finite number")
    return Step(
        tuples=state.tuples[0].tolist(),
        q_table=None if model.q_network is None else model.scores(state)[0].tolist(),
        answer=answer[0].tolist(),
        score=_score(model, outputs, state, reward),
        moved=moved,
    )


def _score(model: MagGNN, outputs: Tensor, state: State, reward: str) -> float | None:
    if state.graphs.y is None:
        return None
    if bool(state.graphs.y.isnan().any()):  # the loss of only the known targets would be misleading
        return None
    score = -float(individual_loss(outputs, state.graphs.y, model.task, reward)[0])
    return score if math.isfinite(score) else None


def _moved(move: Move) -> list[tuple[int, int, int]]:
    slots, nodes, moved = (values[0].tolist() for values in (move.slot, move.node, move.moved))
    choices = enumerate(zip(slots, nodes, moved, strict=True))
    return [(number, slot, node) for number, (slot, node, moves) in choices if moves]


def node_gains(step: Step) -> list[float]:
    """Return the largest gain that Q expects from moving any mark to each node, [|V|]."""
    return [max(gain for row in node for gain in row) for node in step.q_table or []]
