"""The engine on a GPU answers as on a CPU: frozen layers, tables, padding and recordings included."""

from dataclasses import replace

import pytest
import torch

from builders import random_molecules, seeded
from maggnn.config import AgentConfig, EncoderConfig
from maggnn.inference.engine import Engine
from maggnn.inference.frozen import frozen
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.tuples import sample_tuples

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible"),
]


DISTANCE = {"marking": "distance"}
ENCODERS = [{}, {"residual": True}, {"jk": "sum"}, {"norm": "layer"}, DISTANCE, DISTANCE | {"mark_every_layer": True}]


def make_packed(seed=0, count=300):
    generator = seeded(seed)
    return random_molecules(torch.randint(1, 30, (count,), generator=generator).tolist(), 0.1, generator)


def make_model(conv="gine", num_moves=0, **encoder):
    torch.manual_seed(0)
    config = EncoderConfig(conv=conv, num_layers=3, hidden=100, **encoder)
    agent = AgentConfig(num_tuples=2, tuple_order=3, num_moves=num_moves)
    model = MagGNN(2, FeatureSpec((5, 5)), FeatureSpec((3,)), config, agent=agent, without_edges=True).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return model


@pytest.mark.parametrize("padded", [False, True], ids=["exact", "padded"])
@pytest.mark.parametrize("encoder", ENCODERS, ids=str)
@pytest.mark.parametrize("conv", ["gin", "gine"])
@torch.no_grad()
def test_a_frozen_model_answers_as_in_float64_on_the_cpu(conv, encoder, padded):
    packed, model = make_packed(), make_model(conv, **encoder)
    ids = torch.arange(len(packed))
    tuples = sample_tuples(packed[ids], 2, 3, torch.Generator().manual_seed(1))
    exact = model.double().predictor(packed[ids], tuples)
    model.float()
    on_gpu = packed.to("cuda")
    graphs = on_gpu.gather(ids.cuda(), on_gpu.rounded_size(ids) if padded else on_gpu.size_of(ids))
    answers = frozen(model.cuda(), present=on_gpu).predictor(graphs, tuples.cuda()).cpu()
    assert float((answers - exact).abs().max() / exact.abs().max()) < 1e-4


@pytest.mark.parametrize("bonds", [3, 40])
@torch.no_grad()
def test_directed_marks_answer_as_in_float64_on_the_cpu(bonds):
    packed = make_packed()
    packed = replace(packed, edge_attr=packed.edge_attr.clone().fill_(bonds - 1))
    torch.manual_seed(0)
    config = EncoderConfig(conv="gine", num_layers=3, hidden=100, marking="directed", residual=True)
    agent = AgentConfig(num_tuples=2, tuple_order=2, num_moves=0)
    model = MagGNN(2, FeatureSpec((5, 5)), FeatureSpec((bonds,)), config, agent=agent).eval()
    ids = torch.arange(len(packed))
    tuples = sample_tuples(packed[ids], 2, 2, torch.Generator().manual_seed(1))
    exact = model.double().predictor(packed[ids], tuples)
    on_gpu = packed.to("cuda")
    twin = frozen(model.float().cuda(), present=on_gpu)
    answers = twin.predictor(on_gpu[ids], tuples.cuda()).cpu()
    assert float((answers - exact).abs().max() / exact.abs().max()) < 1e-4


@pytest.mark.parametrize("marking", ["binary", "distance", "directed"])
@pytest.mark.parametrize("memory_mb", [1000.0, 1.0])
def test_recorded_searches_repeat_and_keep_to_the_budget(memory_mb, marking):
    packed = make_packed().to("cuda")
    ids = torch.arange(len(packed))
    first, second = (Engine(make_model(num_moves=2, marking=marking), "cuda", memory_mb, seed=3) for _ in range(2))
    for _ in range(6):  # launched three times, then recorded
        answers = first.predict(packed, ids)
        assert answers.shape == (len(packed), 2) and bool(answers.isfinite().all())
        torch.testing.assert_close(answers, second.predict(packed, ids))


@pytest.mark.parametrize(("precision", "error"), [("float32", 1e-4), ("tf32", 2e-2), ("bfloat16", 0.2)])
@torch.no_grad()
def test_precisions(precision, error):
    packed, model = make_packed(), make_model()
    ids = torch.arange(len(packed))
    tuples = sample_tuples(packed[ids], 2, 3, torch.Generator().manual_seed(1))
    exact = model.double().predictor(packed[ids], tuples)
    engine = Engine(model.float(), "cuda", precision=precision)
    answers = engine.answer_for(packed.to("cuda")[ids], tuples.cuda()).cpu()
    assert float((answers - exact).abs().max() / exact.abs().max()) < error


def test_finest_starts_come_from_the_prepared_set():
    packed, model = make_packed(count=40), make_model()
    model.agent = AgentConfig(num_tuples=2, tuple_order=2, num_moves=0, start="finest")
    on_gpu = model.precomputed(packed.to("cuda"))
    ids = torch.arange(len(packed))
    assert torch.equal(model.starts(on_gpu[ids]).cpu(), model.starts(packed[ids]))
    assert torch.equal(model.starts(packed[ids].to("cuda")).cpu(), model.starts(packed[ids]))


@torch.no_grad()
def test_what_the_edges_say_is_the_same_on_a_gpu():
    """Rings, walks and distances, worked out there; and a model that reads them."""
    packed, model = make_packed(), make_model(rings=True, random_walk=3, distances=True)
    ours, theirs = model.precomputed(packed.to("cuda")), model.precomputed(packed)
    assert torch.equal(ours.rings.cpu(), theirs.rings) and theirs.rings.max() > 0
    torch.testing.assert_close(ours.structure.cpu(), theirs.structure)
    ids = torch.arange(len(packed))
    tuples = sample_tuples(packed[ids], 2, 3, torch.Generator().manual_seed(1))
    exact = model.double().predictor(theirs[ids], tuples)
    answers = frozen(model.float().cuda(), present=ours).predictor(ours[ids], tuples.cuda()).cpu()
    assert float((answers - exact).abs().max() / exact.abs().max()) < 1e-4


@pytest.mark.parametrize("marking", ["binary", "distance", "directed"])
@torch.no_grad()
def test_recordings_serve_any_number_of_sets(marking):
    """Central starts, so that the answers are the model's own whatever the chunks."""
    agent = AgentConfig(num_tuples=2, tuple_order=2, num_moves=2, start="central")
    torch.manual_seed(0)
    config = EncoderConfig(conv="gine", num_layers=3, hidden=64, marking=marking)
    model = MagGNN(2, FeatureSpec((5, 5)), FeatureSpec((3,)), config, agent=agent).eval()
    engine = Engine(model, "cuda", memory_mb=4.0)
    for seed in (0, 1, 2, 3, 0, 1):
        packed = make_packed(seed, count=200 + 30 * seed)
        exact = model.double()(packed[torch.arange(len(packed))])
        model.float()
        answers = engine.predict(packed).cpu()
        close = (answers - exact).abs().amax(dim=1) / exact.abs().max() < 1e-3
        assert float(close.float().mean()) > 0.97  # a tie of Q may fall otherwise in float32
    assert len(engine._replay._recordings) <= 40
