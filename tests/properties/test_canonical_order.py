"""`in_canonical_order` does not see how nodes were numbered, and changes nothing but the numbering."""

import warnings

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import renumbered

from maggnn.data.synthetic import expressivity
from maggnn.graphs.canonical_order import NumberingWarning, canonical_rows, in_canonical_order
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs

REGULAR = {
    "sr25": expressivity.sr25,
    "shrikhande and rook": expressivity.shrikhande_rook,
    "csl": expressivity.csl8_pair,
    "super graphs": lambda: expressivity.super_graphs(1),
}


def same(first: PackedGraphs, second: PackedGraphs) -> bool:
    """Whether two sets hold equal tensors."""
    pairs = [(getattr(first, name), getattr(second, name)) for name in ("edge_index", "x", "edge_attr", "roots")]
    return all(a is b is None or torch.equal(a, b) for a, b in pairs)


def with_features(packed: PackedGraphs, seed: int, kinds: int) -> PackedGraphs:
    """The graphs with random features of nodes (floats) and edges (categories, equal both ways)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(kinds, (len(packed.in_degree), 2), generator=generator).float() / 3
    u, v = packed.edge_index.sort(dim=0).values
    return PackedGraphs.build(
        packed.num_nodes, packed.num_edges, packed.edge_index, x=x, edge_attr=((u + 2 * v) % kinds)[:, None]
    )


@given(st.integers(0, 2**31), st.integers(1, 12), st.floats(0, 1), st.integers(1, 3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_graph(seed, nodes, density, kinds, directed):
    graphs = [nx.gnp_random_graph(nodes, density, seed=seed + number, directed=directed) for number in range(3)]
    packed = with_features(pack_networkx(graphs), seed, kinds)
    assert same(in_canonical_order(packed), in_canonical_order(renumbered(packed, seed)))


@pytest.mark.parametrize("make", [nx.star_graph, nx.complete_graph, nx.path_graph, nx.cycle_graph, nx.empty_graph])
def test_symmetric_graphs(make):
    packed = pack_networkx([make(size) for size in (1, 2, 7, 30)])
    assert same(in_canonical_order(packed), in_canonical_order(renumbered(packed, 1)))


@pytest.mark.parametrize("name", REGULAR)
def test_graphs_that_refinement_alone_cannot_order(name):
    packed = REGULAR[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumberingWarning)
        expected = in_canonical_order(packed)
        assert all(same(expected, in_canonical_order(renumbered(packed, seed))) for seed in range(3))


def test_order_does_not_depend_on_the_other_graphs():
    packed = with_features(pack_networkx([nx.gnp_random_graph(n, 0.3, seed=n) for n in (5, 12, 30)]), 0, 2)
    together = in_canonical_order(packed)
    for number in range(3):
        ids = torch.tensor([number])
        assert same(together.select(ids), in_canonical_order(packed.select(ids)))


def test_the_same_graphs_come_out():
    graphs = [nx.gnp_random_graph(n, 0.3, seed=n) for n in range(1, 20)]
    packed = pack_networkx(graphs)
    made, rows = in_canonical_order(packed), canonical_rows(packed)
    for number, graph in enumerate(graphs):
        one = made.select(torch.tensor([number]))
        first = int(packed.node_offsets[number])
        old = (rows[first : int(packed.node_offsets[number + 1])] - first).tolist()
        assert {frozenset((old[u], old[v])) for u, v in one.edge_index.T.tolist()} == set(map(frozenset, graph.edges))


def test_roots_follow_their_nodes():
    packed = pack_networkx([nx.path_graph(5), nx.path_graph(5)])
    rooted = PackedGraphs(**{**packed.__dict__, "roots": torch.tensor([[0], [4]])})
    made = in_canonical_order(rooted)
    assert made.roots is not None and int(made.roots[0]) == int(made.roots[1])
    assert torch.equal(made.in_degree[made.roots + made.node_offsets[:-1, None]], torch.ones(2, 1, dtype=torch.long))
