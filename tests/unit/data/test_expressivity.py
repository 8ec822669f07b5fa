"""The generated graphs are what their definitions say, and agree with the published files."""

from itertools import combinations

import networkx as nx
import pytest
import torch

from builders import dense as adjacency
from builders import marked_pair_invariants
from maggnn.data.sources import load_packed_file
from maggnn.data.synthetic.expressivity import (
    CSL_SKIPS,
    csl,
    csl8_pair,
    sequence_class,
    shrikhande_rook,
    sr25,
    super_graph,
    super_graphs,
    super_sequences,
)
from maggnn.errors import InputError
from maggnn.graphs.conversions import to_networkx


def paley25():
    """Differences that are squares in GF(25) = GF(5)[t] / (t² - 2)."""
    elements = [(a, b) for a in range(5) for b in range(5)]
    squares = {((a * a + 2 * b * b) % 5, 2 * a * b % 5) for a, b in elements} - {(0, 0)}
    joined = [(p, q) for p, q in combinations(elements, 2) if ((p[0] - q[0]) % 5, (p[1] - q[1]) % 5) in squares]
    return nx.Graph(joined)


def test_sr25_is_strongly_regular():
    dense, identity = adjacency(sr25()), torch.eye(25)
    assert dense.shape == (15, 25, 25)
    assert torch.equal(dense @ dense, 12 * identity + 5 * dense + 6 * (1 - identity - dense))


def test_sr25_graphs_are_pairwise_non_isomorphic():
    assert len(set(marked_pair_invariants(adjacency(sr25())))) == 15


def test_sr25_is_closed_under_complement_and_starts_with_paley():
    assert nx.vf2pp_is_isomorphic(to_networkx(sr25())[0], paley25())
    dense = adjacency(sr25())
    complements = marked_pair_invariants(1 - torch.eye(25) - dense)
    assert set(complements) == set(marked_pair_invariants(dense))
    assert complements[0] == marked_pair_invariants(dense)[0]  # Paley(25) is its own complement


@pytest.mark.dataset
def test_sr25_has_the_classes_of_the_published_file(packed_data):
    published, _ = load_packed_file("sr25")
    assert set(marked_pair_invariants(adjacency(published))) == set(marked_pair_invariants(adjacency(sr25())))


def test_csl_is_4_regular_and_each_class_is_a_relabelled_circulant():
    packed = csl()
    assert packed.num_nodes.unique().tolist() == [41]
    assert packed.in_degree.unique().tolist() == [4]
    assert packed.y.bincount().tolist() == [15] * 10
    graphs = to_networkx(packed)
    for label, skip in enumerate(CSL_SKIPS):
        plain = nx.circulant_graph(41, [1, skip])
        assert nx.vf2pp_is_isomorphic(graphs[15 * label + label], plain)


def test_csl_classes_differ_and_copies_are_shuffled():
    packed = csl()
    firsts = marked_pair_invariants(adjacency(packed.select(torch.arange(0, 150, 15))))
    assert len(set(firsts)) == 10
    assert not torch.equal(*(packed[torch.tensor([copy])].edge_index for copy in (0, 1)))


@pytest.mark.dataset
def test_csl_has_the_classes_of_the_published_file(packed_data):
    published, _ = load_packed_file("csl")
    firsts = torch.stack([(published.y == label).nonzero()[0, 0] for label in range(10)])
    ours = marked_pair_invariants(adjacency(csl().select(torch.arange(0, 150, 15))))
    assert set(marked_pair_invariants(adjacency(published.select(firsts)))) == set(ours)


def test_shrikhande_and_rook_share_parameters_but_differ():
    dense, identity = adjacency(shrikhande_rook()), torch.eye(16)
    assert (dense @ dense == 6 * identity + 2 * (1 - identity)).all()
    shrikhande, rook = to_networkx(shrikhande_rook())
    assert nx.is_isomorphic(rook, nx.line_graph(nx.complete_bipartite_graph(4, 4)))
    assert max(map(len, nx.find_cliques(shrikhande))) == 3  # the rook's rows are cliques of 4


def test_csl8_pair_are_the_two_circulants():
    first, second = to_networkx(csl8_pair())
    assert nx.is_isomorphic(first, nx.circulant_graph(8, [1, 2]))
    assert nx.is_isomorphic(second, nx.circulant_graph(8, [1, 3]))
    assert not nx.is_isomorphic(first, second)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_super_sequences_are_balanced_and_labelled_by_opposite_blocks(n):
    sequences, y = super_sequences(n), super_graphs(n).y.tolist()
    assert len(sequences) == len(set(sequences)) == len(y)
    for sequence, label in zip(sequences, y, strict=True):
        assert sequence.count("A") == sequence.count("B") == 2 * n
        alike = {sequence[i] == sequence[i + 2 * n] for i in range(2 * n)}
        assert alike == {label == 1}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_super_graphs_have_diameter_2n_and_full_joins(n):
    packed = super_graphs(n)
    assert packed.num_nodes.unique().tolist() == [32 * n]
    assert packed.in_degree.unique().tolist() == [20]  # 4 within the block, 8 to each side
    for graph in to_networkx(packed.select(torch.tensor([0, 1]))):
        assert nx.diameter(graph) == 2 * n
    dense = adjacency(packed).view(len(packed), 4 * n, 8, 4 * n, 8)
    for block in range(4 * n):
        assert dense[:, block, :, (block + 1) % (4 * n)].all()


def test_super_graph_blocks_are_the_letters():
    graph = nx.Graph(super_graph("AABB").T.tolist())
    blocks = {"A": nx.circulant_graph(8, [1, 2]), "B": nx.circulant_graph(8, [1, 3])}
    for index, letter in enumerate("AABB"):
        block = graph.subgraph(range(8 * index, 8 * index + 8))
        assert nx.is_isomorphic(block, blocks[letter])


def test_sequence_class_is_blind_to_rotation_and_reflection_only():
    assert len({sequence_class(s) for s in ("AABABB", "ABABBA", "BBABAA")}) == 1
    assert sequence_class("AABB") != sequence_class("ABAB")
    assert sequence_class("BA") == "AB"


def test_every_class_has_one_label():
    label_of = {}
    for sequence, label in zip(super_sequences(4), super_graphs(4).y.tolist(), strict=True):
        assert label_of.setdefault(sequence_class(sequence), label) == label
    assert len(label_of) == 20


@pytest.mark.parametrize("sequence", ["", "AB", "ABC", "abab"])
def test_bad_sequences_are_named(sequence):
    with pytest.raises(InputError, match="each A or B"):
        super_graph(sequence)


@pytest.mark.parametrize("n", [0, 8])
def test_bad_super_graph_sizes_are_named(n):
    with pytest.raises(InputError, match="choose n from 1 to 7"):
        super_graphs(n)
