"""`PackedGraphs` gathers the same batch as a plain loop, and refuses what it cannot use."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.errors import InputError
from maggnn.graphs.packed import ROUNDING, PackedGraphs


def random_graph(num_nodes, num_edges, generator):
    """(num_nodes, edge_index, x, edge_attr, y) with distinct directed edges."""
    cells = torch.randperm(num_nodes * num_nodes, generator=generator)[:num_edges]
    edge_index = torch.stack([cells // num_nodes, cells % num_nodes])
    x = torch.randn(num_nodes, 3, generator=generator)
    edge_attr = torch.randint(9, (edge_index.shape[1], 2), generator=generator)
    return num_nodes, edge_index, x, edge_attr, torch.randn(num_nodes, generator=generator)


def pack(graphs, level="graph", **changes):
    num_nodes, edge_index, x, edge_attr, y = zip(*graphs, strict=True)
    fields = {
        "num_nodes": torch.tensor(num_nodes),
        "num_edges": torch.tensor([edges.shape[1] for edges in edge_index]),
        "edge_index": torch.cat(edge_index, dim=1),
        "x": torch.cat(x),
        "edge_attr": torch.cat(edge_attr),
        "y": torch.cat(y) if level == "node" else torch.stack([values.sum() for values in y]),
        "level": level,
    }
    return PackedGraphs.build(**(fields | changes))


def brute_force(graphs, ids):
    """Edges with features as a sorted list, and stacked x, by a loop over the graphs."""
    edges, xs, first_node = [], [], 0
    for index in ids:
        num_nodes, edge_index, x, edge_attr, _ = graphs[index]
        for (source, target), values in zip(edge_index.T.tolist(), edge_attr.tolist(), strict=True):
            edges.append((target + first_node, source + first_node, *values))
        xs.append(x)
        first_node += num_nodes
    return sorted(edges), torch.cat(xs)


def triangle_and_dot():
    return PackedGraphs.build(
        num_nodes=torch.tensor([3, 1]),
        num_edges=torch.tensor([3, 0]),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
        y=torch.tensor([1, 0]),
        undirected_once=True,
    )


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 12)), min_size=1, max_size=6),
    picks=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    level=st.sampled_from(["graph", "node"]),
    seed=st.integers(0, 1000),
)
def test_gather_equals_brute_force(sizes, picks, level, seed):
    generator = torch.Generator().manual_seed(seed)
    graphs = [random_graph(nodes, edges, generator) for nodes, edges in sizes]
    ids = [pick % len(graphs) for pick in picks]
    batch = pack(graphs, level)[torch.tensor(ids)]
    expected_edges, expected_x = brute_force(graphs, ids)
    rows = torch.cat([batch.edge_index.flip(0), batch.edge_attr.T]).T.tolist()
    assert [tuple(row) for row in rows] == expected_edges  # sorted by (target, source), features alongside
    assert torch.equal(batch.x, expected_x)
    targets = [graphs[index][4] if level == "node" else graphs[index][4].sum()[None] for index in ids]
    assert torch.equal(batch.y, torch.cat(targets))
    assert batch.num_nodes.tolist() == [graphs[index][0] for index in ids]
    assert (batch.max_num_nodes, batch.total_nodes) == (int(batch.num_nodes.max()), len(expected_x))
    assert torch.equal(batch.in_degree, torch.bincount(batch.edge_index[1], minlength=batch.total_nodes))
    assert torch.equal(batch.out_degree, torch.bincount(batch.edge_index[0], minlength=batch.total_nodes))
    turned = [tuple(edge) for edge in batch.edge_index[:, batch.by_source].T.tolist()]
    assert turned == sorted(tuple(edge) for edge in batch.edge_index.T.tolist())  # by (source, target)
    assert torch.equal(batch.by_source.sort().values, torch.arange(len(expected_edges)))
    assert batch.symmetric == (set(turned) == {(target, source) for source, target in turned})


def test_derived_indices_of_a_mixed_batch():
    batch = triangle_and_dot()[torch.tensor([1, 0, 1])]
    assert batch.first_node.tolist() == [0, 1, 4]
    assert batch.node_graph.tolist() == [0, 1, 1, 1, 2]
    assert batch.local_id.tolist() == [0, 0, 1, 2, 0]
    assert batch.is_node.tolist() == [[True, False, False], [True] * 3, [True, False, False]]
    assert batch.edge_offsets.tolist() == batch.source_offsets.tolist() == [0, 0, 2, 4, 6, 6]
    assert batch.node_offsets.tolist() == [0, 1, 4, 5]
    assert batch.num_real is None and batch.is_real is None
    assert batch.y.tolist() == [0, 1, 0]


def test_padded_puts_each_node_in_its_cell():
    batch = triangle_and_dot()[torch.tensor([0, 1])]
    values = torch.arange(4.0)
    assert batch.padded(values, -1).tolist() == [[0, 1, 2], [3, -1, -1]]
    assert batch.padded(values[:, None].expand(-1, 5), 0).shape == (2, 3, 5)


def test_edges_are_mirrored_and_symmetry_is_seen():
    packed = triangle_and_dot()
    assert packed.num_edges.tolist() == [6, 0]
    assert packed.symmetric
    one_way = PackedGraphs.build(torch.tensor([2]), torch.tensor([1]), torch.tensor([[0], [1]]))
    assert not one_way.symmetric


def test_mirrored_edges_share_their_features():
    packed = PackedGraphs.build(
        torch.tensor([3, 2]),
        torch.tensor([2, 1]),
        torch.tensor([[0, 2, 1], [1, 1, 0]]),
        edge_attr=torch.tensor([[5], [6], [7]]),
        undirected_once=True,
    )
    assert packed.edge_index.tolist() == [[1, 0, 2, 1, 1, 0], [0, 1, 1, 2, 0, 1]]
    assert packed.edge_attr.squeeze(1).tolist() == [5, 5, 6, 6, 7, 7]


def test_a_self_loop_is_its_own_mirror_image():
    packed = PackedGraphs.build(
        torch.tensor([2, 1]),
        torch.tensor([2, 1]),
        torch.tensor([[0, 0, 0], [0, 1, 0]]),
        edge_attr=torch.tensor([[5], [6], [7]]),
        undirected_once=True,
    )
    assert packed.num_edges.tolist() == [3, 1] and packed.symmetric
    assert packed.edge_index.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert packed.edge_attr.squeeze(1).tolist() == [5, 6, 6, 7]


def test_graphs_without_any_edge():
    packed = PackedGraphs.build(torch.tensor([1, 2]), torch.tensor([0, 0]), torch.empty(2, 0))
    batch = packed[torch.tensor([1, 1, 0])]
    assert batch.edge_index.shape == (2, 0)
    assert batch.in_degree.tolist() == [0] * 5
    assert packed.symmetric


@pytest.mark.parametrize("level", ["graph", "node"])
def test_select_is_a_set_of_its_own(level):
    generator = torch.Generator().manual_seed(0)
    packed = pack([random_graph(nodes, edges, generator) for nodes, edges in [(4, 6), (1, 0), (5, 9)]], level)
    selected = packed.select(torch.tensor([2, 0]))
    assert len(selected) == 2
    ours, theirs = selected[torch.tensor([1, 0])], packed[torch.tensor([0, 2])]
    for name in ("num_nodes", "edge_index", "in_degree", "out_degree", "by_source", "x", "edge_attr", "y"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert selected.symmetric == all(packed[graph[None]].symmetric for graph in torch.tensor([2, 0]))


def random_sizes(count=200, largest=60):
    """A set of random sizes; all edges are loops, so that any number of them fits."""
    generator = torch.Generator().manual_seed(0)
    num_edges = torch.randint(2 * largest, (count,), generator=generator)
    edge_index = torch.zeros(2, int(num_edges.sum()), dtype=torch.long)
    return PackedGraphs.build(torch.randint(1, largest, (count,), generator=generator), num_edges, edge_index)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 5000)), min_size=1, max_size=6),
    picks=st.lists(st.integers(0, 5), min_size=1, max_size=40),
)
def test_rounded_sizes_hold_a_little_more(sizes, picks):
    """A whole number of sixteenths of an average batch, of nodes and edges alike, and not one sixteenth too many."""
    num_nodes, num_edges = torch.tensor(sizes).T
    packed = PackedGraphs.build(num_nodes, num_edges, torch.zeros(2, int(num_edges.sum())).long())
    ids = torch.tensor(picks) % len(packed)
    exact, rounded = packed.size_of(ids), packed.rounded_size(ids)
    assert rounded.padding and not exact.padding
    assert rounded.nodes > exact.nodes and rounded.edges >= exact.edges  # padded edges join a row of padding
    assert exact.max_num_nodes <= rounded.max_num_nodes <= min(int(num_nodes.max()), 2 * exact.max_num_nodes)
    average_nodes, average_edges = (len(ids) * float(total.double().mean()) for total in (num_nodes, num_edges))
    spare_nodes, spare_edges = rounded.nodes - exact.nodes, rounded.edges - exact.edges
    assert spare_nodes <= average_nodes / ROUNDING + 2 or spare_edges <= average_edges / ROUNDING + 1


def test_few_rounded_sizes_occur():
    packed, generator = random_sizes(), torch.Generator().manual_seed(1)
    for batch_size, most in ((8, 24), (32, 12), (128, 6)):
        batches = [torch.randint(len(packed), (batch_size,), generator=generator) for _ in range(500)]
        exact, rounded = ({size(ids) for ids in batches} for size in (packed.size_of, packed.rounded_size))
        assert len(exact) > 400
        assert len(rounded) <= most


def test_rounded_sizes_of_a_set_without_edges():
    packed = PackedGraphs.build(torch.tensor([1, 2]), torch.tensor([0, 0]), torch.empty(2, 0))
    ids = torch.tensor([1, 1, 0])
    batch = packed.gather(ids, packed.rounded_size(ids))
    assert batch.total_nodes > 5 and batch.in_degree.tolist() == batch.out_degree.tolist() == [0] * batch.total_nodes
    assert (batch.edge_index == batch.total_nodes - 1).all()


def test_a_cpu_has_room_for_what_is_there():
    """Nothing is recorded there, so nothing is padded."""
    packed = random_sizes()
    ids = torch.tensor([3, 1, 3])
    assert packed.room_for(ids) == packed.size_of(ids)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_nodes": torch.tensor([3, 0])}, "graph 1 has no nodes"),
        ({"num_nodes": torch.tensor([]), "num_edges": torch.tensor([])}, "no graphs"),
        ({"edge_index": torch.tensor([[0, 1], [1, 3]])}, r"graph 0 has 3 nodes but an edge \(1, 3\)"),
        ({"edge_index": torch.tensor([[0, -1], [1, 2]])}, r"edge \(-1, 2\)"),
        ({"edge_index": torch.tensor([[0], [1]])}, "expected \\(2, 2\\)"),
        ({"y": torch.tensor(0.0)}, r"y has shape \(\), expected 2 rows"),
        ({"edge_attr": torch.zeros(4, 1)}, "edge_attr has shape .* expected 2 rows"),
        ({"num_edges": torch.tensor([2])}, "num_edges has 1 entries for 2 graphs"),
        ({"x": torch.zeros(3, 1)}, r"x has shape \(3, 1\), expected 4 rows"),
        (
            {"x": torch.tensor([[0.0], [0.0], [float("nan")], [0.0]])},
            "x has a NaN or infinite value in row 2, column 0, of graph 0",
        ),
        (
            {"edge_attr": torch.tensor([[0.0, 0.0], [0.0, 1e300]], dtype=torch.double)},
            "1e.300.* row 1, column 1, of graph 0",
        ),
        ({"y": torch.zeros(4)}, r"y has shape \(4,\), expected 2 rows"),
        ({"y": torch.zeros(2), "level": "node"}, r"y has shape \(2,\), expected 4 rows"),
    ],
)
def test_bad_input_is_named(changes, message):
    good = {
        "num_nodes": torch.tensor([3, 1]),
        "num_edges": torch.tensor([2, 0]),
        "edge_index": torch.tensor([[0, 1], [1, 2]]),
    }
    with pytest.raises(InputError, match=message):
        PackedGraphs.build(**(good | changes))
