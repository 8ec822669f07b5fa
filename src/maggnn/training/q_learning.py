"""Q-learning: three targets behind one interface, an optimiser and a target network.

| target | what Q(s, a) is fitted to |
|---|---|
| `dqn` | r + gamma max Q'(s', .)                        the paper's experience replay |
| `double_dqn` | r + gamma Q'(s', argmax Q(s', .))       van Hasselt 2016: less overestimation |
| `lookahead` | L(s) - L(a(s)) for every move a of one tuple, scored exactly by the environment |

Transitions are deterministic and a tuple has only k |V| moves, so `lookahead` regresses a whole row of the Q-table
on true rewards. They are bounded by the loss itself, and without bootstrapping Q-values cannot drift.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from maggnn.config import AgentConfig, TrainingConfig
from maggnn.model.agent import best_move, q_rows, uniform_moves
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.predictor import graph_rows
from maggnn.model.q_network import QNetwork, predictor_embeddings
from maggnn.model.state import Move, State
from maggnn.model.tuples import replace_slot
from maggnn.training.devices import ONE, Devices
from maggnn.training.environment import Environment
from maggnn.training.optimiser import make_optimiser, set_learning_rate
from maggnn.training.replay import Experience


class QLearner:
    """Fits the model's Q-network to experiences, whose states an environment evaluates."""

    def __init__(
        self,
        model: MagGNN,
        environment: Environment,
        config: TrainingConfig,
        generator: torch.Generator,
        devices: Devices = ONE,
    ) -> None:
        assert model.q_network is not None, "k = 0 has no Q-network to train"
        self.model = model
        self.q_network: QNetwork = model.q_network
        self.target_network = copy.deepcopy(self.q_network).requires_grad_(False).eval()
        self.environment = environment
        self.config = config
        self.generator, self.devices = generator, devices
        self.optimiser = make_optimiser(self.q_network, config)
        self.loss: Callable[[Experience], Tensor] = {
            "dqn": self._dqn_loss,
            "double_dqn": self._double_dqn_loss,
            "lookahead": self._lookahead_loss,
        }[config.target]

    def schedule(self, update: int, num_updates: int) -> None:
        """Set the learning rate of an update."""
        set_learning_rate(self.optimiser, self.config, update, num_updates)

    def fit(self, experience: Experience) -> Tensor:
        """Make one optimiser step. Returns the loss without synchronising the device."""
        self.q_network.trained = True
        self.q_network.train()
        loss = self.loss(experience)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        loss = self.devices.average(self.q_network, loss)
        self.optimiser.step()
        self.q_network.eval()
        return loss

    def sync(self, update: int) -> None:
        """Copy the network to the target network every `sync_every` updates."""
        if (update + 1) % self.config.sync_every == 0:
            self.target_network.load_state_dict(self.q_network.state_dict())

    def q_table(self, network: QNetwork, state: State) -> Tensor:
        """Return the Q-table [N, m, k] of a state, whose description depends on the model's config."""
        return q_table_of(network, state, self.model.agent, self.environment)

    def _dqn_loss(self, experience: Experience) -> Tensor:
        with torch.no_grad():
            next_table = self.q_table(self.target_network, experience.next_state)
            next_q, chosen = best_move(next_table, experience.next_state, self.model.agent.actions, self.generator)
        return self._bootstrap_loss(experience, next_q, chosen)

    def _double_dqn_loss(self, experience: Experience) -> Tensor:
        """Let the online network (in evaluation mode, without batch statistics of s') choose and the target score."""
        following, actions = experience.next_state, self.model.agent.actions
        with torch.no_grad():
            self.q_network.eval()
            _, chosen = best_move(self.q_table(self.q_network, following), following, actions, self.generator)
            self.q_network.train()
            next_table = self.q_table(self.target_network, following)
            next_q = _q_at(next_table, following, chosen.slot, chosen.node)
        return self._bootstrap_loss(experience, next_q, chosen)

    def _bootstrap_loss(self, experience: Experience, next_q: Tensor, chosen: Move) -> Tensor:
        """Return (r + gamma V(s') - Q(s, a))^2 over the tuples that moved; next_q of each tuple's next move is [B, m].

        With n-step returns, r is the discounted sum of n rewards, and gamma is replaced by gamma^n.
        """
        discount = self.config.gamma if experience.steps is None else self.config.gamma ** experience.steps[:, None]
        target = experience.reward[:, None] + discount * self._value(next_q, chosen)  # [B, m]
        move = experience.move
        q = _q_at(self.q_table(self.q_network, experience.state), experience.state, move.slot, move.node)
        moved = move.moved.to(q.dtype)
        if self.config.q_loss == "huber":
            errors = functional.huber_loss(q, target, reduction="none")
        else:
            errors = (q - target) ** 2
        return (errors * moved).sum() / self.devices.mean(moved.sum())

    def _value(self, next_q: Tensor, chosen: Move) -> Tensor:
        """Return the value of the next action: of each tuple's own move, or of the one tuple that will move."""
        if self.model.agent.actions == "simultaneous":
            return next_q
        return (next_q * chosen.moved).sum(dim=1, keepdim=True).expand_as(next_q)

    def _lookahead_loss(self, experience: Experience) -> Tensor:
        """Compare all moves of one tuple of each state with the whole row of its Q-table."""
        state = experience.state
        mover = random_mover(state, self.generator)
        table = self.q_table(self.q_network, state)
        return lookahead_loss(table, state, mover, self.environment, self.config.standardise_rewards, self.devices)


def q_table_of(network: QNetwork, state: State, agent: AgentConfig, environment: Environment) -> Tensor:
    """Return the Q-table [N, m, k] of a state, with gradients only for the Q-network; `agent` says what Q reads."""
    predictor = environment.predictor
    if agent.state == "predictor" and agent.encoder == "own":
        embeddings = environment.embed(state, state.tuples)  # a look-up, if there is a table
        return network(state, graph_rows(embeddings, state.graphs, predictor.level))[0]
    with torch.no_grad():
        embeddings, h = predictor_embeddings(state, predictor, agent)
    return network(state, embeddings, h)[0]


def random_mover(state: State, generator: torch.Generator | None = None) -> Tensor:
    """Return a uniformly random tuple of each state, [B]."""
    num_graphs, num_tuples, _ = state.tuples.shape
    return torch.randint(num_tuples, (num_graphs,), device=state.turn.device, generator=generator)


def lookahead_loss(
    q_table: Tensor,
    state: State,
    mover: Tensor,
    environment: Environment,
    standardise: bool = False,
    devices: Devices = ONE,
) -> Tensor:
    """Return the mean squared error of a Q-table [N, m, k] over all moves of tuple `mover` [B], with exact rewards.

    Args:
        standardise: whether to standardise rewards over the moves of a state.
        devices: the processes of the run; the mean of their losses is the mean over all of their moves.
    """
    reward = environment.outcome_rewards(state, mover)  # [B, V, k]
    table = state.graphs.padded(q_table, 0.0)  # [B, V, m, k]
    index = mover[:, None, None, None].expand(-1, table.shape[1], 1, table.shape[3])
    row = table.gather(2, index)[:, :, 0]  # [B, V, k]
    is_move = state.graphs.is_node[..., None].to(row.dtype)
    if standardise:
        reward = _standardised(reward, is_move)
    return ((row - reward) ** 2 * is_move).sum() / devices.mean(is_move.sum() * row.shape[-1])


def sampled_lookahead_loss(
    q_table: Tensor,
    state: State,
    mover: Tensor,
    environment: Environment,
    count: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return an unbiased estimate of `lookahead_loss` from `count` uniformly random moves of each state."""
    slot, node = uniform_moves(state, count, generator)  # [B, P]
    graph = torch.arange(len(mover), device=mover.device)
    own = state.tuples[graph, mover][:, None].expand(-1, count, -1)  # [B, P, k]
    reward = environment.rewards_of(state, mover, replace_slot(own, slot, node))  # [B, P]
    q = q_table[state.graphs.first_node[:, None] + node, mover[:, None], slot]
    return ((q - reward) ** 2).mean()


SMALLEST_SPREAD = 1e-6
"""The smallest spread of a state's rewards; below it, differences are rounding errors."""


def _standardised(reward: Tensor, is_move: Tensor) -> Tensor:
    """Standardise the rewards [B, V, k] of each state over its moves (`is_move` [B, V, 1])."""
    count = is_move.sum(dim=(1, 2), keepdim=True) * reward.shape[-1]
    centred = reward - (reward * is_move).sum(dim=(1, 2), keepdim=True) / count
    variance = (centred**2 * is_move).sum(dim=(1, 2), keepdim=True) / count
    return centred / (variance.sqrt() + SMALLEST_SPREAD)


def _q_at(q_table: Tensor, state: State, slot: Tensor, node: Tensor) -> Tensor:
    """Return the Q-values of given moves, [B, m]."""
    tuple_order = state.tuples.shape[-1]
    return q_rows(q_table, state.graphs).gather(-1, (node * tuple_order + slot)[..., None])[..., 0]
