"""Individualisation and refinement: one graph is marked node by node, and others are compared with it round by round.

A path v_1, v_2, ... puts one mark after the other on a graph and refines its colours until they are stable after each
(McKay, "Practical Graph Isomorphism", 1981). The sum of the colours in each round is the *trace* of the mark. An
isomorphism preserves marks, colours and traces, so a marked copy of another graph whose trace differs anywhere cannot
be the image of the path: all proofs of difference rest on this. Equal traces prove nothing by themselves; if every node
has a unique colour, `isomorphism` checks the correspondence of colours edge by edge.

Colours are those of `maggnn.graphs.colours`; unlike in `maggnn.theory.refinement`, a mark is put on stable colours, so
that another mark takes few rounds, and there may be any number of marks.

Shapes: n nodes, M copies, colours [n] or [n, M].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from maggnn.graphs.colours import Edges, mix, next_colours, row_hashes
from maggnn.graphs.packed import PackedGraphs

MARK = 1
"""The number that is added to the colour of a marked node."""


class OneGraph:
    """A graph by itself, ready to be refined.

    Attributes:
        graph: a set of this one graph.
        num_nodes: n.
        edges: the edges in the form that refinement reads.
        first_colours: the colours of the features, [n].
    """

    def __init__(self, graph: PackedGraphs) -> None:
        self.graph = graph.to("cpu")
        self.num_nodes = int(graph.num_nodes)
        self.edges = Edges.of(self.graph[torch.tensor([0])])
        x = self.graph.x
        features = torch.zeros(self.num_nodes, dtype=torch.long) if x is None else row_hashes(x)
        self.first_colours = mix(features + 1)  # + 1, because mix(0) is 0 and a sum of zeros would not count neighbours


@dataclass(frozen=True)
class Level:
    """One mark of a path and the result of refinement.

    Attributes:
        node: the marked node; None for the colours before any mark.
        colour: the colour of that node before it was marked.
        trace: the sum of all colours in each round, [rounds + 1].
        colours: the stable colours, [n].
        num_colours: the number of distinct colours.
    """

    node: int | None
    colour: int
    trace: tuple[int, ...]
    colours: Tensor
    num_colours: int

    @property
    def discrete(self) -> bool:
        """Whether every node has a unique colour."""
        return self.num_colours == len(self.colours)

    def candidates(self, colours: Tensor) -> Tensor:
        """Return the nodes of another graph with `colours` [n] to which the marked node may correspond, [C]."""
        return (colours == self.colour).nonzero()[:, 0]

    def survivors(self, other: OneGraph, colours: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Mark each of `nodes` [M] in a separate copy of another graph, and keep the copies with the same trace.

        Args:
            colours: the colours of the other graph before the mark, [n].

        Returns:
            The remaining nodes, [M'], and the stable colours of their copies, [n, M'].
        """
        return self.alike(other, marked(colours[:, None].repeat(1, len(nodes)), nodes), nodes)

    def alike(self, other: OneGraph, colours: Tensor, names: Tensor) -> tuple[Tensor, Tensor]:
        """Refine marked copies of another graph, colours [n, M], and keep those with the same trace.

        Returns:
            Their `names`, out of [M], and their stable colours, [n, M'].
        """
        for number, expected in enumerate(self.trace):
            if number:
                colours = next_colours(other.edges, colours)
            agrees = colours.sum(0) == expected
            if not agrees.all():
                names, colours = names[agrees], colours[:, agrees]
            if not len(names):
                break
        return names, colours


def marked(colours: Tensor, nodes: Tensor) -> Tensor:
    """Give one of `nodes` [M] in each copy a unique colour, in place, [n, M]."""
    place = nodes, torch.arange(len(nodes))
    colours[place] = mix(colours[place] + MARK)
    return colours


class Path:
    """A sequence of marks of a graph, which is empty at first.

    Attributes:
        own: the graph.
        levels: the colours before any mark, then those after each mark.
    """

    def __init__(self, own: OneGraph) -> None:
        self.own = own
        self.levels = [_stable_level(own, own.first_colours, None, 0)]

    @property
    def last(self) -> Level:
        """The level with all marks."""
        return self.levels[-1]

    @property
    def nodes(self) -> tuple[int, ...]:
        """The marked nodes, v_1, v_2, ..."""
        return tuple(level.node for level in self.levels[1:] if level.node is not None)

    def mark(self, node: int) -> None:
        """Put the next mark on a node."""
        colours = self.last.colours
        copy = marked(colours[:, None].clone(), torch.tensor([node]))[:, 0]
        self.levels.append(_stable_level(self.own, copy, node, int(colours[node])))

    def shares_colour(self, node: int) -> bool:
        """Whether another node has the colour of this one."""
        return int((self.last.colours == self.last.colours[node]).sum()) > 1

    def extend(self, order: int) -> None:
        """Mark nodes of the most frequent colour, up to `order` marks or until all colours are distinct."""
        while len(self.levels) <= order and not self.last.discrete:
            _, colour, count = self.last.colours.unique(return_inverse=True, return_counts=True)
            self.mark(int((colour == count.argmax()).nonzero()[0]))

    def refine_unmarked(self, other: OneGraph) -> Tensor | None:
        """Return the stable colours of another graph without marks, [n]; None if its trace differs."""
        found, colours = self.levels[0].alike(other, other.first_colours[:, None], torch.zeros(1))
        return colours[:, 0] if len(found) else None


def _stable_level(own: OneGraph, colours: Tensor, node: int | None, colour: int) -> Level:
    """Refine colours [n] until their number no longer grows."""
    count, trace = 0, [int(colours.sum())]
    new_count = _num_colours(colours)
    while new_count > count:
        colours, count = next_colours(own.edges, colours[:, None])[:, 0], new_count
        trace.append(int(colours.sum()))
        new_count = _num_colours(colours)
    return Level(node, colour, tuple(trace), colours, count)


def _num_colours(colours: Tensor) -> int:
    return len(np.unique(colours.numpy()))


# ---- isomorphisms ---------------------------------------------------------------------------------------


def isomorphism(first: OneGraph, colours: Tensor, second: OneGraph, others: Tensor) -> Tensor | None:
    """Return the node of the second graph with the colour of each node of the first, [n], if that is an isomorphism.

    Args:
        colours, others: the colours of the two graphs, distinct within each, [n].

    Returns:
        The nodes; None unless edges and features agree exactly, which is checked without hashes.
    """
    ranked, other_ranked = colours.sort(), others.sort()
    if not torch.equal(ranked.values, other_ranked.values):
        return None
    image = torch.empty_like(ranked.indices).scatter_(0, ranked.indices, other_ranked.indices)
    own, other = first.graph, second.graph
    if not _equal(own.x, None if other.x is None else other.x[image]):
        return None
    ours, our_order = _in_order(image[own.edge_index], own.edge_attr)
    theirs, their_order = _in_order(other.edge_index, other.edge_attr)
    if not torch.equal(ours, theirs):
        return None
    features = (own.edge_attr, our_order), (other.edge_attr, their_order)
    return image if _equal(*(rows if rows is None else rows[order] for rows, order in features)) else None


def _in_order(edge_index: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return edges [2, E] sorted by target, source and features, and that order [E]."""
    columns = [] if features is None else list(features.flatten(1).numpy().T)
    order = torch.from_numpy(np.lexsort([*columns, edge_index[0].numpy(), edge_index[1].numpy()]))
    return edge_index[:, order], order


def _equal(first: Tensor | None, second: Tensor | None) -> bool:
    """Whether neither graph has features, or both have equal ones."""
    if first is None or second is None:
        return first is second
    if first.dtype != second.dtype:
        first, second = first.double(), second.double()
    return torch.equal(first, second)
