"""Strongly regular families have their parameters and no two equal graphs; random regular graphs are uniform."""

from collections import Counter
from itertools import combinations

import networkx as nx
import pytest
import torch

from builders import dense as adjacency
from builders import marked_pair_invariants
from maggnn.data.synthetic.dense import fingerprints
from maggnn.errors import InputError
from maggnn.graphs.conversions import to_networkx
from maggnn_paper.datasets.regular_graphs import (
    MAX_PAIRING_DEGREE,
    random_regular,
    sr26,
    sr28,
    sr35,
    sr36,
    sr40,
)

FAMILIES = {
    sr26: (10, (26, 10, 3, 4)),
    sr28: (4, (28, 12, 6, 4)),
    sr35: (80, (35, 18, 9, 9)),
    sr36: (12, (36, 15, 6, 6)),
    sr40: (12, (40, 12, 2, 4)),
}
"""How many graphs, and of which parameters."""

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)


def edge_sets(packed):
    """The edges u < v of each graph."""
    return [frozenset(tuple(sorted(edge)) for edge in graph.edges) for graph in to_networkx(packed)]


@every_family
def test_families_are_strongly_regular_and_numbered(family):
    count, (n, degree, adjacent, apart) = FAMILIES[family]
    dense, identity = adjacency(family()), torch.eye(n)
    assert dense.shape == (count, n, n)
    assert torch.equal(dense @ dense, degree * identity + adjacent * dense + apart * (1 - identity - dense))
    assert family().y.tolist() == list(range(count))
    assert family().symmetric


@every_family
def test_no_two_graphs_of_a_family_are_isomorphic(family):
    dense = adjacency(family())
    assert len(set(marked_pair_invariants(dense))) == len(dense)
    assert len(set(fingerprints(dense))) == len(dense)


@pytest.mark.parametrize("family", [sr26, sr28], ids=lambda family: family.__name__)
def test_networkx_finds_no_isomorphism_either(family):
    """A search without any invariant, of the two complete families; on larger graphs it would take minutes."""
    for first, second in combinations(to_networkx(family()), 2):
        assert not nx.vf2pp_is_isomorphic(first, second)


@every_family
def test_fingerprints_are_blind_to_relabelling(family):
    dense = adjacency(family())[:5]
    order = torch.randperm(dense.shape[1], generator=torch.Generator().manual_seed(0))
    assert not torch.equal(dense, dense[:, order][:, :, order])
    assert fingerprints(dense[:, order][:, :, order]) == fingerprints(dense)


def test_sr26_holds_the_block_graph_of_the_cyclic_steiner_triple_system_once():
    cyclic = [{(point + shift) % 13 for point in base} for base in ((0, 1, 4), (0, 2, 7)) for shift in range(13)]
    disjoint = nx.Graph([(i, j) for i, j in combinations(range(26), 2) if not cyclic[i] & cyclic[j]])
    found = [nx.vf2pp_is_isomorphic(graph, disjoint) for graph in to_networkx(sr26())]
    assert sum(found) == 1


def test_sr28_starts_with_t8_which_the_chang_graphs_are_not():
    t8 = nx.line_graph(nx.complete_graph(8))
    graphs = to_networkx(sr28())
    assert nx.vf2pp_is_isomorphic(graphs[0], t8)
    largest = [max(map(len, nx.find_cliques(graph))) for graph in graphs]
    assert largest[0] == 7  # the pairs that hold one thing
    assert all(size < 7 for size in largest[1:])


def test_sr35_starts_with_the_projective_space():
    """The block graph of PG(3, 2) is that of its lines; its 15 points and 15 planes are the cliques of seven."""
    sevens = [sum(len(clique) == 7 for clique in nx.find_cliques(graph)) for graph in to_networkx(sr35())]
    assert sevens[0] == 30
    assert max(sevens[1:]) < 30
    assert min(sevens) == 15  # the points alone


def test_sr36_has_the_lines_of_a_latin_square_as_its_cliques_of_six():
    for graph in to_networkx(sr36()):
        assert sum(len(clique) == 6 for clique in nx.find_cliques(graph)) == 18


def test_sr40_starts_with_the_two_generalised_quadrangles():
    """All cliques are lines of four points, and only in them: 40 lines, four at each point."""
    for number, graph in enumerate(to_networkx(sr40())):
        sizes = Counter(map(len, nx.find_cliques(graph)))
        assert (sizes == {4: 40}) == (number < 2)


@pytest.mark.parametrize(("n", "degree"), [(1, 0), (5, 0), (2, 1), (30, 3), (9, 4), (40, 5), (8, 5), (12, 11)])
def test_random_graphs_are_simple_and_regular(n, degree):
    packed = random_regular(n, degree, count=4, seed=3)
    assert packed.num_nodes.tolist() == [n] * 4
    assert packed.symmetric
    for graph in to_networkx(packed):
        assert [d for _, d in graph.degree] == [degree] * n
        assert nx.number_of_selfloops(graph) == 0
        assert graph.number_of_edges() == n * degree // 2


def test_random_graphs_depend_on_the_seed_alone():
    first, again, other = (edge_sets(random_regular(20, 3, count=5, seed=seed)) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert len(set(first)) == 5


def test_random_graphs_may_be_disconnected():
    graphs = to_networkx(random_regular(12, 2, count=50, seed=0))
    assert {nx.is_connected(graph) for graph in graphs} == {True, False}


@pytest.mark.parametrize("degree", [2, 3])
def test_random_graphs_are_uniform(degree):
    """Of the 70 labelled 2-regular graphs on 6 nodes, 60 are a cycle; the 3-regular ones are their complements."""
    count = 7_000
    times = Counter(edge_sets(random_regular(6, degree, count, seed=0)))
    assert len(times) == 70
    assert sum((found - count / 70) ** 2 / (count / 70) for found in times.values()) < 122  # chi² of 69, p = 0.0001
    if degree == 2:
        cycles = sum(found for edges, found in times.items() if nx.is_connected(nx.Graph(edges)))
        assert cycles / count == pytest.approx(60 / 70, abs=0.015)


@pytest.mark.parametrize(
    ("n", "degree", "count", "message"),
    [
        (5, 3, 1, "nodes times degree is odd"),
        (4, 4, 1, "choose a degree from 0 to 3"),
        (4, -1, 1, "choose a degree from 0 to 3"),
        (4, 2, 0, "at least one node and one graph"),
        (0, 0, 1, "at least one node and one graph"),
        (40, 20, 1, f"at most {MAX_PAIRING_DEGREE} or at least 33"),
    ],
)
def test_impossible_random_graphs_are_named(n, degree, count, message):
    with pytest.raises(InputError, match=message):
        random_regular(n, degree, count, seed=0)
