"""The buffer D: a ring of experiences (s, a, r, s') allocated once on the model's device.

Graphs are not copied, only their ids; these stay on the CPU so that a batch's sizes are known without waiting for
the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from maggnn.graphs import PackedGraphs
from maggnn.state import Move, State


@dataclass(frozen=True)
class Experience:
    """A batch of (s, a, r, s'); reward is [B]."""

    state: State
    move: Move
    reward: Tensor
    next_state: State


class Replay:
    """A preallocated ring; `tensors` is all of it, for checkpoints."""

    def __init__(
        self, capacity: int, num_tuples: int, tuple_order: int, history_width: int, device: torch.device
    ) -> None:
        tuples = (capacity, num_tuples, tuple_order)
        history = (capacity, num_tuples, history_width)
        per_tuple = (capacity, num_tuples)
        self.capacity = capacity
        self.added = 0
        self.graph_ids = torch.zeros(capacity, dtype=torch.long)  # on the CPU, see above
        self.columns = {
            "tuples": torch.zeros(tuples, dtype=torch.long, device=device),
            "next_tuples": torch.zeros(tuples, dtype=torch.long, device=device),
            "history": torch.zeros(history, device=device),
            "next_history": torch.zeros(history, device=device),
            "turn": torch.zeros(capacity, dtype=torch.long, device=device),
            "next_turn": torch.zeros(capacity, dtype=torch.long, device=device),
            "slot": torch.zeros(per_tuple, dtype=torch.long, device=device),
            "node": torch.zeros(per_tuple, dtype=torch.long, device=device),
            "moved": torch.zeros(per_tuple, dtype=torch.bool, device=device),
            "reward": torch.zeros(capacity, device=device),
        }

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, before: State, move: Move, reward: Tensor, after: State) -> None:
        """Store B experiences over the oldest ones."""
        assert before.ids is not None, "experience needs to know its graphs"
        count = len(before.ids)
        index = (self.added + torch.arange(count)) % self.capacity
        self.graph_ids[index] = before.ids
        values = {
            "tuples": before.tuples,
            "next_tuples": after.tuples,
            "history": before.history,
            "next_history": after.history,
            "turn": before.turn,
            "next_turn": after.turn,
            "slot": move.slot,
            "node": move.node,
            "moved": move.moved,
            "reward": reward,
        }
        device_index = index.to(reward.device, non_blocking=True)
        for name, value in values.items():
            self.columns[name][device_index] = value.to(self.columns[name].dtype)
        self.added += count

    def sample(self, packed: PackedGraphs, count: int, generator: torch.Generator) -> Experience:
        """Draw experiences uniformly, with replacement; `generator` lives on the CPU."""
        index = torch.randint(len(self), (count,), generator=generator)
        ids = self.graph_ids[index]
        graphs = packed[ids]
        device_index = index.to(packed.device, non_blocking=True)
        column = {name: values[device_index] for name, values in self.columns.items()}
        return Experience(
            state=State(graphs, column["tuples"], column["history"], column["turn"], ids),
            move=Move(column["slot"], column["node"], column["moved"]),
            reward=column["reward"],
            next_state=State(graphs, column["next_tuples"], column["next_history"], column["next_turn"], ids),
        )

    def tensors(self) -> dict[str, Tensor]:
        return {"graph_ids": self.graph_ids, **self.columns}

    def load(self, tensors: dict[str, Tensor], added: int) -> None:
        for name, values in self.tensors().items():
            values.copy_(tensors[name])
        self.added = added
