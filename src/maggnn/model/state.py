"""The state s = (G, U, W) of Eq. 6 and the move that leads from one state to the next (Eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch
from maggnn.model.tuples import replace_slot


class Move(NamedTuple):
    """An action a(i, j, l) for each tuple i: put `node` l at `slot` j if `moved` is true.

    Shapes:
        slot, node, moved: [B, m].
    """

    slot: Tensor
    node: Tensor
    moved: Tensor


@dataclass(frozen=True)
class State:
    """A batch of B states.

    Attributes:
        graphs: G, [B graphs].
        tuples: U, [B, m, k].
        history: W, [B, m, w].
        turn: the tuple whose turn it is if tuples move in turn, [B].
        ids: the ids of the graphs in the training set, [B]; None outside training.
    """

    graphs: GraphBatch
    tuples: Tensor
    history: Tensor
    turn: Tensor
    ids: Tensor | None = None

    @classmethod
    def start(cls, graphs: GraphBatch, tuples: Tensor, history_width: int, ids: Tensor | None = None) -> State:
        """Return an initial state: W = 0, and it is the first tuple's turn."""
        num_graphs, num_tuples, _ = tuples.shape
        history = torch.zeros(num_graphs, num_tuples, history_width, device=tuples.device)
        turn = torch.zeros(num_graphs, dtype=torch.long, device=tuples.device)
        return cls(graphs, tuples, history, turn, ids)

    def after(self, move: Move, history: Tensor) -> State:
        """Return the next state s' = a(s), which is deterministic, as in the paper."""
        changed = replace_slot(self.tuples, move.slot, move.node)
        tuples = torch.where(move.moved[..., None], changed, self.tuples)
        turn = (self.turn + 1) % self.tuples.shape[1]
        return replace(self, tuples=tuples, history=history, turn=turn)
