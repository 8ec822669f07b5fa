"""The agent: it chooses moves from a Q-table (Eq. 10), searches for t moves, and selects the state that is read.

The three action spaces of the paper follow one rule and differ in which tuples move: all tuples at once, the tuple
whose turn it is, or the one tuple whose best move has the largest Q-value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch, Level
from maggnn.model.predictor import graph_mean
from maggnn.model.state import Move, State

TIE = 1e-5
"""Q-values closer than this are ties: on a regular graph symmetric nodes differ only by rounding."""

Ties = Literal["random", "first"]
"""Which of the moves with equal Q-values is made."""

Scores = Callable[[State], tuple[Tensor, Tensor]]
"""State -> (Q-table [N, m, k], updated history [B, m, w]); a Q-network or anything that acts like one."""


def best_move(
    q_table: Tensor, state: State, actions: str, generator: torch.Generator | None = None, ties: Ties = "random"
) -> tuple[Tensor, Move]:
    """Return the best Q-value [B, m] and move of each tuple (Eq. 10). `ties` says which of equal moves is taken."""
    rows = q_rows(q_table, state.graphs)  # [B, m, V * k]
    choice = best_index(rows, generator, ties)  # [B, m]
    best = rows.gather(-1, choice[..., None])[..., 0]
    moved = _moving_tuples(state, actions, lambda: best_index(best, generator, ties))
    tuple_order = q_table.shape[-1]
    return best, Move(slot=choice % tuple_order, node=choice // tuple_order, moved=moved)


def random_move(state: State, actions: str, generator: torch.Generator | None = None) -> Move:
    """Return a uniformly random action: the control that a trained agent must beat."""
    slot, node = uniform_moves(state, state.tuples.shape[1], generator)
    noise = torch.rand(slot.shape, device=slot.device, generator=generator)
    return Move(slot, node, _moving_tuples(state, actions, lambda: noise.argmax(dim=1)))


def uniform_moves(state: State, count: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Draw the slots and nodes of `count` uniformly random moves of each state, [B, count] each."""
    num_graphs, _, tuple_order = state.tuples.shape
    shape = (2, num_graphs, count)
    uniform = torch.rand(shape, device=state.tuples.device, generator=generator, dtype=torch.float64)
    return (uniform[1] * tuple_order).long(), (uniform[0] * state.graphs.num_nodes[:, None]).long()


def epsilon_greedy(
    scores: Scores,
    state: State,
    actions: str,
    epsilon: float | Tensor,
    generator: torch.Generator | None = None,
    ties: Ties = "random",
) -> tuple[Move, State]:
    """Return an epsilon-greedy move and the next state.

    If epsilon is a plain number, 0.0 draws no random move and 1.0 does not call `scores` (unless W needs it).
    """
    if not isinstance(epsilon, Tensor) and epsilon == 0.0:
        q_table, history = scores(state)
        _, greedy = best_move(q_table, state, actions, generator, ties)
        return greedy, state.after(greedy, history)
    move, history = random_move(state, actions, generator), state.history
    if isinstance(epsilon, Tensor) or epsilon < 1.0 or history.shape[-1]:
        q_table, history = scores(state)
        _, greedy = best_move(q_table, state, actions, generator, ties)
        explore = torch.rand(len(state.turn), device=state.turn.device, generator=generator) < epsilon
        move = Move(*(torch.where(explore[:, None], *pair) for pair in zip(move, greedy, strict=True)))
    return move, state.after(move, history)


def q_rows(q_table: Tensor, graphs: GraphBatch) -> Tensor:
    """Return the Q-table as one row of moves for each tuple, node-major: [N, m, k] -> [B, m, V * k], -inf past |V|."""
    return graphs.padded(q_table, float("-inf")).transpose(1, 2).flatten(2)


def is_best(values: Tensor, dim: int | tuple[int, ...] = -1) -> Tensor:
    """Return which values are the largest along `dim`, or closer than `TIE` to the largest."""
    return values >= values.amax(dim=dim, keepdim=True) - TIE


def best_index(values: Tensor, generator: torch.Generator | None = None, ties: Ties = "random") -> Tensor:
    """Return the index of the largest value along the last dimension; ties are broken at random or by the first."""
    tied = is_best(values)
    if ties == "first":
        return tied.to(torch.uint8).argmax(dim=-1)  # argmax takes the first of equal values
    noise = torch.rand(values.shape, device=values.device, generator=generator)
    return noise.masked_fill(~tied, -1.0).argmax(dim=-1)


def _moving_tuples(state: State, actions: str, most_promising: Callable[[], Tensor]) -> Tensor:
    """Return which tuples move, [B, m], in the action space `simultaneous`, `in_turn` or `choose`."""
    num_graphs, num_tuples, _ = state.tuples.shape
    if actions == "simultaneous":
        return torch.ones(num_graphs, num_tuples, dtype=torch.bool, device=state.tuples.device)
    mover = state.turn if actions == "in_turn" else most_promising()
    return torch.arange(num_tuples, device=mover.device) == mover[:, None]


def search(
    scores: Scores,
    state: State,
    num_moves: int,
    actions: str,
    epsilon: float = 0.0,
    generator: torch.Generator | None = None,
    ties: Ties = "random",
) -> list[State]:
    """Return the t + 1 states of a walk, beginning with the start."""
    states = [state]
    for _ in range(num_moves):
        states.append(epsilon_greedy(scores, states[-1], actions, epsilon, generator, ties)[1])
    return states


def kept_state(confidence: Tensor, keep: str) -> Tensor:
    """Return the state of each walk that is read, [B], given confidences [t + 1, B]: the last or the most confident.

    Among equally confident states the earliest is taken, so that a walk that never improves stays at its start.
    """
    if keep == "last":
        return torch.full_like(confidence[0], len(confidence) - 1, dtype=torch.long)
    return confidence.argmax(dim=0)


def kept_answers(answers: Tensor, keep: str, graphs: GraphBatch, level: Level) -> Tensor:
    """Select each graph's answer from those of all states of its walk, [t + 1, rows, out] -> [rows, out]."""
    confidence = answers.softmax(dim=-1).amax(dim=-1)  # [t + 1, rows]
    if level == "node":
        confidence = torch.stack([graph_mean(sure, graphs) for sure in confidence])
    kept = kept_state(confidence, keep)  # [B]
    kept = kept[graphs.node_graph] if level == "node" else kept
    return answers.gather(0, kept[None, :, None].expand(1, -1, answers.shape[-1]))[0]
