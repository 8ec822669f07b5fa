"""agent.encoder = shared: Q reads the predictor's embeddings, its head alone learns, answers cost no further pass."""

import pytest
import torch

from maggnn.config import AgentConfig, Config, EncoderConfig
from maggnn.data.registry import load
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.frozen import frozen
from maggnn.model.encoder import Encoder
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.tuples import sample_tuples
from maggnn.training.paradigms import make_model as fresh_model
from maggnn.training.run import train


def make_graphs():
    sizes = torch.tensor([4, 7, 5])
    rings = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]) for n in sizes.tolist()]
    return PackedGraphs.build(sizes, sizes, torch.cat(rings, dim=1), undirected_once=True)[torch.arange(3)]


def make_model(level="graph", **agent):
    torch.manual_seed(0)
    settings = {"num_tuples": 2, "tuple_order": 2, "num_moves": 3, "encoder": "shared", "keep": "confident"} | agent
    return MagGNN(3, encoder=EncoderConfig(num_layers=2, hidden=8), agent=AgentConfig(**settings), level=level).eval()


def count_passes(model, run):
    passes = []
    for module in model.modules():
        if isinstance(module, Encoder):
            module.register_forward_hook(lambda *_: passes.append(1))
    run()
    return len(passes)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("state", ["q_network", "predictor"])
def test_answers_are_those_of_each_state_looked_at(level, state):
    graphs, model = make_graphs(), make_model(level, state=state)
    tuples = sample_tuples(graphs, 2, 2, torch.Generator().manual_seed(1))
    with torch.no_grad():
        reused = []
        states = model.walk(graphs, tuples, generator=torch.Generator().manual_seed(2), answers=reused)
        assert len(reused) == 3
        for answer, at in zip(reused, states, strict=False):
            torch.testing.assert_close(answer, model.predictor(graphs, at.tuples))


@pytest.mark.parametrize(("encoder", "keep", "passes"), [("shared", "confident", 4), ("own", "confident", 7)])
def test_one_pass_a_state_serves_search_and_answer(encoder, keep, passes):
    graphs, model = make_graphs(), make_model(encoder=encoder, keep=keep)
    with torch.no_grad():
        assert count_passes(model, lambda: model(graphs)) == passes


def test_the_q_network_has_no_encoder_of_its_own():
    model = make_model()
    assert model.q_network.encoder is None
    assert not any("encoder" in name for name, _ in model.q_network.named_parameters())


def test_a_frozen_model_shares_too():
    graphs, model = make_graphs(), make_model()
    tuples = sample_tuples(graphs, 2, 2, torch.Generator().manual_seed(1))
    with torch.no_grad():
        answers = [
            one(graphs, tuples=tuples, generator=torch.Generator().manual_seed(2)) for one in (model, frozen(model))
        ]
    torch.testing.assert_close(*answers, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("target", ["dqn", "lookahead"])
@pytest.mark.parametrize("paradigm", ["ord", "simul"])
def test_training_leaves_the_predictor_to_itself(paradigm, target):
    config = Config().replaced(
        data={"name": "shrikhande_rook"},
        encoder={"num_layers": 2, "hidden": 8},
        agent={"encoder": "shared", "num_moves": 2},
        replay={"warmup": 8},
        training={
            "paradigm": paradigm,
            "target": target,
            "predictor_steps": 5,
            "agent_steps": 5,
            "batch_size": 2,
            "agent_batch_size": 4,
            "walkers": 4,
        },
        runtime={"device": "cpu"},
    )
    model = train(config, quiet=True).model
    fresh = fresh_model(config, load("shrikhande_rook")).q_network.state_dict()
    assert any(not torch.equal(value, fresh[name]) for name, value in model.q_network.state_dict().items())
    if paradigm == "ord":
        alone = train(config.replaced(training={"agent_steps": 0}), quiet=True).model
        trained, expected = model.predictor.state_dict(), alone.predictor.state_dict()
        assert all(torch.equal(value, expected[name]) for name, value in trained.items())


def test_gradients_reach_every_state_where_they_are_wanted():
    graphs = make_graphs()
    for seed in range(5):
        model = make_model()
        model(graphs, generator=torch.Generator().manual_seed(seed)).sum().backward()
        assert model.predictor.encoder.mark_embedding.weight.grad.abs().sum() > 0
