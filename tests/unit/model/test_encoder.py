"""The MPNN g of Eq. 1 on marked copies equals PyG's layers, dense algebra, and one copy at a time."""

from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

from builders import all_of, packed_edges, random_edges, seeded
from maggnn.config import EncoderConfig
from maggnn.errors import InputError
from maggnn.model.encoder import Encoder, GINELayer, GINLayer, Norm
from maggnn.model.features import FeatureSpec
from maggnn.model.kernels import reference
from maggnn.model.tuples import sample_tuples

pytestmark = pytest.mark.usefixtures("double_precision")

CONVOLUTIONS = ("gin", "gine", "GCNConv", "GATConv")


def random_batch(sizes=(5, 1, 7), seed=0):
    generator = seeded(seed)
    edges = random_edges(sizes, 0.4, generator)
    x = torch.randint(3, (sum(sizes), 1), generator=generator)
    edge_attr = torch.randint(4, (sum(map(len, edges)), 2), generator=generator)
    return all_of(packed_edges(sizes, edges, x=x, edge_attr=edge_attr))


def random_weights(module):
    """Away from the start, where biases, eps and running statistics are trivial."""
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            tensor.data.uniform_(0.1, 1) if tensor.ndim == 1 else tensor.data.normal_(0, 0.3)
    return module.eval()


def encoder_for(graphs, **settings):
    config = EncoderConfig(**({"num_layers": 2, "hidden": 6} | settings))
    return random_weights(Encoder(config, 2, FeatureSpec.of(graphs.x), FeatureSpec.of(graphs.edge_attr)))


def as_pyg_mlp(layer):
    """The layer's MLP on rows [rows, d], as PyG wants it."""
    return nn.Sequential(layer.first, layer.norm.norm, nn.ReLU(), layer.second)


def finished(layer, out, h):
    """What a layer does after its convolution."""
    out = layer.last_norm.norm(out).relu()
    return out + h if layer.residual else out


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_gin_layer_equals_pyg(norm, residual):
    graphs = random_batch()
    layer = random_weights(GINLayer(EncoderConfig(hidden=6, norm=norm, residual=residual), FeatureSpec()))
    h = torch.randn(graphs.total_nodes, 1, 6)
    theirs = pyg.GINConv(nn.Identity(), eps=float(layer.eps.detach()))
    theirs.nn = as_pyg_mlp(layer)
    expected = finished(layer, theirs(h[:, 0], graphs.edge_index), h[:, 0])
    torch.testing.assert_close(layer(h, graphs)[:, 0], expected)


def test_gine_layer_equals_pyg():
    graphs = random_batch()
    spec = FeatureSpec.of(graphs.edge_attr)
    layer = random_weights(GINELayer(EncoderConfig(hidden=6), spec))
    h = torch.randn(graphs.total_nodes, 1, 6)
    assert layer.edge_embedding is not None
    theirs = pyg.GINEConv(nn.Sequential(nn.Linear(6, 6)), eps=float(layer.eps.detach()))
    theirs.nn = as_pyg_mlp(layer)
    out = theirs(h[:, 0], graphs.edge_index, layer.edge_embedding(graphs.edge_attr))
    torch.testing.assert_close(layer(h, graphs)[:, 0], finished(layer, out, h[:, 0]))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("jk", ["none", "sum", "last"])
def test_encoder_equals_dense_algebra(jk, residual):
    """Built from the explicit marked graph G(v) = (V, E, [x, X(v)]), one copy at a time."""
    graphs = random_batch()
    encoder = encoder_for(graphs, jk=jk, residual=residual, c_plus=1.5, c_minus=-0.5)
    assert all(layer.residual == residual for layer in encoder.layers)
    tuples = sample_tuples(graphs, 3, 2, torch.Generator().manual_seed(1))
    result = encoder(graphs, tuples)
    assert graphs.x is not None and encoder.mark_embedding is not None and encoder.node_embedding is not None
    adjacency = torch.zeros(graphs.total_nodes, graphs.total_nodes)
    adjacency[graphs.edge_index[1], graphs.edge_index[0]] = 1
    for i in range(3):
        node = tuples[:, i] + graphs.first_node[:, None]
        x_v = torch.full((graphs.total_nodes, 2), -0.5)
        x_v[node[:, 0], 0] = x_v[node[:, 1], 1] = 1.5
        table = encoder.node_embedding.embeddings[0].weight
        mark = encoder.mark_embedding
        h = total = table[graphs.x[:, 0]] + x_v @ mark.weight.T + mark.bias
        for layer in encoder.layers:
            h = finished(layer, as_pyg_mlp(layer)((1 + layer.eps) * h + adjacency @ h), h)
            total = total + h
        expected = total if jk == "sum" else h
        if encoder.last is not None:
            expected = encoder.last(expected)
        torch.testing.assert_close(result[:, i], expected)


@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_copies_with_shared_edges_equal_separate_runs(conv):
    graphs = random_batch()
    encoder = encoder_for(graphs, conv=conv)
    tuples = sample_tuples(graphs, 3, 2, torch.Generator().manual_seed(1))
    together = encoder(graphs, tuples)
    alone = torch.cat([encoder(graphs, tuples[:, i : i + 1]) for i in range(3)], dim=1)
    assert together.shape == (graphs.total_nodes, 3, 6)
    torch.testing.assert_close(together, alone)


def test_training_statistics_are_over_all_copies():
    """BatchNorm sees the copies as rows: the same as one batch of explicit copies side by side."""
    norm = Norm("batch", 4).train()
    h = torch.randn(5, 3, 4)
    flat = h.reshape(-1, 4)
    expected = (flat - flat.mean(0)) / (flat.var(0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(norm(h).reshape(-1, 4), expected)


def test_one_row_is_normalised_by_what_is_known_from_before():
    norm, h = Norm("batch", 4).train(), torch.randn(1, 1, 4)
    norm(torch.randn(20, 2, 4))
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    alone = norm(h)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    torch.testing.assert_close(alone, norm.eval()(h))


def test_without_features_and_marks_nodes_start_equal():
    graphs = random_batch((6,))
    encoder = Encoder(EncoderConfig(num_layers=1, hidden=6), 0, FeatureSpec(), FeatureSpec())
    h = encoder.initial(graphs, torch.empty(1, 2, 0, dtype=torch.long))
    assert h.shape == (6, 2, 6)
    assert (h == h[0, 0]).all()


@pytest.mark.parametrize("name", ["NoSuchConv", "Linear", "ChebConv"])
def test_unusable_convolutions_are_refused(name):
    with pytest.raises(InputError, match=r"encoder\.conv"):
        Encoder(EncoderConfig(conv=name, num_layers=1, hidden=4), 2, FeatureSpec(), FeatureSpec())


def test_missing_features_are_named():
    graphs = random_batch()
    encoder = Encoder(EncoderConfig(conv="gine", num_layers=1, hidden=4), 2, FeatureSpec(), FeatureSpec((4,)))
    bare = replace(graphs, x=None, edge_attr=None)
    with pytest.raises(InputError, match="edge_attr"):
        encoder(bare, sample_tuples(bare, 1, 2))


@pytest.mark.parametrize("dtype", [torch.long, torch.float32], ids=["kinds", "floats"])
def test_directed_marks_are_added_to_the_bonds_of_each_copy(dtype):
    """A pass over two copies equals two passes over one copy whose edges have the sum as float features."""
    graphs = random_batch()
    if dtype is torch.float32:
        graphs = replace(graphs, edge_attr=torch.randn(graphs.edge_index.shape[1], 2).double())
    encoder = encoder_for(graphs, conv="gine", marking="directed", num_layers=2)
    tuples = sample_tuples(graphs, 2, 2, seeded(1))
    directions = encoder.mark_embedding.directions(graphs, tuples)
    for copy in range(2):
        h = encoder.initial(graphs, tuples[:, copy : copy + 1])
        for layer in encoder.layers:
            edges, kinds = layer.edges(graphs)
            bonds = edges if kinds is None else edges[kinds]
            rows = bonds + layer.direction_embedding.table()[directions[:, copy]]
            sums = reference.aggregate(h, 1 + layer.eps, graphs, True, rows)
            hidden = layer.norm.relu(layer.first(sums), None)
            h = layer.last_norm.relu(layer.second(hidden), None)
        torch.testing.assert_close(encoder(graphs, tuples)[:, copy], h[:, 0])
    with pytest.raises(InputError, match="directed is not for this method"):
        encoder.onward(h, graphs, first=0)


@pytest.mark.parametrize("marking", ["binary", "distance", "colours"])
def test_marks_in_every_layer_are_added_to_each_layers_input(marking):
    graphs = random_batch()
    encoder = encoder_for(graphs, conv="gine", marking=marking, mark_every_layer=True, num_layers=3)
    tuples = sample_tuples(graphs, 2, 2, seeded(1))
    assert encoder.mark_embedding is not None
    values = encoder.mark_embedding.values(graphs, tuples)
    h = encoder.layers[0](encoder.initial(graphs, tuples), graphs)
    for layer, embed in zip(encoder.layers[1:], encoder.later_marks, strict=True):
        h = layer(h + embed(values), graphs)
    torch.testing.assert_close(encoder(graphs, tuples), h)
    with pytest.raises(InputError, match="mark_every_layer is not for this method"):
        encoder.onward(h, graphs, first=0)
