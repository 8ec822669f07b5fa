"""Graphs that plain message passing cannot distinguish, built from their definitions.

Every set here is small, exact and needs no download. The graphs have no features: only the structure, and
the marks put on it, can distinguish them.

Shapes: n nodes, E undirected edges, G graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations

import torch
from torch import Tensor

from maggnn.data.synthetic.dense import block_graph, distinct, pack, switched, with_isolated_node
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs

CSL_NODES = 41
CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
CSL_COPIES = 15
BLOCK_NODES = 8
BLOCK_SKIPS = {"A": 2, "B": 3}
"""The two building blocks of a super graph: CSL(8, 2) and CSL(8, 3)."""

MAX_SUPER_GRAPH_N = 7
"""The largest n; there are 2 * binomial(2n, n) super graphs, which would need gigabytes for a larger n."""


@cache
def csl() -> PackedGraphs:
    """Circular skip links: 150 graphs, 10 classes.

    CSL(41, r) is the cycle 0, 1, ..., 40 plus an edge from every node to the one r further on. All are
    4-regular, so message passing sees one graph. Each of the ten skips comes in 15 random relabellings,
    drawn from a fixed seed; y is the position of the skip in `CSL_SKIPS`. Source: Murphy et al.,
    "Relational Pooling for Graph Representations", ICML 2019.
    """
    generator = torch.Generator().manual_seed(0)
    graphs, classes = [], []
    for label, skip in enumerate(CSL_SKIPS):
        edges = _circular_skip_link(CSL_NODES, skip)
        for _ in range(CSL_COPIES):
            graphs.append(torch.randperm(CSL_NODES, generator=generator)[edges])
            classes.append(label)
    return _pack_edges(graphs, [CSL_NODES] * len(graphs), classes)


@cache
def csl8_pair() -> PackedGraphs:
    """CSL(8, 2) with y = 0 and CSL(8, 3) with y = 1, the two graphs in the proof of Theorem 2."""
    graphs = [_circular_skip_link(BLOCK_NODES, skip) for skip in BLOCK_SKIPS.values()]
    return _pack_edges(graphs, [BLOCK_NODES] * 2, [0, 1])


@cache
def shrikhande_rook() -> PackedGraphs:
    """The Shrikhande graph (y = 0) and the 4 x 4 rook's graph (y = 1), both srg(16, 6, 2, 2).

    Nodes are the cells of a 4 x 4 torus. In the Shrikhande graph a cell is joined to its shifts by
    (0, 1), (1, 0) and (1, 1) in both directions; in the rook's graph to all cells of its row and column.
    Strongly regular with equal parameters, hence inseparable by 3-WL (2-FWL). Source: S. S. Shrikhande,
    "The uniqueness of the L2 association scheme", 1959.
    """
    cells = torch.cartesian_prod(torch.arange(4), torch.arange(4))  # [16, 2]
    shift = (cells[:, None] - cells[None]) % 4  # [16, 16, 2]
    steps = torch.tensor([[0, 1], [0, 3], [1, 0], [3, 0], [1, 1], [3, 3]])
    shrikhande = (shift[:, :, None] == steps).all(-1).any(-1)
    rook = (shift == 0).sum(-1) == 1
    return pack(torch.stack([shrikhande, rook]))


@cache
def sr25() -> PackedGraphs:
    """The 15 strongly regular graphs srg(25, 12, 5, 6), y = 0..14.

    They are the descendants of the four regular two-graphs on 26 points. A two-graph is a graph up to
    switching (exchanging edges and non-edges between a node set and the rest); its descendant at a node
    is what is left when switching has isolated that node. One graph of each two-graph is enough to reach
    all 15: the Latin square graphs of the two main classes of order 5, with an isolated node added (the
    cyclic square gives Paley(25)), and the block graphs of the two Steiner triple systems on 13 points.

    Graphs are kept when their fingerprint is new. The fingerprint takes 15 values and just 15 such graphs
    exist, so it separates them and none is missing. Graph 0 is Paley(25). Source: A. J. L. Paulus,
    "Conference matrices and graphs of order 26", 1973; A. E. Brouwer and H. Van Maldeghem, "Strongly
    Regular Graphs", 2022.
    """
    seeds = [with_isolated_node(graph) for graph in _latin_square_graphs()]
    seeds += [block_graph(system, shared=0) for system in _steiner_triple_systems_13()]
    candidates = torch.cat([_descendants(seed) for seed in seeds])  # [4 * 26, 25, 25]
    return pack(distinct(candidates))


def super_graph(sequence: str) -> Tensor:
    """Edges of the super graph G(S) of a cyclic sequence such as "ABBA", each undirected edge once, [2, E].

    Block i is a copy of CSL(8, 2) (A) or CSL(8, 3) (B) on nodes 8i .. 8i + 7; every node of a block is
    joined to every node of the next one, and the last block to the first. Source: the proof of Theorem 2.
    """
    if len(sequence) < 3 or set(sequence) - set(BLOCK_SKIPS):
        raise InputError(f"super graph sequence {sequence!r}: give at least three letters, each A or B")
    across = torch.cartesian_prod(torch.arange(BLOCK_NODES), torch.arange(BLOCK_NODES)).T  # [2, 64]
    parts = []
    for block, letter in enumerate(sequence):
        start = block * BLOCK_NODES
        following = (block + 1) % len(sequence) * BLOCK_NODES
        parts.append(_circular_skip_link(BLOCK_NODES, BLOCK_SKIPS[letter]) + start)
        parts.append(across + torch.tensor([[start], [following]]))
    return torch.cat(parts, dim=1)


def super_sequences(n: int) -> list[str]:
    """The sequences behind `super_graphs(n)`, in the same order: S + S and S + S' for every balanced S."""
    if not 1 <= n <= MAX_SUPER_GRAPH_N:
        raise InputError(f"super graphs of n = {n}: choose n from 1 to {MAX_SUPER_GRAPH_N}")
    sequences = []
    for places in combinations(range(2 * n), n):
        half = "".join("A" if place in places else "B" for place in range(2 * n))
        sequences += [half + half, half + _inverse(half)]
    return sequences


@cache
def super_graphs(n: int) -> PackedGraphs:
    """For every balanced sequence S of length 2n, G(S + S) with y = 1 and G(S + S') with y = 0.

    S' swaps A and B. Opposite blocks are of equal kind in a positive super graph and of different kinds
    in a negative one; they are 2n apart, which is the diameter. Message passing, and marks that do not
    lie on two opposite blocks, cannot distinguish the two. Source: the proof of Theorem 2.
    """
    sequences = super_sequences(n)
    sizes = [BLOCK_NODES * len(sequence) for sequence in sequences]
    return _pack_edges([super_graph(sequence) for sequence in sequences], sizes, [1, 0] * (len(sequences) // 2))


def sequence_class(sequence: str) -> str:
    """The alphabetically first rotation or reflection of a cyclic sequence.

    Super graphs of equal class are isomorphic: a split into train and test must hold out whole classes.
    """
    turns = [sequence[i:] + sequence[:i] for i in range(len(sequence))]
    return min(min(turn, turn[::-1]) for turn in turns)


def _inverse(sequence: str) -> str:
    return sequence.translate(str.maketrans("AB", "BA"))


def _circular_skip_link(num_nodes: int, skip: int) -> Tensor:
    """Edges of CSL(num_nodes, skip), each once, [2, 2n]."""
    node = torch.arange(num_nodes)
    targets = torch.cat([(node + 1) % num_nodes, (node + skip) % num_nodes])
    return torch.stack([node.repeat(2), targets])


def _pack_edges(graphs: Sequence[Tensor], num_nodes: Iterable[int], y: Iterable[int]) -> PackedGraphs:
    """Pack edge lists [2, E] that hold each undirected edge once."""
    return PackedGraphs.build(
        num_nodes=torch.tensor(list(num_nodes)),
        num_edges=torch.tensor([edges.shape[1] for edges in graphs]),
        edge_index=torch.cat(list(graphs), dim=1),
        y=torch.tensor(list(y)),
        undirected_once=True,
    )


def _latin_square_graphs() -> list[Tensor]:
    """Cells of a Latin square, joined when they share row, column or symbol, for both classes of order 5.

    The first square is the addition table of Z5; the second has a 2 x 2 subsquare, which Z5 has not.
    """
    cyclic = "01234 12340 23401 34012 40123"
    other = "01234 10342 23410 34021 42103"
    cell = torch.arange(25)
    graphs = []
    for square in (cyclic, other):
        symbol = torch.tensor([int(letter) for letter in square.replace(" ", "")])
        lines = torch.stack([cell // 5, cell % 5, symbol])  # [3, 25]
        shared = (lines[:, :, None] == lines[:, None]).any(0)
        graphs.append(shared & ~torch.eye(25, dtype=torch.bool))
    return graphs


def _steiner_triple_systems_13() -> list[set[frozenset[int]]]:
    """The two systems of 26 triples of 13 points in which each pair of points lies in just one triple.

    The cyclic one develops {0, 1, 4} and {0, 2, 7} mod 13. The other replaces a Pasch configuration
    abc, ade, fbd, fce by fbc, fde, abd, ace, which covers the same pairs.
    """
    bases, shifts = ((0, 1, 4), (0, 2, 7)), range(13)
    cyclic = {frozenset((point + shift) % 13 for point in base) for base in bases for shift in shifts}
    for first, second in combinations(sorted(cyclic, key=sorted), 2):
        if len(first & second) != 1:
            continue
        (a,), (b, c) = first & second, sorted(first - second)
        for d, e in (sorted(second - first), sorted(second - first, reverse=True)):
            third = next(triple for triple in cyclic if {b, d} <= triple)
            (f,) = third - {b, d}
            if frozenset((f, c, e)) in cyclic:
                removed = {first, second, third, frozenset((f, c, e))}
                added = {frozenset(triple) for triple in ((f, b, c), (f, d, e), (a, b, d), (a, c, e))}
                return [cyclic, (cyclic - removed) | added]
    raise AssertionError("the cyclic Steiner triple system on 13 points contains Pasch configurations")


def _descendants(adjacency: Tensor) -> Tensor:
    """For each node: switch its neighbours against the rest, which isolates it, and delete it.

    Shapes:
        adjacency: [n, n] boolean; returns [n, n - 1, n - 1].
    """
    rest = ~torch.eye(len(adjacency), dtype=torch.bool)  # [n, n]: all nodes but one
    return torch.stack([graph[keep][:, keep] for graph, keep in zip(switched(adjacency, adjacency), rest, strict=True)])
