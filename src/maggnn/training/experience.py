"""RL-Experience (Algorithm 1): the agent moves the tuples of a batch, and the buffer stores the transitions.

Walks last for `walk_length` moves and then restart from random tuples, so that the buffer also contains the states from
which later moves of a search start. Rewards are differences of losses, so each state is evaluated only once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.config import Config
from maggnn.graphs.batch import BatchSize
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import epsilon_greedy
from maggnn.model.kernels.capture import Captured
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import Randomness
from maggnn.model.state import State
from maggnn.training.devices import ONE, Devices
from maggnn.training.environment import Environment
from maggnn.training.epochs import Epochs
from maggnn.training.replay import Replay


class Walkers:
    """The graphs that collect experience, and their current tuples.

    Args:
        evolving: whether the environment changes between moves, so that the previous loss has to be computed again.

    Shapes: ids [W] on the CPU and on the device; tuples [W, m, k], history [W, m, w], turn and loss [W].
    """

    def __init__(
        self,
        model: MagGNN,
        environment: Environment,
        packed: PackedGraphs,
        train_ids: Tensor,
        config: Config,
        replay: Replay,
        random: Randomness,
        evolving: bool = False,
        devices: Devices = ONE,
    ) -> None:
        self.model, self.environment, self.packed = model, environment, packed
        self.replay, self.random = replay, random
        count, seed = config.training.walkers, config.runtime.seed
        ranks = {"part": devices.rank, "parts": devices.size}
        self.epochs = Epochs(train_ids, count, seed, 1, **ranks, on_disk=packed.folder is not None)
        self.walks_begun = 0
        self.evolving = evolving
        self.walk_length = config.replay.walk_length
        self.moves_made = self.walk_length  # so that the first call starts a walk
        device, agent = packed.device, config.agent
        self.ids = torch.zeros(count, dtype=torch.long)
        self.device_ids = self.ids.to(device)
        # Allocated once, because a recorded move uses fixed addresses.
        self.tuples = torch.zeros(count, agent.num_tuples, agent.tuple_order, dtype=torch.long, device=device)
        self.history = torch.zeros(count, agent.num_tuples, model.history_width, device=device)
        self.turn = torch.zeros(count, dtype=torch.long, device=device)
        self.loss = torch.zeros(count, device=device)
        self.move = Captured(self._move, device, [random.device], model.recordable)
        self.restart = Captured(self._restart, device, [random.device], model.recordable)

    def gather(self, epsilon: float) -> Tensor:
        """Make one move of every walker and store it in the buffer. Returns the rewards, [W]."""
        if self.moves_made >= self.walk_length:
            self.ids.copy_(self.epochs.batch(self.walks_begun))
            self.walks_begun += 1
            self.device_ids.copy_(self.ids, non_blocking=True)
            self.restart(self.packed.room_for(self.ids))
            self.moves_made = 0
        self.moves_made += 1
        device = self.packed.device
        rows = self.replay.reserve(self.ids).to(device, non_blocking=True)
        clock = self.walks_begun * (self.walk_length + 1) + self.moves_made  # a gap between walks
        scalars = (torch.tensor(value).to(device, non_blocking=True) for value in (epsilon, clock))
        return self.move(self.packed.room_for(self.ids), rows, *scalars)

    def _restart(self, size: BatchSize) -> Tensor:
        graphs = self.packed.gather(self.device_ids, size)
        tuples = self.model.starts(graphs, self.random.device)
        self._store_state(State.start(graphs, tuples, self.model.history_width, self.device_ids))
        return self.loss

    def _move(self, size: BatchSize, rows: Tensor, epsilon: Tensor, clock: Tensor) -> Tensor:
        graphs = self.packed.gather(self.device_ids, size)
        # Copies, because `_store_state` overwrites the tensors of the state.
        before = State(graphs, self.tuples.clone(), self.history.clone(), self.turn.clone(), self.device_ids)
        actions = self.model.agent.actions
        move, after = epsilon_greedy(self.model.scores, before, actions, epsilon, self.random.device)
        loss = self.environment.loss(before) if self.evolving else self.loss.clone()
        self._store_state(after)
        reward = loss - self.loss  # Eq. 8
        self.replay.write(rows, before, move, reward, after, clock)
        return reward

    def _store_state(self, state: State) -> None:
        self.tuples.copy_(state.tuples)
        self.history.copy_(state.history)
        self.turn.copy_(state.turn)
        self.loss.copy_(self.environment.loss(state))

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors, for a checkpoint."""
        names = ("ids", "tuples", "history", "turn", "loss")
        return {name: getattr(self, name) for name in names}

    def load(self, tensors: dict[str, Tensor], moves_made: int, walks_begun: int) -> None:
        self.moves_made, self.walks_begun = moves_made, walks_begun
        for name, values in self.tensors().items():
            values.copy_(tensors[name])
        self.device_ids.copy_(self.ids)
