"""The largest ring of a cycle basis depends on the order of the atoms only where rings share more than a bond."""

import networkx as nx
import pytest
import torch

from maggnn.graphs.packed import PackedGraphs
from maggnn_paper.datasets.ring_targets import ring_penalties, undetermined

HEXAGON = [(i, (i + 1) % 6) for i in range(6)]
TAIL = [(0, 6), (6, 7)]
MACROCYCLE = [(i, (i + 1) % 11) for i in range(11)]
NAPHTHALENE = [*HEXAGON, (0, 6), (6, 7), (7, 8), (8, 9), (9, 1)]
# Three hexagons around one atom, as in phenalene: node 0 in the middle, twelve around it.
PHENALENE = [*((1 + i, 1 + (i + 1) % 12) for i in range(12)), (0, 1), (0, 5), (0, 9)]


@pytest.mark.parametrize(
    ("edges", "penalties"),
    [(HEXAGON + TAIL, {0}), (MACROCYCLE, {5}), (TAIL, {0}), ([], {0}), (PHENALENE, {0, 6})],
)
def test_known_penalties(edges, penalties):
    assert ring_penalties(edges, orders=60) == penalties


def test_two_fused_rings_have_one_penalty():
    """NetworkX never returns the ring around both."""
    assert ring_penalties(NAPHTHALENE, orders=200) == {0}


def test_penalties_are_those_of_networkx():
    """In the order in which a graph is given, its penalty is one of those that random orders give."""
    for edges in (PHENALENE, NAPHTHALENE, MACROCYCLE, HEXAGON + TAIL):
        largest = max(map(len, nx.cycle_basis(nx.Graph(edges))))
        assert max(0, largest - 6) in ring_penalties(edges, orders=60)


def test_graphs_of_a_set_are_told_apart():
    molecules = [HEXAGON + TAIL, PHENALENE, MACROCYCLE]
    sizes = torch.tensor([1 + max(map(max, edges)) for edges in molecules])
    counts = torch.tensor([len(edges) for edges in molecules])
    ends = torch.cat([torch.tensor(edges).T for edges in molecules], dim=1)
    packed = PackedGraphs.build(sizes, counts, ends, undirected_once=True)
    assert undetermined(packed, torch.tensor([2, 1, 0])).tolist() == [False, True, False]
