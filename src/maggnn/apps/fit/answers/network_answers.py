"""The answers of the networks of an ensemble, with their common work done once.

The networks of an ensemble differ in their predictors. They read the same graphs in the same order, except for graphs
with a category that one of them did not see in training, and an agent that comes with the package makes the same moves
for all of them.

Shapes: G graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maggnn.graphs.canonical_order import in_canonical_order
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.engine import Engine
from maggnn.model.mag_gnn import MagGNN

if TYPE_CHECKING:
    from maggnn.apps.fit.fitted import FittedModel


def network_answers(
    networks: Sequence[FittedModel],
    packed: PackedGraphs,
    seed: int,
    memory_mb: float,
    device: str,
    done: Callable[[int], None] | None = None,
) -> list[Tensor]:
    """Return the answers of each network for all graphs, [G, outputs] each, on the CPU."""
    shared = _Shared(packed, [network.model for network in networks])
    answers = []
    for place, network in enumerate(networks):
        own = network.with_seen_categories(packed, warn=not place)  # only the first network warns
        engine = network.engine(memory_mb, device)
        answers.append(shared.answers(engine, own, seed, None if place else done).cpu())
    return answers


class _Shared:
    """Graphs in canonical order and the final tuples of an agent, for all networks that read the same graphs."""

    def __init__(self, packed: PackedGraphs, models: Sequence[MagGNN]) -> None:
        self._packed = packed
        self._same_moves = len(models) > 1 and all(_make_same_moves(models[0], model) for model in models)
        self._precomputed: PackedGraphs | None = None
        self._tuples: Tensor | None = None

    def answers(self, engine: Engine, own: PackedGraphs, seed: int, done: Callable[[int], None] | None) -> Tensor:
        """Return a network's answers; `own` are the graphs as it reads them, with its own replaced categories."""
        changed = _changed(self._packed, own)
        if bool(changed.any()) and not _is_fixed(engine.model):
            changed = torch.ones_like(changed)  # graphs in a separate batch would get other random starts
        if bool(changed.all()):
            return engine.predict(in_canonical_order(own), done=done, seed=seed)
        if self._precomputed is None:
            self._precomputed = engine.precomputed(in_canonical_order(self._packed))
            self._tuples = engine.search(self._precomputed) if self._same_moves else None
        same, other = (~changed).nonzero()[:, 0], changed.nonzero()[:, 0]
        answers = engine.predict(self._precomputed, same, done, seed, self._tuples)
        if not len(other):
            return answers
        more = engine.predict(in_canonical_order(own.select(other)), seed=seed)
        if done is not None:
            done(len(self._packed))
        return torch.cat([answers, more])[torch.cat([same, other]).argsort()]


def _changed(packed: PackedGraphs, own: PackedGraphs) -> Tensor:
    """Return which graphs differ in a feature, [G]; all if only one of the sets has features."""
    changed = torch.zeros(len(packed), dtype=torch.bool)
    for before, after, counts in (
        (packed.x, own.x, packed.num_nodes),
        (packed.edge_attr, own.edge_attr, packed.num_edges),
    ):
        if before is after:
            continue
        if before is None or after is None or before.shape != after.shape:
            return torch.ones_like(changed)
        differs = (before != after).any(dim=1).cpu()
        changed |= torch.zeros_like(changed).index_fill(0, torch.repeat_interleave(counts)[differs], True)
    return changed


def _is_fixed(model: MagGNN) -> bool:
    """Whether nothing is random, so that an answer does not depend on the other graphs of a batch."""
    return model.ties == "first" and not model.predictor.encoder.draws


def _make_same_moves(first: MagGNN, second: MagGNN) -> bool:
    """Whether two models end their searches at the same tuples: the same agent, which reads only edges and marks."""
    agent = first.agent
    if not _is_fixed(first) or first.pretrained is None:
        return False
    if (
        agent.keep != "last" or agent.encoder != "own" or agent.state != "q_network"
    ):  # the search depends on the predictor, too
        return False
    if (first.agent, first.pretrained) != (second.agent, second.pretrained):
        return False
    weights = [{} if model.q_network is None else model.q_network.state_dict() for model in (first, second)]
    return weights[0].keys() == weights[1].keys() and all(map(torch.equal, *(own.values() for own in weights)))
