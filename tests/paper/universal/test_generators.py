"""Generated graphs are what they are called, by the definitions."""

import numpy as np
import pytest
import torch

from maggnn.theory.refinement import graph_hashes
from maggnn_paper.universal import classical, curriculum, random_graphs
from maggnn_paper.universal.cfi import FORMS, cfi, cfi_size, grid, wheel
from maggnn_paper.universal.exclusion import packed, unpacked

STRONGLY_REGULAR = curriculum.strongly_regular()
DISTANCE_REGULAR = curriculum.distance_regular()
RELATIVES = ("Kneser", "line graph of 3-cube", "line graph of Heawood", "generalised Petersen", "distance 2")
"""Of the catalogue's names, those of graphs that need not be distance-regular."""


def check_simple(graph):
    assert graph.dtype == bool and (graph == graph.T).all() and not graph.diagonal().any()


@pytest.mark.parametrize("order", [4, 5, 8, 9, 16, 25, 27, 49])
def test_fields(order):
    plus, times = classical.field(order)
    numbers = np.arange(order)
    assert (plus[0] == numbers).all() and (times[1] == numbers).all() and (times[0] == 0).all()
    assert all(len(set(row)) == order for row in plus) and all(len(set(row)) == order for row in times[1:])
    a, b, c = np.random.default_rng(0).integers(order, size=(3, 200))
    assert (times[a, plus[b, c]] == plus[times[a, b], times[a, c]]).all()
    assert (times[a, times[b, c]] == times[times[a, b], c]).all()


@pytest.mark.parametrize("name", STRONGLY_REGULAR)
def test_strongly_regular_graphs(name):
    check_simple(STRONGLY_REGULAR[name])
    assert classical.strongly_regular_parameters(STRONGLY_REGULAR[name]) is not None


@pytest.mark.parametrize("name", DISTANCE_REGULAR)
def test_distance_regular_graphs(name):
    check_simple(DISTANCE_REGULAR[name])
    if not name.startswith(RELATIVES):
        assert classical.intersection_array(DISTANCE_REGULAR[name]) is not None


def test_the_definitions_say_no_too():
    path = random_graphs.from_edges(4, np.array([[0, 1], [1, 2], [2, 3]]))
    assert classical.intersection_array(path) is None and classical.strongly_regular_parameters(path) is None
    assert classical.strongly_regular_parameters(classical.hamming(3, 2)) is None
    assert classical.intersection_array(classical.hamming(3, 2)) == ((0, 0, 3), (1, 0, 2), (2, 0, 1), (3, 0, 0))
    assert classical.strongly_regular_parameters(classical.odd_graph(3)) == (10, 3, 0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_random_regular_and_latin(seed):
    random = np.random.default_rng(seed)
    graph = random_graphs.random_regular(14, 3 + seed, random)
    check_simple(graph)
    assert (graph.sum(1) == 3 + seed).all()
    square = random_graphs.random_latin_square(7, random)
    assert all(sorted(line) == list(range(7)) for line in (*square, *square.T))
    assert classical.strongly_regular_parameters(classical.latin_square_graph([square])) == (49, 18, 7, 6)
    swapped = random_graphs.with_swapped_edges(graph, 10, random)
    check_simple(swapped)
    assert (swapped.sum(1) == graph.sum(1)).all()
    lifted = random_graphs.random_lift(graph, random)
    check_simple(lifted)
    assert (lifted.sum(1) == 3 + seed).all()


@pytest.mark.parametrize("points", [9, 13, 19])
def test_random_triple_systems(points):
    blocks = random_graphs.random_triple_system(points, np.random.default_rng(points))
    pairs = [
        tuple(sorted(pair)) for block in blocks.tolist() for pair in zip(block, block[1:] + block[:1], strict=True)
    ]
    assert len(blocks) == points * (points - 1) // 6 and len(set(pairs)) == len(pairs) == 3 * len(blocks)
    parameters = classical.strongly_regular_parameters(random_graphs.block_graph(blocks))
    assert parameters is not None and parameters[0] == len(blocks) and parameters[3] == 9


def test_random_squares_are_of_several_kinds():
    graphs = [
        classical.latin_square_graph([random_graphs.random_latin_square(6, np.random.default_rng(seed))])
        for seed in range(12)
    ]
    assert len(graph_hashes(packed(graphs), order=2).hashes.unique()) >= 4


@pytest.mark.parametrize("name", curriculum.FAMILIES)
def test_every_family_draws_simple_graphs(name):
    random = np.random.default_rng(1)
    sizes = set()
    for _ in range(12):
        graph = curriculum.FAMILIES[name][1](random, 64)
        check_simple(graph)
        sizes.add(len(graph))
    assert len(sizes) > 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("base", "order"), [(classical.cycle(4), 0), (grid(2, 3), 1), (classical.complete(4), 2)])
def test_twisted_cfi_graphs_differ_once_enough_marks_are_there(base, order, form):
    plain, twisted = cfi(base, False, form), cfi(base, True, form)
    check_simple(plain)
    check_simple(twisted)
    assert len(plain) == len(twisted) == cfi_size(base, form)
    assert sorted(plain.sum(1)) == sorted(twisted.sum(1))
    both = packed([plain, twisted])
    first, second = graph_hashes(both, 2).hashes
    assert first != second, "two marks distinguish treewidth up to 3"


def test_any_edge_may_be_twisted():
    """Twisting another edge gives an isomorphic graph: relabelling the base moves the twist."""
    base, random = classical.complete(4), np.random.default_rng(0)
    graphs = []
    for _ in range(4):
        order = random.permutation(4)
        graphs.append(cfi(base[np.ix_(order, order)], True))
    assert len(graph_hashes(packed(graphs), 2).hashes.unique()) == 1


def test_a_wheel():
    assert sorted(wheel(5).sum(1)) == [3, 3, 3, 3, 3, 5]


def test_packing_and_back():
    graphs = [classical.odd_graph(3), classical.complete(1), classical.cycle(5)]
    back = unpacked(packed(graphs))
    assert all(np.array_equal(one, other) for one, other in zip(graphs, back, strict=True))
    assert torch.equal(packed(graphs).num_nodes, torch.tensor([10, 1, 5]))
