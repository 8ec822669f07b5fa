"""Copies hold what lies near their roots, and nothing else; checked against NetworkX."""

import gc
import weakref
from dataclasses import replace

import networkx as nx
import pytest
import torch
from torch.overrides import TorchFunctionMode

from builders import all_of
from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.rings import with_rings
from maggnn.graphs.structure import with_structure
from maggnn.model.features import FeatureSpec
from maggnn.model.named_encoders import BASELINES, baseline_type, make_encoder
from maggnn_paper.baselines.copies import REACHABLE, UNREACHED, edge_copies, node_copies

GRAPHS = [nx.gnp_random_graph(7, 0.3, seed=1), nx.path_graph(1), nx.cycle_graph(6), nx.star_graph(3)]


def batch() -> GraphBatch:
    return all_of(pack_networkx(GRAPHS))


def whole() -> nx.Graph:
    return nx.disjoint_union_all(GRAPHS)


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_node_copies(hops):
    graphs, graph = batch(), whole()
    copies = node_copies(graphs, hops)
    assert copies.roots[:, 0].tolist() == list(range(len(graph)))
    source, target = copies.graphs.edge_index
    for root in graph:
        away = nx.single_source_shortest_path_length(graph, root, cutoff=hops or None)
        rows = (copies.copy == root).nonzero()[:, 0]
        assert copies.node[rows].tolist() == sorted(away)
        assert copies.distance[rows, 0].tolist() == [away[node] for node in sorted(away)]
        own = copies.copy[target] == root
        found = {(int(copies.node[u]), int(copies.node[v])) for u, v in zip(source[own], target[own], strict=True)}
        ball = graph.subgraph(away)
        assert found == set(ball.edges) | {(v, u) for u, v in ball.edges}
        assert int(own.sum()) == len(found)
    assert copies.node[copies.at_root(torch.arange(len(copies.node)))].tolist() == list(range(len(graph)))


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_edge_copies(hops):
    graphs, graph = batch(), whole()
    copies = edge_copies(graphs, hops)
    both = {(u, v) for u, v in graph.edges} | {(v, u) for u, v in graph.edges}
    assert {tuple(roots) for roots in copies.roots.tolist()} == both and len(copies.roots) == len(both)
    source, target = copies.graphs.edge_index
    assert bool((copies.copy[source] == copies.copy[target]).all())
    for number, (v, w) in enumerate(copies.roots.tolist()):
        away = nx.single_source_shortest_path_length(graph, v, cutoff=hops or None)
        to_w = nx.single_source_shortest_path_length(graph, w)
        rows = (copies.copy == number).nonzero()[:, 0]
        assert copies.node[rows].tolist() == sorted(away)
        assert copies.distance[rows].tolist() == [[away[node], to_w[node]] for node in sorted(away)]
        own = copies.copy[target] == number
        found = {(int(copies.node[a]), int(copies.node[b])) for a, b in zip(source[own], target[own], strict=True)}
        assert len(found) == 2 * graph.subgraph(away).number_of_edges() == int(own.sum())
    rows = copies.tuples[:, 0] + copies.graphs.first_node[:, None]
    assert torch.equal(copies.node[rows], copies.roots)
    assert torch.equal(copies.at_root(copies.node), copies.roots[:, 0])
    degrees = [float(graph.degree(node)) for node in graph]
    assert copies.sum_first_root(torch.ones(len(copies.roots), 1))[:, 0].tolist() == degrees


def apart() -> GraphBatch:
    return pack_networkx([nx.disjoint_union(nx.path_graph(3), nx.cycle_graph(3)), nx.path_graph(2)])[torch.arange(2)]


def test_whole_graphs_hold_what_no_path_leads_to():
    graphs = apart()
    copies = node_copies(graphs)
    assert copies.graphs.num_nodes.tolist() == [6] * 6 + [2] * 2
    assert copies.distance[:6, 0].tolist() == [0, 1, 2, *[UNREACHED] * 3]
    assert node_copies(graphs, REACHABLE).graphs.num_nodes.tolist() == [3] * 6 + [2] * 2
    of_edges = edge_copies(graphs)
    assert of_edges.graphs.num_nodes.unique().tolist() == [2, 6]
    assert bool((of_edges.distance[of_edges.node >= 3][:, 0] == UNREACHED).any())


@pytest.mark.parametrize("name", ["sun", "id-gnn"])
def test_sizes_of_components_are_not_given_away(name):
    """One long cycle and two of half its length look alike in whole copies; these two methods read no distances."""
    graphs = pack_networkx([nx.cycle_graph(40), nx.disjoint_union(nx.cycle_graph(20), nx.cycle_graph(20))])
    features = FeatureSpec()
    g = make_encoder(BaselineConfig(name=name, hops=0), EncoderConfig(num_layers=2, hidden=16), features, features)
    assert g is not None
    h = g.double().eval()(graphs[torch.arange(2)], torch.zeros(2, 1, 0, dtype=torch.long))
    assert torch.allclose(h[:40].mean(0), h[40:].mean(0), atol=1e-9)


def test_edges_lie_in_the_order_of_targets():
    for copies in (node_copies(batch(), 1), edge_copies(batch(), 2)):
        target = copies.graphs.edge_index[1]
        assert bool((target[1:] >= target[:-1]).all())


def test_pools():
    graphs = batch()
    copies = node_copies(graphs, 1)
    ones = torch.ones(len(copies.node), 1)
    graph = whole()
    sizes = [1 + graph.degree(node) for node in graph]
    assert copies.sum_copy(ones)[:, 0].tolist() == sizes
    number = torch.arange(len(copies.node)).double()[:, None]
    sums = torch.zeros(len(graph), 1, dtype=torch.float64).index_add(0, copies.node, number)
    assert torch.allclose(copies.pool_node(number)[:, 0], sums[:, 0] / torch.tensor(sizes))
    assert copies.pool_node(3 * ones).unique().tolist() == [3.0]
    assert torch.allclose(copies.pool_node(number, "sum"), sums)
    assert torch.equal(copies.pool_copy(number, "sum"), copies.sum_copy(number))
    assert copies.mean_copy(3 * ones).unique().tolist() == [3.0]


def test_transposed():
    graphs = batch()
    copies = node_copies(graphs, 2)
    turned = copies.transposed
    assert torch.equal(copies.node[turned], copies.roots[copies.copy, 0])
    assert torch.equal(copies.roots[copies.copy, 0][turned], copies.node)
    assert torch.equal(turned[turned], torch.arange(len(turned)))


def test_copies_are_made_once_a_batch():
    graphs = batch()
    assert node_copies(graphs, 2) is node_copies(graphs, 2)
    assert node_copies(graphs, 2) is not node_copies(graphs, 1)


@pytest.mark.parametrize("name", BASELINES)
def test_a_batch_that_is_done_with_is_gone(name):
    """No cycle of references keeps it until Python's collector comes by, on a GPU with all its memory."""
    graphs, features = batch(), FeatureSpec()
    g = make_encoder(BaselineConfig(name=name, hops=2), EncoderConfig(num_layers=2, hidden=8), features, features)
    assert g is not None
    alive = weakref.ref(graphs)
    gc.disable()
    try:
        with torch.no_grad():
            g.eval()(graphs, torch.zeros(graphs.num_graphs, 1, 0, dtype=torch.long))
        del graphs
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("reads", [{"random_walk": 4}, {"distances": True}, {"rings": True, "conv": "gine"}])
@pytest.mark.parametrize("name", [name for name in BASELINES if not baseline_type(name).draws])
def test_answers_do_not_depend_on_who_worked_the_structure_out(name, reads):
    """Copies keep the walks, distances and rings of the whole graph, whether the set was prepared or not."""
    torch.manual_seed(0)
    packed, features = pack_networkx(GRAPHS), FeatureSpec()
    config = EncoderConfig(num_layers=2, hidden=8, **reads)
    g = make_encoder(BaselineConfig(name=name, hops=1), config, features, features)
    assert g is not None
    tuples, ids = torch.zeros(len(GRAPHS), 1, 0, dtype=torch.long), torch.arange(len(GRAPHS))
    prepared = with_rings(with_structure(packed, 4))
    assert torch.allclose(g.eval()(packed[ids], tuples), g(prepared[ids], tuples), atol=1e-5)


@pytest.mark.parametrize("name", ["ngnn", "i2gnn"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
def test_distances_stand_beside_categories_of_any_type(name, dtype):
    graphs = pack_networkx([nx.path_graph(5)])[torch.arange(1)]
    x = torch.tensor([[0], [1], [0], [1], [0]])
    features = FeatureSpec(categories=(2,))
    g = make_encoder(BaselineConfig(name=name, hops=3), EncoderConfig(num_layers=2, hidden=8), features, FeatureSpec())
    assert g is not None
    narrow, wide = (
        g.eval()(replace(graphs, x=x.to(kind)), torch.zeros(1, 1, 0).long()) for kind in (dtype, torch.long)
    )
    assert torch.equal(narrow, wide)


class Searches(TorchFunctionMode):
    """Which calls of torch look for structure."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ in ("nonzero", "sort", "argsort", "searchsorted", "cumsum", "unique"):
            self.found.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["id-gnn", "kp-gnn", "gsn", "ppgn", "1-2-3-gnn", "cin"])
def test_a_second_pass_builds_nothing(name):
    graphs, features = batch(), FeatureSpec()
    baseline = make_encoder(
        BaselineConfig(name=name, hops=2), EncoderConfig(num_layers=2, hidden=8), features, features
    )
    assert baseline is not None
    tuples = torch.zeros(graphs.num_graphs, 1, 0, dtype=torch.long)
    with Searches() as first:
        answer = baseline.eval()(graphs, tuples)
    with Searches() as second:
        again = baseline(graphs, tuples)
    assert torch.equal(answer, again)
    assert first.found and not second.found
