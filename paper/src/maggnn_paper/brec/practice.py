"""Pairs of graphs of our own, on which settings of the BREC tests are chosen: BREC itself is only tested.

| family | a pair is | nodes |
|---|---|---|
| `cfi` | the two graphs of Cai, Fürer and Immerman (1992) over one random base graph | about 30 to 150 |
| `regular` | two random regular graphs of equal degree | 12 to 28 |
| `circulant` | two circulants of equal degree | 13 to 24 |
| `latin` | the strongly regular graphs of two Latin squares of one order | 36 or 64 |
| `double` | the bipartite doubles of such a pair | 72 |

Left out are pairs that the finest tuples of order 2 do not distinguish under exact colour refinement, because no
setting could change that, and pairs with a graph that colour refinement with two marks does not distinguish
from one of BREC's.

Shapes: n nodes; an adjacency is [n, n], boolean.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, count
from random import Random

import torch
from torch import Tensor

from maggnn.data import registry
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.refined.copies import refine
from maggnn.model.refined.finest import finest_tuples
from maggnn.theory.refinement import graph_hashes
from maggnn_paper.datasets.regular_graphs import random_regular

ORDER = 2
"""Marks in a tuple, k."""

MOST_TRIES = 100
"""Draws for each pair that is wanted."""


def practice_pairs(family: str, number: int, seed: int = 0) -> PackedGraphs:
    """`number` pairs of a family; the graphs of pair i are 2i and 2i + 1.

    Args:
        family: one of the names in the table above.
        seed: the same seed draws the same pairs.
    """
    if family not in FAMILIES:
        raise InputError(f"no family {family!r} of practice pairs: there are {', '.join(FAMILIES)}")
    random, kept = Random(f"{family} {seed}"), []
    for tries in count():
        pair = packed(FAMILIES[family](random))
        if _can_be_told(pair) and not _in_brec(pair):
            kept.append(pair)
        if len(kept) == number:
            return joined(kept)
        if tries == MOST_TRIES * number:
            raise InputError(f"only {len(kept)} pairs of the family {family} in {tries} tries: ask for fewer")
    raise AssertionError("counting never ends")


def packed(graphs: tuple[Tensor, Tensor]) -> PackedGraphs:
    """Two adjacencies as a set of two graphs."""
    edges = [graph.triu(1).nonzero() for graph in graphs]
    return PackedGraphs.build(
        torch.tensor([len(graph) for graph in graphs]),
        torch.tensor([len(part) for part in edges]),
        torch.cat(edges).T,
        undirected_once=True,
    )


def joined(sets: list[PackedGraphs]) -> PackedGraphs:
    """Several sets without features as one."""
    return PackedGraphs.build(
        torch.cat([part.num_nodes for part in sets]),
        torch.cat([part.num_edges for part in sets]),
        torch.cat([part.edge_index for part in sets], dim=1),
    )


def _can_be_told(pair: PackedGraphs) -> bool:
    if int(pair.num_nodes[0]) != int(pair.num_nodes[1]):
        return False
    first, second = refine(pair[torch.arange(2)], finest_tuples(pair, 1, ORDER)).hashes
    return bool(first != second)


def _in_brec(pair: PackedGraphs) -> bool:
    """Whether BREC has a graph that is, or is not distinguished from, one of these."""
    brec = registry.load("brec").graphs
    alike = (brec.num_nodes == pair.num_nodes[0]) & torch.isin(brec.num_edges, pair.num_edges)
    ids = alike.nonzero()[:, 0]
    known = graph_hashes(brec.select(ids), ORDER).hashes
    return bool(torch.isin(graph_hashes(pair, ORDER).hashes, known).any())


# ---- families -------------------------------------------------------------------------------------------


def _cfi(random: Random) -> tuple[Tensor, Tensor]:
    base = _base(random)
    return cfi_graph(base, twisted=False), cfi_graph(base, twisted=True)


def _base(random: Random) -> list[tuple[int, int]]:
    """The edges of a connected graph of 5 to 20 nodes of degrees up to 4: a random tree and up to half as many more."""
    while True:
        n = random.randint(5, 20)
        edges, wanted = {(random.randrange(node), node) for node in range(1, n)}, n + random.randint(2, 2 + n // 2)
        while len(edges) < wanted:
            low, high = sorted(random.sample(range(n), 2))
            edges.add((low, high))
        if max(sum(node in edge for edge in edges) for node in range(n)) <= 4:
            return sorted(edges)


def cfi_graph(base: list[tuple[int, int]], twisted: bool) -> Tensor:
    """The graph of Cai, Fürer and Immerman over a base graph.

    Every edge e of the base becomes two nodes (e, 0) and (e, 1), every node v one node for each even set S of its
    edges, joined to (e, 1) for e in S and to (e, 0) for its other edges. Twisted, the two nodes of the first edge are
    exchanged on one of its sides.
    """
    nodes = sorted({node for edge in base for node in edge})
    gadgets = [(node, chosen) for node in nodes for chosen in _even_sets(base, node)]
    graph = torch.zeros(2 * len(base) + len(gadgets), 2 * len(base) + len(gadgets), dtype=torch.bool)
    for row, (node, chosen) in enumerate(gadgets, start=2 * len(base)):
        for number, edge in enumerate(base):
            if node in edge:
                bit = (number in chosen) ^ (twisted and number == 0 and node == edge[0])
                graph[row, 2 * number + bit] = graph[2 * number + bit, row] = True
    return graph


def _even_sets(base: list[tuple[int, int]], node: int) -> Iterator[tuple[int, ...]]:
    """The even subsets of a node's edges, by their numbers."""
    own = [number for number, edge in enumerate(base) if node in edge]
    for size in range(0, len(own) + 1, 2):
        yield from combinations(own, size)


def _regular(random: Random) -> tuple[Tensor, Tensor]:
    n, degree = 2 * random.randint(6, 14), random.choice((3, 4, 5))
    graphs = random_regular(n, degree, 2, random.randrange(2**31))
    first, second = (_adjacency(graphs, graph) for graph in range(2))
    return first, second


def _adjacency(graphs: PackedGraphs, graph: int) -> Tensor:
    batch = graphs[torch.tensor([graph])]
    found = torch.zeros(batch.max_num_nodes, batch.max_num_nodes, dtype=torch.bool)
    found[batch.edge_index[1], batch.edge_index[0]] = True
    return found


def _circulant(random: Random) -> tuple[Tensor, Tensor]:
    n, jumps = random.randint(13, 24), random.choice((2, 3))
    first, second = (circulant(n, random.sample(range(1, (n + 1) // 2), jumps)) for _ in range(2))
    return first, second


def circulant(n: int, jumps: list[int]) -> Tensor:
    """Nodes of a ring, joined where they are `jumps` apart."""
    apart = (torch.arange(n)[:, None] - torch.arange(n)) % n
    return torch.isin(torch.minimum(apart, n - apart), torch.tensor(jumps))


def _latin(random: Random) -> tuple[Tensor, Tensor]:
    n = random.choice((6, 8))
    first, second = (latin_square_graph(_latin_square(n, random)) for _ in range(2))
    return first, second


def _latin_square(n: int, random: Random) -> list[list[int]]:
    """Of even order: the addition table of Z_n after switchings of two rows along one of their cycles."""
    square = [[(row + column) % n for column in range(n)] for row in range(n)]
    for _ in range(200):
        if random.random() < 0.5:  # switches columns too
            square = [list(column) for column in zip(*square, strict=True)]
        one, other = random.sample(square, 2)
        column: int | None = random.randrange(n)
        while column is not None:  # until the symbol that has come into a row is in it only once
            one[column], other[column] = other[column], one[column]
            twice = [place for place in range(n) if place != column and one[place] == one[column]]
            column = twice[0] if twice else None
    return square


def latin_square_graph(square: list[list[int]]) -> Tensor:
    """The cells of a Latin square of order n, joined where they share row, column or symbol: srg(n^2, 3n - 3, n, 6)."""
    n, symbol = len(square), torch.tensor(square).flatten()
    cell = torch.arange(n * n)
    lines = torch.stack([cell // n, cell % n, symbol])
    return (lines[:, :, None] == lines[:, None]).any(0) & ~torch.eye(n * n, dtype=torch.bool)


def _double(random: Random) -> tuple[Tensor, Tensor]:
    first, second = (bipartite_double(latin_square_graph(_latin_square(6, random))) for _ in range(2))
    return first, second


def bipartite_double(graph: Tensor) -> Tensor:
    """Two copies of the nodes; a node of the one is joined to its neighbours in the other."""
    nothing = torch.zeros_like(graph)
    return torch.cat([torch.cat([nothing, graph], 1), torch.cat([graph, nothing], 1)])


FAMILIES = {"cfi": _cfi, "regular": _regular, "circulant": _circulant, "latin": _latin, "double": _double}
