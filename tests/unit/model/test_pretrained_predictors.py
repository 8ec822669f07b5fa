"""Weights that initialise the prediction GNN: which models can start from them, and what others are told."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from builders import random_molecules, seeded
from maggnn import config as configs
from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.data.synthetic.sets import all_graphs_protocol
from maggnn.errors import InputError
from maggnn.model import weights_file
from maggnn.model.pretrained import PREDICTOR, pretrained_agent, pretrained_predictor, with_fitting_weights
from maggnn.training.callbacks import Callback
from maggnn.training.run import train

CONFIG = Config().replaced(
    data={"name": "csl8"},
    encoder={"num_layers": 2, "hidden": 8},
    agent={"num_moves": 1},
    training={"predictor_steps": 6, "agent_steps": 0, "batch_size": 4},
    runtime={"device": "cpu"},
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """The file of a small trained model."""
    folder = tmp_path_factory.mktemp("weights")
    train(CONFIG, folder, quiet=True)
    return folder / "model.safetensors"


def starting_from(saved: Path, **sections) -> Config:
    return CONFIG.replaced(**sections).replaced(training={"initial_weights": str(saved)})


def test_training_starts_from_the_weights(saved):
    given = pretrained_predictor(str(saved)).weights
    config = starting_from(saved, training={"predictor_steps": 1, "learning_rate": 1e-12, "weight_decay": 0.0})
    learned = train(config.replaced(runtime={"seed": 5}), quiet=True).model.state_dict()
    layers = [name for name in given if name.endswith("weight") and learned[name].is_floating_point()]
    assert layers and all(torch.allclose(learned[name], given[name], atol=1e-6) for name in layers)
    assert all(name.startswith(PREDICTOR) for name in given)


def test_an_interrupted_run_resumes_from_its_checkpoint_and_not_from_the_weights(saved, tmp_path):
    class StopError(Exception):
        pass

    class Stopping(Callback):
        def on_step(self, phase, step, scalars):
            if step == 4:
                raise StopError

    config = starting_from(saved, runtime={"checkpoint_every": 2, "log_every": 1})
    whole = train(config, tmp_path / "whole", quiet=True).model.state_dict()

    with pytest.raises(StopError):
        train(config, tmp_path / "cut", quiet=True, callbacks=[Stopping()])
    resumed = train(config, tmp_path / "cut", quiet=True).model.state_dict()
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_other_layers_are_named(saved):
    wide = starting_from(saved, encoder={"hidden": 16})
    with pytest.raises(InputError, match=r"was trained with encoder.hidden = 8, and the model has 16; leave it out"):
        train(wide, quiet=True)
    assert with_fitting_weights(wide).training.initial_weights == ""
    assert with_fitting_weights(starting_from(saved)).training.initial_weights == str(saved)
    assert with_fitting_weights(starting_from(saved, encoder={"dropout": 0.3})).training.initial_weights
    assert with_fitting_weights(CONFIG) is CONFIG


def test_other_columns_of_features_are_named(saved):
    graphs = replace(random_molecules([4, 5, 6, 7], 0.6, seeded()), y=torch.tensor([0, 1, 0, 1]))
    molecules = Dataset("molecules", graphs, "classification", 2, all_graphs_protocol)
    with pytest.raises(InputError, match="was trained on graphs with other columns of features than those of csl8"):
        train(starting_from(saved), quiet=True, dataset=molecules)


def test_files_that_hold_no_predictor_are_refused(saved, tmp_path):
    with pytest.raises(InputError, match="no pretrained predictor 'molecule': did you mean 'molecules'"):
        pretrained_predictor("molecule")
    with pytest.raises(InputError, match=r"nothing\.safetensors"):
        pretrained_predictor(str(tmp_path / "nothing.safetensors"))
    agent = tmp_path / "agent.safetensors"
    weights_file.save(agent, pretrained_agent("any").weights, {"config": configs.to_dict(CONFIG)}, with_checksum=True)
    with pytest.raises(InputError, match="contains no predictor; give the file of a model"):
        pretrained_predictor(str(agent))
