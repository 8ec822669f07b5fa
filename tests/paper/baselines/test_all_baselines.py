"""What holds for every baseline: it trains, is saved, answers through the engine and keeps to its budget."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from maggnn import config as configs
from maggnn.config import Config
from maggnn.data import registry
from maggnn.errors import InputError
from maggnn.inference.engine import Engine
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.named_encoders import BASELINES, baseline_type, make_encoder
from maggnn.model.saving import load_model
from maggnn.training.paradigms import Paradigm, Scalars
from maggnn.training.run import train
from maggnn_paper.datasets.molecules import ZINC_MAX_PARAMETERS
from maggnn_paper.ledger import METHODS
from maggnn_paper.recipes import baseline_recipe
from maggnn_paper.tables import baselines

SMALL = {
    "data": {"name": "shrikhande_rook"},
    "encoder": {"num_layers": 2, "hidden": 8},
    "training": {"predictor_steps": 4, "batch_size": 2, "validate_every": 0},
    "runtime": {"log_every": 2, "checkpoint_every": 2},
    "baseline": {"hops": 2, "largest_ring": 4},
}


def small(name: str) -> Config:
    return baseline_recipe("sr25", name).replaced(**SMALL)


@pytest.mark.parametrize("name", BASELINES)
def test_has_settings_for_every_set(name):
    for task in set(baselines.TASKS.values()):
        assert baseline_recipe(task, name).baseline.name == name


def test_the_ledger_knows_all_names():
    assert set(METHODS) >= BASELINES.keys()


@pytest.mark.parametrize("name", BASELINES)
def test_keeps_to_the_parameters_that_zinc_allows(name):
    config = baseline_recipe("zinc", name)
    atoms, bonds = FeatureSpec(categories=(28,)), FeatureSpec(categories=(4,))
    g_p = make_encoder(config.baseline, config.encoder, atoms, bonds)
    model = MagGNN(1, atoms, bonds, config.encoder, config.predictor, config.agent, "regression", g_p=g_p)
    assert 200_000 < sum(parameter.numel() for parameter in model.parameters()) <= ZINC_MAX_PARAMETERS


@pytest.mark.parametrize("name", BASELINES)
def test_a_saved_model_answers_the_same(name, tmp_path):
    trained = train(small(name), tmp_path, quiet=True)
    loaded, config = load_model(tmp_path / "model.safetensors")
    assert config == small(name) and type(loaded.predictor.encoder) is baseline_type(name)
    graphs = trained.dataset.graphs
    torch.manual_seed(1)
    before = trained.model(graphs[torch.arange(2)])
    torch.manual_seed(1)
    assert torch.equal(before, loaded(graphs[torch.arange(2)]))


@pytest.mark.parametrize("name", BASELINES)
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(name, tmp_path, monkeypatch):
    whole = train(small(name), None, quiet=True).model.state_dict()
    step = Paradigm.predictor_step

    def stopped(self: Paradigm, number: int) -> Scalars:
        if number == 3:  # a checkpoint lies after step 2
            raise KeyboardInterrupt
        return step(self, number)

    monkeypatch.setattr(Paradigm, "predictor_step", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(small(name), tmp_path, quiet=True)
    monkeypatch.setattr(Paradigm, "predictor_step", step)
    torch.manual_seed(99)  # what other work in the process has drawn does not matter
    resumed = train(small(name), tmp_path, quiet=True).model.state_dict()
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)


@pytest.mark.parametrize("name", BASELINES)
def test_the_engine_answers_as_the_model_does(name):
    trained = train(small(name), None, quiet=True)
    graphs = registry.load("csl8").graphs
    engine = Engine(trained.model, "cpu", seed=3)
    answers = engine.predict(graphs, torch.tensor([0, 1, 0]))
    assert torch.equal(answers, Engine(trained.model, "cpu", seed=3).predict(graphs, torch.tensor([0, 1, 0])))
    if not baseline_type(name).draws:
        assert torch.allclose(answers, trained.model.eval()(graphs[torch.tensor([0, 1, 0])]), atol=1e-4)


@pytest.mark.parametrize("name", BASELINES)
def test_the_engine_answers_for_atoms_and_bonds(name):
    generator = torch.Generator().manual_seed(0)
    graphs = registry.load("csl8").graphs.select(torch.arange(2))
    x = torch.randint(5, (int(graphs.num_nodes.sum()), 1), generator=generator)
    graphs = replace(graphs, x=x, edge_attr=torch.ones(int(graphs.num_edges.sum()), 1, dtype=torch.long))
    config, atoms, bonds = small(name), FeatureSpec.of(graphs.x), FeatureSpec.of(graphs.edge_attr)
    g_p = make_encoder(config.baseline, config.encoder, atoms, bonds)
    model = MagGNN(3, atoms, bonds, config.encoder, config.predictor, config.agent, g_p=g_p).eval()
    answers = Engine(model, "cpu").predict(graphs, torch.arange(2))
    if not baseline_type(name).draws:
        assert torch.allclose(answers, model(graphs[torch.arange(2)]), atol=1e-4)


@pytest.mark.parametrize("name", BASELINES)
def test_targets_of_nodes(name):
    dataset = registry.load("shrikhande_rook")
    y = torch.from_numpy(np.random.default_rng(0).normal(size=(32, 1))).float()
    graphs = replace(dataset.graphs, y=y, level="node")
    nodes = replace(dataset, graphs=graphs, task="regression", num_outputs=1, metric="mae")
    trained = train(small(name), None, quiet=True, dataset=nodes)
    assert trained.model(graphs[torch.arange(2)]).shape == (32, 1)


def test_mistakes_are_named():
    with pytest.raises(InputError, match="did you mean 'ngnn'"):
        baseline_type("ngn")
    with pytest.raises(InputError, match=r"set agent\.tuple_order to 0"):
        configs.from_dict({"baseline": {"name": "ngnn"}}, "x")
    with pytest.raises(InputError, match=r"set training\.starts_per_graph to 1"):
        small("ngnn").replaced(training={"starts_per_graph": 2})
    with pytest.raises(InputError, match="no settings for molhiv"):
        baselines.jobs("molhiv", "ngnn", 1)
