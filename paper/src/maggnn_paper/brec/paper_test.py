"""The paper's own BREC test: a two-class model for each pair must classify 950 of 1,000 random starts correctly.

The paper says "test 1000 times with different initial node tuples" and "correctly classifies the pair at least 950
times". We read it strictly: a test draws tuples for both graphs, and is right only if both graphs are named correctly.
A model that answers the same for both graphs is then right in no test, not in half of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from maggnn.errors import InputError
from maggnn.model.kernels.capture import Captured
from maggnn.model.runtime import make_generator
from maggnn.training.schedules import learning_rate
from maggnn_paper.brec.agent import AgentSettings, every_answer, learn_agent, look_up, search
from maggnn_paper.brec.batched import Adam, Encoder, Predictor, QNetwork, parameters_a_pair, settle
from maggnn_paper.brec.pairs import Pairs


@dataclass(frozen=True)
class PaperSettings:
    """A model a pair and how it learns.

    Attributes:
        tuple_order, num_moves: k and t; m = 1.
        frequency: of sines; 0 is relu.
        steps: of the predictor, one cycle up to `peak_rate`; sets: U of each graph in a step.
        starts, right: tests of a pair and how many must be right.
    """

    tuple_order: int = 2
    num_moves: int = 4
    hidden: int = 32
    num_layers: int = 5
    frequency: float = 0.0
    steps: int = 600
    sets: int = 32
    peak_rate: float = 3e-3
    agent: AgentSettings = field(default_factory=AgentSettings)
    starts: int = 1000
    right: int = 950


@dataclass(frozen=True)
class PaperResult:
    """How many of the starts were right, by method, [P] each."""

    right: dict[str, Tensor]
    loss: Tensor
    num_parameters: int

    def distinguished(self, method: str, at_least: int) -> Tensor:
        return self.right[method] >= at_least


def paper_test(graphs: Pairs, settings: PaperSettings, seed: int) -> PaperResult:
    """Train and test a model for each pair (`graphs` has G = 2)."""
    _check(graphs, settings)
    host, generator = make_generator(2 * seed), make_generator(2 * seed + 1, graphs.device)
    num_pairs = graphs.size[0]
    order, hidden, layers = settings.tuple_order, settings.hidden, settings.num_layers

    def encoder() -> Encoder:
        return Encoder(num_pairs, order, hidden, layers, host, settings.frequency)

    predictor = Predictor(encoder(), 2, host).to(graphs.device)
    loss = train_predictor(predictor, graphs, settings, generator)
    answers, count = every_answer(predictor, graphs, order), parameters_a_pair(predictor)
    if not order:
        return PaperResult({"gin": _right(answers, graphs, None, settings, 0, generator)}, loss, count)
    q_network = QNetwork(encoder(), host).to(graphs.device)
    starts = partial(graphs.sample, tuple_order=order, generator=generator)
    learn_agent(graphs, class_error(answers), starts, settings.agent, q_network, generator)
    moves = settings.num_moves
    searches = {"random-marks": (None, 0), "random-moves": (None, moves), "mag-gnn": (q_network, moves)}
    right = {
        method: _right(answers, graphs, agent, settings, moves, generator)
        for method, (agent, moves) in searches.items()
    }
    return PaperResult(right, loss, count + parameters_a_pair(q_network))


def train_predictor(predictor: Predictor, graphs: Pairs, settings: PaperSettings, generator: torch.Generator) -> Tensor:
    """Cross-entropy on random tuples of both graphs; the mean loss of the last tenth of the steps, [P]."""
    optimiser = Adam(predictor.parameters())
    predictor.train()

    def outputs() -> Tensor:
        return predictor(graphs, graphs.sample(settings.sets, settings.tuple_order, generator), 1)

    def fit(_: None) -> Tensor:
        loss = class_loss(outputs()).mean(dim=(1, 2))  # [P]
        loss.sum().backward()
        optimiser.step()
        return loss.detach()

    recorded, last = Captured(fit, graphs.device, [generator]), []
    for step in range(settings.steps):
        optimiser.rate.fill_(learning_rate(settings.peak_rate, "one_cycle", step, settings.steps))
        loss = recorded(None)
        if step >= settings.steps * 9 // 10:
            last.append(loss)
    settle(predictor, outputs)
    return torch.stack(last).mean(dim=0)


def class_loss(outputs: Tensor) -> Tensor:
    """-log p(y) of outputs [P, 2, ..., 2] whose second dimension is the class, [P, 2, ...]."""
    log_p = functional.log_softmax(outputs, dim=-1)
    return -torch.stack([log_p[:, 0, ..., 0], log_p[:, 1, ..., 1]], dim=1)


def class_error(outputs: Tensor) -> Tensor:
    """The bounded 1 - p(y), which judges states: cross-entropy would be ruled by a few confident mistakes."""
    return 1 - (-class_loss(outputs)).exp()


def _right(
    answers: Tensor,
    graphs: Pairs,
    q_network: QNetwork | None,
    settings: PaperSettings,
    moves: int,
    generator: torch.Generator,
) -> Tensor:
    """How many of the starts name both graphs correctly after `moves` moves, [P]; answers: [P, 2, n^k, 2]."""
    starts = graphs.sample(settings.starts, settings.tuple_order, generator)
    tuples = search(q_network, graphs, starts, moves, generator)
    margin = look_up(answers.diff(dim=-1)[..., 0], tuples, graphs)  # [P, 2, S], positive says the second graph
    return ((margin[:, 0] < 0) & (margin[:, 1] > 0)).sum(dim=1)


def _check(graphs: Pairs, settings: PaperSettings) -> None:
    if graphs.size[1] != 2:
        raise InputError(f"a pair has two graphs, not {graphs.size[1]}")
    if settings.steps < 1 or not 1 <= settings.right <= settings.starts:
        raise InputError("the paper's test needs at least one step, and at least one and at most all starts right")
