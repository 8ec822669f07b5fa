"""A run goes on from whatever checkpoint is there and ends bit for bit as one that nobody stopped.

Kills at random moments are in cli/test_killed.py.
"""

import signal
import time

import pytest
import torch

from killing import forked, train_in
from maggnn.config import Config
from maggnn.errors import InputError
from maggnn.model import weights_file
from maggnn.training.progress import read_log
from maggnn.training.run import train

STEPS = 200
CONFIG = Config().replaced(
    data={"name": "csl8"},
    encoder={"num_layers": 2, "hidden": 16},
    agent={"num_tuples": 2, "actions": "in_turn", "history": "lstm"},
    replay={"capacity": 500, "warmup": 100, "walk_length": 3},
    training={
        "predictor_steps": STEPS,
        "agent_steps": STEPS,
        "batch_size": 16,
        "agent_batch_size": 16,
        "walkers": 8,
        "target": "double_dqn",
        "gamma": 0.5,
        "sync_every": 35,
    },
    runtime={"checkpoint_every": 25, "log_every": 5, "device": "cpu"},
)


def start(folder, config=CONFIG, seconds=30.0):
    return forked(train_in, config, folder, seconds)


def position(folder):
    path = folder / "checkpoint.safetensors"
    return tuple(weights_file.load(path)[1]["position"]) if path.exists() else (0, 0)


def kill_after(folder, phase, **options):
    """Run until a checkpoint lies well inside `phase`, then kill without warning."""
    process, deadline = start(folder, **options), time.monotonic() + 60
    while position(folder) < (phase, 75):
        assert process.exitcode is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (phase, 75) <= position(folder) < (phase, STEPS)


def test_a_finished_run_is_finished(tmp_path):
    """Again does nothing, and other settings are refused."""
    config = CONFIG.replaced(training={"predictor_steps": 20, "agent_steps": 20})
    trained = train(config, tmp_path, quiet=True)
    log, expected = read_log(tmp_path), trained.model.state_dict()
    again = train(config, tmp_path, quiet=True)
    assert again.seconds.keys() == {"predictor", "agent"}  # what the finished run took
    assert all(torch.equal(value, expected[name]) for name, value in again.model.state_dict().items())
    assert read_log(tmp_path) == log
    with pytest.raises(InputError, match="other settings"):
        train(config.replaced(runtime={"seed": 1}), tmp_path, quiet=True)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(InputError, match="cannot make the run folder"):
        train(CONFIG, tmp_path / "file" / "run", quiet=True)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    (tmp_path / "checkpoint.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="truncated or damaged"):
        train(CONFIG, tmp_path, quiet=True)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == b"not a checkpoint"


def same_models(first, second):
    expected, facts = weights_file.load(first / "model.safetensors")
    weights, other_facts = weights_file.load(second / "model.safetensors")
    same = weights.keys() == expected.keys() and facts == other_facts
    return same and all(torch.equal(value, expected[name]) for name, value in weights.items())


def test_checkpoints_by_time_resume_exactly(tmp_path):
    """They lie between two lines of the log, whose averages go on too."""
    config = CONFIG.replaced(runtime={"checkpoint_every": 9_000, "log_every": 9})
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    train(config, straight, quiet=True)
    kill_after(broken, phase=0, config=config, seconds=0.0)
    train(config, broken, quiet=True)
    assert same_models(straight, broken) and read_log(straight) == read_log(broken)


def test_a_truncated_checkpoint_falls_back_to_the_one_before(tmp_path, capsys):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    train(CONFIG, straight, quiet=True)
    kill_after(broken, phase=0)
    newest, previous = (broken / name for name in ("checkpoint.safetensors", "checkpoint.previous.safetensors"))
    older = weights_file.load(previous)[1]["position"]
    assert tuple(older) < position(broken)
    newest.write_bytes(newest.read_bytes()[:-100])
    train(CONFIG, broken, quiet=True)
    assert "resuming from the previous checkpoint" in capsys.readouterr().err
    assert same_models(straight, broken) and read_log(straight) == read_log(broken)
    newest.unlink()  # killed while the newest took the place of the one before
    train(CONFIG, broken, quiet=True)
    assert same_models(straight, broken)


def test_a_second_run_in_the_folder_is_told_of_the_first(tmp_path):
    config = CONFIG.replaced(training={"predictor_steps": 100_000})
    process, deadline = start(tmp_path, config), time.monotonic() + 60
    while not (tmp_path / "checkpoint.safetensors").exists():
        assert process.exitcode is None and time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(InputError, match=rf"another run is using this folder \(process {process.pid}\)"):
        train(config, tmp_path, quiet=True)
    assert process.exitcode is None
    process.kill()  # its lock goes with it
    process.join()
    short = CONFIG.replaced(training={"predictor_steps": 100_001})
    with pytest.raises(InputError, match="other settings"):
        train(short, tmp_path, quiet=True)
    assert not (tmp_path / "run.lock").exists()
