"""The official BREC test (see `rpc`) of a baseline: one Siamese model for each pair, one after the other.

Protocol, loss, stop and Hotelling's test are those of `rpc`. A baseline has no tuples, so there is nothing to search.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig, PredictorConfig
from maggnn.graphs.batch import GraphBatch, batch_of_edges
from maggnn.model.features import FeatureSpec
from maggnn.model.named_encoders import make_encoder
from maggnn.model.predictor import Predictor
from maggnn.model.runtime import make_generator
from maggnn.training.run import count_parameters
from maggnn_paper.brec.pairs import Pairs
from maggnn_paper.brec.rpc import (
    BATCH,
    EPOCHS,
    LEARNING_RATE,
    LOSS_TO_STOP,
    OUTPUTS,
    RELABELLINGS,
    RIDGE,
    RpcResult,
    hotelling,
    siamese_loss,
)

SETTLING = 5
"""Times that the norms of a baseline that draws see all relabelled graphs after training; once is enough for others."""

PAIRS_AT_ONCE = 50_000
"""Pairs of nodes of the graphs that are tested in one batch: methods over copies or pairs have a row for each."""


@dataclass(frozen=True)
class BaselineSettings:
    """A baseline's model; hops = 0 are whole graphs."""

    method: str
    hidden: int = 32
    num_layers: int = 5
    hops: int = 0
    largest_ring: int = 6
    copies: int = 4
    epochs: int = EPOCHS
    learning_rate: float = LEARNING_RATE
    tuple_order: int = 0


def baseline_rpc(graphs: Pairs, settings: BaselineSettings, seed: int) -> RpcResult:
    """Train and test a model for each pair (`graphs` has G = 2)."""
    results = [_one_pair(graphs.some_pairs(slice(pair, pair + 1)), settings, seed) for pair in range(graphs.size[0])]
    count = max(result.num_parameters for result in results)
    t_square, control = ({settings.method: torch.cat(values)} for values in zip(*map(_tests, results), strict=True))
    epochs, loss = (torch.cat(values) for values in zip(*((r.epochs, r.loss) for r in results), strict=True))
    return RpcResult(t_square, control, epochs, loss, count)


def _tests(result: RpcResult) -> tuple[Tensor, Tensor]:
    (t_square,), (control,) = result.t_square.values(), result.control.values()
    return t_square, control


def _one_pair(pair: Pairs, settings: BaselineSettings, seed: int) -> RpcResult:
    generator = make_generator(2 * seed + 1, pair.device)
    with torch.random.fork_rng(devices=[pair.device] if pair.device.type == "cuda" else []):
        torch.manual_seed(2 * seed)  # weights, and what a baseline draws
        predictor = _predictor(settings).to(pair.device)
        relabelled = pair.relabelled(RELABELLINGS, generator)
        epochs, loss = _train(predictor, relabelled, settings)
        exact = predictor.double()  # answers to relabelled graphs differ by rounding alone, which T^2 magnifies
        _settle(exact, relabelled)
        tested = (relabelled, pair.first_twice().relabelled(RELABELLINGS, generator))
        found = [_t_square(exact, graphs).cpu() for graphs in tested]
    count = count_parameters(predictor)
    name = settings.method
    return RpcResult({name: found[0]}, {name: found[1]}, torch.tensor([epochs]), torch.tensor([loss]), count)


def _predictor(settings: BaselineSettings) -> Predictor:
    encoder = EncoderConfig(num_layers=settings.num_layers, hidden=settings.hidden, residual=True)
    baseline = BaselineConfig(
        name=settings.method, hops=settings.hops, copies=settings.copies, largest_ring=settings.largest_ring
    )
    g_p = make_encoder(baseline, encoder, FeatureSpec(), FeatureSpec())
    assert g_p is not None, "a baseline has a name"
    return Predictor(PredictorConfig(pooling="mean"), g_p, "graph", OUTPUTS)


def _train(predictor: Predictor, relabelled: Pairs, settings: BaselineSettings) -> tuple[int, float]:
    """Until the loss is small or the epochs are over; epochs and last loss."""
    optimiser = torch.optim.Adam(predictor.parameters(), settings.learning_rate)
    batches = _batches(relabelled)
    predictor.train()
    epochs, last = 0, 1.0
    while epochs < settings.epochs and last >= LOSS_TO_STOP:
        losses = []
        for batch in batches:
            loss = siamese_loss(*predictor(batch, _no_tuples(batch))[None].chunk(2, dim=1))[0]
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        epochs, last = epochs + 1, sum(losses) / len(losses)
    return epochs, last


@torch.no_grad()
def _settle(predictor: Predictor, relabelled: Pairs) -> None:
    """Give norms the mean statistics of all relabelled graphs, and have them answer with those.

    Running statistics lag behind the weights. Where all nodes of a pair look alike a norm divides by next to nothing,
    and every layer makes such an error larger.
    """
    norms = [module for module in predictor.modules() if isinstance(module, nn.BatchNorm1d)]
    predictor.train()
    times = SETTLING if predictor.encoder.draws else 1
    for number, batch in enumerate(times * _batches(relabelled)):
        for norm in norms:
            norm.momentum = 1 / (number + 1)  # the mean of all so far
        predictor(batch, _no_tuples(batch))
    predictor.eval()


def _batches(relabelled: Pairs) -> list[GraphBatch]:
    """As many relabellings of the one graph as of the other in each."""
    begins = range(0, RELABELLINGS, BATCH)
    return [graphs_of(relabelled, [*_run(at), *_run(RELABELLINGS + at)]) for at in begins]


def _run(begin: int) -> range:
    return range(begin, begin + BATCH)


def _no_tuples(batch: GraphBatch) -> Tensor:
    return torch.zeros(batch.num_graphs, 1, 0, dtype=torch.long, device=batch.device)


@torch.no_grad()
def _t_square(predictor: Predictor, relabelled: Pairs) -> Tensor:
    """Of the differences between the first and the second graph's relabellings, [1]."""
    first, second = answers(predictor, relabelled).chunk(2)
    return hotelling((first - second)[None], RIDGE)


def answers(predictor: Predictor, relabelled: Pairs) -> Tensor:
    """For all graphs of one pair, a few at a time where they are large, [graphs, outputs]."""
    at_once = max(1, PAIRS_AT_ONCE // int(relabelled.num_nodes[0]) ** 2)
    found = []
    for numbers in torch.arange(relabelled.size[1]).split(at_once):
        batch = graphs_of(relabelled, numbers.tolist())
        found.append(predictor(batch, _no_tuples(batch)))
    return torch.cat(found)


def graphs_of(pair: Pairs, numbers: list[int] | range) -> GraphBatch:
    """Some graphs of one pair (P = 1) as a batch."""
    size = int(pair.num_nodes[0])
    adjacency = pair.adjacency[0, list(numbers), :size, :size]  # [graph, target, source]
    graph, target, source = adjacency.nonzero(as_tuple=True)
    edges = torch.stack([source, target]) + size * graph
    return batch_of_edges(torch.full((len(adjacency),), size, device=pair.device), edges)
