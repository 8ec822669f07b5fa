"""Marks equal Eq. 2 cell by cell."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.marking import marked_nodes, marks
from maggnn.packed import PackedGraphs
from maggnn.tuples import sample_tuples

torch.set_num_threads(1)


def edgeless(sizes):
    packed = PackedGraphs.build(torch.tensor(sizes), torch.zeros(len(sizes)), torch.empty(2, 0, dtype=torch.long))
    return packed[torch.arange(len(sizes))]


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    num_tuples=st.integers(1, 3),
    tuple_order=st.integers(0, 6),
    seed=st.integers(0, 999),
)
def test_marks_equal_equation_2(sizes, num_tuples, tuple_order, seed):
    graphs = edgeless(sizes)
    tuples = sample_tuples(graphs, num_tuples, tuple_order, torch.Generator().manual_seed(seed))
    result = marks(graphs, tuples, 2.0, -0.5, torch.float64)
    assert result.shape == (sum(sizes), num_tuples, tuple_order)
    for node in range(sum(sizes)):
        graph, local = int(graphs.node_graph[node]), int(graphs.local_id[node])
        for i in range(num_tuples):
            for j in range(tuple_order):
                assert result[node, i, j] == (2.0 if tuples[graph, i, j] == local else -0.5)


def test_one_node_may_fill_every_slot():
    result = marks(edgeless([2]), torch.tensor([[[1, 1, 1]]]), 1.0, 0.0, torch.float32)
    assert result[:, 0].tolist() == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("tuple_order", [0, 1, 3])
def test_marked_nodes_are_the_rows_at_the_marks(tuple_order):
    graphs = edgeless([3, 1, 5])
    tuples = sample_tuples(graphs, 2, tuple_order, torch.Generator().manual_seed(0))
    h = torch.randn(9, 2, 4)
    result = marked_nodes(h, graphs, tuples)
    assert result.shape == (3, 2, tuple_order, 4)
    for b, i, j in itertools.product(range(3), range(2), range(tuple_order)):
        assert torch.equal(result[b, i, j], h[int(graphs.first_node[b]) + int(tuples[b, i, j]), i])
