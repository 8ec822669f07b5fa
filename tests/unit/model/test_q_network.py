"""The Q-network equals an MLP on the concatenation of Eq. 9."""

import pytest
import torch

from maggnn.config import EncoderConfig
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec
from maggnn.model.q_network import QNetwork
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples


def start(network, sizes=(3, 5, 1), num_tuples=2, tuple_order=3):
    edges = [torch.stack([torch.arange(n - 1), torch.arange(1, n)]) for n in sizes]
    counts = torch.tensor([n - 1 for n in sizes])
    packed = PackedGraphs.build(torch.tensor(sizes), counts, torch.cat(edges, 1), undirected_once=True)
    graphs = packed[torch.arange(len(sizes))]
    tuples = sample_tuples(graphs, num_tuples, tuple_order, torch.Generator().manual_seed(0))
    return State.start(graphs, tuples, network.update_history.width)


def make_network(pooling="mean", history="zero", state_width=8):
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(num_layers=2, hidden=8), 3, FeatureSpec(), FeatureSpec())
    return QNetwork(encoder, encoder.config.hidden, 3, pooling, history, state_width).eval()


@pytest.mark.parametrize("given", [False, True], ids=["own embedding", "given embedding"])
@pytest.mark.parametrize("history", ["zero", "mean", "lstm"])
@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_q_table_equals_equation_9(pooling, history, given):
    network = make_network(pooling, history, state_width=11 if given else 8)
    state = start(network)
    graphs = state.graphs
    embeddings = torch.randn(3, 2, 11) if given else None
    q_table, new_history = network(state, embeddings)
    h = network.encoder(graphs, state.tuples)
    reduce = torch.mean if pooling == "mean" else torch.sum
    pooled = torch.stack([reduce(part, dim=0) for part in h.split(graphs.num_nodes.tolist())])  # [B, m, d]
    u = (pooled if embeddings is None else embeddings).sum(dim=1)  # [B, d]
    weight = [network.node.weight, network.own_tuple.weight, network.all_tuples.weight]
    weight += [] if network.past is None else [network.past.weight]
    for node in range(graphs.total_nodes):
        graph = int(graphs.node_graph[node])
        for i in range(2):
            inputs = [h[node, i], pooled[graph, i], u[graph], new_history[graph].mean(dim=0)]
            concatenated = torch.cat(inputs if network.past is not None else inputs[:3])
            first = torch.cat(weight, dim=1) @ concatenated + network.node.bias
            torch.testing.assert_close(q_table[node, i], network.head(first), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("history", ["mean", "lstm"])
def test_the_past_changes_the_table(history):
    network = make_network(history=history)
    state = start(network)
    first, seen = network(state)
    second, _ = network(State(state.graphs, state.tuples, seen + 1, state.turn))
    assert not torch.allclose(first, second)


def test_every_part_gets_a_gradient():
    network = make_network(history="lstm")
    network(start(network))[0].square().sum().backward()
    assert all(weight.grad is not None for weight in network.parameters())
