"""The contribution of each atom to the answer of a network, by masking.

An atom is masked by replacing its initial state h⁽⁰⁾ (Eq. 1: features, structure and marks) by the mean of the initial
states of the graph's atoms. Its bonds and the marks stay the same, so that only the information about the atom itself
is removed. The decrease of the answer is the atom's contribution:

    c(v) = f(G) - f(G with h⁽⁰⁾ of v replaced by the mean of h⁽⁰⁾ over G)

Numbers are in the target's own unit. For a class, f is the logarithm of its odds, log p / (1 - p), which is unbounded
unlike probabilities. Contributions do not add up to the answer: several atoms may carry the same information, and then
masking each of them alone changes little. `maggnn-paper bench motifs` measures how well known motifs are found.

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
    "Contributions are computed by masking: an atom's contribution is the decrease of the answer when the atom's state "
    "is replaced by the mean state of the molecule's atoms."
)
"""The explanation of contributions for readers."""

MOST_ATOMS = 20_000
"""The largest number of atoms of all copies in a pass; it bounds the memory."""


@torch.no_grad()
def atom_contributions(model: MagGNN, packed: PackedGraphs, seed: int = 0) -> Tensor:
    """Compute the contribution of each atom to each output of a network.

    Args:
        model: A network with one answer for each graph.
        packed: One graph, in the form that the model reads.
        seed: The seed of random starts of the marks, if the model has them.

    Returns:
        The contributions in the targets' units; for classes, in units of the logarithm of the odds.

    Shapes:
        returns: [O, n]
    """
    encoder = model.predictor.encoder
    if not isinstance(encoder, Encoder) or model.predictor.level != "graph":
        raise InputError("atom contributions are only for networks of this package with one answer for each graph")
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
    """Return the final marks of the model's search, [1, m, k]."""
    states = model.walk(alone, generator=make_generator(seed, alone.device))
    if model.agent.keep == "last":
        return states[-1].tuples
    sureness = [float(model.predictor(alone, state.tuples).softmax(dim=-1).max()) for state in states]
    return states[sureness.index(max(sureness))].tuples


def _answers(model: MagGNN, graphs: GraphBatch, tuples: Tensor, h: Tensor) -> Tensor:
    """Return the answers for graphs with initial states h, [B, O]: values, or logarithms of classes' odds."""
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
