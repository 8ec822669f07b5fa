"""Strongly regular and distance-regular graphs from their definitions, with nothing but numpy.

A connected graph is distance-regular where the number of neighbours of v at distance i - 1, i and i + 1 from u depends
on i = d(u, v) alone; with diameter two it is strongly regular. Sources of the constructions: A. E. Brouwer,
A. M. Cohen and A. Neumaier, "Distance-Regular Graphs", 1989, and A. E. Brouwer and H. Van Maldeghem, "Strongly Regular
Graphs", 2022.

Shapes: every graph is a symmetric boolean matrix [n, n] with an empty diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, product

import numpy as np

Adjacency = np.ndarray
"""A graph: symmetric, boolean, [n, n], without loops."""

IRREDUCIBLE = {
    4: (2, (1, 1, 1)),
    8: (2, (1, 1, 0, 1)),
    9: (3, (1, 0, 1)),
    16: (2, (1, 1, 0, 0, 1)),
    25: (5, (2, 0, 1)),
    27: (3, (1, 2, 0, 1)),
    49: (7, (1, 0, 1)),
}
"""The characteristic of each small field whose order is no prime, and a monic irreducible polynomial, lowest first."""

DIFFERENCE_SETS: dict[tuple[int, int], tuple[int, ...]] = {
    (7, 3): (1, 2, 4),
    (11, 5): (1, 3, 4, 5, 9),
    (13, 4): (0, 1, 3, 9),
    (15, 7): (0, 1, 2, 4, 5, 8, 10),
    (19, 9): (1, 4, 5, 6, 7, 9, 11, 16, 17),
    (21, 5): (3, 6, 7, 12, 14),
    (23, 11): (1, 2, 3, 4, 6, 8, 9, 12, 13, 16, 18),
    (31, 6): (1, 5, 11, 24, 25, 27),
    (37, 9): (1, 7, 9, 10, 12, 16, 26, 33, 34),
}
"""By (v, k): every nonzero residue mod v is a difference of two members equally often."""


# ---- fields ---------------------------------------------------------------------------------------------


@cache
def field(order: int) -> tuple[np.ndarray, np.ndarray]:
    """The tables of addition and multiplication of the field of `order` elements, [q, q] each; 0 and 1 are first."""
    numbers = np.arange(order)
    if order not in IRREDUCIBLE:
        return (numbers[:, None] + numbers) % order, (numbers[:, None] * numbers) % order
    p, modulus = IRREDUCIBLE[order]
    degree = len(modulus) - 1
    digits = numbers[:, None] // p ** np.arange(degree) % p  # [q, degree]
    added = (digits[:, None] + digits) % p
    long = np.zeros((order, order, 2 * degree - 1), dtype=int)
    for i, j in product(range(degree), repeat=2):
        long[:, :, i + j] += digits[:, None, i] * digits[None, :, j]
    for top in range(2 * degree - 2, degree - 1, -1):
        for place, coefficient in enumerate(modulus[:-1]):
            long[:, :, top - degree + place] -= long[:, :, top] * coefficient
        long[:, :, top] = 0
    powers = p ** np.arange(degree)
    return added @ powers, long[:, :, :degree] % p @ powers


def projective_points(order: int, dimension: int) -> np.ndarray:
    """The points of the projective space over the field, each vector with first nonzero entry 1, [points, dim + 1]."""
    vectors = np.array(list(product(range(order), repeat=dimension + 1)))
    first = np.argmax(vectors != 0, axis=1)
    return vectors[vectors[np.arange(len(vectors)), first] == 1]


def _form(left: np.ndarray, right: np.ndarray, pairs: Sequence[tuple[int, int, int]], order: int) -> np.ndarray:
    """The sum of coefficient * left_i * right_j over `pairs` (i, j, coefficient), for all rows: [L, R]."""
    plus, times = field(order)
    total = np.zeros((len(left), len(right)), dtype=int)
    for i, j, coefficient in pairs:
        total = plus[total, times[coefficient, times[left[:, None, i], right[None, :, j]]]]
    return total


# ---- from any graph -------------------------------------------------------------------------------------


def complement(graph: Adjacency) -> Adjacency:
    """The same nodes, joined where they are not."""
    return ~graph & ~np.eye(len(graph), dtype=bool)


def line_graph(graph: Adjacency) -> Adjacency:
    """The edges, joined where they share an end."""
    ends = np.argwhere(np.triu(graph))
    incidence = np.zeros((len(ends), len(graph)), dtype=int)
    incidence[np.arange(len(ends))[:, None], ends] = 1
    return incidence @ incidence.T == 1


def bipartite_double(graph: Adjacency) -> Adjacency:
    """Two copies of the nodes, joined across where the graph has an edge."""
    return incidence_graph(graph)


def incidence_graph(incidence: np.ndarray) -> Adjacency:
    """Points and blocks, joined where the point lies in the block: [p, b] -> [p + b, p + b]."""
    p, b = incidence.shape
    graph = np.zeros((p + b, p + b), dtype=bool)
    graph[:p, p:] = incidence
    return graph | graph.T


def distances(graph: Adjacency) -> np.ndarray:
    """Between all nodes, [n, n]; -1 where there is no path."""
    result = np.where(np.eye(len(graph), dtype=bool), 0, -1)
    reached, steps = np.eye(len(graph), dtype=bool), 0
    while True:
        steps += 1
        further = (reached.astype(np.float32) @ graph.astype(np.float32) > 0) & (result < 0)
        if not further.any():
            return result
        result[further] = steps
        reached = further


def distance_graph(graph: Adjacency, distance: int) -> Adjacency:
    """The same nodes, joined where they are `distance` apart."""
    return distances(graph) == distance


def cartesian_product(first: Adjacency, second: Adjacency) -> Adjacency:
    """Pairs of nodes, joined where they agree in one place and are joined in the other."""
    one, other = np.eye(len(first), dtype=bool), np.eye(len(second), dtype=bool)
    return np.kron(first, other) | np.kron(one, second)


def cover(signs: np.ndarray) -> Adjacency:
    """The double cover of the edges where `signs` [n, n] is not 0: a sign of -1 crosses the two sheets.

    Of the Seidel matrix of a regular two-graph this is a Taylor graph, which is distance-regular.
    """
    straight, crossed = signs > 0, signs < 0
    return np.block([[straight, crossed], [crossed, straight]])


# ---- strongly regular -----------------------------------------------------------------------------------


def paley(order: int) -> Adjacency:
    """The elements of a field of order 1 mod 4, joined where they differ by a nonzero square."""
    plus, times = field(order)
    numbers = np.arange(order)
    squares = np.zeros(order, dtype=bool)
    squares[times[numbers, numbers][1:]] = True
    negative = np.argwhere(plus == 0)[:, 1]  # of each element in turn
    return squares[plus[numbers[:, None], negative[numbers][None, :]]]


def latin_square_graph(squares: Sequence[np.ndarray]) -> Adjacency:
    """Cells of orthogonal Latin squares [n, n], joined where row, column or the symbol of one square agree."""
    rows, columns = np.indices((len(squares[0]), len(squares[0])))
    return net_graph([rows, columns, *squares])


def net_graph(classes: Sequence[np.ndarray]) -> Adjacency:
    """Cells [n, n], joined where one of the numberings in `classes` agrees; of a net it is strongly regular."""
    flat = [numbers.ravel() for numbers in classes]
    joined = np.any([numbers[:, None] == numbers for numbers in flat], axis=0)
    return joined & ~np.eye(len(flat[0]), dtype=bool)


def affine_classes(order: int) -> list[np.ndarray]:
    """The parallel classes of the affine plane over a field: rows, columns and q - 1 slopes, [q, q] each."""
    plus, times = field(order)
    x, y = np.indices((order, order))
    return [x, y, *(plus[times[slope, x], y] for slope in range(1, order))]


def rook(n: int) -> Adjacency:
    """Cells of a board, joined where they share a row or a column."""
    rows, columns = np.indices((n, n))
    return net_graph([rows, columns])


def triangular(n: int) -> Adjacency:
    """Pairs of n things, joined where they share one."""
    return johnson(n, 2)


def symplectic(order: int, dimension: int) -> Adjacency:
    """Points of PG(dimension, order), an odd dimension, joined where they are perpendicular in a symplectic form."""
    points = projective_points(order, dimension)
    minus = int(np.argwhere(field(order)[0][1] == 0)[0, 0])
    pairs = [pair for i in range(0, dimension + 1, 2) for pair in ((i, i + 1, 1), (i + 1, i, minus))]
    return (_form(points, points, pairs, order) == 0) & ~np.eye(len(points), dtype=bool)


def affine_polar(dimension: int, elliptic: bool) -> Adjacency:
    """Vectors of an even-dimensional binary space, joined where a quadratic form vanishes on their difference."""
    numbers = np.arange(2**dimension)
    bits = numbers[:, None] >> np.arange(dimension) & 1
    form = (bits[:, 0::2] * bits[:, 1::2]).sum(1)
    if elliptic:
        form = form + bits[:, 0] + bits[:, 1]
    singular = form % 2 == 0
    singular[0] = False
    return singular[numbers[:, None] ^ numbers]


def steiner_block_graph(order: int) -> Adjacency:
    """The blocks of Bose's Steiner triple system on 3 (mod 6) points, joined where they share one."""
    n = order // 3  # odd
    half = (n + 1) // 2
    blocks = [{x, n + x, 2 * n + x} for x in range(n)]
    for layer in range(3):
        for x, y in combinations(range(n), 2):
            blocks.append({layer * n + x, layer * n + y, (layer + 1) % 3 * n + (x + y) * half % n})
    incidence = np.zeros((len(blocks), order), dtype=int)
    for row, block in enumerate(blocks):
        incidence[row, list(block)] = 1
    return incidence @ incidence.T == 1


# ---- distance-regular -----------------------------------------------------------------------------------


def cycle(n: int) -> Adjacency:
    """The residues mod n, each joined to the next."""
    return circulant(n, (1,))


def circulant(n: int, jumps: Sequence[int]) -> Adjacency:
    """The residues mod n, joined where they differ by a jump."""
    allowed = np.zeros(n, dtype=bool)
    for jump in jumps:
        allowed[[jump % n, -jump % n]] = True
    allowed[0] = False
    numbers = np.arange(n)
    return allowed[(numbers[:, None] - numbers) % n]


def complete(n: int) -> Adjacency:
    """All nodes joined."""
    return ~np.eye(n, dtype=bool)


def hamming(length: int, letters: int, distance: int = 1) -> Adjacency:
    """Words, joined where they differ in `distance` letters."""
    words = np.arange(letters**length)[:, None] // letters ** np.arange(length) % letters
    return (words[:, None] != words).sum(-1) == distance


def halved_cube(dimension: int) -> Adjacency:
    """Words of even weight, joined where they differ in two bits."""
    even = np.array([bin(number).count("1") % 2 == 0 for number in range(2**dimension)])
    return hamming(dimension, 2, 2)[np.ix_(even, even)]


def folded_cube(dimension: int) -> Adjacency:
    """The cube of one dimension less, each node joined to the opposite one as well."""
    return hamming(dimension - 1, 2) | hamming(dimension - 1, 2, dimension - 1)


def johnson(n: int, size: int, shared: int | None = None) -> Adjacency:
    """Subsets of `size` of n things, joined where they share `shared` of them; without it, all but one."""
    subsets = np.array(list(combinations(range(n), size)))
    incidence = np.zeros((len(subsets), n), dtype=int)
    incidence[np.arange(len(subsets))[:, None], subsets] = 1
    return incidence @ incidence.T == (size - 1 if shared is None else shared)


def odd_graph(size: int) -> Adjacency:
    """Subsets of size - 1 of 2 size - 1 things, joined where they are disjoint."""
    return johnson(2 * size - 1, size - 1, 0)


def projective_plane(order: int) -> np.ndarray:
    """Which points lie on which lines of the projective plane over a field, [points, lines]."""
    points = projective_points(order, 2)
    return _form(points, points, [(0, 0, 1), (1, 1, 1), (2, 2, 1)], order) == 0


def affine_incidence(order: int, classes: int) -> np.ndarray:
    """Points of the affine plane and the lines of some parallel classes, [q * q, classes * q].

    With all classes but one it is a distance-regular cover of a complete bipartite graph (q = 3: the Pappus graph).
    """
    lines = [numbers.ravel()[:, None] == np.arange(order) for numbers in affine_classes(order)[:classes]]
    return np.concatenate(lines, axis=1)


def difference_design(v: int, k: int) -> np.ndarray:
    """The symmetric design of a cyclic difference set, [v, v]."""
    inside = np.zeros(v, dtype=bool)
    inside[list(DIFFERENCE_SETS[v, k])] = True
    numbers = np.arange(v)
    return inside[(numbers[:, None] - numbers) % v]


def quadrangle(order: int) -> np.ndarray:
    """Points and lines of the symplectic generalised quadrangle over a field, [points, lines]."""
    joined = symplectic(order, 3) | np.eye((order + 1) * (order**2 + 1), dtype=bool)
    ends = np.argwhere(np.triu(joined, 1))
    return np.unique(joined[ends[:, 0]] & joined[ends[:, 1]], axis=0).T


def hadamard(order: int) -> np.ndarray:
    """A Hadamard matrix: Sylvester's of a power of two, or Paley's of q + 1 for a prime q = 3 (mod 4)."""
    if order & (order - 1) == 0:
        matrix = np.ones((1, 1), dtype=int)
        while len(matrix) < order:
            matrix = np.block([[matrix, matrix], [matrix, -matrix]])
        return matrix
    q = order - 1
    squares = {x * x % q for x in range(1, q)}
    character = np.array([0, *(1 if x in squares else -1 for x in range(1, q))])
    numbers = np.arange(q)
    jacobsthal = character[(numbers[:, None] - numbers) % q]
    matrix = np.ones((order, order), dtype=int)
    matrix[1:, 1:] = jacobsthal - np.eye(q, dtype=int)
    return matrix


def hadamard_graph(order: int) -> Adjacency:
    """Rows and columns of a Hadamard matrix with both signs, joined as the entries say: 4 * order nodes."""
    return incidence_graph(cover(hadamard(order)))


def seidel(graph: Adjacency) -> np.ndarray:
    """-1 at edges, 1 elsewhere, 0 on the diagonal, with one more node that is joined to none: [n + 1, n + 1]."""
    padded = np.pad(graph, (0, 1))
    return np.where(padded, -1, 1) - np.eye(len(padded), dtype=int)


def taylor(order: int) -> Adjacency:
    """The Taylor graph of Paley's two-graph on order + 1 points; of order 5 it is the icosahedron."""
    return cover(seidel(paley(order)))


def shrikhande() -> Adjacency:
    """Z4 x Z4, joined where the difference is (1, 0), (0, 1) or (1, 1), up to sign."""
    x, y = (numbers.ravel() for numbers in np.indices((4, 4)))
    difference = (x[:, None] - x) % 4 * 4 + (y[:, None] - y) % 4
    return np.isin(difference, [4, 12, 1, 3, 5, 15])


def dodecahedron() -> Adjacency:
    """The generalised Petersen graph of 20 nodes and skip 2."""
    return generalised_petersen(10, 2)


def generalised_petersen(n: int, skip: int) -> Adjacency:
    """An n-cycle, as many inner nodes joined `skip` apart, and a spoke between each two."""
    inner = circulant(n, (skip,))
    spokes = np.eye(n, dtype=bool)
    return np.block([[cycle(n), spokes], [spokes, inner]])


# ---- what the definitions say ---------------------------------------------------------------------------


def intersection_array(graph: Adjacency) -> tuple[tuple[int, int, int], ...] | None:
    """(c_i, a_i, b_i) for i = 0, 1, ..., diameter, by definition; None where the graph is not distance-regular."""
    apart = distances(graph)
    if (apart < 0).any():
        return None
    adjacency = graph.astype(np.int64)
    rows = []
    for i in range(int(apart.max()) + 1):
        here = apart == i
        counts = [((apart == i + step).astype(np.int64) @ adjacency)[here] for step in (-1, 0, 1)]
        if any(count.min() != count.max() for count in counts):
            return None
        rows.append(tuple(int(count[0]) for count in counts))
    return tuple(rows)


def strongly_regular_parameters(graph: Adjacency) -> tuple[int, int, int, int] | None:
    """(n, k, lambda, mu) by definition; None where the graph is not strongly regular, complete or empty."""
    shared = graph.astype(np.int64) @ graph.astype(np.int64)
    degree = shared.diagonal()
    joined, others = shared[graph], shared[complement(graph)]
    if not len(joined) or not len(others):
        return None
    if any(values.min() != values.max() for values in (degree, joined, others)):
        return None
    return len(graph), int(degree[0]), int(joined[0]), int(others[0])
