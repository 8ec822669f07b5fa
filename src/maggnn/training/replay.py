"""The buffer D: a ring of experiences (s, a, r, s') allocated once on the model's device.

Graphs are stored as ids; these are on the CPU too, so that a batch's sizes are known without synchronising the GPU. The
work of the CPU (`reserve`, `draw`) and of the device (`write`, `read`) is separate, so that the latter can be recorded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from maggnn.graphs.batch import BatchSize
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.state import Move, State


@dataclass(frozen=True)
class Experience:
    """A batch of (s, a, r, s'); reward is [B].

    Attributes:
        steps: with n-step returns, the number of moves from s to s', whose discounted rewards are summed, [B].
    """

    state: State
    move: Move
    reward: Tensor
    next_state: State
    steps: Tensor | None = None


class Replay:
    """A preallocated ring buffer. All columns are in one integer and one float tensor, for one write and read each.

    Args:
        walkers: the number of walkers: with n-step returns, a walker's next move is that many rows later.
        returns: n, the number of moves whose rewards are summed.
        gamma: their discount.
    """

    def __init__(
        self,
        capacity: int,
        num_tuples: int,
        tuple_order: int,
        history_width: int,
        device: torch.device,
        walkers: int = 0,
        returns: int = 1,
        gamma: float = 0.0,
    ) -> None:
        self.walkers, self.returns, self.gamma = walkers, returns, gamma
        tuples, history, per_tuple = (num_tuples, tuple_order), (num_tuples, history_width), (num_tuples,)
        self.capacity = capacity
        self.added = 0
        self.integer_columns = {
            "tuples": tuples,
            "next_tuples": tuples,
            "turn": (),
            "next_turn": (),
            "slot": per_tuple,
            "node": per_tuple,
            "moved": per_tuple,
            "ids": (),
        }
        if returns > 1:
            self.integer_columns["clock"] = ()
        self.float_columns = {"reward": (), "history": history, "next_history": history}
        self.graph_ids = torch.zeros(capacity, dtype=torch.long)  # the column `ids` on the CPU, see above
        width = sum(math.prod(shape) for shape in self.integer_columns.values())
        self.integers = torch.zeros(capacity, width, dtype=torch.long, device=device)
        width = sum(math.prod(shape) for shape in self.float_columns.values())
        self.floats = torch.zeros(capacity, width, device=device)

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def reserve(self, graph_ids: Tensor) -> Tensor:
        """Reserve the oldest rows for B experiences on graphs `graph_ids` (on the CPU): [B] on the CPU."""
        rows = (self.added + torch.arange(len(graph_ids))) % self.capacity
        self.graph_ids[rows] = graph_ids
        self.added += len(graph_ids)
        return rows

    def write(
        self, rows: Tensor, before: State, move: Move, reward: Tensor, after: State, clock: Tensor | None = None
    ) -> None:
        """Store B experiences in `rows` [B].

        Args:
            clock: for n-step returns, a number that grows by one with each move of a walk, and by more between
                walks.
        """
        assert before.ids is not None, "experience needs to know its graphs"
        count = len(rows)
        integers = [before.tuples, after.tuples, before.turn, after.turn, move.slot, move.node, move.moved, before.ids]
        if self.returns > 1:
            assert clock is not None, "n-step returns need to know which moves follow each other"
            integers.append(clock.expand(count))
        floats = (reward, before.history, after.history)
        self.integers[rows] = torch.cat([value.reshape(count, -1).long() for value in integers], dim=1)
        self.floats[rows] = torch.cat([value.reshape(count, -1).float() for value in floats], dim=1)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw rows of experiences uniformly with replacement, [count] on the CPU, as is the generator."""
        return torch.randint(len(self), (count,), generator=generator)

    def read(self, rows: Tensor, packed: PackedGraphs, size: BatchSize) -> Experience:
        """Return the experiences of `rows` [B], whose graphs fit into `size`."""
        column = columns_of(self.integers[rows], self.integer_columns)
        column |= columns_of(self.floats[rows], self.float_columns)
        ids = column["ids"]
        graphs = packed.gather(ids, size)
        reward, steps, last = column["reward"], None, column
        if self.returns > 1:
            reward, steps, last = self._n_step_returns(rows, column)
        return Experience(
            state=State(graphs, column["tuples"], column["history"], column["turn"], ids),
            move=Move(column["slot"], column["node"], column["moved"].bool()),
            reward=reward,
            next_state=State(graphs, last["next_tuples"], last["next_history"], last["next_turn"], ids),
            steps=steps,
        )

    def _n_step_returns(self, rows: Tensor, column: dict[str, Tensor]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return the discounted rewards of up to n moves, the number of moves, and the columns of the last one.

        There are fewer than n moves if the walk ended, or if its next move has not been made yet, which the clock of
        the row shows.
        """
        reward, steps, last = column["reward"], torch.ones_like(rows), rows
        clock, clocks = column["clock"], columns_of(self.integers, self.integer_columns)["clock"]
        rewards = columns_of(self.floats, self.float_columns)["reward"]
        goes_on = torch.ones_like(rows, dtype=torch.bool)
        for step in range(1, self.returns):
            row = (rows + step * self.walkers) % self.capacity
            goes_on = goes_on & (clocks[row] == clock + step)
            reward = reward + self.gamma**step * torch.where(goes_on, rewards[row], 0.0)
            steps, last = steps + goes_on, torch.where(goes_on, row, last)
        integers = columns_of(self.integers[last], self.integer_columns)
        return reward, steps, integers | columns_of(self.floats[last], self.float_columns)

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors, for a checkpoint."""
        return {"graph_ids": self.graph_ids, "integers": self.integers, "floats": self.floats}

    def load(self, tensors: dict[str, Tensor], added: int) -> None:
        """Load what `tensors` returned."""
        for name, values in self.tensors().items():
            values.copy_(tensors[name])
        self.added = added


def columns_of(rows: Tensor, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Split rows [B, width] into their columns, as views."""
    parts = rows.split([math.prod(shape) for shape in shapes.values()], dim=1)
    return {name: part.reshape(len(rows), *shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
