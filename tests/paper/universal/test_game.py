"""The refinement game against refinement of single graphs by plain dictionaries."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch

from maggnn.errors import InputError
from maggnn_paper.universal import classical, random_graphs
from maggnn_paper.universal.exclusion import packed
from maggnn_paper.universal.game import ValueTable, outcome_values, values_of

RANDOM = np.random.default_rng(0)
GRAPHS = [
    classical.odd_graph(3),
    classical.circulant(8, (1, 2)),
    random_graphs.tree_with_cycles(9, 2, RANDOM),
    random_graphs.random_regular(8, 3, RANDOM),
    classical.complete(1),
]


def batch():
    graphs = packed(GRAPHS)
    return graphs[torch.arange(len(graphs))]


def stable_classes(graph, marks):
    """Sizes of the classes of the stable colouring, by exact refinement."""
    colours = [tuple(int(mark == node) for mark in marks) for node in range(len(graph))]
    for _ in range(len(graph)):
        told = [(colours[v], tuple(sorted(colours[u] for u in np.flatnonzero(graph[v])))) for v in range(len(graph))]
        numbers = {colour: number for number, colour in enumerate(sorted(set(told)))}
        colours = [(numbers[colour],) for colour in told]
    return list(Counter(colours).values())


def brute_force(graph, marks, fineness):
    sizes, n = stable_classes(graph, marks), len(graph)
    if n == 1:
        return 1.0
    if fineness == "colours":
        return len(sizes) / n
    return -sum(size / n * math.log(size / n) for size in sizes) / math.log(n)


@pytest.mark.parametrize("fineness", ["colours", "entropy"])
@pytest.mark.parametrize("order", [1, 2])
def test_values_are_those_of_single_graphs(order, fineness):
    graphs = batch()
    table = ValueTable.of(graphs, order, fineness)
    for number, graph in enumerate(GRAPHS):
        for marks in product(range(len(graph)), repeat=order):
            assert float(table.values[(number, *marks)]) == pytest.approx(brute_force(graph, marks, fineness), abs=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_outcomes_are_looked_up_or_refined_alike(order):
    graphs = batch()
    table = ValueTable.of(graphs, order)
    tuples = torch.stack([torch.zeros(5, order), torch.ones(5, order)], dim=1).long()
    tuples = tuples.minimum((graphs.num_nodes - 1)[:, None, None])
    refined = outcome_values(graphs, tuples)
    assert refined.shape == (5, 2, 10, order)
    assert torch.equal(table.outcomes(tuples), refined)
    assert (refined[2, :, 9:] == 0).all(), "padding is worth nothing"
    moved = tuples.clone()
    moved[:, :, 0] = torch.minimum(torch.tensor(3), graphs.num_nodes - 1)[:, None]
    assert torch.equal(values_of(graphs, moved)[:4], refined[:4, :, 3, 0])


def test_the_finest_tuples():
    table = ValueTable.of(batch(), 2)
    finest = table.finest()
    for number, graph in enumerate(GRAPHS):
        n = len(graph)
        values = table.values[number, :n, :n]
        assert torch.equal(finest[number, :n, :n], values == values.max())
        assert not finest[number, n:].any() and not finest[number, :, n:].any()


def test_foresight_sees_two_moves_ahead():
    table = ValueTable.of(batch(), 2)
    ahead = table.foreseen(1.0, 2)
    for number, graph in enumerate(GRAPHS):
        n = len(graph)
        best = table.values[number].max()
        assert torch.allclose(ahead.values[number, :n, :n], best), "two moves reach any pair"
    assert torch.equal(table.foreseen(0.0, 2).values, table.values)


def test_too_many_tuples():
    graphs = packed([classical.circulant(120, (1,))])
    with pytest.raises(InputError, match="more than are tabulated"):
        ValueTable.of(graphs[torch.tensor([0])], 3)
