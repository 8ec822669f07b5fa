"""Tuples of BREC's graphs that an agent proposes, which was trained before on other graphs, and its control.

The agent is one that comes with the package; its search is `maggnn_paper.brec.branching`. It has two controls:

    random moves    the same search, in which a move goes to a random colour (`branching.random_scores`): as many steps,
                    and colour refinement is used as freely as beside the agent. What the agent learned is the
                    difference to this control
    random tuples   as many random tuples as the agent makes encoder passes, judged by the same rule: most colours,
                    rarest hash, its value

A third mark (k = 3) is placed by colour refinement alone, for the agent and for both controls: at the node with which
the tuple that was found is first by the same rule.

All see a graph in as many random numberings as the test has relabellings (`ProposalSettings.numberings`), because a
search may depend on them, and each relabelling of the test takes what was found in one of these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from maggnn.data import registry
from maggnn.data.files import locked, whole_file
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.pretrained import agent_digest, pretrained_agent
from maggnn.model.refined.copies import refine, refine_in_parts
from maggnn.model.tuples import sample_tuples
from maggnn_paper.brec.branching import Searched, first_in_order, invariant_search, random_scores
from maggnn_paper.brec.pairs import Pairs
from maggnn_paper.universal.exclusion import packed

RANDOM_MOVES, RANDOM_TUPLES = "random moves", "random tuples"
"""The controls, in place of an agent's name."""

SEARCHED = 2
"""The number of marks that are searched for."""

SEED = 0
"""Of the numberings and the random tuples."""


@dataclass(frozen=True)
class ProposalSettings:
    """How tuples are found before a test.

    Attributes:
        agent: its name, or one of the controls `RANDOM_MOVES` and `RANDOM_TUPLES`.
        starts, moves: C and t of the search; `RANDOM_TUPLES` stands for C * t of them.
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


@dataclass(frozen=True)
class SearchCosts:
    """What the searches in some graphs cost, and whether the numbering of the nodes changed what they found.

    Attributes:
        graphs: how many were searched.
        alike: in how many of them all numberings led to equal copies.
        passes: the most marked copies of one graph in which moves were chosen.
        refined: tuples that colour refinement looked at, the sum over graphs of the mean over numberings.
        tuples: |V|^k, the sum over graphs.
    """

    graphs: float
    alike: float
    passes: float
    refined: float
    tuples: float

    @classmethod
    def together(cls, parts: Sequence[SearchCosts]) -> SearchCosts:
        """Of several sets of graphs."""
        sums = {name: sum(getattr(part, name) for part in parts) for name in ("graphs", "alike", "refined", "tuples")}
        return cls(**sums, passes=max(part.passes for part in parts))

    @property
    def in_words(self) -> str:
        """For the ledger."""
        share = self.refined / self.tuples
        return (
            f"all numberings of {self.alike:.0f} of {self.graphs:.0f} graphs led to equal copies; moves were chosen in "
            f"at most {self.passes:.0f} copies of a graph, and colour refinement read {share:.1%} of all tuples"
        )


def with_proposed(
    graphs: Pairs, pairs: Sequence[int], num_tuples: int, tuple_order: int, settings: ProposalSettings, folder: Path
) -> tuple[Pairs, SearchCosts]:
    """The same graphs with the tuples that were found in each numbering, `Pairs.marked` [P, 2, R * m, k].

    Where all numberings of a graph lead to equal copies (equal hashes), the first one's tuples stand for all of them.

    Args:
        graphs: as in the file (G = 2), before any relabelling.
        pairs: their numbers in BREC.
        folder: of the run; tuples that an earlier job found are read from there.
    """
    digest = "" if settings.agent in (RANDOM_MOVES, RANDOM_TUPLES) else agent_digest(settings.agent)
    facts = f"{tuple(pairs)} {num_tuples} {tuple_order} {settings} {digest}"
    path = folder / "proposed" / f"{pairs[0]}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}.safetensors"
    with locked(path.with_suffix(".lock")):  # jobs of other seeds ask for the same
        if not path.exists():
            tuples, costs = found(graphs, pairs, num_tuples, tuple_order, settings)
            with whole_file(path) as waiting:
                save_file({"tuples": tuples, "costs": torch.tensor(astuple(costs), dtype=torch.float64)}, waiting)
    kept = load_file(path)
    return replace(graphs, marked=kept["tuples"]), SearchCosts(*kept["costs"].tolist())


@cache
def alike_at_proposed(pairs: tuple[int, ...], settings: ProposalSettings) -> frozenset[int]:
    """Those of some of BREC's pairs whose two graphs have the same copies at the tuples that a search finds.

    No model that reads these copies alone distinguishes them; another copy, or one mark more, may.
    """
    graphs = registry.load("brec").graphs
    tuples = found(Pairs.of(graphs, torch.tensor(pairs)), pairs, 1, SEARCHED, settings)[0]  # [P, 2, R, k]
    copies = [
        [set(own) for own in refine(graphs[torch.tensor([2 * pair, 2 * pair + 1])], of_pair).hashes.tolist()]
        for pair, of_pair in zip(pairs, tuples, strict=True)
    ]
    return frozenset(pair for pair, (first, second) in zip(pairs, copies, strict=True) if first == second)


def found(
    graphs: Pairs, pairs: Sequence[int], num_tuples: int, tuple_order: int, settings: ProposalSettings
) -> tuple[Tensor, SearchCosts]:
    """The tuples of all pairs, [P, 2, R * m, k], and what they cost.

    Args:
        pairs: the pairs' numbers, which seed random moves: both graphs of a pair have the same draws.
    """
    model = _model(settings, num_tuples)
    generator = torch.Generator().manual_seed(SEED)
    sets, costs = [], []
    for number, size, both in zip(pairs, graphs.num_nodes.tolist(), graphs.adjacency, strict=True):
        for graph in both[:, :size, :size].cpu().numpy() > 0:
            orders = [torch.randperm(size, generator=generator) for _ in range(settings.numberings)]
            searched, hashes = _in_numberings(
                graph, orders, model, num_tuples, tuple_order, settings, number, generator
            )
            alike = bool((hashes == hashes[0]).all())
            sets.append(searched.tuples[:1].expand_as(searched.tuples) if alike else searched.tuples)
            passes, refined = int(searched.passes.max()), float(searched.refined.double().mean())
            costs.append(SearchCosts(1, int(alike), passes, refined, size**tuple_order))
    together = torch.stack(sets).unflatten(0, (-1, 2)).flatten(2, 3).contiguous()  # from [2 P, R, m, k]
    return together, SearchCosts.together(costs)


def _model(settings: ProposalSettings, num_tuples: int) -> MagGNN | None:
    """The agent in a model that only searches; None for the controls."""
    if settings.agent in (RANDOM_MOVES, RANDOM_TUPLES):
        return None
    agent = pretrained_agent(settings.agent)
    own = replace(agent.config.agent, num_tuples=num_tuples, tuple_order=SEARCHED)
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
    seed: int,
    generator: torch.Generator,
) -> tuple[Searched, Tensor]:
    """What is found in each numbering, its tuples in the graph's own one [R, m, k], and their hashes [R, m]."""
    numbered: PackedGraphs = packed([graph[np.ix_(order.numpy(), order.numpy())] for order in orders])
    batch = (numbered if model is None else model.precomputed(numbered))[torch.arange(len(orders))]
    if settings.agent == RANDOM_TUPLES:
        searched = _best_of_random(batch, num_tuples, settings.passes, generator)
    else:
        scores = random_scores(seed) if model is None else model.scores
        searched = invariant_search(scores, batch, num_tuples, SEARCHED, settings.starts, settings.moves)
    if tuple_order > SEARCHED:
        searched = _with_another_mark(batch, searched)
    hashes = refine_in_parts(batch, searched.tuples).hashes
    old = torch.stack([order[own] for order, own in zip(orders, searched.tuples, strict=True)])
    return searched._replace(tuples=old), hashes


def _with_another_mark(graphs: GraphBatch, searched: Searched) -> Searched:
    """Add the mark to each tuple [B, m, k] with which its copy is the first in the order of the agent's search.

    All graphs have the same number of nodes.
    """
    num_graphs, num_tuples, _ = searched.tuples.shape
    nodes = graphs.total_nodes // num_graphs
    added = torch.arange(nodes).expand(num_graphs, num_tuples, nodes)[..., None]
    tuples = torch.cat([searched.tuples[:, :, None].expand(-1, -1, nodes, -1), added], dim=-1)  # [B, m, n, k + 1]
    refined = refine_in_parts(graphs, tuples.flatten(1, 2))
    hashes, colours = (values.unflatten(1, (num_tuples, nodes)).flatten(0, 1) for values in refined)
    best = torch.stack([first_in_order(*own, 1)[0] for own in zip(hashes, colours, strict=True)])  # [B * m]
    chosen = tuples.flatten(0, 1)[torch.arange(len(best)), best].unflatten(0, (num_graphs, num_tuples))
    return Searched(chosen, searched.passes, searched.refined + num_tuples * nodes)


def _best_of_random(graphs: GraphBatch, num_tuples: int, count: int, generator: torch.Generator) -> Searched:
    """The first of `count` random tuples of each graph in the order of the agent's search."""
    tuples = sample_tuples(graphs, count, SEARCHED, generator)
    seen = [own.unique(dim=0) for own in tuples]
    refined = refine_in_parts(graphs, torch.nn.utils.rnn.pad_sequence(seen, batch_first=True))
    places = [
        first_in_order(hashes[: len(own)], colours[: len(own)], num_tuples)
        for own, hashes, colours in zip(seen, *refined, strict=True)
    ]
    chosen = torch.stack([own[place] for own, place in zip(seen, places, strict=True)])
    return Searched(chosen, torch.zeros(len(seen)), torch.tensor([len(own) for own in seen]))
