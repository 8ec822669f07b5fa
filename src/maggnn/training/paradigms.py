"""The training paradigms of the paper: ORD is Algorithm 2, SIMUL Algorithm 3, PRE Algorithm 4.

A paradigm is a list of phases; each phase is a number of steps. `training.run` counts the steps, shows progress and
writes checkpoints, so that a paradigm reads like its algorithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from maggnn.config import Config
from maggnn.data.registry import Dataset
from maggnn.data.splits import Split
from maggnn.errors import InputError
from maggnn.graphs.batch import BatchSize, GraphBatch, Task
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.frozen import frozen
from maggnn.model import weights_file
from maggnn.model.features import DataShape
from maggnn.model.kernels.capture import Captured
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.normalise import Whitening, fix_statistics
from maggnn.model.runtime import Randomness, make_generator
from maggnn.training.devices import ONE, SEED_STEP, Devices
from maggnn.training.environment import Environment, individual_loss, mean_loss
from maggnn.training.epochs import Epochs
from maggnn.training.experience import Walkers
from maggnn.training.optimiser import (
    load_optimiser_tensors,
    make_optimiser,
    optimiser_tensors,
    set_learning_rate,
)
from maggnn.training.q_learning import QLearner
from maggnn.training.replay import Replay
from maggnn.training.schedules import epsilon

Scalars = dict[str, Tensor | float]
"""The logged values of a step, by the names in docs/metrics.md; tensors are read only when they are logged."""

SETTLING = 4
"""The size of the final batch from which whitening takes its covariance, in training batches. Without gradients it
needs less memory than a step, which keeps several tensors of every layer."""

SEARCHED_AT_ONCE = 256
"""The number of graphs in a batch in which a fixed agent moves marks before training."""


@dataclass(frozen=True)
class Phase:
    """`num_steps` calls of `step(number)`, after one call of `begin()`.

    Attributes:
        validation_moves: the number of moves before an answer in validations; None if the phase is not validated.
    """

    name: str
    num_steps: int
    begin: Callable[[], None]
    step: Callable[[int], Scalars]
    validation_moves: int | None = None


def make_model(config: Config, dataset: Dataset) -> MagGNN:
    """Make a model for a data set; its weights depend only on the seed, those of a pretrained agent on its file."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.runtime.seed)
        shape = DataShape.of(dataset.graphs, dataset.num_outputs, dataset.task)
        return MagGNN.from_config(config, shape)


def _split_training_graphs(train: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    """Return the training graphs of the predictor and of the agent: all for both, unless a share is only for the agent.

    A predictor that has memorised its training graphs has a small loss on them wherever the marks are, so the rewards
    of moves are mostly noise there. On unseen graphs, rewards show which marks generalise.
    """
    share = config.training.held_out_share
    if not share or not config.training.agent_steps:
        return train, train
    order = train[torch.randperm(len(train), generator=make_generator(config.runtime.seed))]
    count = max(1, round(share * len(train)))
    return order[count:].sort().values, order[:count].sort().values


class Paradigm(ABC):
    """The base class of paradigms: the model, its environment, the walkers and the two kinds of optimiser step."""

    evolving: bool
    """Whether f_p, the environment, changes while the agent learns."""

    def __init__(
        self, config: Config, dataset: Dataset, split: Split, device: torch.device, devices: Devices = ONE
    ) -> None:
        self.config, self.devices = config, devices
        self.task: Task = dataset.task
        self.dataset, self.split = dataset, split
        self.train_ids = split.train
        predictor_ids, self.agent_ids = _split_training_graphs(split.train, config)
        batch, seed = config.training.batch_size, config.runtime.seed
        self.on_disk = dataset.graphs.folder is not None and device.type == "cpu"
        ranks = {"part": devices.rank, "parts": devices.size}
        self.epochs = Epochs(predictor_ids, batch, seed, **ranks, on_disk=self.on_disk)
        self.model = make_model(config, dataset).to(device).eval()
        devices.prepare(self.model)
        # Communication between processes within a step cannot be recorded.
        self.recordable = self.model.recordable and devices.size == 1
        # Dropout and random baselines draw from torch's global generator.
        draws = config.encoder.dropout > 0 or self.model.predictor.encoder.draws
        self.random = Randomness(seed + SEED_STEP * devices.rank, device, dropout=draws)
        self.packed = self._learnable(dataset.graphs.to(device))
        self.weights = None if dataset.weights is None else dataset.weights.to(device)
        self.predictor = self.model.predictor
        self.predictor_optimiser = make_optimiser(self.predictor, config.training)
        self.environment = Environment(self.predictor, dataset.task, config.training.reward)
        self.fit_predictor = Captured(self._fit_in_mode, device, [self.random.device], self.recordable)
        self.norms_fixed = False
        self.learner: QLearner | None = None
        self.agent_steps = config.training.agent_steps
        if self.agent_steps:
            self._make_agent(device)
        self.phases = self.make_phases()

    @cached_property
    def data_digest(self) -> str:
        """A hash by which a resumed run recognises its data."""
        return self.dataset.digest(self.split)

    @abstractmethod
    def make_phases(self) -> list[Phase]:
        """Prepare what the phases need, and return them in order."""

    def _learnable(self, packed: PackedGraphs) -> PackedGraphs:
        """Return the graphs with precomputed structural features and standardised targets."""
        packed, targets = self.model.precomputed(packed), self.model.targets
        features = self.model.predictor.graph_features
        if features is not None:
            features.fit(packed, self.train_ids)
        if targets is None:
            return packed
        targets.fit(packed, self.train_ids)
        return replace(packed, y=targets.standardised(packed))

    def _make_agent(self, device: torch.device) -> None:
        config, agent = self.config, self.config.agent
        training = config.training
        self.learner = QLearner(self.model, self.environment, training, self.random.device, self.devices)
        self.replay = Replay(
            config.replay.capacity,
            agent.num_tuples,
            agent.tuple_order,
            self.model.history_width,
            device,
            training.walkers,
            training.returns,
            training.gamma,
        )
        self.walkers = Walkers(
            self.model,
            self.environment,
            self.packed,
            self.agent_ids,
            config,
            self.replay,
            self.random,
            self.evolving,
            self.devices,
        )
        self.fit_agent = Captured(self._fit_agent, device, [self.random.device], self.recordable)

    def predictor_step(self, step: int) -> Scalars:
        """Make one optimiser step on Eq. 4 for a batch B, with tuples that the paradigm chooses."""
        training = self.config.training
        set_learning_rate(self.predictor_optimiser, training, step, training.predictor_steps)
        ids = self.epochs.batch(step)
        fixed = step >= (1 - training.fixed_norms) * training.predictor_steps
        shape = self.packed.room_for(ids), fixed
        if self.on_disk:
            self.packed.prefetch(self.epochs.batch(step + 1))
        loss = self.fit_predictor(shape, ids.to(self.packed.device, non_blocking=True))
        if self._predictor_used_after(step) and not fixed:
            self.settle_whitening()
        return {"predictor/loss": loss}

    def _predictor_used_after(self, step: int) -> bool:
        """Whether f_p is validated, or used by the next phase, right after this step."""
        training, steps_done = self.config.training, step + 1
        validated = training.validate_every > 0 and steps_done % training.validate_every == 0
        return validated or steps_done == training.predictor_steps

    def _fit_in_mode(self, shape: tuple[BatchSize, bool], ids: Tensor) -> Tensor:
        """Do the device's part of a predictor step for graphs `ids` [B]. Returns the loss.

        A step is recorded for one batch size, and with or without fixed statistics of norms.
        """
        size, self.norms_fixed = shape
        graphs = self.packed.gather(ids, size)
        weights = None if self.weights is None else self.weights[ids]
        return self.train_predictor(graphs, *self.sets_to_learn(graphs, ids), weights)

    @abstractmethod
    def sets_to_learn(self, graphs: GraphBatch, ids: Tensor) -> tuple[Tensor, int]:
        """Return the concatenated sets U that f_p learns from, [B, starts * m, k], and their number for each graph.

        Args:
            graphs: the batch.
            ids: the ids of the graphs in the set, [B], on the set's device.
        """

    @torch.no_grad()
    def settle_whitening(self) -> None:
        """If the predictor whitens, set the covariance of embeddings that it uses in evaluation (`Whitening`)."""
        whitening = self.predictor.scale
        if not isinstance(whitening, Whitening):
            return
        ids = torch.cat([self.epochs.batch(number) for number in range(SETTLING)])
        size, ids = self.packed.room_for(ids), ids.to(self.packed.device)
        graphs = self.packed.gather(ids, size)
        with whitening.settling():  # the rest of the predictor is in evaluation mode
            self.predictor(graphs, *self.sets_to_learn(graphs, ids))

    def train_predictor(self, graphs: GraphBatch, tuples: Tensor, starts: int, weights: Tensor | None = None) -> Tensor:
        """Make one optimiser step on Eq. 4 for tuples [B, starts * m, k], which are sets U of m each. Returns the loss.

        Args:
            weights: the weight of each target, in the shape of y; None if all are equal.
        """
        self.predictor.train()
        if self.norms_fixed:
            fix_statistics(self.predictor)
        outputs = self.predictor(graphs, tuples, starts)  # [rows, starts, out]
        assert graphs.y is not None
        losses = individual_loss(outputs, graphs.y, self.task, weights=weights)
        loss = mean_loss(losses, graphs, self.predictor.level, devices=self.devices)
        self.predictor_optimiser.zero_grad(set_to_none=True)
        loss.backward()
        loss = self.devices.average(self.predictor, loss)
        self.predictor_optimiser.step()
        self.predictor.eval()
        return loss

    def moved_sets(self, graphs: GraphBatch, searcher: MagGNN) -> tuple[Tensor, int]:
        """Return one set U for each graph: random tuples that the agent of `searcher` has moved t times.

        With `training.unmoved_share` the tuples of some graphs stay where they are, so that the predictor still sees
        marks at all nodes and not only at those that the agent prefers.
        """
        states, share = searcher.walk(graphs, generator=self.random.device), self.config.training.unmoved_share
        if not share:
            return states[-1].tuples, 1
        draws = torch.rand(graphs.num_graphs, 1, 1, device=graphs.device, generator=self.random.device)
        return torch.where(draws < share, states[0].tuples, states[-1].tuples), 1

    def use_predictor(self, weights: Mapping[str, Tensor]) -> None:
        """Use given weights of f_p and train only the agent."""
        raise InputError(f"training.paradigm = {self.config.training.paradigm} trains its own predictor; use ord")

    def gather_warmup(self) -> None:
        """Collect experience 'until D has enough memory'."""
        while len(self.replay) < self.config.replay.warmup:
            self.walkers.gather(epsilon=1.0)

    def agent_step(self, step: int) -> Scalars:
        """Run one RL-Experience, then for each Q update draw a sample E from D and make an optimiser step on g_rl."""
        assert self.learner is not None
        training, num_steps = self.config.training, self.agent_steps
        explore = epsilon(training.epsilon_end, training.epsilon_share, step, num_steps)
        reward = self.walkers.gather(explore)
        updates = training.updates_per_experience
        losses = []
        for update in range(step * updates, (step + 1) * updates):
            self.learner.schedule(update, updates * num_steps)
            rows = self.replay.draw(training.agent_batch_size, self.random.host)
            size = self.packed.room_for(self.replay.graph_ids[rows])
            losses.append(self.fit_agent(size, rows.to(self.packed.device, non_blocking=True)))
            self.learner.sync(update)
        mean_reward = self.devices.mean(reward.mean())
        return {"agent/reward": mean_reward, "agent/q_loss": sum(losses) / updates, "agent/epsilon": explore}

    def _fit_agent(self, size: BatchSize, rows: Tensor) -> Tensor:
        assert self.learner is not None
        return self.learner.fit(self.replay.read(rows, self.packed, size))

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that a later process needs to resume exactly, including the state of this process."""
        groups = {
            "model": self.model.state_dict(),
            "predictor_optimiser": optimiser_tensors(self.predictor_optimiser),
        }
        if self.learner is not None:
            groups["q_optimiser"] = optimiser_tensors(self.learner.optimiser)
            groups["target_network"] = self.learner.target_network.state_dict()
        return _named(groups) | self.own_tensors()

    def own_tensors(self) -> dict[str, Tensor]:
        """Return the part of `tensors` that differs between processes: generators, experience and walkers."""
        groups = {"random": self.random.state()}
        if self.learner is not None:
            groups |= {"replay": self.replay.tensors(), "walkers": self.walkers.tensors()}
        return _named(groups)

    def counters(self) -> dict[str, int]:
        if self.learner is None:
            return {}
        walkers = self.walkers
        return {
            "replay_added": self.replay.added,
            "walk_moves": walkers.moves_made,
            "walks_begun": walkers.walks_begun,
        }

    def load(self, tensors: dict[str, Tensor], counters: dict[str, int]) -> None:
        """Load what `tensors` and `counters` returned."""
        group = partial(weights_file.with_prefix, tensors)
        self.model.load_state_dict(group("model/"))
        load_optimiser_tensors(self.predictor_optimiser, group("predictor_optimiser/"))
        self.random.load_state(group("random/"))
        if self.learner is not None:
            load_optimiser_tensors(self.learner.optimiser, group("q_optimiser/"))
            self.learner.target_network.load_state_dict(group("target_network/"))
            self.replay.load(group("replay/"), counters["replay_added"])
            self.walkers.load(group("walkers/"), counters["walk_moves"], counters["walks_begun"])


def _named(groups: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {f"{group}/{name}": value for group, part in groups.items() for name, value in part.items()}


class Ord(Paradigm):
    """Algorithm 2: train f_p on random tuples, freeze it as the environment, train g_rl in it."""

    evolving = False

    def make_phases(self) -> list[Phase]:
        """The predictor's phase, then the agent's."""
        steps = self.config.training.predictor_steps
        phases = [Phase("predictor", steps, lambda: None, self.predictor_step, validation_moves=0)]
        if self.agent_steps:
            phases.append(Phase("agent", self.agent_steps, self.begin_agent, self.agent_step))
        return phases

    def use_predictor(self, weights: Mapping[str, Tensor]) -> None:
        """Use given weights of f_p and skip its phase."""
        self.predictor.load_state_dict(weights)
        self.phases[0] = replace(self.phases[0], num_steps=0)

    def sets_to_learn(self, graphs: GraphBatch, ids: Tensor) -> tuple[Tensor, int]:
        """Lines 2-4: random tuples (or the tuples of another `agent.start`)."""
        starts = self.config.training.starts_per_graph
        return self.model.starts(graphs, self.random.device, starts), starts

    def begin_agent(self) -> None:
        """Lines 6-7: freeze f_p and gather experience; lines 9-13 are `agent_step`."""
        self.predictor.requires_grad_(False)
        self.environment.predictor = frozen(self.model).predictor
        self.environment.tabulate_if_cheaper(
            self.packed, self.agent_ids, self.config.agent.tuple_order, self._embeddings_needed()
        )
        self.gather_warmup()

    def _embeddings_needed(self) -> int:
        """Return the number of tuple embeddings that the agent's phase would compute without a table."""
        training, agent = self.config.training, self.config.agent
        mean_nodes = float(self.packed.num_nodes.float().mean())
        per_step = 2.0 * training.walkers * agent.num_tuples
        if training.target == "lookahead":
            outcomes = training.agent_batch_size * agent.tuple_order * mean_nodes
            per_step += training.updates_per_experience * outcomes
        return int(per_step * training.agent_steps)


class Simul(Paradigm):
    """Algorithm 3: f_p learns on tuples that the agent has moved, and the agent learns with the current f_p."""

    evolving = True

    def make_phases(self) -> list[Phase]:
        """One phase, in which both learn."""
        steps, moves = self.config.training.predictor_steps, self.config.agent.num_moves
        self.every = steps // self.agent_steps
        """The number of predictor steps for each step of the agent; 1 is exactly Algorithm 3."""
        return [Phase("simul", steps, self.gather_warmup, self.step, validation_moves=moves)]

    def step(self, step: int) -> Scalars:
        """Lines 4-7, then lines 8-12."""
        scalars = self.predictor_step(step)
        return scalars if step % self.every else scalars | self.agent_step(step // self.every)

    def sets_to_learn(self, graphs: GraphBatch, ids: Tensor) -> tuple[Tensor, int]:
        """Lines 4-7: random tuples moved t times by the agent."""
        return self.moved_sets(graphs, self.model)


class Pre(Paradigm):
    """Algorithm 4: a new f_p learns on tuples moved by a fixed agent that was trained on other data."""

    evolving = False

    def make_phases(self) -> list[Phase]:
        """One phase, in which only the predictor learns."""
        assert self.model.q_network is not None
        self.model.q_network.requires_grad_(False)
        self.searcher = frozen(self.model)  # the agent is fixed, so its norms can be folded into its weights
        training, agent = self.config.training, self.config.agent
        whole_epoch = training.predictor_steps * training.batch_size >= len(self.train_ids)
        self.found = self._search_once() if agent.start != "random" and whole_epoch else None
        """The final tuples of each graph's search, [G, m, k], if it is deterministic; None: every batch is searched."""
        return [Phase("pre", training.predictor_steps, lambda: None, self.predictor_step, agent.num_moves)]

    @torch.no_grad()
    def _search_once(self) -> Tensor:
        """Search all graphs once: a fixed agent that starts from fixed tuples finds the same ones in every epoch."""
        agent = self.config.agent
        found = torch.zeros(len(self.packed), agent.num_tuples, agent.tuple_order, dtype=torch.long)
        found = found.to(self.packed.device)
        for ids in self.train_ids.split(SEARCHED_AT_ONCE):
            graphs = self.packed.gather(ids.to(self.packed.device), self.packed.room_for(ids))
            found[ids.to(self.packed.device)] = self.moved_sets(graphs, self.searcher)[0]
        return found

    def sets_to_learn(self, graphs: GraphBatch, ids: Tensor) -> tuple[Tensor, int]:
        """Lines 2-5: random tuples moved t times by the agent."""
        return self.moved_sets(graphs, self.searcher) if self.found is None else (self.found[ids], 1)


PARADIGMS: dict[str, type[Paradigm]] = {"ord": Ord, "simul": Simul, "pre": Pre}
"""The paradigms by their names in `training.paradigm`."""
