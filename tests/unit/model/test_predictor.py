"""f_p of Eq. 5: pooling over nodes and tuples, then the readout."""

import itertools

import pytest
import torch

from maggnn.config import EncoderConfig, PredictorConfig
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec
from maggnn.model.predictor import Predictor, pool_nodes
from maggnn.model.tuples import sample_tuples


def paths(*sizes):
    """Path graphs of the given numbers of nodes."""
    edges = [torch.stack([torch.arange(n - 1), torch.arange(1, n)]) for n in sizes]
    counts = torch.tensor([n - 1 for n in sizes])
    packed = PackedGraphs.build(torch.tensor(sizes), counts, torch.cat(edges, 1), undirected_once=True)
    return packed[torch.arange(len(sizes))]


def readout(predictor, pooled):
    """The MLP, part by part."""
    return predictor.second(predictor.norm(predictor.first(predictor.scale(pooled))).relu())


@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_pooling_is_within_each_graph(pooling):
    graphs = paths(2, 1, 4)
    h = torch.randn(7, 3, 5)
    reduce = torch.mean if pooling == "mean" else torch.sum
    expected = torch.stack([reduce(part, dim=0) for part in h.split([2, 1, 4])])
    torch.testing.assert_close(pool_nodes(h, graphs, pooling), expected)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_the_answer_is_read_off_the_pooled_tuples(pooling, level):
    graphs = paths(3, 5)
    encoder = Encoder(EncoderConfig(num_layers=2, hidden=8), 2, FeatureSpec(), FeatureSpec())
    predictor = Predictor(PredictorConfig(pooling), encoder, level, 3).eval()
    tuples = sample_tuples(graphs, 4, 2, torch.Generator().manual_seed(0))
    h = encoder(graphs, tuples)  # [N, m, d]
    reduce = torch.mean if pooling == "mean" else torch.sum
    parts = h.split([3, 5])
    embeddings = h if level == "node" else torch.stack([reduce(part, dim=0) for part in parts])
    torch.testing.assert_close(predictor.embed(graphs, tuples), embeddings)
    expected = readout(predictor, reduce(embeddings, dim=1))
    assert expected.shape == (8 if level == "node" else 2, 3)
    torch.testing.assert_close(predictor(graphs, tuples), expected)
    torch.testing.assert_close(predictor.read_pooled(embeddings.sum(1), 4, graphs), expected)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_the_marked_nodes_stand_beside_the_pool(pooling, level):
    graphs = paths(3, 5)
    encoder = Encoder(EncoderConfig(num_layers=2, hidden=8), 2, FeatureSpec(), FeatureSpec())
    predictor = Predictor(PredictorConfig(pooling, read_marked=True, whiten=True), encoder, level, 3).eval()
    tuples = sample_tuples(graphs, 4, 2, torch.Generator().manual_seed(0))
    embeddings = predictor.embed(graphs, tuples)
    h = encoder(graphs, tuples)  # [N, m, d]
    if level == "node":  # every node answers for itself: nothing is added
        assert predictor.width == 8
        assert torch.equal(embeddings, h)
        return
    assert predictor.width == embeddings.shape[-1] == 8 * (1 + 2)
    torch.testing.assert_close(embeddings[..., :8], pool_nodes(h, graphs, pooling))
    for b, i, slot in itertools.product(range(2), range(4), range(2)):
        node = int(graphs.first_node[b]) + int(tuples[b, i, slot])
        assert torch.equal(embeddings[b, i, 8 * (1 + slot) : 8 * (2 + slot)], h[node, i])


def test_without_marks_there_are_none_to_read():
    encoder = Encoder(EncoderConfig(num_layers=1, hidden=8), 0, FeatureSpec(), FeatureSpec())
    predictor = Predictor(PredictorConfig(read_marked=True), encoder, "graph", 3).eval()
    tuples = torch.empty(2, 1, 0, dtype=torch.long)
    assert predictor.width == predictor.embed(paths(3, 5), tuples).shape[-1] == 8
    assert predictor(paths(3, 5), tuples).shape == (2, 3)


@pytest.mark.parametrize("whiten", [False, True])
def test_several_starts_share_a_batch(whiten):
    """[rows, starts, m, d] reads as each start alone."""
    graphs = paths(3, 5)
    encoder = Encoder(EncoderConfig(num_layers=1, hidden=8), 2, FeatureSpec(), FeatureSpec())
    predictor = Predictor(PredictorConfig(whiten=whiten), encoder, "graph", 3).eval()
    tuples = sample_tuples(graphs, 6, 2, torch.Generator().manual_seed(0))
    together = predictor.read(predictor.embed(graphs, tuples).unflatten(1, (3, -1)), graphs)  # [B, 3, out]
    alone = torch.stack([predictor(graphs, part) for part in tuples.split(2, dim=1)], dim=1)
    torch.testing.assert_close(together, alone)
