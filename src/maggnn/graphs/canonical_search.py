"""The search for the canonical order of graphs (`canonical_order`), in numpy: worker processes, too, make it.

Shapes: G graphs of a search, R current colourings of them, N nodes of these R graphs; colours are [N].
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maggnn.graphs.hashes import mixed
from maggnn.graphs.stable_colours import LAST, SideBySide, places, stable, sums_of_runs

CELLS_AT_ONCE = 1 << 20
"""The largest number of nodes times nodes of a chunk of graphs, since each node may be a choice."""

MOST_CELLS = 1 << 20
"""The largest number of nodes times choices of one graph that are tried at once."""


class NumberingWarning(UserWarning):
    """A graph is so regular that no numbering independent of the given one was found."""


class Outgoing(NamedTuple):
    """The edges of graphs in which not every edge has a reverse edge with the same features.

    Attributes:
        target: the target of each edge, numbered through all graphs, [E].
        by_source: the edges in the order of their sources, [E].
        degree: the number of outgoing edges of each node, [N].
    """

    target: np.ndarray
    by_source: np.ndarray
    degree: np.ndarray


def nodes_in_order(graphs: SideBySide, features: np.ndarray, outgoing: Outgoing | None) -> np.ndarray:
    """Return the nodes of all graphs in canonical order, [N].

    Args:
        features: a hash of what is known of each node, [N].
        outgoing: None if every edge has a reverse edge with the same features.
    """
    colours = mixed(features + 1)
    colours = mixed(colours + _number_among_twins(graphs, colours, outgoing))
    rows, first, by_size = np.empty(len(colours), dtype=np.int64), 0, np.argsort(-graphs.sizes, kind="stable")
    while first < len(by_size):
        largest = max(1, int(graphs.sizes[by_size[first]]))
        ids = by_size[first : first + max(1, CELLS_AT_ONCE // largest**2)]
        chosen, nodes = graphs.pick(ids)
        _write_order(rows, nodes, chosen, _canonical_colours(chosen, ids, colours.take(nodes), outgoing is None))
        first += len(ids)
    return rows


def _number_among_twins(graphs: SideBySide, colours: np.ndarray, outgoing: Outgoing | None) -> np.ndarray:
    """Return 0, 1, 2, ... among nodes of one colour with the same neighbours along the same edges, in and out.

    Such nodes are twins: any order of them is equivalent.
    """
    name = mixed(np.arange(1, len(colours) + 1))
    kind = np.int64(0) if graphs.kind is None else graphs.kind
    # The graph is part of the key, because nodes without neighbours would have equal keys in all graphs.
    seen = mixed(graphs.owner + 1) + sums_of_runs(mixed(name.take(graphs.source) + kind), graphs.degree)
    if outgoing is not None:
        sent = mixed(name.take(outgoing.target) + mixed(kind + np.ones_like(outgoing.target)))
        seen += sums_of_runs(sent[outgoing.by_source], outgoing.degree)
    key = mixed(seen) + colours
    # Most keys occur once. Counting their last bits finds those that may occur again, and only these are sorted.
    bins = key & ((1 << (4 * len(key)).bit_length()) - 1)
    node = (np.bincount(bins)[bins] > 1).nonzero()[0]
    node = node[np.argsort(key[node], kind="stable")]
    number = np.zeros_like(key)
    number[node] = _number_within(key[node])
    return number


def _write_order(rows: np.ndarray, nodes: np.ndarray, graphs: SideBySide, colours: np.ndarray) -> None:
    """Write the nodes of some graphs, which are `nodes` [N] of the set, into `rows` in the order of their colours."""
    order = graphs.table(colours).argsort(axis=1)  # [R, width], padding last
    rows[nodes] = nodes[np.repeat(graphs.first, graphs.sizes) + order.ravel().take(graphs.cell)]


@dataclass(frozen=True)
class _Colourings:
    """Stable colourings of some graphs: none, one or several of each.

    Attributes:
        graphs: the graph of each colouring, R in total.
        of: the index of that graph in the search, ascending, [R].
        colours: the colours of the nodes, [N].
        counts: the number of colours of each colouring, [R].
    """

    graphs: SideBySide
    of: np.ndarray
    colours: np.ndarray
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.of)

    @property
    def is_open(self) -> np.ndarray:
        """Which colourings have nodes that share a colour, [R]."""
        return self.counts < self.graphs.sizes

    def pick(self, rows: np.ndarray) -> _Colourings:
        """Return colourings `rows` [R'], which are ascending and may repeat."""
        if len(rows) == len(self) and bool((rows == np.arange(len(rows))).all()):
            return self
        graphs, nodes = self.graphs.pick(rows)
        return _Colourings(graphs, self.of[rows], self.colours.take(nodes), self.counts[rows])

    def where(self, which: np.ndarray) -> _Colourings:
        """Return the colourings for which `which` [R] is true."""
        return self.pick(which.nonzero()[0])

    def individualised(self, node: np.ndarray) -> _Colourings:
        """Individualise one node of each colouring, [R] by its number in the graph, and refine."""
        place = self.graphs.first + node
        colours = self.colours.copy()
        colours[place] = mixed(colours[place] + 1)
        return _Colourings(self.graphs, self.of, *stable(self.graphs, colours))

    def hashes(self) -> np.ndarray:
        """Return a hash of the multiset of colours of each colouring, [R]."""
        return self.graphs.hashes(self.colours)


def _canonical_colours(graphs: SideBySide, ids: np.ndarray, colours: np.ndarray, symmetric: bool) -> np.ndarray:
    """Return colours of nodes that are distinct within a graph and do not depend on the numbering, [N].

    This is a breadth-first search over choices, for all graphs at once. If edges are symmetric and no more than two
    nodes share a colour, one choice is enough: between two such pairs there are no edges, all, or a matching, since
    nodes of one colour have equally many neighbours of another, so exchanging the nodes of all pairs is a symmetry.

    Args:
        ids: the numbers of the graphs in their set, [G].
        colours: the colours of their features, [N].
    """
    colours, counts = stable(graphs, colours)
    kept = _Colourings(graphs, np.arange(len(graphs)), colours, counts)
    found = colours.copy()
    while len(kept):
        done = kept.where(~kept.is_open & _is_first(kept.of))  # the colourings of one graph have equally many colours
        found[places(graphs.sizes, done.of)] = done.colours
        kept = kept.where(kept.is_open)
        shared, size = _rarest_shared(kept)
        if symmetric:
            owner = kept.graphs.owner[shared]
            shared = shared[(size[owner] > 2) | _is_first(owner)]
        kept = _choices(kept, shared, ids)
    return found


def _choices(kept: _Colourings, shared: np.ndarray, ids: np.ndarray) -> _Colourings:
    """Individualise each of the nodes `shared`, and keep each graph's inequivalent choices with the smallest hash."""
    parent = kept.graphs.owner[shared]
    number, most = _number_within(kept.of[parent]), MOST_CELLS // kept.graphs.sizes[parent]
    fits = number < most.clip(min=1)
    chosen = parent[fits]
    tried = kept.pick(chosen).individualised(shared[fits] - kept.graphs.first[chosen])
    hashes, begins = tried.hashes(), _is_first(tried.of)
    smallest = np.minimum.reduceat(hashes, begins.nonzero()[0]) if len(hashes) else hashes
    is_smallest = hashes == smallest[begins.cumsum() - 1]
    found = _inequivalent(tried.where(is_smallest))
    cut = np.unique(kept.of[parent[~fits]])  # all choices may still turn out to be equivalent
    unlike = np.concatenate([tried.of[~is_smallest], found.of[~_is_first(found.of)]])
    _warn_of(ids[cut[np.isin(cut, unlike)]].tolist())
    return found


def _inequivalent(found: _Colourings) -> _Colourings:
    """Keep one colouring of each graph for each of the final colourings that they lead to."""
    several = np.bincount(found.of)[found.of] > 1
    keys = mixed(found.of + 1)
    keys[several] += _ends(found.where(several))
    first = np.unique(keys, return_index=True)[1]
    return found.pick(np.sort(first))


def _ends(colourings: _Colourings) -> np.ndarray:
    """Return the hash of each colouring after nodes are individualised, in any way, until all colours differ, [R]."""
    ends, row = np.zeros(len(colourings), dtype=np.int64), np.arange(len(colourings))
    while len(colourings):
        ends[row] = colourings.hashes()
        row, colourings = row[colourings.is_open], colourings.where(colourings.is_open)
        shared, _ = _rarest_shared(colourings)
        first = shared[_is_first(colourings.graphs.owner[shared])]
        colourings = colourings.individualised(first - colourings.graphs.first)
    return ends


def _is_first(owner: np.ndarray) -> np.ndarray:
    """Return which of the entries [R] begin a run of equal ones."""
    return np.concatenate([np.ones(min(len(owner), 1), dtype=bool), owner[1:] != owner[:-1]])


def _number_within(owner: np.ndarray) -> np.ndarray:
    """Return 0, 1, 2, ... within each run of equal entries, [R]."""
    place = np.arange(len(owner))
    return place - np.maximum.accumulate(np.where(_is_first(owner), place, 0))


def _warn_of(graphs: list[int]) -> None:
    for graph in graphs:
        warnings.warn(
            f"graph {graph} is so regular that its answer may depend on the numbering of its nodes",
            NumberingWarning,
            stacklevel=2,
        )


def _rarest_shared(colourings: _Colourings) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of one shared colour of each open colouring, and the size of its most frequent colour.

    The colour is the smallest of the rarest shared colours.

    Returns:
        The nodes, ascending, and the sizes, [R].
    """
    graphs, ordered = colourings.graphs, colourings.graphs.table(colourings.colours)
    ordered.sort(axis=1)
    place = np.arange(ordered.shape[1])
    edge = np.ones((len(ordered), 1), dtype=bool)
    begins = np.concatenate([edge, ordered[:, 1:] != ordered[:, :-1]], axis=1)
    ends = np.concatenate([begins[:, 1:], edge], axis=1)
    start = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    size = np.where(ends & (ordered != LAST), place + 1 - start, 1)  # 1 if no colour ends here
    at = np.where(size > 1, size, len(place) + 1).argmin(axis=1)
    colour = ordered[np.arange(len(ordered)), at]
    return (colourings.colours == np.repeat(colour, graphs.sizes)).nonzero()[0], size.max(axis=1)
