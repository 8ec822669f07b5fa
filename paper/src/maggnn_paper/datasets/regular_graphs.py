"""Regular graphs for the limits of message passing: strongly regular families, and random regular graphs.

In a strongly regular graph srg(n, k, l, m) every node has k neighbours, two neighbours have l neighbours in
common and two other nodes m. 3-WL (2-FWL) does not distinguish graphs of equal parameters. Every family here is made
from definitions by switching, without a download; how much of the family that reaches is said with each. For
srg(16, 6, 2, 2) and srg(25, 12, 5, 6) see `expressivity.shrikhande_rook` and `expressivity.sr25`.

How many graphs each family has: A. E. Brouwer and H. Van Maldeghem, "Strongly Regular Graphs", 2022; for 35 and
36 nodes, B. D. McKay and E. Spence, "Classification of regular two-graphs on 36 and 38 vertices", 2001.

Shapes: n nodes, E undirected edges, G graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import combinations, pairwise, product
from typing import TypeVar

import torch
from torch import Tensor

from maggnn.data.dataset import DatasetEntry
from maggnn.data.synthetic import expressivity
from maggnn.data.synthetic.dense import block_graph, distinct, fingerprints, pack, stacked, switched, with_isolated_node
from maggnn.data.synthetic.sets import Parameters, strongly_regular_entry
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs

Triples = frozenset[frozenset[int]]
Description = TypeVar("Description")
"""What a graph is made from: its adjacency itself, or the triples whose block graph it is."""

MAX_PAIRING_DEGREE = 6
"""About one pairing in exp((degree² - 1) / 4) is simple: one in 6,000 at degree 6, one in 160,000 at 7."""

STUBS_AT_ONCE = 2**18


# ---- strongly regular families --------------------------------------------------------------------------


@cache
def sr26() -> PackedGraphs:
    """All 10 strongly regular graphs srg(26, 10, 3, 4), y = 0..9.

    Isolating a node of such a graph by switching (exchanging edges and non-edges between a node set and the
    rest) leaves one of the 15 graphs of `sr25` beside it. Hence every one is a switching of one of those with an
    isolated node, and all regular switchings of these are listed: none can be missing. Source: A. J. L. Paulus,
    "Conference matrices and graphs of order 26", 1973.
    """
    padded = with_isolated_node(stacked(expressivity.sr25()))  # [15, 26, 26]
    return pack(distinct(torch.cat([_regular_switchings_26(graph) for graph in padded])))


@cache
def sr28() -> PackedGraphs:
    """All 4 strongly regular graphs srg(28, 12, 6, 4): y = 0 is T(8), y = 1..3 are the Chang graphs.

    The nodes of T(8) are the 28 pairs of 8 things, joined when they share one. Switching against the pairs that
    are the edges of four disjoint edges, of an 8-cycle, or of a triangle beside a 5-cycle gives the others.
    Source: J. J. Seidel, "Strongly regular graphs of L2-type and of triangular type", 1967.
    """
    pairs = [frozenset(pair) for pair in combinations(range(8), 2)]
    triangular = block_graph(pairs)
    cycles = [[(0, 1), (2, 3), (4, 5), (6, 7)], _cycle(range(8)), _cycle(range(3)) + _cycle(range(3, 8))]
    sides = [torch.tensor([tuple(sorted(pair)) in edges for pair in pairs]) for edges in cycles]
    return pack(torch.stack([triangular, *(switched(triangular, side) for side in sides)]))


@cache
def sr35() -> PackedGraphs:
    """The 80 strongly regular graphs srg(35, 18, 9, 9) that are block graphs of a Steiner triple system, y = 0..79.

    Nodes are the 35 triples of a system on 15 points, joined when they share a point. There are 80 systems, and
    cycle switching reaches all of them from the lines of PG(3, 2), which is graph 0. 3,854 graphs have these
    parameters. Source: F. N. Cole, L. D. Cummings and H. S. White, "The complete enumeration of triad systems in
    15 elements", 1917; M. J. Grannell, T. S. Griggs and J. P. Murphy, "Switching cycles in Steiner triple
    systems", 1999.
    """
    points = range(1, 16)
    lines = frozenset(frozenset((a, b, a ^ b)) for a, b in combinations(points, 2))
    return pack(_closure([lines], _cycle_switchings, block_graph))


@cache
def sr36() -> PackedGraphs:
    """The 12 strongly regular graphs srg(36, 15, 6, 6) that belong to a Latin square of order 6, y = 0..11.

    Nodes are the cells, joined when they share row, column or symbol. Squares of one main class give isomorphic
    graphs, others do not; there are 12 main classes of order 6, and cycle switching reaches all of them from the
    addition table of Z6, which is graph 0. 32,548 graphs have these parameters. Source: B. D. McKay,
    A. Meynert and W. Myrvold, "Small Latin squares, quasigroups, and loops", 2007; I. M. Wanless, "Cycle switches
    in Latin squares", 2004.
    """
    cells = product(range(6), range(6))
    square = frozenset(frozenset((row, 6 + column, 12 + (row + column) % 6)) for row, column in cells)
    return pack(_closure([square], _cycle_switchings, block_graph))


@cache
def sr40() -> PackedGraphs:
    """12 of the 28 strongly regular graphs srg(40, 12, 2, 4), y = 0..11.

    Graph 0 has the points of the symplectic generalised quadrangle W(3) as nodes, joined when they lie on one of
    its 40 lines; graph 1 has the lines as nodes, joined when they meet: this is Q(4, 3). The others are what
    Godsil-McKay switching of four nodes reaches from there. Source: E. Spence, "The strongly regular (40, 12, 2,
    4) graphs", 2000, for the number; C. D. Godsil and B. D. McKay, "Constructing cospectral graphs", 1982.
    """
    nonzero = [point for point in product(range(3), repeat=4) if any(point)]
    point = torch.tensor([point for point in nonzero if next(filter(None, point)) == 1])  # [40, 4]
    form = torch.tensor([[0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1], [0, 0, -1, 0]])
    perpendicular = (point @ form @ point.T) % 3 == 0  # [40, 40], each point with itself too
    symplectic = perpendicular & ~torch.eye(40, dtype=torch.bool)
    source, target = symplectic.triu(1).nonzero().T
    lines = (perpendicular[source] & perpendicular[target]).unique(dim=0)  # [40, 40]: what both are joined to
    quadric = block_graph([frozenset(line.nonzero().flatten().tolist()) for line in lines])
    return pack(_closure([symplectic, quadric], _godsil_mckay_switchings, lambda graph: graph))


# ---- switchings -----------------------------------------------------------------------------------------


def _closure(
    starts: Iterable[Description],
    switchings: Callable[[Description], list[Description]],
    graph_of: Callable[[Description], Tensor],
) -> Tensor:
    """One graph of each fingerprint that switching, again and again, reaches from `starts`, [G, n, n]."""
    found: dict[int, Tensor] = {}
    waiting = [list(starts)]
    while waiting:
        descriptions = waiting.pop(0)
        if not descriptions:
            continue
        graphs = torch.stack([graph_of(description) for description in descriptions])
        for description, graph, key in zip(descriptions, graphs, fingerprints(graphs), strict=True):
            if key not in found:
                found[key] = graph
                waiting.append(switchings(description))
    return torch.stack(list(found.values()))


def _regular_switchings_26(adjacency: Tensor) -> Tensor:
    """All 10-regular switchings of a graph on 26 nodes whose Seidel matrix S has S² = 25 I, [switchings, 26, 26].

    S is 0 on the diagonal, -1 at edges and 1 elsewhere. With x the signs of the two sides, the switched rows sum
    to 25 - 2·10 = 5 just when S x = 5 x. That eigenspace has 13 dimensions, so 13 well chosen entries of x (LU
    decomposition picks them) fix the others: try all their signs, and keep x when it has signs everywhere.
    """
    seidel = 1 - torch.eye(26, dtype=torch.float64) - 2 * adjacency.double()
    eigenspace = torch.linalg.eigh(seidel).eigenvectors[:, 13:]  # [26, 13]: eigenvalues rise, 13 times -5 come first
    permutation, lower, _ = torch.linalg.lu(eigenspace)
    from_chosen = permutation @ lower @ torch.linalg.inv(lower[:13])  # [26, 13]
    bits = (torch.arange(2**12)[:, None] >> torch.arange(13)) & 1  # [4096, 13]: x and -x are the same two sides
    x = (1 - 2 * bits).double() @ from_chosen.T  # [4096, 26]
    x = x[(x.abs() - 1).abs().amax(1) < 1e-6] > 0
    return switched(adjacency, (x != x[:, :1]).unique(dim=0))  # sorted: the order is the same on every machine


def _cycle_switchings(triples: Triples) -> list[Triples]:
    """Designs of as many triples that cover the same pairs but for the exchange of two points on one cycle.

    The triples through a point a match up other points. Where those of a and those of b match the same points,
    the two matchings make cycles, and a and b may change places in the triples that meet one cycle. Only the
    cycle at the smallest point is taken: of two cycles, the other gives the same but for the names of a and b.
    """
    mates: dict[int, dict[int, int]] = {}
    for triple in triples:
        for point in triple:
            first, second = triple - {point}
            mates.setdefault(point, {}).update({first: second, second: first})
    switched = []
    for a, b in combinations(sorted(mates), 2):
        common = {a, b, mates[a].get(b)}
        if mates[a].keys() - common != mates[b].keys() - common:
            continue
        cycle = _alternating_cycle(mates[a], mates[b], min(mates[a].keys() - common))
        if len(cycle) < len(mates[a].keys() - common):
            swap = {a: b, b: a}
            moved = {triple for triple in triples if triple & cycle and len(triple & {a, b}) == 1}
            switched.append((triples - moved) | {frozenset(swap.get(point, point) for point in t) for t in moved})
    return switched


def _alternating_cycle(one: dict[int, int], other: dict[int, int], start: int) -> set[int]:
    """The points met from `start` by following two matchings in turn."""
    cycle: set[int] = set()
    point = start
    while point not in cycle:
        cycle |= {point, one[point]}
        point = other[one[point]]
    return cycle


def _godsil_mckay_switchings(adjacency: Tensor) -> list[Tensor]:
    """Regular graphs with the same spectrum, by every choice of four nodes that allows the switching.

    The four must have equal degree among themselves, and any other node be joined to none, two or all of them;
    one that is joined to two of them is then joined to the other two instead. A regular graph with the spectrum
    of a strongly regular one is strongly regular with its parameters.
    """
    fours = torch.combinations(torch.arange(len(adjacency)), 4)  # [Q, 4]
    inside = torch.zeros(len(fours), len(adjacency)).scatter_(1, fours, 1)  # [Q, n]
    joined = inside @ adjacency.float()  # [Q, n]: to how many of the four
    among = joined.gather(1, fours)  # [Q, 4]
    outer = joined.masked_fill(inside.bool(), 0)
    half = outer == 2
    fits = (among == among[:, :1]).all(1) & (outer % 2 == 0).all(1) & half.any(1)
    inside, half = inside[fits].bool(), half[fits]
    across = inside[:, :, None] & half[:, None]
    return list(adjacency ^ (across | across.transpose(1, 2)))


# ---- pieces ---------------------------------------------------------------------------------------------


def _cycle(nodes: range) -> list[tuple[int, int]]:
    """The edges of the cycle through consecutive `nodes`, smaller end first."""
    return [*pairwise(nodes), (nodes[0], nodes[-1])]


# ---- random regular graphs ------------------------------------------------------------------------------


def random_regular(n: int, degree: int, count: int, seed: int) -> PackedGraphs:
    """`count` random simple graphs on n nodes, all labelled `degree`-regular graphs equally likely; no y.

    The pairing model: give each node `degree` stubs, pair all stubs at random, and start again when that makes a
    loop or a double edge. Every simple graph comes from equally many pairings, so what remains is exactly
    uniform. Graphs of high degree are complements of graphs of low degree; degrees between would be started
    again too often. Connected or not, as they fall. Source: B. Bollobás, "A probabilistic proof of an asymptotic
    formula for the number of labelled regular graphs", 1980.
    """
    _check_regular(n, degree, count)
    generator = torch.Generator().manual_seed(seed)
    paired_degree = min(degree, n - 1 - degree)
    tries = max(1, STUBS_AT_ONCE // max(1, n * paired_degree))
    parts: list[Tensor] = []
    while sum(map(len, parts)) < count:
        parts.append(_simple_pairings(n, paired_degree, tries, generator))
    edges = torch.cat(parts)[:count]  # [count, E]
    if paired_degree < degree:
        edges = _complements(n, edges)
    return PackedGraphs.build(
        num_nodes=torch.full((count,), n),
        num_edges=torch.full((count,), edges.shape[1]),
        edge_index=torch.stack([edges.flatten() // n, edges.flatten() % n]),
        undirected_once=True,
    )


def _check_regular(n: int, degree: int, count: int) -> None:
    wanted = f"random {degree}-regular graphs on {n} nodes"
    if n < 1 or count < 1:
        raise InputError(f"{wanted}, {count} of them: ask for at least one node and one graph")
    if not 0 <= degree < n:
        raise InputError(f"{wanted}: choose a degree from 0 to {n - 1}")
    if n * degree % 2:
        raise InputError(f"{wanted}: nodes times degree is odd, make one of them even")
    if min(degree, n - 1 - degree) > MAX_PAIRING_DEGREE:
        high = n - 1 - MAX_PAIRING_DEGREE
        raise InputError(f"{wanted}: choose a degree of at most {MAX_PAIRING_DEGREE} or at least {high}")


def _simple_pairings(n: int, degree: int, tries: int, generator: torch.Generator) -> Tensor:
    """The simple graphs among `tries` random pairings, an edge u < v as the number n·u + v, [simple, E]."""
    stub_node = torch.arange(n).repeat_interleave(degree)  # [2E]
    order = torch.rand(tries, n * degree, generator=generator, dtype=torch.float64).argsort(1)  # [tries, 2E]
    low, high = stub_node[order].view(tries, n * degree // 2, 2).sort(-1).values.unbind(-1)  # [tries, E] each
    edges = (n * low + high).sort(1).values  # [tries, E]
    return edges[(low != high).all(1) & (edges.diff(dim=1) != 0).all(1)]


def _complements(n: int, edges: Tensor) -> Tensor:
    """The edges each graph lacks, as numbers n·u + v like those given, [G, n (n - 1) / 2 - E]."""
    u, v = torch.triu_indices(n, n, offset=1)
    possible = n * u + v
    return torch.stack([possible[~torch.isin(possible, graph)] for graph in edges])


# ---- the table ------------------------------------------------------------------------------------------

FAMILIES: dict[str, tuple[Callable[[], PackedGraphs], Parameters, int, str]] = {
    "sr26": (sr26, (26, 10, 3, 4), 10, "the 10 strongly regular graphs"),
    "sr28": (sr28, (28, 12, 6, 4), 4, "T(8) and the 3 Chang graphs, strongly regular"),
    "sr35": (sr35, (35, 18, 9, 9), 80, "the 80 Steiner triple systems as graphs, strongly regular"),
    "sr36": (sr36, (36, 15, 6, 6), 12, "the graphs of the 12 main classes of 6x6 Latin squares, strongly regular"),
    "sr40": (sr40, (40, 12, 2, 4), 12, "12 of the 28 strongly regular graphs"),
}
"""What makes each set, its parameters, how many graphs it has and what they are."""

ENTRIES: dict[str, DatasetEntry] = {name: strongly_regular_entry(name, *row) for name, row in FAMILIES.items()}
"""Rows of the visible table."""
