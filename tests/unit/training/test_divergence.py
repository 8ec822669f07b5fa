"""Training that comes apart: it stops at the first such step, and nothing of it is kept, ranked or written."""

import math
from dataclasses import replace

import pytest
import torch

from maggnn.config import Config
from maggnn.data import registry
from maggnn.errors import DivergenceError
from maggnn.model import saving, weights_file
from maggnn.model.mag_gnn import MagGNN
from maggnn.training.divergence import Watch
from maggnn.training.metrics import score
from maggnn.training.paradigms import Ord
from maggnn.training.progress import read_log
from maggnn.training.run import LAST_GOOD, train
from maggnn.training.validation import Validation

CONFIG = Config().replaced(
    data={"name": "csl8"},
    encoder={"num_layers": 2, "hidden": 8},
    agent={"num_moves": 1},
    replay={"capacity": 50, "warmup": 20},
    training={"predictor_steps": 12, "agent_steps": 8, "batch_size": 8, "agent_batch_size": 8, "walkers": 4},
    runtime={"log_every": 2, "checkpoint_every": 4, "device": "cpu"},
)


@pytest.fixture
def spoiled(monkeypatch):
    """From its seventh step on, a predictor learns from a batch with a weight that is no number."""
    step = Ord.predictor_step

    def spoiling(self, number):
        if number >= 6:
            with torch.no_grad():
                next(iter(self.predictor.parameters())).fill_(math.nan)
        return step(self, number)

    monkeypatch.setattr(Ord, "predictor_step", spoiling)


def finite(path):
    tensors, _ = weights_file.load(path)
    return all(bool(value.isfinite().all()) for value in tensors.values() if value.is_floating_point())


@pytest.mark.usefixtures("spoiled")
def test_a_run_stops_at_the_first_step_whose_loss_is_no_number(tmp_path):
    with pytest.raises(
        DivergenceError, match=r"predictor/loss is nan at step 7 of phase predictor; lower training\.le"
    ):
        train(CONFIG, tmp_path, quiet=True)
    assert finite(tmp_path / "checkpoint.safetensors") and not (tmp_path / "model.safetensors").exists()
    assert [line["step"] for line in read_log(tmp_path)] == [1, 3, 5]
    with pytest.raises(DivergenceError, match="step 7"):  # without a folder as well
        train(CONFIG, quiet=True)


@pytest.mark.usefixtures("spoiled")
def test_the_best_weights_before_are_kept(tmp_path):
    config = CONFIG.replaced(training={"validate_every": 3, "agent_steps": 0})
    with pytest.raises(DivergenceError, match=LAST_GOOD):
        train(config, tmp_path, quiet=True)
    model, _ = saving.load_model(tmp_path / LAST_GOOD)
    assert finite(tmp_path / LAST_GOOD) and isinstance(model, MagGNN)


def test_a_learning_rate_that_is_far_too_high():
    config = CONFIG.replaced(training={"learning_rate": 1e30, "schedule": "constant"})
    with pytest.raises(DivergenceError, match=r"is (nan|inf|not finite) at .*; lower training\.learning_rate"):
        train(config, quiet=True)


def test_the_agent_is_watched_too(monkeypatch):
    step = Ord.agent_step
    monkeypatch.setattr(Ord, "agent_step", lambda self, number: step(self, number) | {"agent/q_loss": math.inf})
    with pytest.raises(DivergenceError, match="agent/q_loss is inf at step 1 of phase agent"):
        train(CONFIG, quiet=True)


def test_steps_that_are_looked_at_together_are_told_apart():
    watch = Watch("pre", at_once=False)
    for step, loss in enumerate([1.0, 2.0, math.nan, 3.0, math.inf], start=1):
        watch.add(step, {"predictor/loss": torch.tensor(loss), "rate": 0.5})
    with pytest.raises(DivergenceError, match="predictor/loss is nan at step 3 of phase pre"):
        watch.check()
    watch.add(6, {"predictor/loss": torch.tensor(1e300, dtype=torch.float64)})
    watch.check()
    watch.check()


def test_weights_that_are_no_numbers_are_never_written(tmp_path):
    """Also where the last loss still was one."""
    dataset = registry.load("csl8")
    model = Ord(CONFIG, dataset, dataset.split(0, 0), torch.device("cpu")).model
    path = tmp_path / "model.safetensors"
    saving.save_model(path, model, CONFIG)
    before = path.read_bytes()
    with torch.no_grad():
        next(iter(model.parameters()))[0] = math.inf
    with pytest.raises(DivergenceError, match=r"model\.safetensors is not written"):
        saving.save_model(path, model, CONFIG)
    assert path.read_bytes() == before


@pytest.mark.parametrize("metric", ["accuracy", "auroc"])
def test_answers_that_are_no_numbers_have_no_score(metric):
    answers, y = torch.tensor([[0.9, 0.1], [0.2, 0.8], [math.nan, math.nan]]), torch.tensor([0, 1, 0])
    both = score(torch.stack([answers, answers.nan_to_num()]), y, metric)
    assert both[0].isnan() and both[1] > 50


def test_a_look_at_answers_that_are_no_numbers_is_never_the_best():
    config = CONFIG.replaced(training={"validate_every": 3, "agent_steps": 0})
    dataset = registry.load("csl8")
    split = dataset.split(0, 0)
    split = replace(split, val=split.val if len(split.val) else split.train)
    paradigm = Ord(config, dataset, split, torch.device("cpu"))
    validation = Validation(paradigm, config, dataset, split)
    with torch.no_grad():
        for weight in paradigm.predictor.parameters():
            weight.fill_(math.nan)
    validation.validate(0)
    assert validation.best == {} and validation.best_loss == math.inf
