"""Copies hold what lies near their roots, and nothing else; checked against NetworkX."""

import networkx as nx
import pytest
import torch
from torch.overrides import TorchFunctionMode

from maggnn.baselines import make_encoder
from maggnn.baselines.copies import edge_copies, node_copies
from maggnn.config import EncoderConfig, RivalConfig
from maggnn.conversions import pack_networkx
from maggnn.features import FeatureSpec
from maggnn.graphs import GraphBatch

GRAPHS = [nx.gnp_random_graph(7, 0.3, seed=1), nx.path_graph(1), nx.cycle_graph(6), nx.star_graph(3)]


def batch() -> GraphBatch:
    return pack_networkx(GRAPHS)[torch.arange(len(GRAPHS))]


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


def test_edges_lie_in_the_order_of_targets():
    for copies in (node_copies(batch(), 1), edge_copies(batch(), 2)):
        target = copies.graphs.edge_index[1]
        assert bool((target[1:] >= target[:-1]).all())


def test_pools():
    copies = node_copies(batch(), 1)
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
    copies = node_copies(batch(), 2)
    turned = copies.transposed
    assert torch.equal(copies.node[turned], copies.roots[copies.copy, 0])
    assert torch.equal(copies.roots[copies.copy, 0][turned], copies.node)
    assert torch.equal(turned[turned], torch.arange(len(turned)))


def test_copies_are_made_once_a_batch():
    graphs = batch()
    assert node_copies(graphs, 2) is node_copies(graphs, 2)
    assert node_copies(graphs, 2) is not node_copies(graphs, 1)


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
    rival = make_encoder(RivalConfig(name=name, hops=2), EncoderConfig(num_layers=2, hidden=8), features, features)
    assert rival is not None
    tuples = torch.zeros(graphs.num_graphs, 1, 0, dtype=torch.long)
    with Searches() as first:
        answer = rival.eval()(graphs, tuples)
    with Searches() as second:
        again = rival(graphs, tuples)
    assert torch.equal(answer, again)
    assert first.found and not second.found
