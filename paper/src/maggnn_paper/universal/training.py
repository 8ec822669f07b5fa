"""Training of the universal agent: Q regresses exact values of moves, on fresh graphs, in the states of its own walks.

Every batch of graphs of the curriculum has walkers. In a step those of one batch move once, at random with probability
epsilon, and Q learns a whole row of its table for each of them: the values of all outcomes (`game`), standardised
within the row, because which of a state's moves is better matters and not how much marks can do in this graph. With the
loss "imitation" Q learns instead to give the best moves all the probability.

Tuples are judged one by one, so the weights by which the Q-network sees all tuples together are fixed at zero. m tuples
then move as m single ones do, whatever m is.

Shapes: B graphs, N nodes, V nodes of the largest graph, m walkers (tuples) of each graph, k nodes of a tuple.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from maggnn.config import AgentConfig, Config, DataConfig, EncoderConfig, PredictorConfig, TrainingConfig
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.model import weights_file
from maggnn.model.agent import epsilon_greedy, search
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.marking import MARKINGS
from maggnn.model.normalise import fix_statistics
from maggnn.model.pretrained import save_agent
from maggnn.model.q_network import AgentShape, QNetwork
from maggnn.model.saving import check_finite
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples
from maggnn.training.optimiser import load_optimiser_tensors, make_optimiser, optimiser_tensors, set_rate
from maggnn.training.schedules import epsilon, learning_rate
from maggnn_paper.universal.classical import Adjacency
from maggnn_paper.universal.curriculum import CurriculumSettings, batches_of, forbidden_hashes, stream
from maggnn_paper.universal.exclusion import packed
from maggnn_paper.universal.game import Fineness, ValueTable, outcome_values, values_of

FLOOR = 0.02
"""Added to the spread of a row: where moves hardly differ, their differences are noise."""

TABULATED = 2
"""Orders up to this one have a table of all their tuples; larger ones are refined move by move."""

VALIDATION_SEED = 1 << 40
"""Of the graphs that variants are compared on; trainings have smaller seeds."""

MOST_GRADIENT = 1.0
"""The norm to which longer gradients are cut."""

TELL_EVERY = 500
"""Steps between lines of progress."""

CHECKPOINT_S = 60.0
"""Seconds between checkpoints."""

SCHEDULE = 1_000_000
"""Parts into which the schedules divide a training, however long."""


@dataclass(frozen=True)
class UniversalSettings:
    """One training.

    Attributes:
        tuple_order: k.
        encoder: of the Q-network.
        loss: "regression" of standardised rows, or "imitation" of best moves.
        fineness: what a state is worth.
        gamma, foresight: how much the values of further moves count and how many are foreseen (`ValueTable.foreseen`).
        steps: optimiser steps.
        seconds: the training ends after this time too, its schedules complete; 0: no limit.
        walkers: states of each graph in a step.
        walk_length: moves before a walker begins again at random.
        one_node: share of the walkers that begin with all marks on one node, as the invariant search does
            (`maggnn_paper.brec.branching`).
        uses: steps with one batch of graphs before a fresh one takes its place.
        batches: that are in use at the same time.
        peak_rate: of one cycle.
        epsilon_end: where the share of random moves, which begins at 1, ends.
        fixed_norms: share of the training, the last part, in which norms keep their statistics.
        curriculum: which graphs.
        seed: of everything.
    """

    tuple_order: int = 2
    encoder: EncoderConfig = EncoderConfig(num_layers=10, hidden=64, residual=True)  # noqa: RUF009 (frozen)
    loss: Literal["regression", "imitation"] = "regression"
    fineness: Fineness = "colours"
    gamma: float = 0.0
    foresight: int = 0
    steps: int = 6_000
    seconds: float = 0.0
    walkers: int = 4
    walk_length: int = 4
    one_node: float = 0.0
    uses: int = 24
    batches: int = 12
    peak_rate: float = 4e-3
    epsilon_end: float = 0.2
    fixed_norms: float = 0.0
    curriculum: CurriculumSettings = CurriculumSettings()  # noqa: RUF009 (frozen)
    seed: int = 0

    @property
    def config(self) -> Config:
        """What the agent's file says of the training."""
        return Config(
            data=DataConfig(name="curriculum"),
            encoder=self.encoder,
            predictor=PredictorConfig(pooling="mean"),
            agent=AgentConfig(num_tuples=1, tuple_order=self.tuple_order, num_moves=self.walk_length),
            training=TrainingConfig(
                agent_steps=self.steps, learning_rate=self.peak_rate, gamma=self.gamma, standardise_rewards=True
            ),
        )


@dataclass
class Walkers:
    """The tuples of one batch of graphs, and what their moves are worth.

    Attributes:
        state: of all walkers, m tuples a graph.
        table: the values that moves are judged by; None where they are worked out for each state.
        moves: made since the walkers began.
        uses: steps so far.
    """

    state: State
    table: ValueTable | None
    moves: int = 0
    uses: int = 0

    @classmethod
    def on(
        cls, graphs: list[Adjacency], settings: UniversalSettings, device: torch.device, generator: torch.Generator
    ) -> Walkers:
        """Random starts in fresh graphs."""
        held = packed(graphs).to(device)
        held = MARKINGS[settings.encoder.marking].precomputed(held)
        batch = held[torch.arange(len(held))]
        table = None
        if settings.tuple_order <= TABULATED:
            table = ValueTable.of(batch, settings.tuple_order, settings.fineness)
            table = table.foreseen(settings.gamma, settings.foresight)
        return cls(State.start(batch, starts(batch, settings, generator), history_width=0), table)

    def values(self, settings: UniversalSettings) -> Tensor:
        """The values of all moves of all walkers, [B, m, V, k]."""
        tuples = self.state.tuples
        if self.table is not None:
            return self.table.outcomes(tuples)
        return outcome_values(self.state.graphs, tuples, settings.fineness)

    def advance(self, q_table: Tensor, explore: float, settings: UniversalSettings, generator: torch.Generator) -> None:
        """Every walker moves, at random with probability `explore`; at the end of their walk all begin again."""
        self.uses += 1
        self.moves += 1
        graphs = self.state.graphs
        if self.moves == settings.walk_length:
            self.moves = 0
            self.state = State.start(graphs, starts(graphs, settings, generator), history_width=0)
            return
        history = self.state.history
        _, self.state = epsilon_greedy(lambda _: (q_table, history), self.state, "simultaneous", explore, generator)


def starts(graphs: GraphBatch, settings: UniversalSettings, generator: torch.Generator) -> Tensor:
    """Tuples before their first move, [B, m, k]: random ones, the first of which lie on one node with all marks."""
    tuples = sample_tuples(graphs, settings.walkers, settings.tuple_order, generator)
    count = round(settings.one_node * settings.walkers)
    return torch.cat([tuples[:, :count, :1].expand(-1, -1, settings.tuple_order), tuples[:, count:]], dim=1)


# ---- losses ---------------------------------------------------------------------------------------------


def row_loss(q_table: Tensor, values: Tensor, graphs: GraphBatch, loss: str) -> Tensor:
    """How far Q is from what moves are worth, the mean over states.

    Shapes:
        q_table: [N, m, k]; values: [B, m, V, k].
    """
    rows = graphs.padded(q_table, 0.0).transpose(1, 2)  # [B, m, V, k]
    mask = graphs.is_node[:, None, :, None].expand_as(values)
    if loss == "imitation":
        return _imitation(rows, values, mask)
    count = mask.sum(dim=(2, 3), keepdim=True)
    mean = (values * mask).sum(dim=(2, 3), keepdim=True) / count
    spread = ((values - mean).square() * mask).sum(dim=(2, 3), keepdim=True).div(count).sqrt()
    wanted = (values - mean) / (spread + FLOOR)
    return ((rows - wanted).square() * mask / count).sum(dim=(2, 3)).mean()


def _imitation(rows: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Minus the logarithm of the probability that a softmax over Q gives to all best moves together."""
    lowest = torch.finfo(rows.dtype).min
    best = (values >= values.masked_fill(~mask, -1.0).amax(dim=(2, 3), keepdim=True) - 1e-6) & mask
    every = rows.masked_fill(~mask, lowest).flatten(2).logsumexp(dim=-1)
    return (every - rows.masked_fill(~best, lowest).flatten(2).logsumexp(dim=-1)).mean()


# ---- the training ---------------------------------------------------------------------------------------


def fresh_network(settings: UniversalSettings) -> QNetwork:
    """A Q-network that judges each tuple by itself."""
    torch.manual_seed(settings.seed)
    config = settings.config
    network = AgentShape(config.encoder, config.predictor.pooling, config.agent.history).build(settings.tuple_order)
    torch.nn.init.zeros_(network.all_tuples.weight).requires_grad_(False)
    return network


def train(
    settings: UniversalSettings,
    device: torch.device | str = "cpu",
    workers: int = 0,
    told: Callable[[str], None] = print,
    checkpoint: Path | None = None,
    begin: Mapping[str, Tensor] | None = None,
) -> QNetwork:
    """Train an agent.

    Args:
        begin: weights to go on from; fresh ones if not given.
        workers: processes that make graphs; 0: this one.
        told: gets a line of progress now and then.
        checkpoint: a file that is written every minute; where it exists, the training goes on from there, with fresh
            graphs and new walks.
    """
    device = torch.device(device)
    network = fresh_network(settings)
    if begin is not None:
        network.load_state_dict(begin)
    network.to(device).train()
    optimiser = make_optimiser(network, settings.config.training)
    done = _resumed(checkpoint, settings, network, optimiser)
    generator = torch.Generator(device).manual_seed(settings.seed + done.step)
    graphs = stream(settings.seed, settings.curriculum, forbidden_hashes(), workers, first=done.step)
    pool = [Walkers.on(next(graphs), settings, device, generator) for _ in range(settings.batches)]
    choice = np.random.default_rng((settings.seed, done.step))
    losses: list[Tensor] = []
    written = time.monotonic()
    for now in _positions(settings, done):
        place = int(choice.integers(len(pool)))
        losses.append(_step(network, optimiser, pool[place], settings, now.progress, generator))
        if pool[place].uses == settings.uses:
            pool[place] = Walkers.on(next(graphs), settings, device, generator)
        if now.step % TELL_EVERY == 0:
            told(f"step {now.step}, {now.progress:.0%} done: loss {torch.stack(losses).mean():.3f}")
            losses.clear()
        if checkpoint is not None and time.monotonic() - written > CHECKPOINT_S:
            _write(checkpoint, settings, network, optimiser, now)
            written = time.monotonic()
    graphs.close()
    return network.eval()


def _step(
    network: QNetwork,
    optimiser: torch.optim.AdamW,
    walkers: Walkers,
    settings: UniversalSettings,
    progress: float,
    generator: torch.Generator,
) -> Tensor:
    """Q learns the rows of the walkers' states, and they move: the loss."""
    _set_rate(optimiser, settings, progress)
    if progress >= 1 - settings.fixed_norms:
        fix_statistics(network)
    q_table, _ = network(walkers.state)
    loss = row_loss(q_table, walkers.values(settings), walkers.state.graphs, settings.loss)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), MOST_GRADIENT)
    optimiser.step()
    walkers.advance(q_table.detach(), _explore(settings, progress), settings, generator)
    return loss.detach()


# ---- how far a training is ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Position:
    """How far a training is.

    Attributes:
        step: optimiser steps, the present one included.
        seconds: spent on them.
        progress: the share of the training that was done before this step, by steps or by time, whichever is more.
    """

    step: int = 0
    seconds: float = 0.0
    progress: float = 0.0


def _positions(settings: UniversalSettings, done: Position) -> Iterator[Position]:
    """The steps that are left, while there is time."""
    began = time.monotonic() - done.seconds
    for step in range(done.step, settings.steps):
        seconds = time.monotonic() - began
        passed = seconds / settings.seconds if settings.seconds else 0.0
        if passed >= 1:
            return
        yield Position(step + 1, seconds, max(step / settings.steps, passed))


def _write(
    path: Path, settings: UniversalSettings, network: QNetwork, optimiser: torch.optim.AdamW, now: Position
) -> None:
    check_finite(network.state_dict(), f"step {now.step}, so {path} is not written")
    tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
    tensors |= {f"optimiser.{name}": value for name, value in optimiser_tensors(optimiser).items()}
    weights_file.save(path, tensors, {"position": asdict(now), "settings": asdict(settings)})


def _resumed(
    path: Path | None, settings: UniversalSettings, network: QNetwork, optimiser: torch.optim.AdamW
) -> Position:
    """Load a checkpoint if there is one, and say where it was written."""
    if path is None or not path.exists():
        return Position()
    tensors, facts = weights_file.load(path)
    if facts["settings"] != asdict(settings):
        raise InputError(f"{path} is of a training with other settings: choose another folder or remove it")
    parts: dict[str, dict[str, Tensor]] = {"network": {}, "optimiser": {}}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = value
    network.load_state_dict(parts["network"])
    load_optimiser_tensors(optimiser, parts["optimiser"])
    return Position(**facts["position"])


def _set_rate(optimiser: torch.optim.Optimizer, settings: UniversalSettings, progress: float) -> None:
    set_rate(optimiser, learning_rate(settings.peak_rate, "one_cycle", int(progress * SCHEDULE), SCHEDULE))


def _explore(settings: UniversalSettings, progress: float) -> float:
    return epsilon(settings.epsilon_end, 0.5, int(progress * SCHEDULE), SCHEDULE)


# ---- validation -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Validation:
    """How an agent does on fresh graphs of the curriculum, on which variants are compared.

    Attributes:
        fineness: after 0, 1, ... greedy moves, the mean over graphs.
        most: the best that there is.
        gains: the share of the possible gain after each number of moves: 0 at random tuples, 1 at the finest.
    """

    fineness: list[float]
    most: float
    gains: list[float]


@torch.no_grad()
def validate(
    network: QNetwork, settings: UniversalSettings, device: torch.device | str = "cpu", draws: int = 2
) -> Validation:
    """Greedy searches in graphs of draws that no training sees: its seed is not one of theirs."""
    device = torch.device(device)
    plain = replace(settings, gamma=0.0, foresight=0, walkers=8)
    generator = torch.Generator(device).manual_seed(VALIDATION_SEED)
    figures, best = [], []
    for number in range(draws):
        for graphs in batches_of(VALIDATION_SEED, number, settings.curriculum, forbidden_hashes()):
            walkers = Walkers.on(graphs, plain, device, generator)
            state, batch = walkers.state, walkers.state.graphs
            states = search(network, state, settings.walk_length, "simultaneous", generator=generator)
            values = [values_of(batch, own.tuples, settings.fineness).mean(dim=1) for own in states]
            figures.append(torch.stack(values).cpu())  # [t + 1, B]
            # Without a table the best that is known is what the searches reach.
            reached = walkers.table.values.flatten(1) if walkers.table is not None else torch.stack(values, dim=1)
            best.append(reached.amax(dim=1).cpu())
    fineness, most = torch.cat(figures, dim=1).mean(dim=1), torch.cat(best).mean()
    gains = (fineness - fineness[0]) / (most - fineness[0]).clamp(min=1e-9)
    return Validation(fineness.tolist(), float(most), gains.tolist())


def save(path: Path, network: QNetwork, settings: UniversalSettings, ledger: dict[str, Any]) -> None:
    """Write the agent so that `agent.pretrained` reads it.

    Args:
        ledger: the row that says how well it does, as plain values.
    """
    config = settings.config
    model = MagGNN(2, encoder=config.encoder, predictor=config.predictor, agent=config.agent)
    model.q_network = network.cpu()
    save_agent(path, model, config, ledger)
