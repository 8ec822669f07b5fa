"""Proposers of informative tuples, which `maggnn.theory.proof` searches for in another graph.

A tuple is informative if its marks give many nodes unique colours, and if few other tuples have the same copy:
candidates are then dropped early. Both are computed by exact refinement of a sample of tuples, without labels:

    score(v) = number of colours of G(v)  *  share of the sampled copies that differ from G(v)

`greedy` chooses mark after mark by this score; `AgentProposer` lets a pretrained agent move marks and chooses among
all tuples that it visits.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import search
from maggnn.model.pretrained import PretrainedAgent, pretrained_agent
from maggnn.model.refined.copies import refine_one
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples
from maggnn.theory.individualisation import OneGraph, Path
from maggnn.theory.proof import Proposer
from maggnn.theory.refinement import evenly_spaced

GREEDY = "greedy"
"""The name of the proposer that needs no agent."""

CHOSEN_MARKS = 3
"""The number of marks that are chosen by the score; any further marks go to nodes of the most frequent colours."""

MOST_SAMPLED, MOST_COLOURS = 1024, 1 << 26
"""The largest numbers of copies, and of colours (nodes times copies times rounds), to choose a mark: a few seconds."""

STARTS, MOVES = 8, 4
"""The number of an agent's walks, and of their moves."""


def proposer(name: str) -> Proposer:
    """Return the proposer `greedy`, or a pretrained agent by its name or path."""
    return greedy if name == GREEDY else AgentProposer(pretrained_agent(name))


def greedy(graph: PackedGraphs, max_order: int) -> tuple[int, ...]:
    """Choose up to three marks, one after the other, each the most informative of a sample of nodes.

    All first marks with the best score, of which regular graphs have many, are kept for the choice of the second.
    """
    own = OneGraph(graph)
    path = Path(own)
    if max_order == 0 or path.last.discrete:
        return ()
    component, start = components(graph), path.last
    nodes = _shared(start.colours, component)
    path.mark(int(nodes[0]))
    most = max(min(MOST_SAMPLED, MOST_COLOURS // (own.num_nodes * len(path.last.trace))), 1)
    first = _best(graph, evenly_spaced(nodes, most)[:, None])[:, 0]  # [T]
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
    """Return the most informative of some tuples [T, d], with all of equal score, [T', d]."""
    refined = refine_one(graph, tuples)
    _, copy, count = refined.hashes.unique(return_inverse=True, return_counts=True)
    others = len(tuples) - count[copy]  # sampled copies that differ
    score = refined.num_colours * others  # [T]; if no copies differ, all scores are 0
    best = score == score.max()
    most_colours = refined.num_colours[best].max()
    return tuples[best & (refined.num_colours == most_colours)]


def _shared(colours: Tensor, component: Tensor) -> Tensor:
    """Return the nodes that share their colour [n] with another, sorted by colours, then by components."""
    _, colour, count = colours.unique(return_inverse=True, return_counts=True)
    order = component.argsort(stable=True)
    order = order[colour[order].argsort(stable=True)]
    return order[count[colour[order]] > 1]


def _one_a_component(nodes: Tensor, component: Tensor) -> Tensor:
    """Return the first of the nodes in each component: nodes of equal colour are often equivalent within one."""
    owners = component[nodes].tolist()
    return nodes[[place for place, owner in enumerate(owners) if owner not in owners[:place]]]


def _extensions(tuples: Tensor, colours: Tensor, most: int) -> Tensor:
    """Extend each tuple [T, d] by one mark: a node of each colour [n, T] that several nodes share, [T', d + 1].

    If `most` does not allow every colour for every tuple, colours are taken from the tuples in turn.
    """
    each, extended = max(most // len(tuples), 1), []
    for place, own_tuple in enumerate(tuples):
        _, colour, count = colours[:, place].unique(return_inverse=True, return_counts=True)
        first = torch.full_like(count, len(colours)).scatter_reduce(0, colour, torch.arange(len(colours)), "amin")
        nodes = first[count > 1].roll(-place * each)[:each]
        extended.append(torch.cat([own_tuple.expand(len(nodes), -1), nodes[:, None]], dim=1))
    return torch.cat(extended)


def components(graph: PackedGraphs) -> Tensor:
    """Return the component of each node of one graph, as its smallest node, for undirected edges, [n]."""
    source, target = graph.edge_index
    label = torch.arange(int(graph.num_nodes))
    while True:
        smaller = label.scatter_reduce(0, target, label[source], "amin").scatter_reduce(
            0, source, label[target], "amin"
        )
        smaller = smaller[smaller]  # pointer jumping, which halves the length of paths
        if torch.equal(smaller, label):
            return label
        label = smaller


class AgentProposer:
    """A pretrained agent, which moves marks from several random starts and reads only edges.

    It proposes the most informative of all tuples that it visits, the first one among equals.
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
