"""The official BREC test, RPC: does a model separate two graphs by more than it separates their relabellings?

Reliable paired comparison is the protocol of Wang and Zhang, "An Empirical Study of Realized GNN Expressiveness",
ICML 2024. For each pair a fresh Siamese model with 16 outputs; q = 32 relabellings of each graph; cosine-embedding loss
with margin 0 and target -1 on batches of 16 graphs, at most 20 epochs of Adam with rate 1e-4, stopped below a loss of
0.2. Then Hotelling's T^2 of the q paired differences, with mean d and covariance S:

    T^2 = q d' (S + ridge)^(-1) d

and the same of q pairs of relabellings of one graph, the control. The threshold 72.34 is the 95 % quantile of T^2 for
q = 32 differences in 16 dimensions of two equal normal distributions: 31 F(16, 16). The published program leaves the
factor q out of T^2 and keeps the threshold, so published counts were made with T^2 / q > 72.34, a test that equal
distributions as good as never pass, where T^2 > 72.34 lets one in twenty pass. We count by that stricter rule
(`distinguished`) and also report the other one. Either way the control must stay below. The program's weight decay
of 1e-4 and its schedule, which waits ten epochs for a plateau, are left out; what they change was not measured.

What a model with marks adds is where they start. `random`: every relabelled graph draws its own tuples, m to a set U.
`nodes`: one tuple at each node, all its marks on that node, m = |V|; nothing is drawn, no numbering matters, and only
ties between moves are broken at random. `all`: every tuple of V^k, m = |V|^k, which do not move; what a predictor
distinguishes when no search is needed. What is random adds to S, so the outputs of `starts` searches are averaged.
The Siamese model learns from sets of m random tuples in these three cases, as ORD says. `finest`: the m tuples of
`maggnn.model.refined.finest`, in training and in the test, which do not move. The rule does not depend on the
numbering, so the tuples are found once for each graph of the file and renumbered with it (`Pairs.marked`), and
nothing is drawn: the relabellings of a graph have equal outputs but for rounding. `agent` and `walks`: the m tuples
that an agent which was trained before on other graphs proposes, or the best of as many random tuples
(`maggnn_paper.brec.proposed`), in training and in the test. They are found in 32 random numberings of each graph, as
many as there are relabellings, and every relabelling takes the set that was found in one of them.

Where both graphs of a pair have one set of tuples, their relabellings are copies of one marked graph each. A batch of
eight of them then has the same loss, gradients and statistics as one of each graph, and the Siamese model of this pair
learns from one of each in every step.

The agent moves each tuple by itself (Eq. 9 with m = 1). It learns from the frozen Siamese model, by how far its output
for a tuple is from that for any tuple of the other graph (`tuple_errors`).

The tested outputs are computed in double precision: norms bring small differences to scale, and in single precision
rounding, which depends on the numbering of the nodes, is among them.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from maggnn.errors import InputError
from maggnn.model.runtime import make_generator
from maggnn.model.tuples import all_tuples
from maggnn_paper.brec.agent import (
    MOST_FEATURES,
    AgentSettings,
    every_answer,
    learn_agent,
    search,
)
from maggnn_paper.brec.batched import (
    Adam,
    Encoder,
    Predictor,
    QNetwork,
    parameters_a_pair,
    put_models,
    settle,
    some_models,
)
from maggnn_paper.brec.pairs import Pairs
from maggnn_paper.brec.proposed import ProposalSettings

OUTPUTS = 16
RELABELLINGS = 32
THRESHOLD = 72.34
RIDGE = 1e-7
"""Added to S, as the published program offers for models whose outputs do not change under relabelling at all."""

ROUNDING = 1e-13
"""Of S, relative to its largest eigenvalue; smaller ones say nothing."""

FINEST = "mag-gnn-finest"
"""The ledger's name of a model whose marks stand on the finest tuples; no agent is trained."""

MARKED = {"finest": FINEST, "agent": "mag-gnn-pre", "moves": "random-moves", "walks": "random-moves"}
"""Starts whose tuples are found before the test (`Pairs.marked`), with the ledger's name of the model."""

LEARNING_RATE = 1e-4
EPOCHS = 20
LOSS_TO_STOP = 0.2
MOST_DISTANCES = 1 << 24
"""Between outputs of two graphs, at a time."""

BATCH = 8
"""Pairs of relabelled graphs in a step, that is 16 graphs."""

STEEPNESS = 0.25
"""The power of distances between outputs in the agent's loss."""

FAINTEST = 1e-6
"""A distance that is due to rounding alone. With the ridge, outputs that never vary are distinguished if they differ by
at least sqrt(THRESHOLD * RIDGE) = 0.003."""


@dataclass(frozen=True)
class RpcSettings:
    """A model a pair, and what the protocol leaves open.

    Attributes:
        tuple_order, num_tuples, num_moves: k, m and t; marks that start as `all` or `MARKED` say do not move.
        frequency: of sines; 0 is relu.
        start, starts: where tuples are before their first move, and the sets U whose outputs are averaged.
        proposals: how tuples of the starts `agent`, `moves` and `walks` are found.
        epochs, learning_rate: the protocol's 20 and 1e-4; anything else is another budget and must be called so.
    """

    tuple_order: int = 2
    num_tuples: int = 4
    num_moves: int = 4
    start: Literal["random", "nodes", "all", "finest", "agent", "moves", "walks"] = "random"
    starts: int = 16
    hidden: int = 32
    num_layers: int = 5
    frequency: float = 0.0
    epochs: int = EPOCHS
    learning_rate: float = LEARNING_RATE
    agent: AgentSettings = field(default_factory=AgentSettings)
    proposals: ProposalSettings | None = None

    @property
    def is_marked(self) -> bool:
        """Whether its tuples are found before the test."""
        return self.start in MARKED and self.tuple_order > 0


@dataclass(frozen=True)
class RpcResult:
    """T^2 of each pair and of its control by method, [P] each; epochs used and last loss, [P]."""

    t_square: dict[str, Tensor]
    control: dict[str, Tensor]
    epochs: Tensor
    loss: Tensor
    num_parameters: int

    def distinguished(self, method: str, factor: float = RELABELLINGS) -> Tensor:
        return distinguished(self.t_square[method], self.control[method], factor)


def distinguished(t_square: Tensor, control: Tensor, factor: float = RELABELLINGS) -> Tensor:
    """Whether T^2 / factor is above the threshold and the control's is not; factor = 1 is Hotelling's test."""
    return (t_square / factor > THRESHOLD) & ~unreliable(control, factor)


def unreliable(control: Tensor, factor: float = RELABELLINGS) -> Tensor:
    """Whether the control, one graph against itself, is above the threshold."""
    return control / factor > THRESHOLD


def rpc(graphs: Pairs, settings: RpcSettings, seed: int) -> RpcResult:
    """Train and test a model for each pair (`graphs` has G = 2)."""
    _check(graphs, settings)
    host, generator = make_generator(2 * seed), make_generator(2 * seed + 1, graphs.device)
    num_pairs, order, hidden, layers = graphs.size[0], settings.tuple_order, settings.hidden, settings.num_layers

    def encoder() -> Encoder:
        return Encoder(num_pairs, order, hidden, layers, host, settings.frequency)

    predictor = Predictor(encoder(), OUTPUTS, host).to(graphs.device)
    relabelled = relabellings(graphs, settings, generator)  # G = 2 q
    epochs, loss = train_siamese(predictor, relabelled, settings, generator, has_one_set(graphs, settings))
    tested = {"pair": relabelled, "control": relabellings(graphs.first_twice(), settings, generator)}
    searches: dict[str, tuple[QNetwork | None, int]] = {_still(settings): (None, 0)}
    count, exact = parameters_a_pair(predictor), copy.deepcopy(predictor).double()
    if order and settings.start in ("random", "nodes"):  # elsewhere no tuple is left to be found
        q_network = QNetwork(encoder(), host).to(graphs.device)
        errors = tuple_errors(exact, graphs, order)

        def starts(walkers: int) -> Tensor:
            return single_starts(graphs, settings, walkers, generator)

        learn_agent(graphs, errors, starts, settings.agent, q_network, generator)
        count += parameters_a_pair(q_network)
        moves = settings.num_moves
        searches |= {"random-moves": (None, moves), "mag-gnn": (q_network, moves)}
    found: dict[str, dict[str, Tensor]] = {"pair": {}, "control": {}}
    for what, these in tested.items():
        for method, (agent, moves) in searches.items():
            outputs = outputs_after(exact, agent, these, settings, moves, generator)
            found[what][method] = hotelling(outputs[:, :RELABELLINGS] - outputs[:, RELABELLINGS:], RIDGE)
    return RpcResult(found["pair"], found["control"], epochs, loss, count)


def _still(settings: RpcSettings) -> str:
    """What the ledger calls the model whose marks do not move."""
    if not settings.tuple_order:
        return "gin"
    return MARKED.get(settings.start, "random-marks")


def has_one_set(graphs: Pairs, settings: RpcSettings) -> Tensor:
    """Of which pairs both graphs have one set of tuples, in as many copies as there may be, [P]."""
    if graphs.marked is None or not settings.is_marked:
        return torch.zeros(graphs.size[0], dtype=torch.bool, device=graphs.device)
    sets = graphs.marked.unflatten(2, (-1, settings.num_tuples))  # [P, 2, R, m, k]
    return (sets == sets[:, :, :1]).flatten(1).all(dim=1)


def relabellings(graphs: Pairs, settings: RpcSettings, generator: torch.Generator) -> Pairs:
    """q relabellings of each graph, each with another of its R sets of tuples (from the first again where R < q)."""
    relabelled = graphs.relabelled(RELABELLINGS, generator)
    if relabelled.marked is None:
        return relabelled
    sets = relabelled.marked.unflatten(2, (-1, settings.num_tuples))  # [P, 2 q, R, m, k]
    noise = torch.rand((*graphs.size[:2], RELABELLINGS), generator=generator, device=relabelled.device)
    chosen = noise.argsort(dim=-1).flatten(1) % sets.shape[2]  # [P, 2 q]
    index = chosen[..., None, None, None].expand(-1, -1, 1, *sets.shape[3:])
    return replace(relabelled, marked=sets.gather(2, index)[:, :, 0])


def train_siamese(
    predictor: Predictor, relabelled: Pairs, settings: RpcSettings, generator: torch.Generator, one_set: Tensor
) -> tuple[Tensor, Tensor]:
    """Train on relabelled graphs (G = 2 q, first graphs first) until each pair's own stop; epochs and losses, [P].

    Args:
        one_set: of which pairs all relabellings of a graph are alike [P], so that one stands for the eight of a batch.
    """
    epochs = torch.zeros(len(one_set), dtype=torch.long, device=relabelled.device)
    losses = torch.ones(len(one_set), device=relabelled.device, dtype=relabelled.adjacency.dtype)
    for distinct, pairs in ((1, one_set.nonzero()[:, 0]), (BATCH, (~one_set).nonzero()[:, 0])):
        if len(pairs):
            own = some_models(predictor, pairs)
            epochs[pairs], losses[pairs] = _learn(own, relabelled.some_pairs(pairs), settings, generator, distinct)
            put_models(predictor, pairs, own)
    predictor.eval()
    return epochs, losses


def _learn(
    predictor: Predictor, relabelled: Pairs, settings: RpcSettings, generator: torch.Generator, distinct: int
) -> tuple[Tensor, Tensor]:
    """The epochs of `train_siamese`, and the norms' statistics after them; no stopped pair is in a later batch."""
    num_pairs, num_graphs, _ = relabelled.size
    epochs = torch.zeros(num_pairs, dtype=torch.long, device=relabelled.device)
    losses = torch.ones(num_pairs, device=relabelled.device, dtype=relabelled.adjacency.dtype)
    live = torch.arange(num_pairs, device=relabelled.device)
    learner, graphs, begins = some_models(predictor, live), relabelled, range(0, num_graphs // 2, BATCH)
    optimiser = Adam(learner.train().parameters())
    optimiser.rate.fill_(settings.learning_rate)
    for _ in range(settings.epochs):
        seen = []
        for begin in begins:
            outputs = _outputs(learner, graphs, settings, generator, begin, distinct)
            loss = siamese_loss(*outputs.chunk(2, dim=1))
            loss.sum().backward()
            optimiser.step()
            seen.append(loss.detach())
        epochs[live] += 1
        losses[live] = torch.stack(seen).mean(dim=0)
        put_models(predictor, live, learner)
        goes_on = losses[live] >= LOSS_TO_STOP
        live = live[goes_on]
        if not len(live):
            break
        if not bool(goes_on.all()):
            learner, graphs = some_models(learner, goes_on), graphs.some_pairs(goes_on)
            optimiser = optimiser.of_some(learner, goes_on)
    again = itertools.cycle(begins)
    settle(predictor.train(), lambda: _outputs(predictor, relabelled, settings, generator, next(again), distinct))
    return epochs, losses


def _outputs(
    predictor: Predictor,
    relabelled: Pairs,
    settings: RpcSettings,
    generator: torch.Generator,
    begin: int,
    distinct: int,
) -> Tensor:
    """Of the graphs of a batch, those of first graphs first, [P, 2 distinct, 16]."""
    half = relabelled.size[1] // 2
    batch = relabelled.some_graphs([at + i for at in (begin, half + begin) for i in range(distinct)])
    return predictor(batch, learning_tuples(batch, settings, generator), settings.num_tuples)[:, :, 0]


def learning_tuples(batch: Pairs, settings: RpcSettings, generator: torch.Generator) -> Tensor:
    """The set U of each graph that the Siamese model learns from, [P, G, m, k]."""
    if batch.marked is not None and settings.is_marked:
        return batch.marked
    return batch.sample(settings.num_tuples, settings.tuple_order, generator)


def siamese_loss(first: Tensor, second: Tensor) -> Tensor:
    """Cosine-embedding loss of paired outputs [P, b, out], margin 0, target -1: max(0, cos), mean over b, [P]."""
    return functional.cosine_similarity(first, second, dim=-1).clamp(min=0).mean(dim=1)


def hotelling(differences: Tensor, ridge: float) -> Tensor:
    """T^2 = q d' (S + ridge)^(-1) d of differences [P, q, out], in double precision, [P]."""
    differences = differences.double()
    count = differences.shape[1]
    mean = differences.mean(dim=1)  # [P, out]
    centred = differences - mean[:, None]
    covariance = centred.transpose(1, 2) @ centred / (count - 1)
    spread, axes = torch.linalg.eigh(covariance)
    least = ridge + ROUNDING * spread.amax(dim=-1, keepdim=True)  # beside enormous answers the ridge alone is nothing
    along = (mean[:, None] @ axes)[:, 0]  # [P, out]
    return count * (along.square() / (spread.clamp(min=0) + least)).sum(dim=-1)


@torch.no_grad()
def outputs_after(
    predictor: Predictor,
    q_network: QNetwork | None,
    graphs: Pairs,
    settings: RpcSettings,
    moves: int,
    generator: torch.Generator,
) -> Tensor:
    """Outputs after a search, averaged over the sets U of each graph: [P, G, 16]."""
    tuples, num_tuples = starting_tuples(graphs, settings, generator)
    num_pairs, num_graphs, n = graphs.size
    at_a_time = max(1, MOST_FEATURES[graphs.device.type] // (num_pairs * n * tuples.shape[2] * settings.hidden))
    found = []
    for begin in range(0, num_graphs, at_a_time):
        part = graphs.some_graphs(slice(begin, begin + at_a_time))
        moved = search(q_network, part, tuples[:, begin : begin + at_a_time], moves, generator)
        found.append(predictor(part.double(), moved, num_tuples).mean(dim=2))
    return torch.cat(found, dim=1)


def starting_tuples(graphs: Pairs, settings: RpcSettings, generator: torch.Generator) -> tuple[Tensor, int]:
    """Tuples before their first move, [P, G, C, k], and how many of them make one set U."""
    num_pairs, num_graphs, n = graphs.size
    if not settings.tuple_order:
        return graphs.sample(1, 0, generator), 1  # a plain GNN has one copy
    if graphs.marked is not None and settings.is_marked:
        return graphs.marked, settings.num_tuples
    if settings.start == "all":
        every = all_tuples(n, settings.tuple_order, graphs.device)  # [n^k, k]
        return every.expand(num_pairs, num_graphs, -1, -1), len(every)
    if settings.start == "nodes":
        node = torch.arange(n, device=graphs.device).repeat(settings.starts)[:, None]  # [S m, 1]
        return node.expand(num_pairs, num_graphs, -1, settings.tuple_order), n
    return graphs.sample(settings.starts * settings.num_tuples, settings.tuple_order, generator), settings.num_tuples


def single_starts(graphs: Pairs, settings: RpcSettings, walkers: int, generator: torch.Generator) -> Tensor:
    """Tuples from which the agent's walks begin, [P, G, walkers, k]."""
    if settings.start == "random":
        return graphs.sample(walkers, settings.tuple_order, generator)
    return graphs.sample(walkers, 1, generator).expand(-1, -1, -1, settings.tuple_order)


@torch.no_grad()
def tuple_errors(predictor: Predictor, graphs: Pairs, order: int) -> Tensor:
    """How uninformative each tuple of V^k is, from 1 (not informative) to 0 (the most of its graph), [P, 2, n^k].

    A Siamese model names no class, so Eq. 8 needs another loss: how far a tuple's output is from the nearest that any
    tuple of the other graph has. Often the distances of a few tuples are a thousand times as large as most others; a
    root of the distance separates both these from the next best and small distances from none.
    """
    outputs = every_answer(predictor, graphs.double(), order)  # [P, 2, n^k, out]
    is_tuple = graphs.is_tuple(order)
    distances = torch.stack([_nearest(pair, real) for pair, real in zip(outputs, is_tuple, strict=True)])
    largest = distances.masked_fill(~is_tuple[:, None], 0.0).amax(dim=2, keepdim=True).clamp(min=FAINTEST)  # [P, 2, 1]
    return (1 - (distances / largest).clamp(max=1.0).pow(STEEPNESS)).float()


def _nearest(outputs: Tensor, is_tuple: Tensor) -> Tensor:
    """The distance from each output [2, n^k, out] to the nearest of the other graph's, [2, n^k]."""
    found = []
    for own, other in (outputs, outputs.flip(0)):
        others = other[is_tuple]
        at_a_time = max(1, MOST_DISTANCES // len(others))
        # cdist by products is fast and inexact for small distances, so it only says which is nearest.
        nearest = torch.cat([torch.cdist(part, others).argmin(dim=1) for part in own.split(at_a_time)])
        found.append((own - others[nearest]).norm(dim=-1))
    return torch.stack(found)


def _check(graphs: Pairs, settings: RpcSettings) -> None:
    if graphs.size[1] != 2:
        raise InputError(f"a pair has two graphs, not {graphs.size[1]}")
    m, k = settings.num_tuples, settings.tuple_order
    shape = None if graphs.marked is None else graphs.marked.shape
    if settings.is_marked and (shape is None or shape[3] != k or shape[2] % m):
        raise InputError(
            f"the start {settings.start} needs pairs with their tuples, `marked` of shape "
            f"{(*graphs.size[:2], m, k)} or several times as many tuples"
        )
    if settings.start in ("nodes", "all") and not bool(graphs.is_node.all()):
        raise InputError("starts at every node or tuple need pairs of equal size: padding would be a start")
    if settings.epochs < 1 or settings.starts < 1 or settings.num_tuples < 1:
        raise InputError("RPC needs at least one epoch, one start and one tuple (k = 0 for a model without marks)")
