"""The graphs of Cai, Fürer and Immerman over a base graph: colour refinement needs marks as the base's treewidth grows.

J.-Y. Cai, M. Fürer and N. Immerman, "An optimal lower bound on the number of variables for graph identification",
1992. Each base node v becomes the even subsets S of its edges. What joins the gadgets of the two ends of an edge e has
three forms: one pair of nodes for e ("pair", a node S is joined to the one that says whether e is in S), a pair at each
end ("ends", as in the paper), or no node at all ("direct", S and T are joined where they agree on e). In the twisted
graph one edge is crossed.

Shapes: every graph is a symmetric boolean matrix [n, n].
"""

from __future__ import annotations

from itertools import product
from typing import Literal

import numpy as np

from maggnn_paper.universal.classical import Adjacency, cycle

Form = Literal["pair", "ends", "direct"]
"""How the gadgets of two base nodes are joined."""

FORMS: tuple[Form, ...] = ("pair", "ends", "direct")


def cfi(base: Adjacency, twisted: bool, form: Form = "pair") -> Adjacency:
    """The plain or twisted graph over `base`, which has at least one edge."""
    ends = np.argwhere(np.triu(base))  # [E, 2]
    owner, edge, bit = _gadgets(base, ends)  # of each node in the gadgets, and of each pair (node, edge of its owner)
    num_inner, node = len(owner), np.arange(len(owner))
    said = np.full((num_inner, len(ends)), -1)  # what a subset says of each edge: out, in, or nothing
    said[edge[:, 0], edge[:, 1]] = bit
    crossed = np.zeros_like(said)
    if twisted:
        crossed[:, 0] = owner == ends[0, 0]
    seen = np.where(said < 0, -1, said ^ crossed)
    if form == "direct":
        agree = np.any((seen[:, None] == seen) & (seen[:, None] >= 0), axis=-1)
        return agree & (owner[:, None] != owner)
    pairs = [(e, side) for e in range(len(ends)) for side in range(1 if form == "pair" else 2)]
    place = {pair: num_inner + 2 * i for i, pair in enumerate(pairs)}
    graph = np.zeros((num_inner + 2 * len(pairs),) * 2, dtype=bool)
    for e, side in pairs:
        inner = node[(said[:, e] >= 0) & ((form == "pair") | (owner == ends[e, side]))]
        graph[inner, place[e, side] + (seen if form == "pair" else said)[inner, e]] = True
    if form == "ends":
        for e, b in product(range(len(ends)), range(2)):
            graph[place[e, 0] + b, place[e, 1] + (b ^ (twisted and e == 0))] = True
    return graph | graph.T


def cfi_size(base: Adjacency, form: Form) -> int:
    """Nodes of the graph over `base`."""
    degree, edges = base.sum(1), int(base.sum()) // 2
    return int((2 ** np.maximum(degree - 1, 0)).sum()) + {"pair": 2, "ends": 4, "direct": 0}[form] * edges


def _gadgets(base: Adjacency, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The even subsets of every base node's edges.

    Returns:
        The base node of each subset [n], then for each pair of a subset and an edge of its base node: the two
        [pairs, 2], and whether the edge is in the subset [pairs].
    """
    owner: list[int] = []
    pairs, bits = [], []
    for v in range(len(base)):
        incident = np.flatnonzero((ends == v).any(1))
        for subset in product((0, 1), repeat=max(len(incident) - 1, 0)):
            full = [*subset, sum(subset) % 2][: len(incident)]
            pairs += [(len(owner), e) for e in incident]
            bits += full
            owner.append(v)
    return np.array(owner), np.array(pairs), np.array(bits)


def grid(rows: int, columns: int) -> Adjacency:
    """Cells, joined where they lie side by side."""
    x, y = (numbers.ravel() for numbers in np.indices((rows, columns)))
    return np.abs(x[:, None] - x) + np.abs(y[:, None] - y) == 1


def wheel(spokes: int) -> Adjacency:
    """A cycle and a hub that is joined to all of it."""
    graph = np.pad(cycle(spokes), (0, 1))
    graph[-1, :-1] = graph[:-1, -1] = True
    return graph
