"""RL-Experience (Algorithm 1): the agent moves the tuples of a batch and the buffer keeps what happened.

Walks go on for `walk_length` moves and then restart from random tuples, so that the buffer also holds the states
that later moves of a search start from. Their losses telescope: each state is judged once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.agent import epsilon_greedy
from maggnn.config import Config
from maggnn.environment import Environment
from maggnn.graphs import PackedGraphs
from maggnn.model import MagGNN
from maggnn.runtime import Randomness
from maggnn.state import State
from maggnn.training.replay import Replay
from maggnn.tuples import sample_tuples


def draw_ids(ids: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """A random batch of graph ids, [count]; no graph comes twice before all have come once."""
    rounds = [torch.randperm(len(ids), generator=generator) for _ in range(-(-count // len(ids)))]
    return ids[torch.cat(rounds)[:count]]


class Walkers:
    """The graphs that gather experience, and where their tuples are now."""

    def __init__(
        self,
        model: MagGNN,
        environment: Environment,
        packed: PackedGraphs,
        train_ids: Tensor,
        config: Config,
        random: Randomness,
    ) -> None:
        self.model = model
        self.environment = environment
        self.packed = packed
        self.train_ids = train_ids
        self.config = config
        self.random = random
        self.moves_made = config.replay.walk_length  # so that the first call starts a walk
        self.state: State | None = None
        self.loss: Tensor | None = None

    def gather(self, replay: Replay, epsilon: float) -> Tensor:
        """One move of every walker into `replay`; the rewards, [walkers]."""
        if self.moves_made >= self.config.replay.walk_length:
            self._restart()
        assert self.state is not None and self.loss is not None
        actions = self.model.agent.actions
        move, after = epsilon_greedy(self.model.scores, self.state, actions, epsilon, self.random.device)
        loss = self.environment.loss(after)
        reward = self.loss - loss  # Eq. 8
        replay.add(self.state, move, reward, after)
        self.state, self.loss = after, loss
        self.moves_made += 1
        return reward

    def _restart(self) -> None:
        ids = draw_ids(self.train_ids, self.config.training.walkers, self.random.host)
        graphs, agent = self.packed[ids], self.model.agent
        tuples = sample_tuples(graphs, agent.num_tuples, agent.tuple_order, self.random.device)
        self.state = State.start(graphs, tuples, self.model.history_width, ids)
        self.loss = self.environment.loss(self.state)
        self.moves_made = 0

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a checkpoint; empty before the first walk."""
        if self.state is None or self.state.ids is None or self.loss is None:
            return {}
        state = self.state
        return {
            "ids": self.state.ids,
            "tuples": state.tuples,
            "history": state.history,
            "turn": state.turn,
            "loss": self.loss,
        }

    def load(self, tensors: dict[str, Tensor], moves_made: int) -> None:
        self.moves_made = moves_made
        if tensors:
            device, ids = self.packed.device, tensors["ids"].cpu()
            held = {name: tensors[name].to(device) for name in ("tuples", "history", "turn")}
            self.state = State(self.packed[ids], ids=ids, **held)
            self.loss = tensors["loss"].to(device)
