"""Runs: an agent in a given environment, and what is logged on the way."""

import pytest
import torch

from maggnn.config import Config
from maggnn.errors import InputError
from maggnn.model.runtime import Randomness
from maggnn.training import run
from maggnn.training.paradigms import Ord
from maggnn.training.progress import read_log
from maggnn.training.run import train

CONFIG = Config().replaced(
    data={"name": "csl8"},
    encoder={"num_layers": 2, "hidden": 8},
    agent={"num_moves": 2},
    replay={"capacity": 50, "warmup": 20},
    training={"predictor_steps": 12, "agent_steps": 10, "batch_size": 8, "agent_batch_size": 8, "walkers": 4},
    runtime={"log_every": 4, "checkpoint_every": 8, "device": "cpu"},
)


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())


def test_in_a_given_environment_only_the_agent_learns(tmp_path):
    given = {name: value.clone() for name, value in train(CONFIG, quiet=True).model.predictor.state_dict().items()}
    other = CONFIG.replaced(runtime={"seed": 7})
    start = Ord(other, *started(other), torch.device("cpu")).model
    trained = train(other, tmp_path, quiet=True, predictor=given)
    assert same(trained.model.predictor.state_dict(), given)
    assert not same(trained.model.predictor.state_dict(), start.predictor.state_dict())
    assert not same(trained.model.q_network.state_dict(), start.q_network.state_dict())
    assert {line["phase"] for line in read_log(tmp_path)} == {1}  # the predictor's phase has no steps
    # Started again, the finished run is as it was.
    again = train(other, tmp_path, quiet=True, predictor=given)
    assert again.seconds == trained.seconds and same(again.model.state_dict(), trained.model.state_dict())


def started(config):
    dataset = run.registry.load(config.data.name)
    return dataset, dataset.split(config.data.split_seed, config.data.fold)


@pytest.mark.parametrize("whiten", [False, True])
def test_the_last_steps_keep_the_norms_statistics(whiten):
    config = CONFIG.replaced(
        training={"fixed_norms": 0.5, "schedule": "constant"}, encoder={"dropout": 0.2}, predictor={"whiten": whiten}
    )
    paradigm = Ord(config, *started(config), torch.device("cpu"))
    seen = []
    for step in range(12):
        paradigm.predictor_step(step)
        seen.append({name: value.clone() for name, value in paradigm.predictor.state_dict().items()})
    statistics = [name for name in seen[0] if "running" in name or "covariance" in name]
    weights = [name for name, _ in paradigm.predictor.named_parameters()]
    assert statistics and not any(torch.equal(seen[4][name], seen[5][name]) for name in statistics)
    assert all(torch.equal(seen[5][name], seen[11][name]) for name in statistics)
    assert not any(torch.equal(seen[5][name], seen[11][name]) for name in weights)
    assert not paradigm.predictor.training


@pytest.mark.parametrize("every", [0, 5])
def test_whitening_is_settled_wherever_the_predictor_is_used(every, monkeypatch):
    config = CONFIG.replaced(predictor={"whiten": True}, training={"validate_every": every})
    paradigm = Ord(config, *started(config), torch.device("cpu"))
    settle, settled = paradigm.settle_whitening, []
    monkeypatch.setattr(paradigm, "settle_whitening", lambda: (settled.append(step), settle()))
    for step in range(12):
        paradigm.predictor_step(step)
    assert settled == ([4, 9, 11] if every else [11])


def test_settling_changes_whitening_alone_to_the_embeddings_that_it_answers_with():
    config = CONFIG.replaced(predictor={"whiten": True, "ridge": 1e-3}, training={"starts_per_graph": 16})
    paradigm = Ord(config, *started(config), torch.device("cpu"))
    for step in range(11):
        paradigm.predictor_step(step)
    whitening, before = paradigm.predictor.scale, {k: v.clone() for k, v in paradigm.predictor.state_dict().items()}
    seen = []
    hook = whitening.register_forward_hook(lambda module, inputs, white: seen.append((inputs[0], white)))
    paradigm.settle_whitening()
    hook.remove()
    ((embeddings, white),) = seen  # one batch
    torch.testing.assert_close(whitening(embeddings), white, atol=0.02, rtol=0.02)
    after = paradigm.predictor.state_dict()
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    kept = {"running_mean", "running_var", "num_batches_tracked"}
    assert changed == {"scale.covariance", *(f"scale.standardise.norm.{name}" for name in kept)}
    assert not any(module.training for module in paradigm.predictor.modules())


def test_a_run_resumes_exactly_across_the_fixing_of_norms(tmp_path):
    config = CONFIG.replaced(training={"fixed_norms": 0.25})  # from step 9 on; the checkpoint is after step 8
    whole = train(config, tmp_path / "whole", quiet=True).model.state_dict()
    paradigm, again = (Ord(config, *started(config), torch.device("cpu")) for _ in range(2))
    for step in range(8):
        paradigm.predictor_step(step)
    again.load(paradigm.tensors(), paradigm.counters())
    for step in range(8, 12):
        again.predictor_step(step)
    predictor = {name: value for name, value in whole.items() if name.startswith("predictor.")}
    assert same({f"predictor.{name}": value for name, value in again.predictor.state_dict().items()}, predictor)


def test_logged_scalars_are_means_since_the_last_line(tmp_path):
    train(CONFIG, tmp_path, quiet=True)
    paradigm = Ord(CONFIG, *started(CONFIG), torch.device("cpu"))
    expected = []
    for number, phase in enumerate(paradigm.phases):
        phase.begin()
        steps = [{k: float(v) for k, v in phase.step(step).items()} for step in range(phase.num_steps)]
        for first in range(0, phase.num_steps - 3, 4):
            part = steps[first : first + 4]
            means = {name: sum(step[name] for step in part) / 4 for name in part[0]}
            expected.append({"phase": number, "step": first + 3, **means})
    logged = read_log(tmp_path)
    assert [line.keys() for line in logged] == [line.keys() for line in expected] and len(logged) == 3 + 2
    for line, wanted in zip(logged, expected, strict=True):
        assert line == pytest.approx(wanted, abs=1e-6)


def test_a_fold_that_is_not_there():
    with pytest.raises(InputError, match=r"data\.fold is 99, but csl8 has"):
        train(CONFIG.replaced(data={"fold": 99}), quiet=True)


def test_a_run_of_another_kind_of_device_is_named():
    random = Randomness(0, torch.device("cpu"))
    state = random.state() | {"device": torch.zeros(16, dtype=torch.uint8)}  # as long as a GPU's
    with pytest.raises(InputError, match="started on another kind of device"):
        random.load_state(state)
