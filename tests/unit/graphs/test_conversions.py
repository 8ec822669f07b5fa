"""Graphs survive the way there and back, and unusable ones are named."""

import warnings

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from maggnn.errors import InputError
from maggnn.graphs.conversions import (
    batch_from_pyg,
    from_pyg,
    pack_graph6,
    pack_networkx,
    pack_pyg,
    to_graph6,
    to_networkx,
    to_pyg,
)
from maggnn.graphs.packed import PackedGraphs

BATCH_FIELDS = ("num_nodes", "edge_index", "in_degree", "out_degree", "by_source", "x", "edge_attr", "y")


def random_data(num_nodes, num_edges, generator, level="graph"):
    cells = torch.randperm(num_nodes * num_nodes, generator=generator)[:num_edges]
    return Data(
        x=torch.randint(5, (num_nodes, 2), generator=generator),
        edge_index=torch.stack([cells // num_nodes, cells % num_nodes]),
        edge_attr=torch.randn(len(cells), 3, generator=generator),
        y=torch.randn(num_nodes if level == "node" else 1, 2, generator=generator),
    )


def random_list(level="graph", seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [random_data(n, e, generator, level) for n, e in [(4, 7), (1, 0), (6, 20), (2, 1), (3, 0)]]


def assert_same_packed(ours: PackedGraphs, theirs: PackedGraphs):
    names = ("node_offsets", "edge_offsets", "edge_index", "in_degree", "out_degree", "by_source")
    for name in (*names, "x", "edge_attr", "y"):
        left, right = getattr(ours, name), getattr(theirs, name)
        assert (left is None and right is None) or torch.equal(left, right), name
    assert (ours.symmetric, ours.level) == (theirs.symmetric, theirs.level)


def assert_same_batch(ours, theirs):
    for name in BATCH_FIELDS:
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert (ours.max_num_nodes, ours.total_nodes) == (theirs.max_num_nodes, theirs.total_nodes)
    assert ours.symmetric == theirs.symmetric


@pytest.mark.parametrize("level", ["graph", "node"])
def test_pyg_round_trip(level):
    packed = pack_pyg(random_list(level))
    assert packed.level == level
    assert_same_packed(pack_pyg(to_pyg(packed)), packed)


@pytest.mark.parametrize("level", ["graph", "node"])
def test_pyg_batch_agrees_with_packed_gather(level):
    graphs = random_list(level, seed=3)
    gathered = pack_pyg(graphs)[torch.arange(len(graphs))]
    batch = Batch.from_data_list(graphs)
    assert_same_batch(batch_from_pyg(batch), gathered)
    assert_same_batch(batch_from_pyg(batch, validate=False), gathered)
    assert_same_batch(from_pyg(batch), gathered)
    assert_same_batch(from_pyg(graphs), gathered)


def test_features_of_whole_pyg_graphs():
    graphs = random_list()
    for number, graph in enumerate(graphs):
        graph.graph_attr = torch.tensor([[number, torch.nan]], dtype=torch.double)
    packed = pack_pyg(graphs)
    assert packed.graph_attr.dtype == torch.float32 and packed.graph_attr[:, 0].tolist() == list(range(len(graphs)))
    for batch in (batch_from_pyg(Batch.from_data_list(graphs)), from_pyg(graphs)):
        assert torch.equal(batch.graph_attr.nan_to_num(7.0), packed.graph_attr.nan_to_num(7.0))
    assert to_pyg(packed)[2].graph_attr[0, 0] == 2
    graphs[1].graph_attr = None
    with pytest.raises(InputError, match="graph 1 has no graph_attr"):
        pack_pyg(graphs)


def test_one_pyg_graph_and_a_batch_vector_without_ptr():
    graph = random_list()[0]
    alone = batch_from_pyg(graph)
    assert_same_batch(alone, pack_pyg([graph])[torch.tensor([0])])
    graph.batch = torch.zeros(4, dtype=torch.long)
    assert_same_batch(batch_from_pyg(graph), alone)
    graph.batch = torch.tensor([0, 1, 0, 1])
    with pytest.raises(InputError, match="not sorted"):
        batch_from_pyg(graph)


def test_symmetry_of_a_pyg_batch():
    both_ways = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
    one_way = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    assert batch_from_pyg(both_ways).symmetric
    assert not batch_from_pyg(Batch.from_data_list([both_ways, one_way])).symmetric


def test_pyg_graph_without_edge_index():
    graph = Data(x=torch.ones(2, 1))
    assert batch_from_pyg(graph).edge_index.shape == (2, 0)
    assert pack_pyg([graph]).num_edges.tolist() == [0]


def test_scalar_targets_of_pyg_graphs():
    graphs = [Data(x=torch.ones(2, 1), y=label) for label in (0, 1)]
    assert pack_pyg(graphs).y.tolist() == [0, 1]
    assert batch_from_pyg(Data(x=torch.ones(2, 1), y=torch.tensor(4.0))).y.tolist() == [4.0]


def nothing():
    return Data(x=torch.ones(0, 1), edge_index=torch.empty(2, 0, dtype=torch.long))


def one(**fields):
    return Data(**({"x": torch.ones(2, 1), "edge_index": torch.tensor([[0], [1]])} | fields))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (nothing(), "graph 1 has no nodes"),
        (one(x=torch.tensor([[0.0], [float("nan")]])), "x has a NaN or infinite value in row 3, column 0, of graph 1"),
        (one(x=torch.tensor([[0.0], [-1e39]], dtype=torch.double)), "x has -1e.39, .* row 3, column 0, of graph 1"),
        (one(edge_index=torch.tensor([[0], [2]])), "edge"),
        (one(edge_index=torch.tensor([[-1], [1]])), "edge"),
    ],
)
def test_bad_pyg_graphs_are_named(second, message):
    graphs = [one(), second]
    with pytest.raises(InputError, match=message) as packed_error:
        pack_pyg(graphs)
    with pytest.raises(InputError, match=message) as batch_error:
        batch_from_pyg(Batch.from_data_list(graphs))
    assert "\n" not in str(packed_error.value) + str(batch_error.value)


ODD = {
    "fractions": (
        {"edge_index": torch.tensor([[0.7], [1.2]])},
        "of graph 1 contains numbers that are not whole",
    ),
    "booleans": ({"edge_index": torch.tensor([[False], [True]])}, "edge_index of graph 1 contains booleans"),
    "one row": ({"edge_index": torch.tensor([0, 1])}, r"edge_index of graph 1 has shape \(2,\), expected \(2, number"),
    "lists": ({"edge_index": [[0], [1]]}, "edge_index of graph 1 is of type list: give a tensor"),
    "arrays": ({"x": np.ones((2, 1))}, "x of graph 1 is of type ndarray: give a tensor"),
    "complex": ({"x": torch.ones(2, 1, dtype=torch.complex64)}, "x of graph 1 contains complex numbers"),
    "sparse": ({"x": torch.ones(2, 1).to_sparse()}, "x of graph 1 contains a sparse tensor"),
    "count": ({"num_nodes": 2.5}, "num_nodes is 2.5: give a whole number"),
    "edges elsewhere": (
        {"edge_index": None, "adj_t": torch.eye(2)},
        "its edges as adj_t or adj: give them as",
    ),
    "weights of edges": ({"edge_weight": torch.ones(1)}, "edge_weight, which nothing would read: give it as edge_attr"),
    "flat graph_attr": (
        {"graph_attr": torch.ones(2)},
        r"graph_attr of graph 1 has rows of shape \(\), graph 0 has \(2,\)",
    ),
    "infinite graph_attr": ({"graph_attr": torch.full((1, 2), torch.inf)}, "graph_attr of graph 1 is infinite"),
    "words as y": ({"y": "toxic"}, "y cannot become a tensor"),
}


@pytest.mark.parametrize(("fields", "message"), ODD.values(), ids=ODD)
def test_what_pyg_graphs_cannot_hold_is_named(fields, message):
    first = one(y=1) if "y" in fields else one(graph_attr=torch.ones(1, 2)) if "graph_attr" in fields else one()
    with pytest.raises(InputError, match=message) as caught:
        pack_pyg([first, one(**fields)])
    assert "\n" not in str(caught.value)


def test_a_batch_is_not_one_graph_and_truth_values_are_categories():
    with pytest.raises(InputError, match=r"graph 0 is a Batch: .* batch.to_data_list\(\)"):
        pack_pyg([Batch.from_data_list([one(), one()])])
    assert pack_pyg([one(x=torch.tensor([[True], [False]]))]).x.tolist() == [[1], [0]]
    assert batch_from_pyg(one(edge_index=torch.tensor([[0], [1]], dtype=torch.int32))).edge_index.dtype == torch.int64
    with pytest.raises(InputError, match="edge_weight, which nothing would read"):
        batch_from_pyg(Batch.from_data_list([one(edge_weight=torch.ones(1)), one(edge_weight=torch.ones(1))]))
    with pytest.raises(InputError, match=r"graph_attr has shape \(2,\), expected \(1, number of features\)"):
        batch_from_pyg(one(graph_attr=torch.ones(2)))
    with pytest.raises(InputError, match="its edges as adj_t"):
        batch_from_pyg(Data(x=torch.ones(2, 1), adj_t=torch.eye(2).to_sparse()))
    assert pack_pyg([one(y="toxic")], targets=False).y is None


def test_a_field_that_some_graphs_lack_is_refused():
    bare = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    with pytest.raises(InputError, match="graph 1 has no x, but graph 0 has: give it to all graphs or to none"):
        pack_pyg([one(), bare])
    with pytest.raises(InputError, match="graph 0 has no edge_attr, but graph 1 has"):
        pack_pyg([one(), one(edge_attr=torch.ones(1, 2))])
    without_edges = Data(x=torch.ones(3, 1))
    assert pack_pyg([without_edges, one(edge_attr=torch.ones(1, 2))]).edge_attr.shape == (1, 2)
    some = nx.path_graph(2)
    some.nodes[0]["x"] = 1
    with pytest.raises(InputError, match="graph 0 has a node without 'x'"):
        pack_networkx([some])


def test_bad_pyg_targets_and_columns_are_named():
    with pytest.raises(InputError, match="y of graph 1 has 3 rows"):
        pack_pyg([one(y=torch.zeros(2)), one(y=torch.zeros(3))])
    with pytest.raises(InputError, match="x of graph 1 has rows of shape"):
        pack_pyg([one(), one(x=torch.ones(2, 5))])
    with pytest.raises(InputError, match=r"y has shape \(3,\), expected 1 or 2 rows"):
        batch_from_pyg(one(y=torch.zeros(3)))
    with pytest.raises(InputError, match="no graphs"):
        pack_pyg([])


@pytest.mark.parametrize("level", ["graph", "node"])
def test_networkx_round_trip(level):
    packed = pack_pyg(random_list(level))
    graphs = to_networkx(packed)
    assert all(graph.is_directed() for graph in graphs)
    assert_same_packed(pack_networkx(graphs), packed)


def test_undirected_networkx_graphs_with_names_loops_and_targets():
    path = nx.Graph([("c", "a"), ("a", "b"), ("b", "b")])
    packed = pack_networkx([path, nx.empty_graph(2)], y=[1.5, 2.5])
    assert packed.num_nodes.tolist() == [3, 2]
    assert packed.edge_index.T.tolist() == [[1, 0], [0, 1], [2, 1], [1, 2], [2, 2]]
    assert packed.symmetric
    back = to_networkx(packed)
    assert not back[0].is_directed()
    assert [graph.graph["y"] for graph in back] == [1.5, 2.5]
    assert nx.is_isomorphic(back[0], path)


def test_edge_features_that_differ_by_direction_stay_apart():
    graph = nx.DiGraph()
    graph.add_edge(0, 1, edge_attr=1)
    graph.add_edge(1, 0, edge_attr=2)
    back = to_networkx(pack_networkx([graph]))[0]
    assert back.is_directed()
    assert (back.edges[0, 1]["edge_attr"], back.edges[1, 0]["edge_attr"]) == ([1], [2])


def test_weights_of_networkx_edges_are_not_ignored_without_a_word():
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=0.5)
    graph.add_edge(1, 2, weight=2.0)
    with pytest.warns(UserWarning, match="different weights, which nothing reads: give them as edge_attr"):
        pack_networkx([graph])
    alike = nx.from_numpy_array(nx.to_numpy_array(nx.path_graph(3)))  # has a weight of 1 on each edge
    nx.set_edge_attributes(graph, 1.0, "edge_attr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pack_networkx([alike]).edge_attr is None
        assert pack_networkx([graph]).edge_attr is not None


def test_bad_networkx_graphs_are_named():
    with pytest.raises(InputError, match="graph 1 has no nodes"):
        pack_networkx([nx.path_graph(2), nx.Graph()])
    words = nx.path_graph(2)
    nx.set_node_attributes(words, {0: "carbon", 1: "oxygen"}, "x")
    with pytest.raises(InputError, match="attribute 'x' cannot become a tensor"):
        pack_networkx([words])
    with pytest.raises(InputError, match=r"y has shape \(1,\), expected 2 rows"):
        pack_networkx([nx.path_graph(2), nx.path_graph(3)], y=[0])


def test_graph6_round_trip():
    graphs = [nx.petersen_graph(), nx.path_graph(1), nx.cycle_graph(70), nx.empty_graph(3)]
    lines = to_graph6(pack_networkx(graphs))
    packed = pack_graph6([">>graph6<<" + lines[0] + "\n", "\n", *lines[1:]], y=[0, 1, 2, 3])
    assert to_graph6(packed) == lines
    assert packed.y.tolist() == [0, 1, 2, 3]
    assert packed.num_nodes.tolist() == [10, 1, 70, 3]


@pytest.mark.parametrize("bad", ["IheA@GU", "I!heA@GUAo", "Ihé", "IheA@GUAoooo", "~", "C~ extra"])
def test_broken_graph6_line_is_named(bad):
    with pytest.raises(InputError, match="line 3 is not graph6") as error:
        pack_graph6(["A_", "", bad])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("line", "name"),
    [(":An", "sparse6"), (">>sparse6<<:An", "sparse6"), ("&AG", "digraph6"), (">>digraph6<<&AG", "digraph6")],
)
def test_other_formats_of_nauty_are_named(line, name):
    with pytest.raises(InputError, match=f"line 2 is {name}, not graph6: convert it"):
        pack_graph6(["A_", line])


def test_graph6_refuses_what_it_cannot_hold():
    with pytest.raises(InputError, match="line 2 is a graph without nodes"):
        pack_graph6(["A_", "?"])
    with pytest.raises(InputError, match="no line with a graph"):
        pack_graph6(["", "  "])
    with pytest.raises(InputError, match="undirected graphs only"):
        to_graph6(pack_networkx([nx.DiGraph([(0, 1)])]))
    with pytest.raises(InputError, match="simple graphs only"):
        to_graph6(pack_networkx([nx.Graph([(0, 0)])]))


@pytest.mark.parametrize("read", [pack_pyg, batch_from_pyg])
def test_a_number_of_nodes_that_no_memory_holds_is_refused(read):
    huge = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=10**12)
    with pytest.raises(InputError, match=r"graph 0 has 1,000,000,000,000 nodes: at most 100,000,000 can be read"):
        read([huge] if read is pack_pyg else huge)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.int32, torch.float32])
def test_node_ids_of_any_type_of_whole_numbers(kind):
    batch = Batch.from_data_list([one(), one(), one()])
    expected = batch_from_pyg(batch)
    del batch.ptr  # so that the sizes are read from the graph of each node
    batch.edge_index, batch.batch = batch.edge_index.to(kind), batch.batch.to(kind)
    found = batch_from_pyg(batch)
    assert torch.equal(found.edge_index, expected.edge_index) and torch.equal(found.num_nodes, expected.num_nodes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"edge_index": torch.tensor([0, 1])}, r"edge_index has shape \(2,\), expected \(2, number of edges\)"),
        ({"edge_index": torch.tensor([[0, 1]] * 3)}, r"edge_index has shape \(3, 2\), expected"),
        ({"batch": torch.zeros(2, 1).long()}, r"batch has shape \(2, 1\), expected one number for each node"),
        ({"y": "toxic"}, "y cannot become a tensor"),
    ],
)
def test_what_a_pyg_batch_cannot_hold_is_named(fields, message):
    with pytest.raises(InputError, match=message):
        batch_from_pyg(one(**fields))


@pytest.mark.parametrize("kind", [nx.MultiGraph, nx.MultiDiGraph])
def test_parallel_edges_stay(kind):
    graph = kind()
    graph.add_edge("a", "b", edge_attr=1)
    graph.add_edge("a", "b", edge_attr=2)
    graph.add_edge("b", "b", edge_attr=3)
    packed = pack_networkx([graph, kind([(0, 1, {"edge_attr": 1})])])
    back = to_networkx(packed)
    assert isinstance(back[0], nx.MultiDiGraph) and back[0].number_of_edges() == packed.num_edges[0]
    assert_same_packed(pack_networkx(back), packed)


def test_graph6_refuses_parallel_edges():
    with pytest.raises(InputError, match="two edges between them"):
        to_graph6(pack_networkx([nx.MultiGraph([(0, 1), (0, 1)])]))
    pair = nx.Graph([(0, 1)])
    assert to_graph6(pack_networkx([pair, pair])) == ["A_", "A_"], "equal edges of two graphs are no parallel ones"
