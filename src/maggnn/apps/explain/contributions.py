"""How much each atom contributes to the answer of a network, by masking.

An atom is masked by giving it, in place of its own initial state h⁽⁰⁾ (Eq. 1: what it is, how it lies, whether it is
marked), the mean of the initial states of the graph's atoms. Its bonds and the marks stay where they are, so nothing
but the atom itself is forgotten. What the answer loses by that is the atom's contribution:

    c(v) = f(G) - f(G with h⁽⁰⁾ of v replaced by the mean of h⁽⁰⁾ over G)

Numbers are in the target's own unit. Of a class, f is the logarithm of its odds, log p / (1 - p), which is not bounded
as probabilities are. Contributions do not add up to the answer: several atoms may carry the same information, and each
of them alone is then missed little. `maggnn-paper bench motifs` measures how well atoms of planted groups are found.

Shapes: n atoms, O outputs, B copies of the graph in a pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.encoder import Encoder
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import make_generator

METHOD = (
    "Contributions are found by masking: an atom's contribution is what the answer loses when the atom is given the "
    "mean state of the molecule's atoms in place of its own."
)
"""What a reader is told."""

MOST_ATOMS = 20_000
"""Of all copies in a pass: bounds the memory."""


@torch.no_grad()
def atom_contributions(model: MagGNN, packed: PackedGraphs, seed: int = 0) -> Tensor:
    """The contribution of each atom to each output of a network.

    Args:
        model: A network with one answer a graph.
        packed: One graph, as the model reads it.
        seed: Of random starts of the marks, where the model has such.

    Returns:
        In the targets' units; of classes in units of the logarithm of the odds.

    Shapes:
        returns: [O, n]
    """
    encoder = model.predictor.encoder
    if not isinstance(encoder, Encoder) or model.predictor.level != "graph":
        raise InputError("atom contributions are for networks of this package that answer for whole graphs")
    model.eval()
    prepared = model.precomputed(packed)
    alone = prepared[torch.tensor([0])]
    tuples = _final_marks(model, alone, seed)
    own = _answers(model, alone, tuples, encoder.initial(alone, tuples))  # [1, O]
    count = alone.total_nodes
    step = max(1, MOST_ATOMS // count)
    parts = []
    for first in range(0, count, step):
        masked = torch.arange(first, min(first + step, count))
        copies = prepared[torch.zeros(len(masked), dtype=torch.long)]
        marks = tuples.expand(len(masked), -1, -1)
        h = encoder.initial(copies, marks).clone()  # [B * n, m, d]
        mean = h[:count].mean(dim=0)
        h[torch.arange(len(masked)) * count + masked] = mean
        parts.append(own - _answers(model, copies, marks, h))  # [B, O]
    return torch.cat(parts).T


def _final_marks(model: MagGNN, alone: GraphBatch, seed: int) -> Tensor:
    """The marks with which the model answers, [1, m, k]."""
    states = model.walk(alone, generator=make_generator(seed, alone.device))
    if model.agent.keep == "last":
        return states[-1].tuples
    sureness = [float(model.predictor(alone, state.tuples).softmax(dim=-1).max()) for state in states]
    return states[sureness.index(max(sureness))].tuples


def _answers(model: MagGNN, graphs: GraphBatch, tuples: Tensor, h: Tensor) -> Tensor:
    """What the predictor says of graphs whose nodes start with h, [B, O]: values, or logarithms of classes' odds."""
    predictor, encoder = model.predictor, model.predictor.encoder
    assert isinstance(encoder, Encoder)
    pooled = predictor.pool(encoder.onward(h, graphs, 0, tuples), graphs, tuples)
    outputs = predictor.read(pooled, graphs)
    if model.task != "classification":
        return model.in_target_units(outputs, graphs).double()
    logs = outputs.double().log_softmax(dim=-1)
    others = torch.stack([_without(logs, place).logsumexp(dim=-1) for place in range(logs.shape[-1])], dim=-1)
    return logs - others


def _without(values: Tensor, place: int) -> Tensor:
    return torch.cat([values[..., :place], values[..., place + 1 :]], dim=-1)
