"""Baselines over pairs, sets, matrices and cells: shapes, symmetry, padding, gradients, and what they tell apart."""

import networkx as nx
import pytest
import torch

from builders import all_of, coloured, differences, embed, settled
from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.data.registry import load
from maggnn.data.sources import data_root
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import FeatureSpec
from maggnn.model.named_encoders import baseline_type, make_encoder
from maggnn.model.predictor import pool_nodes
from maggnn_paper.baselines.cin import cells_of
from maggnn_paper.baselines.gnn_123 import pairs_of, triples_of
from maggnn_paper.cycles import neighbours

NAMES = ("i2gnn", "ppgn", "1-2-3-gnn", "gsn", "cin")
ATOMS, BONDS = FeatureSpec(categories=(3,)), FeatureSpec(categories=(2,))
D = 12
ROUNDING = 1e-12
"""Relative difference of two answers in double precision: some 1e-16 where they are the same but for rounding."""
SHAPES = [  # rings of several sizes, an isolated node beside a ring, one node, no edges, a tree
    nx.gnp_random_graph(8, 0.4, seed=1),
    nx.disjoint_union(nx.cycle_graph(4), nx.path_graph(1)),
    nx.path_graph(1),
    nx.empty_graph(3),
    nx.star_graph(3),
]


GRAPHS = [coloured(graph, seed) for seed, graph in enumerate(SHAPES)]


def made(name, atoms=ATOMS, bonds=BONDS, seed=0, hops=2, num_layers=3, **settings):
    torch.manual_seed(seed)
    config = EncoderConfig(conv="gine", num_layers=num_layers, hidden=D, **settings)
    baseline = make_encoder(BaselineConfig(name=name, hops=hops), config, atoms, bonds)
    assert isinstance(baseline, baseline_type(name))
    return baseline.double()


def pooled(baseline, graphs):
    """The mean over each graph's nodes, [B, d]."""
    with torch.no_grad():
        return pool_nodes(embed(baseline, graphs), graphs, "mean")[:, 0]


def difference(baseline, graphs):
    """How far the pooled embeddings of two graphs are apart, relative to their size."""
    return float(differences(pooled(baseline, graphs)))


@pytest.mark.parametrize("settings", [{}, {"norm": "layer", "residual": True, "jk": "sum"}, {"jk": "last"}])
@pytest.mark.parametrize("name", NAMES)
def test_shape(name, settings):
    graphs = all_of(pack_networkx(GRAPHS))
    out = embed(made(name, **settings), graphs)
    assert out.shape == (graphs.total_nodes, 1, D)
    assert bool(out.isfinite().all())


@pytest.mark.parametrize("features", ["none", "floats"])
@pytest.mark.parametrize("name", NAMES)
def test_other_features(name, features):
    graphs = [graph.copy() for graph in GRAPHS]
    for graph in graphs:
        for attributes in (*graph.nodes.values(), *graph.edges.values()):
            kept = {key: [0.5, float(*value)] for key, value in attributes.items()}
            attributes.clear()
            attributes.update(kept if features == "floats" else {})
    packed = pack_networkx(graphs)
    baseline = made(name, FeatureSpec.of(packed.x), FeatureSpec.of(packed.edge_attr))
    assert bool(embed(baseline, all_of(packed)).isfinite().all())


@pytest.mark.parametrize(("name", "hops"), [*((name, 2) for name in NAMES), ("i2gnn", 0)])
def test_numbering_does_not_matter(name, hops):
    graph = GRAPHS[0]
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(3))
    turned = nx.Graph()
    turned.add_nodes_from((node, graph.nodes[node]) for node in order.tolist())
    turned.add_edges_from(graph.edges(data=True))
    one, other = all_of(pack_networkx([graph, *GRAPHS[1:]])), all_of(pack_networkx([turned, *GRAPHS[1:]]))
    baseline = settled(made(name, hops=hops), one)
    with torch.no_grad():
        expected, found = embed(baseline, one), embed(baseline, other)
    assert torch.allclose(found[: len(order)], expected[order], atol=1e-4)
    assert torch.allclose(found[len(order) :], expected[len(order) :], atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_nothing(name):
    packed, ids = pack_networkx(GRAPHS), torch.arange(len(GRAPHS))
    exact, padded = packed[ids], packed.gather(ids, packed.rounded_size(ids))
    assert padded.total_nodes > exact.total_nodes
    for mode in (True, False):  # in training, norms must not count rows of padding
        out = [embed(made(name).train(mode), graphs)[: exact.total_nodes] for graphs in (exact, padded)]
        assert torch.allclose(*out, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_parameter(name):
    graphs = all_of(pack_networkx(GRAPHS))
    baseline = made(name)
    out = embed(baseline, graphs)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(0), dtype=out.dtype)
    (out * weights).sum().backward()
    missing = [
        key for key, value in baseline.named_parameters() if value.grad is None or value.grad.abs().max() < 1e-10
    ]
    assert not missing


@pytest.mark.parametrize("shape", [nx.path_graph(1), nx.empty_graph(2), nx.path_graph(2)])
@pytest.mark.parametrize("name", NAMES)
def test_batches_without_rings_or_edges(name, shape):
    packed = pack_networkx([coloured(shape, 0)])
    if packed.edge_attr is None:  # there is no edge to have one
        packed = PackedGraphs.build(
            packed.num_nodes, packed.num_edges, packed.edge_index, packed.x, torch.zeros(0, 1, dtype=torch.long)
        )
    out = embed(made(name), all_of(packed))
    out.sum().backward()
    assert bool(out.isfinite().all()) and bool(out.any())


@pytest.mark.parametrize("name", NAMES)
def test_atoms_and_bonds_count(name):
    graphs = all_of(pack_networkx(GRAPHS))
    baseline = settled(made(name), graphs)
    for attribute in ("x", "edge_attr"):
        changed = [graph.copy() for graph in GRAPHS]
        first = changed[0].nodes[0] if attribute == "x" else changed[0].edges[next(iter(changed[0].edges))]
        first[attribute] = [1 - min(first[attribute][0], 1)]
        with torch.no_grad():
            apart = embed(baseline, graphs) - embed(baseline, all_of(pack_networkx(changed)))
        assert float(apart.abs().max()) > 1e-3
        assert float(apart[len(changed[0]) :].abs().max()) < 1e-9  # the other graphs' answers stay


@pytest.mark.parametrize("name", NAMES)
def test_tells_a_hexagon_from_two_triangles(name):
    two = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    graphs = all_of(pack_networkx([nx.cycle_graph(6), two]))
    assert difference(settled(made(name, FeatureSpec(), FeatureSpec()), graphs), graphs) > 1e-2


def test_on_strongly_regular_graphs():
    graphs = all_of(load("shrikhande_rook").graphs)
    assert difference(settled(made("i2gnn", FeatureSpec(), FeatureSpec()), graphs), graphs) > 1e-3
    assert difference(settled(made("ppgn", FeatureSpec(), FeatureSpec()), graphs), graphs) < 1e-5  # no more than 3-WL


@pytest.mark.parametrize(("name", "splits"), [("ppgn", False), ("1-2-3-gnn", True)])
def test_on_sr25(name, splits):
    """3-WL sees one graph in all 15; sets of three nodes, of equal width and depth, tell each two apart (by 3e-6)."""
    graphs = all_of(load("sr25").graphs)
    apart = differences(pooled(settled(made(name, FeatureSpec(), FeatureSpec()), graphs), graphs))
    assert float(apart.min()) > 1e-8 if splits else float(apart.max()) < ROUNDING


@pytest.mark.parametrize(("name", "splits"), [("gine", False), ("ppgn", True)])
def test_on_the_classes_of_csl(name, splits):
    """PPGN's closest classes are 6e-10 apart, far above the rounding that lies between two graphs of one class."""
    dataset = load("csl")
    copies = dataset.y.argsort(stable=True).view(10, -1)[:, :2].flatten()  # two relabelled graphs of each class
    graphs = dataset.graphs[copies]
    baseline = settled(made(name, FeatureSpec(), FeatureSpec(), num_layers=4), graphs)
    h = pooled(baseline, graphs).view(10, 2, -1)
    assert all(float(differences(same)) < ROUNDING for same in h)
    apart = differences(h[:, 0])
    assert float(apart.min()) > 10 * ROUNDING if splits else float(apart.max()) < ROUNDING


@pytest.mark.skipif(not (data_root() / "exp.npz").is_file(), reason=f"exp not under the data root {data_root()}")
@pytest.mark.parametrize(("name", "splits"), [("gine", False), ("ppgn", True)])
def test_on_pairs_of_exp(name, splits):
    """Equal for colour refinement; PPGN's answers for the two graphs of a pair are some 1e-7 apart."""
    graphs = load("exp").graphs[torch.arange(6)]
    baseline = settled(made(name, FeatureSpec.of(graphs.x), FeatureSpec.of(graphs.edge_attr)), graphs)
    for pair in pooled(baseline, graphs).view(3, 2, -1):
        apart = float(differences(pair))
        assert apart > 1e-10 if splits else apart < ROUNDING


def test_sets_are_what_they_should_be():
    graphs, graph = all_of(pack_networkx(SHAPES)), nx.disjoint_union_all(SHAPES)
    near = neighbours(graphs)
    pairs = pairs_of(near)
    triples = triples_of(near, pairs)
    assert len(pairs.nodes) == sum(len(part) * (len(part) - 1) // 2 for part in SHAPES)
    connected = {frozenset([v, u, w]) for v in graph for u in graph[v] for w in graph[v] if u != w}
    assert {frozenset(nodes) for nodes in triples.nodes.tolist()} == connected and len(triples.nodes) == len(connected)
    for sets, fewest in ((pairs, 0), (triples, 2)):
        members = [frozenset(nodes) for nodes in sets.nodes.tolist()]
        edges = [graph.subgraph(nodes).number_of_edges() for nodes in members]
        assert sets.kind[:, 0].tolist() == [count - fewest for count in edges]
        expected = {
            (i, j)
            for i, s in enumerate(members)
            for j, t in enumerate(members)
            if len(s - t) == 1 and graph.has_edge(*(s ^ t))
        }
        found = list(zip(*sets.graphs.edge_index.tolist(), strict=True))
        assert set(found) == expected and len(found) == len(expected)
        assert int(sets.graphs.num_nodes.sum()) == len(members)
    below = [[frozenset(pairs.nodes[row].tolist()) for row in rows] for rows in triples.below.tolist()]
    assert all(len(set(rows)) == 3 and frozenset.union(*rows) == frozenset(nodes)
               for rows, nodes in zip(below, triples.nodes.tolist(), strict=True))  # fmt: skip


def test_cells_are_what_they_should_be():
    house = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)])  # a square and a triangle that share (0, 1)
    cells = cells_of(all_of(pack_networkx([nx.path_graph(2), house])), 6)
    assert (cells.num_edges, cells.num_rings) == (7, 2)
    assert cells.boundary[0].shape == (2, 14) and cells.boundary[1].shape == cells.corners.shape == (2, 7)
    assert cells.bonds.shape == (2, 14) and bool((cells.bonds[1].bincount() == 2).all())
    assert sorted(cells.boundary[1][0].bincount(minlength=7).tolist()) == [0, 1, 1, 1, 1, 1, 2]
    to, other, ring = cells.upper[1]
    assert len(ring) == 3 * 2 + 4 * 3 and not bool((to == other).any())
    assert ring.bincount().tolist() == [6, 12]
