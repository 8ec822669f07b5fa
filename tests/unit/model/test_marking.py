"""Marks equal Eq. 2 cell by cell."""

import itertools

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders import all_of, edgeless, packed_edges, random_edges, seeded
from maggnn.config import EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.colours import mix, until_stable
from maggnn.graphs.distances import FARTHEST, distances_from
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.edge_embedding import DirectionEmbedding
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.marking import MARKINGS, make_marking, mark_sets, marked_nodes, marks
from maggnn.model.tuples import sample_tuples


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    num_tuples=st.integers(1, 3),
    tuple_order=st.integers(0, 6),
    seed=st.integers(0, 999),
)
def test_marks_equal_equation_2(sizes, num_tuples, tuple_order, seed):
    graphs = edgeless(*sizes)
    tuples = sample_tuples(graphs, num_tuples, tuple_order, torch.Generator().manual_seed(seed))
    result = marks(graphs, tuples, 2.0, -0.5, torch.float64)
    assert result.shape == (sum(sizes), num_tuples, tuple_order)
    for node in range(sum(sizes)):
        graph, local = int(graphs.node_graph[node]), int(graphs.local_id[node])
        for i in range(num_tuples):
            for j in range(tuple_order):
                assert result[node, i, j] == (2.0 if tuples[graph, i, j] == local else -0.5)


def test_one_node_may_fill_every_slot():
    result = marks(edgeless(2), torch.tensor([[[1, 1, 1]]]), 1.0, 0.0, torch.float32)
    assert result[:, 0].tolist() == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("tuple_order", [0, 1, 3])
def test_marked_nodes_are_the_rows_at_the_marks(tuple_order):
    graphs = edgeless(3, 1, 5)
    tuples = sample_tuples(graphs, 2, tuple_order, torch.Generator().manual_seed(0))
    h = torch.randn(9, 2, 4)
    result = marked_nodes(h, graphs, tuples)
    assert result.shape == (3, 2, tuple_order, 4)
    for b, i, j in itertools.product(range(3), range(2), range(tuple_order)):
        assert torch.equal(result[b, i, j], h[int(graphs.first_node[b]) + int(tuples[b, i, j]), i])


def ring_with_tail(ring, tail):
    """A ring of nodes 0 ... ring - 1 and a path of `tail` further nodes that hangs from node 0."""
    edges = [(node, (node + 1) % ring) for node in range(ring)]
    edges += [(0 if node == ring else node - 1, node) for node in range(ring, ring + tail)]
    return edges


@pytest.mark.parametrize("name", ["binary", "distance"])
@pytest.mark.parametrize("tuple_order", [1, 2, 3])
def test_the_table_of_a_marking_says_what_its_map_says(name, tuple_order):
    edges = torch.tensor(ring_with_tail(6, 8)).T
    packed = PackedGraphs.build(torch.tensor([14]), torch.tensor([14]), edges, undirected_once=True)
    graphs = packed[torch.zeros(3, dtype=torch.long)]
    tuples = sample_tuples(graphs, 2, tuple_order, torch.Generator().manual_seed(1))
    marking = make_marking(EncoderConfig(hidden=5, marking=name, c_plus=2.0, c_minus=-1.0), tuple_order)
    kinds = marking.kinds(graphs, tuples)
    assert int(kinds.min()) >= 0 and int(kinds.max()) < marking.num_kinds
    torch.testing.assert_close(marking.table().float()[kinds], marking(graphs, tuples))


def test_a_marking_without_a_table_says_so():
    for name in MARKINGS.keys() - {"binary", "distance", "directed"}:
        marking = make_marking(EncoderConfig(hidden=5, marking=name), 2)
        assert marking.num_kinds is None
        with pytest.raises(NotImplementedError, match="ColoursMarking has no table"):
            marking.table()


def test_only_directed_marks_reach_the_edges():
    graphs, tuples = edgeless(3), torch.zeros(1, 1, 2, dtype=torch.long)
    for name in MARKINGS:
        marking = make_marking(EncoderConfig(conv="gine", hidden=5, marking=name), 2)
        assert marking.edge_ways == (3 if name == "directed" else 0)
        if name != "directed":
            with pytest.raises(NotImplementedError, match="does not mark edges"):
                marking.directions(graphs, tuples)


@pytest.mark.parametrize("tuple_order", [1, 2, 3])
def test_directions_are_the_signs_of_the_change_of_distance(tuple_order):
    edges = torch.tensor(ring_with_tail(5, 9)).T
    packed = PackedGraphs.build(torch.tensor([14]), torch.tensor([14]), edges, undirected_once=True)
    graphs = packed[torch.zeros(2, dtype=torch.long)]
    tuples = sample_tuples(graphs, 3, tuple_order, torch.Generator().manual_seed(1))
    marking = make_marking(EncoderConfig(conv="gine", hidden=5, marking="directed"), tuple_order)
    found = marking.directions(graphs, tuples)
    away = distances_from(graphs, tuples)
    for number, (source, target) in enumerate(graphs.edge_index.T.tolist()):
        for copy in range(3):
            signs = (away[target, copy] - away[source, copy]).sign().tolist()
            assert int(found[number, copy]) == sum((sign + 1) * 3**slot for slot, sign in enumerate(signs))
    embedding = DirectionEmbedding(tuple_order, 3, 4)
    way = int(found.max())
    expected = sum(embedding.weight[slot, way // 3**slot % 3] for slot in range(tuple_order))
    torch.testing.assert_close(embedding.table()[way], expected)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    density=st.floats(0, 0.6),
    tuple_order=st.integers(1, 3),
    seed=st.integers(0, 2**20),
)
@example(sizes=[3, 4], density=0.5, tuple_order=3, seed=4)
def test_distances_and_directions_are_functions_of_the_stable_colours_of_binary_marks(
    sizes, density, tuple_order, seed
):
    """So directed marks distinguish no more graphs than binary marks do, as the docstring proves.

    Colours are those of copies with equal multisets of colours. Refinement stops when the partition of every copy is
    stable, and the nodes of copies that differ already may differ only in a later round.
    """
    generator = seeded(seed)
    graphs = all_of(packed_edges(sizes, random_edges(sizes, density, generator)))
    tuples = sample_tuples(graphs, 1, tuple_order, generator)
    found = until_stable(graphs, mix(mark_sets(graphs, tuples) + 1))[:, 0]
    copies = [tuple(sorted(found[graphs.node_graph == graph].tolist())) for graph in range(graphs.num_graphs)]
    colours = [
        (copies[graph], colour) for graph, colour in zip(graphs.node_graph.tolist(), found.tolist(), strict=True)
    ]
    marking = make_marking(EncoderConfig(conv="gine", hidden=5, marking="directed"), tuple_order)
    rows, directions = marking.values(graphs, tuples)[:, 0].tolist(), marking.directions(graphs, tuples)[:, 0].tolist()
    of_nodes = {(colour, tuple(row)) for colour, row in zip(colours, rows, strict=True)}
    assert len(of_nodes) == len(set(colours))
    ends = [(colours[source], colours[target]) for source, target in graphs.edge_index.T.tolist()]
    assert len(set(zip(ends, directions, strict=True))) == len(set(ends))


def test_directed_marks_need_layers_that_read_edges():
    for conv in ("gin", "GATConv"):
        with pytest.raises(InputError, match="gine"):
            MagGNN(2, encoder=EncoderConfig(conv=conv, hidden=8, num_layers=1, marking="directed"))


def test_distance_marks_are_one_hot_for_each_slot():
    edges = torch.tensor([(node, node + 1) for node in range(13)]).T  # a path, longer than what is told apart
    packed = PackedGraphs.build(torch.tensor([14]), torch.tensor([13]), edges, undirected_once=True)
    marking = make_marking(EncoderConfig(hidden=5, marking="distance"), 2)
    values = marking.values(packed[torch.tensor([0])], torch.tensor([[[0, 3]]]))[:, 0].unflatten(1, (2, -1))
    assert values.sum(dim=-1).eq(1).all()
    assert values[:, 0].argmax(dim=-1).tolist() == [min(node, FARTHEST) for node in range(14)]
    assert values[:, 1].argmax(dim=-1).tolist() == [min(abs(node - 3), FARTHEST) for node in range(14)]
