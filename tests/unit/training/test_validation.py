"""Looks at the validation part: the best weights are kept, training stops, a killed run goes on exactly."""

import itertools
import json
from dataclasses import replace

import pytest
import torch

from maggnn.config import Config
from maggnn.data.registry import load
from maggnn.data.splits import Split
from maggnn.errors import InputError
from maggnn.model.tuples import all_tuples, sample_tuples
from maggnn.training.environment import Environment
from maggnn.training.paradigms import Ord
from maggnn.training.progress import read_log
from maggnn.training.run import train
from maggnn.training.spread import score_spread
from maggnn.training.validation import Validation

CONFIG = Config().replaced(
    data={"name": "csl8"},
    encoder={"num_layers": 2, "hidden": 12, "dropout": 0.2},
    agent={"num_tuples": 1, "tuple_order": 2, "num_moves": 1},
    training={"predictor_steps": 24, "agent_steps": 0, "batch_size": 8, "validate_every": 4, "learning_rate": 0.03},
    runtime={"device": "cpu", "log_every": 2, "checkpoint_every": 4},
)


def looks(folder):
    return [line for line in read_log(folder) if "validation/accuracy" in line]


def test_the_best_weights_are_kept(tmp_path, monkeypatch):
    """Of six looks the third is the best, whatever comes later."""
    values = iter([5.0, 4.0, 1.0, 2.0, 3.0, 2.5])
    weights = []
    remember = Validation._remember

    def scripted(self, criterion, value, spread):
        weights.append({name: value.clone() for name, value in self.paradigm.model.state_dict().items()})
        remember(self, next(values), value, spread)

    monkeypatch.setattr(Validation, "_remember", scripted)
    trained = train(CONFIG, tmp_path, quiet=True)
    assert len(weights) == len(looks(tmp_path)) == 6
    for name, value in trained.model.state_dict().items():
        assert torch.equal(value, weights[2][name])
    assert any(not torch.equal(weights[2][name], weights[5][name]) for name in weights[2])


def test_training_stops_when_nothing_gets_better(tmp_path, monkeypatch):
    values = itertools.chain([3.0, 2.0], itertools.repeat(2.5))
    remember = Validation._remember
    monkeypatch.setattr(
        Validation, "_remember", lambda self, criterion, value, spread: remember(self, next(values), value, spread)
    )
    train(CONFIG.replaced(training={"patience": 2}), tmp_path, quiet=True)
    assert [line["step"] for line in looks(tmp_path)] == [3, 7, 11, 15]


def test_a_look_changes_nothing(tmp_path):
    """Training goes the same way with and without looks; only which weights are kept differs."""
    dataset = load("csl8")
    run = {}
    for every in (0, 4):
        config = CONFIG.replaced(training={"validate_every": every})
        paradigm = Ord(config, dataset, dataset.split(0, 0), torch.device("cpu"))
        validation = Validation(paradigm, config, dataset, dataset.split(0, 0))
        for step in range(8):
            paradigm.predictor_step(step)
            if validation.due(step + 1):
                validation.validate(1)
        run[every] = paradigm.model.state_dict()
    assert all(torch.equal(value, run[4][name]) for name, value in run[0].items())


class KilledError(Exception):
    pass


def test_going_on_after_a_crash_is_exact(tmp_path, monkeypatch):
    config = CONFIG.replaced(training={"patience": 3})
    straight = train(config, tmp_path / "straight", quiet=True)
    step = Ord.predictor_step

    def dies(self, number):
        if number == 14:
            raise KilledError
        return step(self, number)

    monkeypatch.setattr(Ord, "predictor_step", dies)
    with pytest.raises(KilledError):
        train(config, tmp_path / "broken", quiet=True)
    monkeypatch.setattr(Ord, "predictor_step", step)
    resumed = train(config, tmp_path / "broken", quiet=True)
    for name, value in straight.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    logs = [(tmp_path / run / "metrics.jsonl").read_text() for run in ("straight", "broken")]
    assert [json.loads(line) for line in logs[0].splitlines()] == [json.loads(line) for line in logs[1].splitlines()]


def test_a_set_without_a_validation_part_is_refused():
    dataset = load("csl8")
    bare = replace(dataset, protocol=lambda *_: [Split(torch.arange(2), torch.empty(0).long(), torch.arange(2))])
    with pytest.raises(InputError, match="no validation split"):
        train(CONFIG, quiet=True, dataset=bare)
    with pytest.raises(InputError, match="validate_every too"):
        CONFIG.replaced(training={"validate_every": 0, "patience": 2})


def test_too_many_parameters_are_refused():
    dataset = replace(load("csl8"), max_parameters=100)
    with pytest.raises(InputError, match=r"csl8 allows 100"):
        train(CONFIG, quiet=True, dataset=dataset)


@pytest.mark.parametrize(("pooling", "num_tuples"), [("mean", 1), ("mean", 2), ("sum", 2)])
def test_spread_equals_a_loop_over_tuples(pooling, num_tuples):
    dataset = load("csl8")
    config = CONFIG.replaced(predictor={"pooling": pooling}, agent={"num_tuples": num_tuples})
    paradigm = Ord(config, dataset, dataset.split(0, 0), torch.device("cpu"))
    environment = Environment(paradigm.predictor, "classification", "loss")
    spread, gap = score_spread(environment, dataset.graphs, torch.arange(2), config.agent)
    generator = torch.Generator().manual_seed(0)
    stds, ranges = [], []
    for graph in range(2):
        batch, scores = dataset.graphs[torch.tensor([graph])], []
        others = sample_tuples(batch, num_tuples - 1, 2, generator)
        for pair in all_tuples(8, 2):
            with torch.no_grad():
                outputs = paradigm.predictor(batch, torch.cat([others, pair[None, None]], dim=1))
            scores.append(torch.nn.functional.cross_entropy(outputs, batch.y))
        stds.append(torch.stack(scores).std(correction=0))
        ranges.append(max(scores) - min(scores))
    assert spread == pytest.approx(float(sum(stds) / 2), rel=1e-3)
    assert gap == pytest.approx(float(sum(ranges) / 2), rel=1e-3)


@pytest.mark.parametrize(("phase", "step"), [("agent_step", 2), ("predictor_step", 20)])
def test_killed_after_a_phase_the_best_weights_are_still_kept(tmp_path, monkeypatch, phase, step):
    """The predictor's last checkpoint is of its last step, not of its best look."""
    training = {"agent_steps": 6, "agent_batch_size": 4, "walkers": 4, "validate_every": 4, "learning_rate": 0.1}
    changes = {"training": training, "runtime": {"checkpoint_every": 8, "log_every": 2}, "replay": {"warmup": 8}}
    config = CONFIG.replaced(**changes)
    straight = train(config, tmp_path / "straight", quiet=True)
    take = getattr(Ord, phase)

    def dies(self, number):
        if number == step:
            raise KilledError
        return take(self, number)

    monkeypatch.setattr(Ord, phase, dies)
    with pytest.raises(KilledError):
        train(config, tmp_path / "broken", quiet=True)
    monkeypatch.setattr(Ord, phase, take)
    resumed = train(config, tmp_path / "broken", quiet=True)
    for name, value in straight.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    assert resumed.best_validation == straight.best_validation is not None
    assert resumed.seconds.keys() == straight.seconds.keys() == {"predictor", "agent"}
    again = train(config, tmp_path / "broken", quiet=True)  # finished: nothing to do, nothing forgotten
    assert (again.best_validation, again.seconds) == (resumed.best_validation, resumed.seconds)
