"""Structure from edges alone: equal to dense algebra of each graph, to networkx, and the same however it is batched."""

import networkx
import pytest
import torch

from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import FARTHEST, WALKS, centrality, distances_and_walks, random_walk, with_structure
from maggnn.model.starts import central_tuples

GRAPHS = [
    networkx.cycle_graph(6),
    networkx.empty_graph(1),
    networkx.petersen_graph(),
    networkx.star_graph(4),
    networkx.path_graph(3),
]


def packed(graphs=GRAPHS):
    return pack_networkx(graphs)


def test_return_probabilities_equal_matrix_powers():
    found = random_walk(packed()[torch.arange(5)], steps=4).split([len(graph) for graph in GRAPHS])
    for graph, rows in zip(GRAPHS, found, strict=True):
        adjacency = torch.tensor(networkx.to_numpy_array(graph))
        walk = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)
        for column in range(4):
            expected = torch.linalg.matrix_power(walk, column + 2).diagonal().float()
            torch.testing.assert_close(rows[:, column], expected)


def test_a_walk_of_three_steps_returns_only_in_triangles():
    assert random_walk(packed()[torch.tensor([0, 2])], 2)[:, 1].abs().max() == 0


def test_centrality_equals_networkx():
    found = centrality(packed()[torch.arange(5)]).split([len(graph) for graph in GRAPHS])
    for graph, rows in zip(GRAPHS, found, strict=True):
        expected = networkx.subgraph_centrality(graph)
        assert rows.tolist() == pytest.approx([expected[node] for node in graph.nodes], rel=1e-4)


def test_counts_of_distances_equal_networkx():
    graphs = [*GRAPHS, networkx.path_graph(20), networkx.disjoint_union(GRAPHS[0], GRAPHS[2])]
    found = distances_and_walks(packed(graphs)[torch.arange(len(graphs))], 0).split([len(graph) for graph in graphs])
    for graph, rows in zip(graphs, found, strict=True):
        for node, row in zip(graph.nodes, rows.tolist(), strict=True):
            lengths = networkx.single_source_shortest_path_length(graph, node).values()
            expected = [sum(min(length, FARTHEST) == far for length in lengths) for far in range(1, FARTHEST + 1)]
            assert row == expected


def test_worked_out_once_or_for_each_batch_is_the_same(monkeypatch):
    graphs, ids = packed(), torch.tensor([3, 0, 3, 4, 1, 2])
    for cells in (8_000_000, 40):  # one chunk, and chunks of one or two graphs
        monkeypatch.setattr("maggnn.graphs.structure.CELLS_A_CHUNK", cells)
        known = with_structure(graphs, 5)
        assert known.structure.shape == (25, WALKS + 5)
        torch.testing.assert_close(random_walk(known[ids], 5), random_walk(graphs[ids], 5))
        torch.testing.assert_close(random_walk(known[ids], 3), random_walk(graphs[ids], 3))
        torch.testing.assert_close(centrality(known[ids]), centrality(graphs[ids]))
        assert torch.equal(distances_and_walks(known[ids], 2), distances_and_walks(graphs[ids], 2))
        assert with_structure(known, 4) is known
        without = with_structure(graphs, 5, distances=False)
        assert without.structure[:, 1:WALKS].isnan().all()  # nobody takes them for counts
        others = [0, *range(WALKS, WALKS + 5)]
        assert torch.equal(without.structure[:, others], known.structure[:, others])
        assert with_structure(without, 5, distances=False) is without
        assert torch.equal(with_structure(without, 5).structure, known.structure)
        torch.testing.assert_close(random_walk(known[ids], 9), random_walk(graphs[ids], 9))  # more than is known
        torch.testing.assert_close(random_walk(known.select(ids)[torch.arange(6)], 5), random_walk(graphs[ids], 5))


def test_padding_changes_nothing():
    graphs, ids = packed(), torch.tensor([3, 0, 4])
    for source in (graphs, with_structure(graphs, 5)):
        exact, padded = source[ids], source.gather(ids, source.rounded_size(ids))
        assert padded.total_nodes > exact.total_nodes
        torch.testing.assert_close(random_walk(padded, 5)[: exact.total_nodes], random_walk(exact, 5))
        assert torch.equal(central_tuples(padded, 2, 2), central_tuples(exact, 2, 2))


def test_central_tuples_take_the_most_central_nodes_in_order():
    graphs = packed()[torch.tensor([3, 4, 1])]  # a star's hub, a path's middle, a single node
    tuples = central_tuples(graphs, 2, 2)
    assert tuples.tolist() == [[[0, 1], [2, 3]], [[1, 0], [2, 1]], [[0, 0], [0, 0]]]


def test_central_tuples_follow_the_nodes():
    """Relabelled, the same nodes are marked (up to nodes of equal centrality)."""
    graph = networkx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (1, 5), (2, 0), (5, 6)])
    order = torch.tensor([4, 2, 6, 0, 1, 3, 5])

    def marked(edges):
        edges = torch.tensor(edges).T
        one = PackedGraphs.build(torch.tensor([7]), torch.tensor([edges.shape[1]]), edges, undirected_once=True)
        return central_tuples(one[torch.tensor([0])], 1, 3)[0, 0]

    first = marked([list(edge) for edge in graph.edges])
    second = marked([[int(order[a]), int(order[b])] for a, b in graph.edges])
    assert torch.equal(order[first], second)
