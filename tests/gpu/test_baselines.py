"""Baselines on a GPU answer as on a CPU, and learn there."""

import pytest
import torch

from builders import random_molecules, seeded
from maggnn.config import AgentConfig, BaselineConfig, EncoderConfig
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.named_encoders import BASELINES, baseline_type, make_encoder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible"),
]


def make_packed(seed=0, count=40):
    generator = seeded(seed)
    return random_molecules(torch.randint(1, 14, (count,), generator=generator).tolist(), 0.3, generator)


def make_model(name):
    torch.manual_seed(0)
    nodes, bonds = FeatureSpec((5, 5)), FeatureSpec((3,))
    encoder = EncoderConfig(conv="gine", num_layers=3, hidden=32)
    g_p = make_encoder(BaselineConfig(name=name), encoder, nodes, bonds)
    agent = AgentConfig(num_tuples=1, tuple_order=0, num_moves=0)
    return MagGNN(2, nodes, bonds, encoder, agent=agent, g_p=g_p)


@pytest.mark.parametrize("name", [name for name in BASELINES if not baseline_type(name).draws])
@torch.no_grad()
def test_a_baseline_answers_as_on_the_cpu(name):
    packed, model = make_packed(), make_model(name).eval()
    ids = torch.arange(len(packed))
    exact = model.double().predictor(packed[ids], model.starts(packed[ids]))
    model.float().cuda()
    graphs = packed.to("cuda")[ids]
    answers = model.predictor(graphs, model.starts(graphs)).cpu()
    assert float((answers - exact).abs().max() / exact.abs().max()) < 1e-4


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_learns(name):
    model, packed = make_model(name).cuda(), make_packed().to("cuda")
    graphs = packed[torch.arange(len(packed))]
    target = torch.stack([graphs.num_nodes, graphs.num_nodes.square()], dim=1).float()
    target = (target - target.mean(0)) / target.std(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        loss = (model.predictor(graphs, model.starts(graphs)) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert min(losses[-5:]) < 0.5 * losses[0]
