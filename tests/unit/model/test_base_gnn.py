"""Any PyG convolution as the base GNN: which ones run, which are refused, and how models with one are kept."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.data import Batch, Data

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.errors import InputError
from maggnn.inference.frozen import frozen
from maggnn.model.encoder import AnyEncoder
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.marking import make_marking
from maggnn.model.saving import load_model, save_model

SMALL = {
    "encoder": EncoderConfig(num_layers=2, hidden=8),
    "agent": AgentConfig(num_tuples=2, tuple_order=1, num_moves=1),
}


def mlp(d):
    return nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))


RUN = {
    "AGNNConv": lambda d: pyg.AGNNConv(),
    "ARMAConv": lambda d: pyg.ARMAConv(d, d),
    "AntiSymmetricConv": lambda d: pyg.AntiSymmetricConv(d),
    "CGConv": lambda d: pyg.CGConv(d, dim=d),
    "ChebConv": lambda d: pyg.ChebConv(d, d, K=2),
    "ClusterGCNConv": lambda d: pyg.ClusterGCNConv(d, d),
    "DirGNNConv": lambda d: pyg.DirGNNConv(pyg.SAGEConv(d, d)),
    "EGConv": lambda d: pyg.EGConv(d, d, num_heads=4),
    "EdgeConv": lambda d: pyg.EdgeConv(mlp_of_pairs(d)),
    "FeaStConv": lambda d: pyg.FeaStConv(d, d, heads=2),
    "FiLMConv": lambda d: pyg.FiLMConv(d, d),
    "GATConv": lambda d: pyg.GATConv(d, d, heads=2, concat=False, edge_dim=d),
    "GATv2Conv": lambda d: pyg.GATv2Conv(d, d, heads=4, concat=False, edge_dim=d),
    "GCNConv": lambda d: pyg.GCNConv(d, d),
    "GENConv": lambda d: pyg.GENConv(d, d),
    "GINConv": lambda d: pyg.GINConv(mlp(d)),
    "GINEConv": lambda d: pyg.GINEConv(mlp(d)),
    "GMMConv": lambda d: pyg.GMMConv(d, d, dim=d, kernel_size=2),
    "GPSConv": lambda d: pyg.GPSConv(d, pyg.GINEConv(mlp(d)), heads=2),
    "GatedGraphConv": lambda d: pyg.GatedGraphConv(d, num_layers=2),
    "GeneralConv": lambda d: pyg.GeneralConv(d, d, in_edge_channels=d),
    "GraphConv": lambda d: pyg.GraphConv(d, d),
    "LEConv": lambda d: pyg.LEConv(d, d),
    "LGConv": lambda d: pyg.LGConv(),
    "MFConv": lambda d: pyg.MFConv(d, d),
    "NNConv": lambda d: pyg.NNConv(d, d, nn.Linear(d, d * d)),
    "PDNConv": lambda d: pyg.PDNConv(d, d, edge_dim=d, hidden_channels=4),
    "PNAConv": lambda d: pyg.PNAConv(d, d, ["mean", "max"], ["identity"], torch.tensor([0, 1, 8]), edge_dim=d),
    "ResGatedGraphConv": lambda d: pyg.ResGatedGraphConv(d, d, edge_dim=d),
    "SAGEConv": lambda d: pyg.SAGEConv(d, d),
    "SGConv": lambda d: pyg.SGConv(d, d, K=2),
    "SSGConv": lambda d: pyg.SSGConv(d, d, alpha=0.1),
    "SimpleConv": lambda d: pyg.SimpleConv(),
    "SuperGATConv": lambda d: pyg.SuperGATConv(d, d),
    "TAGConv": lambda d: pyg.TAGConv(d, d),
    "TransformerConv": lambda d: pyg.TransformerConv(d, d, edge_dim=d),
}
"""The convolutions that run, made as a user would."""

READ_EDGES = {
    *("CGConv", "GATConv", "GATv2Conv", "GENConv", "GINEConv", "GMMConv", "GPSConv", "GeneralConv", "NNConv"),
    *("PDNConv", "PNAConv", "ResGatedGraphConv", "TransformerConv"),
}
NAMES = sorted(name for name in dir(pyg) if name.endswith("Conv"))


def mlp_of_pairs(d):
    return nn.Sequential(nn.Linear(2 * d, d), nn.ReLU())


def rings(with_edges):
    graphs = []
    for label, size in enumerate((4, 5)):
        node = torch.arange(size)
        edges = torch.stack([node, (node + 1) % size])
        edges = torch.cat([edges, edges.flip(0)], dim=1)
        attr = torch.arange(2 * size)[:, None] % 3 if with_edges else None
        x = torch.randn(size, 3, generator=torch.Generator().manual_seed(label))
        graphs.append(Data(x=x, edge_index=edges, edge_attr=attr, y=torch.tensor([label])))
    return graphs


def make_model(name, base=None):
    torch.manual_seed(0)
    graphs = rings(name in READ_EDGES)
    return MagGNN.for_data(graphs, 2, base=base or RUN[name], **SMALL), graphs


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", RUN)
def test_a_convolution_runs_and_learns(name):
    """In each layer of both networks; copies and graphs do not see each other; gradients reach it."""
    model, graphs = make_model(name)
    encoder = model.predictor.encoder
    assert all(type(layer.conv).__name__ == name for layer in encoder.layers)
    assert encoder.reads_edges == (name in READ_EDGES)
    batch, tuples = Batch.from_data_list(graphs), torch.tensor([[[0], [2]], [[1], [4]]])
    model.predictor(_ours(batch), tuples).sum().backward()
    weights = [weight for layer in encoder.layers for weight in layer.conv.parameters() if weight.requires_grad]
    assert any(weight.grad is not None and weight.grad.any() for weight in weights) == bool(weights)
    model.eval()
    with torch.no_grad():
        together = model.predictor(_ours(batch), tuples)
        alone = [model.predictor(_ours(graph), own[None]) for graph, own in zip(graphs, tuples, strict=True)]
        assert torch.allclose(together, torch.cat(alone), atol=1e-4)
        marked = encoder(_ours(batch), tuples)
        swapped = encoder(_ours(batch), tuples.flip(1))
        assert torch.allclose(marked.flip(1), swapped, atol=1e-4), "copies are separate"


def _ours(graphs):
    from maggnn.graphs.conversions import batch_from_pyg

    return batch_from_pyg(graphs)


def test_enough_kinds_run():
    assert len(RUN) >= 25 and set(RUN) <= set(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in RUN])
def test_every_other_convolution_runs_by_name_or_is_refused_in_one_line(name):
    kind = getattr(pyg, name)
    message = None
    try:
        model = MagGNN.for_data(rings(False), 2, base=lambda d: kind(d, d), **SMALL)
    except InputError as error:
        message = str(error)
    if message is None:
        assert model.predictor(_ours(Batch.from_data_list(rings(False))), torch.zeros(2, 2, 1).long()).shape == (2, 2)
    else:
        assert "\n" not in message and len(message) < 400


@pytest.mark.parametrize(
    ("base", "edges", "message"),
    [
        (RUN["GINEConv"], False, "GINEConv reads edge_attr, but there are no edge features"),
        (RUN["GCNConv"], True, "base does not read edge_attr"),
        (lambda d: pyg.GATv2Conv(d, d), True, "edge_dim=d"),
        (lambda d: pyg.GATConv(d, d, heads=2), False, r"returns \[3, 16\]"),
        (lambda d: pyg.PANConv(d, d, 2), False, "PANConv"),
        (lambda d: pyg.HypergraphConv(d, d), False, r"called with \(x, hyperedge_index"),
        (lambda d: pyg.GCNConv(d, d, cached=True), False, "cached=True reads the edges of the first graphs again"),
        (lambda d: pyg.GPSConv(d, pyg.SGConv(d, d, cached=True)), False, "leave cached out"),
        (lambda d: None, False, "must be a module"),
        (lambda: None, False, "give a function of the width"),
        ("GATConv", False, "is of type str"),
    ],
)
def test_what_cannot_be_a_base_is_refused(base, edges, message):
    with pytest.raises(InputError, match=message):
        MagGNN.for_data(rings(edges), 2, base=base, **SMALL)


def test_an_object_is_copied_afresh_for_each_layer():
    given = pyg.GATv2Conv(8, 8, heads=2, concat=False)
    before = copy.deepcopy(given.state_dict())
    model, _ = make_model("GATv2Conv-object", given)
    first, second = (layer.conv for layer in model.predictor.encoder.layers)
    assert first is not given and not torch.equal(first.lin_l.weight, second.lin_l.weight)
    assert all(torch.equal(value, before[name]) for name, value in given.state_dict().items())


@pytest.mark.parametrize("name", ["GATv2Conv", "GPSConv", "GENConv"])
def test_a_model_with_a_base_is_kept_and_frozen(name, tmp_path):
    model, graphs = make_model(name)
    model, batch, path = model.eval(), _ours(Batch.from_data_list(graphs)), tmp_path / "model.safetensors"
    save_model(path, model)
    again, _ = load_model(path, base=RUN[name])
    tuples = model.starts(batch, torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model.predictor(batch, tuples)
        assert torch.equal(again.predictor(batch, tuples), expected)
        assert torch.allclose(frozen(model).predictor(batch, tuples), expected, atol=1e-5)
    with pytest.raises(InputError, match=rf"made with base = {name}, which a file cannot contain: give it again"):
        load_model(path)
    with pytest.raises(InputError, match="weights do not fit"):
        load_model(path, base=lambda d: pyg.TAGConv(d, d))


class Mean(AnyEncoder):
    """An encoder of one's own: marks and the mean over neighbours."""

    def __init__(self, config):
        super().__init__(config, 1)
        self.marking, self.conv = make_marking(config, 1), pyg.SAGEConv(config.hidden, config.hidden)

    def forward(self, graphs, tuples):
        h = self.marking(graphs, tuples)
        return torch.stack([self.conv(copy, graphs.edge_index) for copy in h.unbind(1)], dim=1)


def test_an_encoder_of_ones_own_is_kept(tmp_path):
    path, config = tmp_path / "own.safetensors", SMALL["encoder"]
    model = MagGNN.for_data([Data(edge_index=g.edge_index, y=g.y) for g in rings(False)], g_p=Mean(config), **SMALL)
    save_model(path, model)
    again, _ = load_model(path, g_p=lambda: Mean(config))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    with pytest.raises(InputError, match=r"made with g_p = Mean.*g_p=lambda"):
        load_model(path)


def test_what_a_file_does_not_need_is_refused(tmp_path):
    path = tmp_path / "plain.safetensors"
    save_model(path, MagGNN.for_data(rings(True), 2, agent=AgentConfig(num_tuples=1, tuple_order=0, num_moves=0)))
    assert load_model(path)[0].q_network is None
    with pytest.raises(InputError, match="base is given, but this model was made without it"):
        load_model(path, base=RUN["GCNConv"])
