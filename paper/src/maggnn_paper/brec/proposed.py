"""Tuples of BREC's graphs that an agent proposes which was trained before and on other graphs, and its control.

The agent is one that comes with the package; its search is `maggnn_paper.brec.branching`. The control, random
moves at equal cost, judges as many random tuples as the agent makes encoder passes, by the same rule: most colours,
rarest hash, its value. Both see a graph in as many random numberings as the test has relabellings
(`ProposalSettings.numberings`), because a search may depend on them, and each relabelling of the test takes what was
found in one of these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from maggnn.data.files import locked, whole_file
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.pretrained import agent_digest, pretrained_agent
from maggnn.model.refined.copies import refine_in_parts
from maggnn.model.tuples import sample_tuples
from maggnn_paper.brec.branching import first_in_order, invariant_search
from maggnn_paper.brec.pairs import Pairs
from maggnn_paper.universal.exclusion import packed


@dataclass(frozen=True)
class ProposalSettings:
    """How tuples are found before a test.

    Attributes:
        agent: its name; empty for the control.
        starts, moves: C and t of the search; the control judges C * t random tuples.
        numberings: of each graph, in which the search runs.
    """

    agent: str
    starts: int = 15
    moves: int = 4
    numberings: int = 32

    @property
    def passes(self) -> int:
        """Encoder passes before the answer."""
        return self.starts * self.moves


def with_proposed(
    graphs: Pairs, pairs: Sequence[int], num_tuples: int, tuple_order: int, settings: ProposalSettings, folder: Path
) -> Pairs:
    """The same graphs with the tuples that were found in each numbering, `Pairs.marked` [P, 2, R * m, k].

    Where all numberings of a graph lead to equal copies (equal hashes), the first one's tuples stand for all of them.

    Args:
        graphs: as in the file (G = 2), before any relabelling.
        pairs: their numbers in BREC.
        folder: of the run; tuples that an earlier job found are read from there.
    """
    digest = agent_digest(settings.agent) if settings.agent else ""
    facts = f"{tuple(pairs)} {num_tuples} {tuple_order} {settings} {digest}"
    path = folder / "proposed" / f"{pairs[0]}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}.safetensors"
    with locked(path.with_suffix(".lock")):  # jobs of other seeds ask for the same
        if not path.exists():
            with whole_file(path) as waiting:
                save_file({"tuples": found(graphs, num_tuples, tuple_order, settings)}, waiting)
    return replace(graphs, marked=load_file(path)["tuples"])


def found(graphs: Pairs, num_tuples: int, tuple_order: int, settings: ProposalSettings) -> Tensor:
    """The tuples of all pairs, [P, 2, R * m, k]."""
    model = _model(settings, num_tuples, tuple_order)
    generator = torch.Generator().manual_seed(0)
    sets = []
    for pair, size in enumerate(graphs.num_nodes.tolist()):
        adjacency = graphs.adjacency[pair, :, :size, :size].cpu().numpy() > 0
        for graph in adjacency:
            orders = [torch.randperm(size, generator=generator) for _ in range(settings.numberings)]
            tuples, hashes = _in_numberings(graph, orders, model, num_tuples, tuple_order, settings, generator)
            alike = bool((hashes == hashes[0]).all())
            sets.append(tuples[:1].expand_as(tuples) if alike else tuples)
    return torch.stack(sets).unflatten(0, (-1, 2)).flatten(2, 3).contiguous()  # from [2 P, R, m, k]


def _model(settings: ProposalSettings, num_tuples: int, tuple_order: int) -> MagGNN | None:
    """The agent in a model that only searches; None for the control."""
    if not settings.agent:
        return None
    agent = pretrained_agent(settings.agent)
    own = replace(agent.config.agent, num_tuples=num_tuples, tuple_order=tuple_order)
    agent.check(own)
    model = MagGNN(2, encoder=agent.config.encoder, predictor=agent.config.predictor, agent=own)
    model.q_network = agent.q_network()
    return model.eval()


def _in_numberings(
    graph: np.ndarray,
    orders: list[Tensor],
    model: MagGNN | None,
    num_tuples: int,
    tuple_order: int,
    settings: ProposalSettings,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """The tuples that are found in each numbering, in the graph's own one [R, m, k], and their hashes [R, m]."""
    numbered: PackedGraphs = packed([graph[np.ix_(order.numpy(), order.numpy())] for order in orders])
    if model is None:
        batch = numbered[torch.arange(len(orders))]
        tuples = _best_of_random(batch, num_tuples, tuple_order, settings.passes, generator)
    else:
        batch = model.precomputed(numbered)[torch.arange(len(orders))]
        tuples = invariant_search(model.scores, batch, num_tuples, tuple_order, settings.starts, settings.moves)
    hashes = refine_in_parts(batch, tuples).hashes
    old = torch.stack([order[own] for order, own in zip(orders, tuples, strict=True)])
    return old, hashes


def _best_of_random(
    graphs: GraphBatch, num_tuples: int, tuple_order: int, count: int, generator: torch.Generator
) -> Tensor:
    """The first of `count` random tuples of each graph in the order of the agent's search, [B, m, k]."""
    tuples = sample_tuples(graphs, count, tuple_order, generator)
    every = torch.ones(count, dtype=torch.bool)
    refined = refine_in_parts(graphs, tuples)
    return torch.stack([first_in_order(*one, every, num_tuples) for one in zip(tuples, *refined, strict=True)])
