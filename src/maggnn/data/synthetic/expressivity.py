"""Graphs that plain message passing cannot tell apart, built from their definitions.

Every set here is small, exact and needs no download. Graphs without features: only the structure, and
the marks put on it, can separate them.

Shapes: n nodes, E undirected edges, G graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs

CSL_NODES = 41
CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
CSL_COPIES = 15
BLOCK_NODES = 8
BLOCK_SKIPS = {"A": 2, "B": 3}
"""The two building blocks of a super graph: CSL(8, 2) and CSL(8, 3)."""

MAX_SUPER_GRAPH_N = 7
"""A larger n would need gigabytes: there are 2 * binomial(2n, n) super graphs."""


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
    return _pack(graphs, [CSL_NODES] * len(graphs), classes)


@cache
def csl8_pair() -> PackedGraphs:
    """CSL(8, 2) with y = 0 and CSL(8, 3) with y = 1, the two graphs in the proof of Theorem 2."""
    graphs = [_circular_skip_link(BLOCK_NODES, skip) for skip in BLOCK_SKIPS.values()]
    return _pack(graphs, [BLOCK_NODES] * 2, [0, 1])


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
    return _pack([_edges(shrikhande), _edges(rook)], [16, 16], [0, 1])


@cache
def sr25() -> PackedGraphs:
    """The 15 strongly regular graphs srg(25, 12, 5, 6), y = 0..14.

    They are the descendants of the four regular two-graphs on 26 points. A two-graph is a graph up to
    switching (exchanging edges and non-edges between a node set and the rest); its descendant at a node
    is what is left when switching has isolated that node. One graph of each two-graph is enough to reach
    all 15: the Latin square graphs of the two main classes of order 5, with an isolated node added (the
    cyclic square gives Paley(25)), and the block graphs of the two Steiner triple systems on 13 points.

    Graphs are kept when their invariant is new. The invariant takes 15 values and just 15 such graphs
    exist, so it separates them and none is missing. Graph 0 is Paley(25). Source: A. J. L. Paulus,
    "Conference matrices and graphs of order 26", 1973; A. E. Brouwer and H. Van Maldeghem, "Strongly
    Regular Graphs", 2022.
    """
    seeds = [_with_isolated_node(graph) for graph in _latin_square_graphs()]
    seeds += [_block_graph(system) for system in _steiner_triple_systems_13()]
    candidates = torch.cat([_descendants(seed) for seed in seeds])  # [4 * 26, 25, 25]
    found: dict[tuple[int, ...], Tensor] = {}
    for key, graph in zip(_pair_invariant(candidates), candidates, strict=True):
        found.setdefault(key, graph)
    graphs = [_edges(graph) for graph in found.values()]
    return _pack(graphs, [25] * len(graphs), list(range(len(graphs))))


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
    sit on two opposite blocks, cannot tell the two. Source: the proof of Theorem 2.
    """
    sequences = super_sequences(n)
    sizes = [BLOCK_NODES * len(sequence) for sequence in sequences]
    return _pack([super_graph(sequence) for sequence in sequences], sizes, [1, 0] * (len(sequences) // 2))


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


def _pack(graphs: Sequence[Tensor], num_nodes: Iterable[int], y: Iterable[int]) -> PackedGraphs:
    """Pack edge lists [2, E] that hold each undirected edge once."""
    return PackedGraphs.build(
        num_nodes=torch.tensor(list(num_nodes)),
        num_edges=torch.tensor([edges.shape[1] for edges in graphs]),
        edge_index=torch.cat(list(graphs), dim=1),
        y=torch.tensor(list(y)),
        undirected_once=True,
    )


def _edges(adjacency: Tensor) -> Tensor:
    """Each undirected edge of a boolean adjacency [n, n] once, [2, E]."""
    return adjacency.triu(1).nonzero().T


def _with_isolated_node(adjacency: Tensor) -> Tensor:
    return torch.nn.functional.pad(adjacency, (0, 1, 0, 1))


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


def _block_graph(system: set[frozenset[int]]) -> Tensor:
    """Triples, joined when they are disjoint: srg(26, 10, 3, 4)."""
    triples = sorted(system, key=sorted)
    return torch.tensor([[not first & second for second in triples] for first in triples])


def _descendants(adjacency: Tensor) -> Tensor:
    """For each node: switch its neighbours against the rest, which isolates it, and delete it.

    Shapes:
        adjacency: [n, n] boolean; returns [n, n - 1, n - 1].
    """
    graphs = []
    for node in range(len(adjacency)):
        side = adjacency[node]
        switched = adjacency ^ (side[:, None] != side[None])
        rest = torch.arange(len(adjacency)) != node
        graphs.append(switched[rest][:, rest])
    return torch.stack(graphs)


def _pair_invariant(graphs: Tensor) -> list[tuple[int, ...]]:
    """For each graph [n, n] of a stack [G, n, n], a fingerprint that relabelling leaves alone.

    A pair of nodes is coloured by adjacency and by the number of edges among its common neighbours, a node
    by the multiset of its pairs' colours, then each pair again by its own and its two nodes' colours. The
    fingerprint is the sorted list of the pairs' colours.
    """
    neighbour = graphs.float()
    common = neighbour[:, :, None] * neighbour[:, None]  # [G, n, n, n]: is w a neighbour of both u and v?
    edges = (torch.matmul(common, neighbour[:, None]) * common).sum(-1)  # [G, n, n], each edge twice
    pair = (2 * edges + neighbour).long()
    _, node = pair.sort(dim=-1).values.flatten(0, 1).unique(dim=0, return_inverse=True)
    node, colours = node.view(graphs.shape[:2]), int(node.max()) + 1  # [G, n]
    pair = (pair * colours + node[:, :, None]) * colours + node[:, None]
    return [tuple(colour) for colour in pair.flatten(1).sort(dim=-1).values.tolist()]
