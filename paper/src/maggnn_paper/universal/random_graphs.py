"""Random graphs of many shapes, with nothing but numpy: fresh ones at every call.

Shapes: every graph is a symmetric boolean matrix [n, n] with an empty diagonal (`classical.Adjacency`).
"""

from __future__ import annotations

import numpy as np

from maggnn_paper.universal.classical import Adjacency, circulant, cover, net_graph

Random = np.random.Generator


def from_edges(n: int, edges: np.ndarray) -> Adjacency:
    """Edges [E, 2] in either direction, repeated or not; loops are dropped."""
    graph = np.zeros((n, n), dtype=bool)
    graph[edges[:, 0], edges[:, 1]] = True
    return (graph | graph.T) & ~np.eye(n, dtype=bool)


def random_regular(n: int, degree: int, random: Random) -> Adjacency:
    """A random graph in which every node has `degree` neighbours; n * degree is even and degree < n.

    Stubs are paired at random, pairs that would make a loop or a double edge are paired anew, and all begins again
    where that cannot end. It is close to uniform, which is enough for training.
    """
    while True:
        graph, stubs = np.zeros((n, n), dtype=bool), np.repeat(np.arange(n), degree)
        for _ in range(60):
            stubs, waiting = random.permutation(stubs), []
            for u, v in stubs.reshape(-1, 2):
                if u == v or graph[u, v]:
                    waiting += [u, v]
                else:
                    graph[u, v] = graph[v, u] = True
            stubs = np.array(waiting, dtype=int)
            if not len(stubs):
                return graph


def random_circulant(n: int, num_jumps: int, random: Random) -> Adjacency:
    """The residues mod n with random jumps."""
    return circulant(n, random.choice(np.arange(1, n // 2 + 1), num_jumps, replace=False).tolist())


def random_cayley(sizes: tuple[int, ...], num_jumps: int, random: Random) -> Adjacency:
    """A Cayley graph of the product of cyclic groups of the given sizes, with random jumps."""
    n = int(np.prod(sizes))
    elements = np.stack(np.unravel_index(np.arange(n), sizes), axis=1)  # [n, r]
    difference = (elements[:, None] - elements) % np.array(sizes)
    number = difference @ np.append(np.cumprod(sizes[:0:-1])[::-1], 1)  # [n, n], in the order of `elements`
    allowed = np.zeros(n, dtype=bool)
    jumps = random.choice(np.arange(1, n), num_jumps, replace=False)
    allowed[jumps] = True
    allowed[number[0][jumps]] = True  # the inverses
    return allowed[number]


def random_tree(n: int, random: Random, most_degree: int = 100) -> np.ndarray:
    """The edges of a random tree, [n - 1, 2]: each node is joined to a random earlier one that has room."""
    degree, edges = np.zeros(n, dtype=int), []
    for node in range(1, n):
        parent = random.choice(np.flatnonzero(degree[:node] < most_degree))
        degree[[parent, node]] += 1
        edges.append((parent, node))
    return np.array(edges, dtype=int).reshape(-1, 2)


def tree_with_cycles(n: int, extra: int, random: Random, most_degree: int = 100) -> Adjacency:
    """A random tree and up to `extra` more edges between nodes that have room."""
    graph = from_edges(n, random_tree(n, random, most_degree))
    for _ in range(extra):
        free = np.flatnonzero(graph.sum(1) < most_degree)
        if len(free) > 1:
            u, v = random.choice(free, 2, replace=False)
            graph[u, v] = graph[v, u] = True
    return graph


def erdos_renyi(n: int, mean_degree: float, random: Random) -> Adjacency:
    """Every edge is there with the same probability."""
    upper = np.triu(random.random((n, n)) < mean_degree / (n - 1), 1)
    return upper | upper.T


def molecule(n: int, random: Random) -> Adjacency:
    """Rings of 3 to 8 nodes, fused along an edge or joined by a bond or a chain, with side chains: about n nodes."""
    edges: list[tuple[int, int]] = []
    size = _add_ring(edges, 0, (), random)
    while size < n:
        start = int(random.integers(size))
        if random.random() < 0.35:
            size = _add_ring(edges, size, edges[int(random.integers(len(edges)))], random)
            continue
        for _ in range(int(random.integers(1, 4))):
            edges.append((start, size))
            start, size = size, size + 1
        if random.random() < 0.5:
            size = _add_ring(edges, size, (start,), random)
    return from_edges(size, np.array(edges))


def _add_ring(edges: list[tuple[int, int]], size: int, shared: tuple[int, ...], random: Random) -> int:
    """A ring through the `shared` nodes (one edge, one node or none) and new ones; returns the new number of nodes."""
    length = int(random.choice([3, 4, 5, 5, 6, 6, 6, 6, 7, 8]))
    new = list(range(size, size + length - len(shared)))
    ring = [*shared, *new]
    edges += [
        (ring[i], ring[(i + 1) % length]) for i in range(length) if {ring[i], ring[(i + 1) % length]} != set(shared)
    ]
    return size + len(new)


def random_latin_square(n: int, random: Random, switches: int = 30) -> np.ndarray:
    """A Latin square [n, n]: the addition table of Z_n after random cycle switches, which reach other main classes."""
    square = np.add.outer(np.arange(n), np.arange(n)) % n
    for _ in range(switches):
        square = _conjugate(square) if random.random() < 0.5 else square.T
        a, b = random.choice(n, 2, replace=False)
        column = int(random.integers(n))
        columns = [column]
        # Rows a and b list the same symbols: follow them from one to the other until the cycle closes.
        while square[b, columns[-1]] != square[a, column]:
            columns.append(int(np.flatnonzero(square[a] == square[b, columns[-1]])[0]))
        square = square.copy()
        square[[[a], [b]], columns] = square[[[b], [a]], columns]
    return square


def random_triple_system(points: int, random: Random) -> np.ndarray:
    """A random Steiner triple system on 1 or 3 (mod 6) points, [blocks, 3]: every two points lie in one block.

    Hill climbing (D. R. Stinson, "Hill-climbing algorithms for the construction of combinatorial designs", 1985): a
    point x with two points y, z that it does not share a block with yet gets the block xyz, which replaces the block
    of y and z if there is one.
    """
    third = np.full((points, points), -1)  # of the block of two points
    while True:
        free = (third < 0) & ~np.eye(points, dtype=bool)
        if not free.any():
            x, y = np.nonzero(np.triu(third >= 0, 1))
            return np.unique(np.sort(np.stack([x, y, third[x, y]], axis=1), axis=1), axis=0)
        x = random.choice(np.flatnonzero(free.any(1)))
        y, z = random.choice(np.flatnonzero(free[x]), 2, replace=False)
        other = third[y, z]
        if other >= 0:
            for a, b in ((y, other), (z, other)):
                third[a, b] = third[b, a] = -1
        for a, b, c in ((x, y, z), (x, z, y), (y, z, x)):
            third[a, b] = third[b, a] = c


def block_graph(blocks: np.ndarray) -> Adjacency:
    """The blocks [b, 3] of a design, joined where they share a point; of a Steiner system it is strongly regular."""
    shared = (blocks[:, None, :, None] == blocks[None, :, None, :]).sum(axis=(2, 3))
    return (shared > 0) & ~np.eye(len(blocks), dtype=bool)


def _conjugate(square: np.ndarray) -> np.ndarray:
    """Columns and symbols exchanged."""
    return np.argsort(square, axis=1)


def random_net(order: int, num_classes: int, classes: list[np.ndarray], random: Random) -> Adjacency:
    """The graph of a random choice of parallel classes [q, q]."""
    chosen = random.choice(len(classes), num_classes, replace=False)
    return net_graph([classes[i] for i in chosen])


def random_lift(graph: Adjacency, random: Random) -> Adjacency:
    """A random double cover: each edge stays on its sheet or crosses."""
    signs = np.triu(np.where(random.random(graph.shape) < 0.5, 1, -1) * graph, 1)
    return cover(signs + signs.T)


def with_swapped_edges(graph: Adjacency, swaps: int, random: Random) -> Adjacency:
    """Two edges ab, cd become ad, cb, so many times where that makes no loop or double edge: degrees stay."""
    graph = graph.copy()
    for _ in range(swaps):
        ends = np.argwhere(graph)
        (a, b), (c, d) = ends[random.integers(len(ends), size=2)]
        if len({a, b, c, d}) == 4 and not graph[a, d] and not graph[c, b]:
            for u, v, joined in ((a, b, False), (c, d, False), (a, d, True), (c, b, True)):
                graph[u, v] = graph[v, u] = joined
    return graph


def disjoint_union(first: Adjacency, second: Adjacency) -> Adjacency:
    """Both graphs side by side."""
    n = len(first)
    graph = np.pad(first, (0, len(second)))
    graph[n:, n:] = second
    return graph
