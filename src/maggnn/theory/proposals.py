"""Who proposes the informative tuple that `maggnn.theory.proof` looks for in another graph.

A tuple is informative if its marks give many nodes colours of their own, and if few other tuples have the same copy: a
candidate for it is then dropped early. Both are read off exact refinement of a sample, without labels:

    score(v) = number of colours of G(v)  *  share of the sampled copies that differ from G(v)

`greedy` chooses mark after mark by this score; `TravellingAgent` lets a pretrained agent move marks and chooses among
all tuples on its way.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.colours import Refined
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import search
from maggnn.model.pretrained import PretrainedAgent, pretrained_agent
from maggnn.model.refined.copies import refine_in_parts
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples
from maggnn.theory.individualisation import OneGraph, Path
from maggnn.theory.proof import Proposer

GREEDY = "greedy"
"""The name of the proposer that needs no agent."""

CHOSEN_MARKS = 3
"""Marks that are chosen with care; those after them, if any, go to nodes of the most common colours."""

MOST_SAMPLED, MOST_COLOURS = 1024, 1 << 26
"""Copies that are refined to choose a mark, and their colours (nodes times copies times rounds): a few seconds."""

STARTS, MOVES = 8, 4
"""Of an agent's walks."""


def proposer(name: str) -> Proposer:
    """The one called `greedy`, or a pretrained agent by its name or path."""
    return greedy if name == GREEDY else TravellingAgent(pretrained_agent(name))


def greedy(graph: PackedGraphs, max_order: int) -> tuple[int, ...]:
    """Choose up to three marks, one after the other, each time the most informative of a sample of nodes.

    First marks that are equally good, as in regular graphs, are all kept for the choice of the second.
    """
    own = OneGraph(graph)
    path = Path(own)
    if max_order == 0 or path.last.discrete:
        return ()
    component, start = components(graph), path.last
    nodes = _shared(start.colours, component)
    path.mark(int(nodes[0]))
    most = max(min(MOST_SAMPLED, MOST_COLOURS // (own.num_nodes * len(path.last.trace))), 1)
    first = _best(graph, _spread(nodes, most)[:, None])[:, 0]  # [T]
    path = _marked(own, first[:1])
    nodes, colours = path.last.survivors(own, start.colours, _one_a_component(first, component))
    tuples = nodes[:, None]  # [T', 1], colours [n, T']
    while tuples.shape[1] < min(max_order, CHOSEN_MARKS) and not path.last.discrete:
        tuples = _best(graph, _extensions(tuples, colours, most))[:1]
        path = _marked(own, tuples[0])
        colours = path.last.colours[:, None]
    return tuple(tuples[0].tolist())


def _marked(own: OneGraph, nodes: Tensor) -> Path:
    path = Path(own)
    for node in nodes.tolist():
        path.mark(node)
    return path


def _best(graph: PackedGraphs, tuples: Tensor) -> Tensor:
    """The most informative of some tuples [T, d], with those that score equally, [T', d]."""
    refined = _refined(graph, tuples)
    _, copy, count = refined.hashes.unique(return_inverse=True, return_counts=True)
    others = len(tuples) - count[copy]  # sampled copies that differ
    score = refined.num_colours * others  # [T]; where no copies differ, all score 0
    best = score == score.max()
    most_colours = refined.num_colours[best].max()
    return tuples[best & (refined.num_colours == most_colours)]


def _refined(graph: PackedGraphs, tuples: Tensor) -> Refined:
    """Hashes and numbers of colours of all copies of one graph, tuples [T, d], [T] each."""
    return Refined(*(values[0] for values in refine_in_parts(graph[torch.tensor([0])], tuples[None])))


def _shared(colours: Tensor, component: Tensor) -> Tensor:
    """The nodes that share their colour [n] with another, in the order of colours, then of components."""
    _, colour, count = colours.unique(return_inverse=True, return_counts=True)
    order = component.argsort(stable=True)
    order = order[colour[order].argsort(stable=True)]
    return order[count[colour[order]] > 1]


def _spread(nodes: Tensor, most: int) -> Tensor:
    """At most so many of the nodes, evenly spread from the first to the last."""
    return nodes if len(nodes) <= most else nodes[torch.linspace(0, len(nodes) - 1, most).round().long()]


def _one_a_component(nodes: Tensor, component: Tensor) -> Tensor:
    """The first of the nodes in each component: nodes that look alike are often equivalent within one."""
    owners = component[nodes].tolist()
    return nodes[[place for place, owner in enumerate(owners) if owner not in owners[:place]]]


def _extensions(tuples: Tensor, colours: Tensor, most: int) -> Tensor:
    """Each tuple [T, d] with one mark more: a node of each colour [n, T] that several nodes share, [T', d + 1].

    Where `most` does not allow every colour for every tuple, tuples take turns.
    """
    each, extended = max(most // len(tuples), 1), []
    for place, own_tuple in enumerate(tuples):
        _, colour, count = colours[:, place].unique(return_inverse=True, return_counts=True)
        first = torch.full_like(count, len(colours)).scatter_reduce(0, colour, torch.arange(len(colours)), "amin")
        nodes = first[count > 1].roll(-place * each)[:each]
        extended.append(torch.cat([own_tuple.expand(len(nodes), -1), nodes[:, None]], dim=1))
    return torch.cat(extended)


def components(graph: PackedGraphs) -> Tensor:
    """The smallest node that each node of one graph is connected with, edges either way, [n]."""
    source, target = graph.edge_index
    label = torch.arange(int(graph.num_nodes))
    while True:
        smaller = label.scatter_reduce(0, target, label[source], "amin").scatter_reduce(
            0, source, label[target], "amin"
        )
        smaller = smaller[smaller]  # a label's own label: paths shrink to half their length
        if torch.equal(smaller, label):
            return label
        label = smaller


class TravellingAgent:
    """A pretrained agent, which moves marks from several random starts and sees edges alone.

    Among all tuples on its way the most informative is proposed, the one that comes first of equally good ones.
    """

    def __init__(self, agent: PretrainedAgent) -> None:
        self.agent = agent
        self.q_network = agent.q_network()

    def __call__(self, graph: PackedGraphs, max_order: int) -> tuple[int, ...]:
        """Propose a tuple of the agent's own order; starts are the same every time."""
        agent, settings = self.agent, self.agent.config.agent
        if agent.tuple_order > max_order:
            raise InputError(
                f"agent {agent.name} moves tuples of order {agent.tuple_order}, more than {max_order}: "
                "raise the order or choose another agent"
            )
        bare = replace(graph, x=None, edge_attr=None, y=None)
        batch = bare[torch.zeros(STARTS, dtype=torch.long)]
        generator = torch.Generator().manual_seed(0)
        tuples = sample_tuples(batch, settings.num_tuples, agent.tuple_order, generator)
        start = State.start(batch, tuples, self.q_network.update_history.width)
        with torch.no_grad():
            states = search(self.q_network, start, MOVES, settings.actions, generator=generator)
        visited = torch.cat([state.tuples.flatten(0, 1) for state in states]).unique(dim=0)
        return tuple(_best(graph, visited)[0].tolist())
