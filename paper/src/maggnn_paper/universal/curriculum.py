"""The training graphs of the universal agent, generated anew all the time.

Fixed sets of graphs are memorised, so every batch is drawn anew from `FAMILIES`, in which only the classical graphs
repeat. What `exclusion` forbids is dropped. Graphs are drawn by number: the n-th draw of a seed is the same with any
number of processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import count
from multiprocessing import get_context

import numpy as np
import torch

from maggnn_paper.universal import classical, random_graphs
from maggnn_paper.universal.cfi import FORMS, cfi, cfi_size, grid
from maggnn_paper.universal.classical import Adjacency
from maggnn_paper.universal.exclusion import allowed, hashes_of, published_hashes
from maggnn_paper.universal.random_graphs import Random

Draw = Callable[[Random, int], Adjacency]
"""A random graph of at most so many nodes, or a larger one, which is then dropped."""


@dataclass(frozen=True)
class CurriculumSettings:
    """How much is drawn at a time.

    Attributes:
        least_nodes, most_nodes: sizes of graphs.
        batch_nodes: nodes of a batch, which holds graphs of similar size.
        graphs: drawn by one call; they are dealt into batches by size.
    """

    least_nodes: int = 8
    most_nodes: int = 64
    batch_nodes: int = 768
    graphs: int = 160


# ---- families -------------------------------------------------------------------------------------------


def _regular(random: Random, most: int) -> Adjacency:
    degree = int(random.choice([2, 3, 3, 3, 4, 4, 5, 6, 8]))
    n = int(random.integers(max(8, degree + 2), min(most, 48) + 1))
    return random_graphs.random_regular(n + n * degree % 2, degree, random)


def _dense_regular(random: Random, most: int) -> Adjacency:
    """As dense as strongly regular graphs are, and without their symmetry."""
    n = 2 * int(random.integers(6, min(most, 48) // 2 + 1))
    return random_graphs.random_regular(n, int(random.integers(5, n // 2 + 1)), random)


def _circulant(random: Random, most: int) -> Adjacency:
    n = int(random.integers(8, most + 1))
    return random_graphs.random_circulant(n, min(int(random.integers(1, 5)), n // 2), random)


GROUPS = (
    *((2,) * 3, (3, 3), (4, 4), (2, 2, 3), (2,) * 4, (3, 5), (4, 5), (3, 6), (4, 6), (5, 6), (3, 3, 3), (2, 4, 4)),
    *((6, 6), (2,) * 5, (5, 7), (3, 4, 4), (7, 7), (4, 4, 4), (2,) * 6, (8, 8), (9, 9)),
)
"""Sizes of the cyclic groups whose products have Cayley graphs in the curriculum."""


def _cayley(random: Random, most: int) -> Adjacency:
    fitting = [size for size in GROUPS if np.prod(size) <= most]
    return random_graphs.random_cayley(fitting[int(random.integers(len(fitting)))], int(random.integers(1, 5)), random)


def _cfi(random: Random, most: int) -> Adjacency:
    """Over base graphs of growing treewidth: trees with extra edges, grids and cubic graphs."""
    form = FORMS[int(random.choice(3, p=[0.5, 0.2, 0.3]))]
    for _ in range(50):
        base = _base(random)
        if cfi_size(base, form) <= most:
            return cfi(base, bool(random.random() < 0.5), form)
    return cfi(classical.complete(4), bool(random.random() < 0.5), form)


CUBIC_BASES = (4, 6, 10, 14, 16, 18, 20, 22)
"""Sizes of cubic base graphs; 8 and 12 are left to the tests (`families`)."""


def _base(random: Random) -> Adjacency:
    kind = random.random()
    if kind < 0.4:
        return random_graphs.random_regular(int(random.choice(CUBIC_BASES)), 3, random)
    if kind < 0.55:
        return grid(int(random.choice([2, 2, 2, 3, 3, 4])), int(random.integers(2, 7)))
    n = int(random.integers(4, 15))
    return random_graphs.tree_with_cycles(
        n, int(random.integers(1, 6)), random, most_degree=int(random.choice([3, 4, 5]))
    )


def _strongly_regular(random: Random, most: int) -> Adjacency:
    """Fresh ones: of random triple systems, Latin squares and nets of an affine plane; else a classical one."""
    kind = random.random()
    orders = [n for n in (3, 4, 7, 8, 9, 10, 11, 12, 13) if n * n <= most]
    systems = [v for v in (19, 21) if v * (v - 1) // 6 <= most]
    if kind < 0.15 and systems:
        graph = random_graphs.block_graph(random_graphs.random_triple_system(int(random.choice(systems)), random))
    elif kind < 0.4:
        order = int(random.choice(orders))
        graph = classical.latin_square_graph([random_graphs.random_latin_square(order, random)])
    elif kind < 0.65:
        order = int(random.choice([n for n in orders if n in (3, 4, 7, 8, 9, 11, 13)]))
        num_classes = int(random.integers(2, max(3, (order + 3) // 2)))
        graph = random_graphs.random_net(order, num_classes, classical.affine_classes(order), random)
    else:
        graph = _one_of(strongly_regular(), random, most)
    return classical.complement(graph) if random.random() < 0.25 else graph


def _distance_regular(random: Random, most: int) -> Adjacency:
    return _one_of(distance_regular(), random, most)


def _derived(random: Random, most: int) -> Adjacency:
    """A graph that is made from a regular one: a double cover, a product, a line graph, or one with switched edges."""
    graph = _small_regular(random, most // 2)
    kind = int(random.integers(6))
    if kind == 0:
        return random_graphs.random_lift(graph, random)
    if kind == 1:
        return classical.bipartite_double(graph)
    if kind == 2:
        return classical.cartesian_product(graph, classical.complete(2))
    if kind == 3:
        return classical.line_graph(graph)
    if kind == 4:
        return classical.complement(graph)
    return random_graphs.with_swapped_edges(_small_regular(random, most), int(random.integers(1, 9)), random)


def _small_regular(random: Random, most: int) -> Adjacency:
    draw = (_regular, _circulant, _cayley, _strongly_regular, _distance_regular)[int(random.integers(5))]
    return draw(random, max(most, 16))


def _tree(random: Random, most: int) -> Adjacency:
    n = int(random.integers(8, min(most, 60) + 1))
    return random_graphs.tree_with_cycles(n, int(random.integers(0, n // 3 + 2)), random)


def _erdos_renyi(random: Random, most: int) -> Adjacency:
    return random_graphs.erdos_renyi(int(random.integers(8, min(most, 60) + 1)), float(random.uniform(1.5, 6)), random)


def _molecule(random: Random, most: int) -> Adjacency:
    return random_graphs.molecule(int(random.integers(8, min(most, 50))), random)


def _union(random: Random, most: int) -> Adjacency:
    """Two random graphs side by side, which may be equal."""
    first = (_regular, _circulant, _tree, _cfi)[int(random.integers(4))](random, max(most // 2, 16))
    second = first if random.random() < 0.3 else _small_regular(random, max(most - len(first), 16))
    return random_graphs.disjoint_union(first, second)


FAMILIES: dict[str, tuple[float, Draw]] = {
    "cfi": (0.26, _cfi),
    "regular": (0.08, _regular),
    "dense regular": (0.08, _dense_regular),
    "circulant": (0.06, _circulant),
    "cayley": (0.06, _cayley),
    "strongly regular": (0.17, _strongly_regular),
    "distance-regular": (0.11, _distance_regular),
    "derived": (0.08, _derived),
    "trees with cycles": (0.03, _tree),
    "erdos-renyi": (0.02, _erdos_renyi),
    "molecules": (0.03, _molecule),
    "unions": (0.02, _union),
}
"""What is drawn, each with its share of the draws."""


# ---- the classical graphs -------------------------------------------------------------------------------

Catalogue = dict[str, Adjacency]
"""Graphs by their names."""


@cache
def strongly_regular() -> Catalogue:
    """Classical strongly regular graphs, some of which published tests contain (see `usable`)."""
    made: Catalogue = {
        f"Paley {q}": classical.paley(q) for q in (9, 13, 17, 25, 29, 37, 41, 49, 53, 61, 73, 89, 97, 101)
    }
    made |= {f"rook {n}x{n}": classical.rook(n) for n in range(3, 13)}
    made |= {f"triangular T({n})": classical.triangular(n) for n in range(5, 16)}
    made |= {f"Sp(4, {q})": classical.symplectic(q, 3) for q in (2, 3, 4)} | {"Sp(6, 2)": classical.symplectic(2, 5)}
    made |= {
        f"VO{'-' if elliptic else '+'}({d}, 2)": classical.affine_polar(d, elliptic)
        for d in (4, 6)
        for elliptic in (False, True)
    }
    made |= {f"Steiner triple system {v}": classical.steiner_block_graph(v) for v in (15, 21, 27)}
    made |= {"Shrikhande": classical.shrikhande(), "halved 5-cube": classical.halved_cube(5)}
    return made


@cache
def distance_regular() -> Catalogue:
    """Classical distance-regular graphs of diameter 3 and more, and a few close relatives."""
    incidence = classical.incidence_graph
    made: Catalogue = {f"hypercube {d}": classical.hamming(d, 2) for d in range(3, 8)}
    made |= {f"Hamming H({d}, {q})": classical.hamming(d, q) for d, q in ((3, 3), (3, 4), (4, 3), (3, 5))}
    made |= {
        f"Johnson J({n}, {k})": classical.johnson(n, k) for n, k in ((6, 3), (7, 3), (8, 3), (9, 3), (8, 4), (10, 3))
    }
    made |= {f"Kneser K({n}, {k})": classical.johnson(n, k, 0) for n, k in ((7, 2), (8, 3), (9, 3))}
    made |= {f"odd graph {k}": classical.odd_graph(k) for k in (3, 4, 5)}
    made |= {f"doubled odd graph {k}": classical.bipartite_double(classical.odd_graph(k)) for k in (3, 4)}
    made |= {f"halved {d}-cube": classical.halved_cube(d) for d in (6, 7, 8)}
    made |= {f"folded {d}-cube": classical.folded_cube(d) for d in (5, 6, 7, 8)}
    made |= {f"projective plane {q}": incidence(classical.projective_plane(q)) for q in (2, 3, 4, 5, 7)}
    made |= {f"non-incidence of projective plane {q}": incidence(~classical.projective_plane(q)) for q in (2, 3, 4)}
    made |= {
        f"flags of projective plane {q}": classical.line_graph(incidence(classical.projective_plane(q)))
        for q in (2, 3, 4)
    }
    made |= {f"affine plane {q} less a class": incidence(classical.affine_incidence(q, q)) for q in (3, 4, 5, 7)}
    made |= {f"design {v}, {k}": incidence(classical.difference_design(v, k)) for v, k in classical.DIFFERENCE_SETS}
    made |= {f"quadrangle {q}": incidence(classical.quadrangle(q)) for q in (2, 3)}
    made |= {f"Hadamard {n}": classical.hadamard_graph(n) for n in (4, 8, 12, 16, 20)}
    made |= {f"Taylor {q}": classical.taylor(q) for q in (5, 9, 13, 17, 25, 29, 37)}
    made |= {f"crown {n}": incidence(~np.eye(n, dtype=bool)) for n in (5, 7, 10)}
    made |= {
        f"line graph of {name}": classical.line_graph(graph)
        for name, graph in (
            ("Petersen", classical.odd_graph(3)),
            ("3-cube", classical.hamming(3, 2)),
            ("Heawood", incidence(classical.projective_plane(2))),
        )
    }
    made |= {
        f"generalised Petersen {n}, {skip}": classical.generalised_petersen(n, skip)
        for n, skip in ((8, 3), (10, 2), (10, 3), (12, 5), (9, 2))
    }
    made |= {"Doob": classical.cartesian_product(classical.shrikhande(), classical.complete(4))}
    made |= {
        f"distance 2 of {name}": classical.distance_graph(graph, 2)
        for name, graph in (
            ("4-cube", classical.hamming(4, 2)),
            ("J(7, 3)", classical.johnson(7, 3)),
            ("O4", classical.odd_graph(4)),
        )
    }
    return made


def usable(catalogue: Catalogue, forbidden: np.ndarray) -> tuple[Catalogue, list[str]]:
    """The graphs that training may see, and the names of the others."""
    fine = allowed(list(catalogue.values()), forbidden)
    kept = {name: graph for (name, graph), keep in zip(catalogue.items(), fine, strict=True) if keep}
    return kept, [name for name in catalogue if name not in kept]


def _one_of(catalogue: Catalogue, random: Random, most: int) -> Adjacency:
    """A random graph of the catalogue, of at most so many nodes."""
    graphs = [graph for graph in catalogue.values() if len(graph) <= most]
    return graphs[int(random.integers(len(graphs)))]


# ---- draws ----------------------------------------------------------------------------------------------


def draw(random: Random, settings: CurriculumSettings) -> Adjacency:
    """A random graph of the wanted size, its nodes in random order."""
    shares = np.array([share for share, _ in FAMILIES.values()])
    makers = [maker for _, maker in FAMILIES.values()]
    while True:
        graph = makers[int(random.choice(len(makers), p=shares / shares.sum()))](random, settings.most_nodes)
        if settings.least_nodes <= len(graph) <= settings.most_nodes and graph.any():
            order = random.permutation(len(graph))
            return graph[np.ix_(order, order)]


Batches = list[list[Adjacency]]
"""Graphs of similar size together."""


def batches_of(seed: int, number: int, settings: CurriculumSettings, forbidden: np.ndarray) -> Batches:
    """Draw number `number` of a seed: allowed graphs in batches of similar size, in random order."""
    random = np.random.default_rng((seed, number))
    graphs = [draw(random, settings) for _ in range(settings.graphs)]
    graphs = [graph for graph, fine in zip(graphs, allowed(graphs, forbidden), strict=True) if fine]
    batches: Batches = [[]]
    for graph in sorted(graphs, key=len):
        if sum(map(len, batches[-1])) + len(graph) > settings.batch_nodes and batches[-1]:
            batches.append([])
        batches[-1].append(graph)
    return [batches[i] for i in random.permutation(len(batches))]


def stream(
    seed: int, settings: CurriculumSettings, forbidden: np.ndarray, workers: int = 0, first: int = 0
) -> Generator[list[Adjacency]]:
    """Batches without end, from draw number `first` on; drawn ahead in `workers` processes, or here where that is 0."""
    if workers == 0:
        for number in count(first):
            yield from batches_of(seed, number, settings, forbidden)
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        waiting: deque[Future[Batches]] = deque()
        for number in count(first):
            waiting.append(pool.submit(batches_of, seed, number, settings, forbidden))
            if len(waiting) > 2 * workers:
                yield from waiting.popleft().result()


@cache
def forbidden_hashes() -> np.ndarray:
    """What published tests and our own test families keep out of training, sorted."""
    from maggnn_paper.universal.families import generated

    ours = [graph for graphs in generated().values() for graph in graphs]
    return np.union1d(published_hashes(), hashes_of(ours))
