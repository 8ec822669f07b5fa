"""The pairs on which settings of the BREC tests are chosen: what they are, and that BREC has none of them."""

import networkx as nx
import pytest
import torch

from maggnn.errors import InputError
from maggnn.graphs.conversions import to_networkx
from maggnn_paper.brec.practice import (
    FAMILIES,
    bipartite_double,
    cfi_graph,
    circulant,
    latin_square_graph,
    packed,
    practice_pairs,
)

TRIANGLE = [(0, 1), (0, 2), (1, 2)]


def test_cfi_graphs_of_a_triangle_are_one_ring_and_two():
    """Without forks the twist closes two rings into one of twice the length."""
    plain, twisted = (nx.Graph(cfi_graph(TRIANGLE, twist).numpy()) for twist in (False, True))
    assert len(plain) == len(twisted) == 12
    assert sorted(map(len, nx.connected_components(plain))) == [6, 6]
    assert nx.is_isomorphic(twisted, nx.cycle_graph(12))


def test_small_families_are_those_of_networkx():
    assert nx.is_isomorphic(nx.Graph(circulant(9, [1, 3]).numpy()), nx.circulant_graph(9, [1, 3]))
    cyclic = latin_square_graph([[(row + column) % 4 for column in range(4)] for row in range(4)])
    assert nx.is_strongly_regular(nx.Graph(cyclic.numpy()))
    double = bipartite_double(torch.tensor([[0, 1, 1], [1, 0, 1], [1, 1, 0]]).bool())
    assert nx.is_isomorphic(nx.Graph(double.numpy()), nx.cycle_graph(6))


@pytest.mark.parametrize("family", FAMILIES)
def test_pairs_are_different_graphs_of_equal_size(packed_data, family):
    pairs = practice_pairs(family, 1, seed=3)
    assert torch.equal(pairs.edge_index, practice_pairs(family, 1, seed=3).edge_index)
    first, second = to_networkx(pairs)
    assert len(first) == len(second) and first.size() == second.size()


def test_pairs_of_brec_are_left_out(packed_data, monkeypatch):
    """The first pair of BREC is no practice."""
    from maggnn.data import load
    from maggnn.data.synthetic.dense import stacked

    first, second = stacked(load("brec").graphs.select(torch.arange(2)))
    monkeypatch.setitem(FAMILIES, "brec", lambda random: (first, second))
    assert len(packed((first, second))) == 2
    with pytest.raises(InputError, match="only 0 pairs of the family brec"):
        practice_pairs("brec", 1)
    with pytest.raises(InputError, match="no family 'trees'"):
        practice_pairs("trees", 1)
