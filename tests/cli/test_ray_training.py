"""`maggnn train --ray` on a real local Ray: the run of two processes without Ray, kills, mistakes in one line."""

import json
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

pytest.importorskip("ray", reason="needs Ray: pip install 'maggnn[ray]'")

from actors_of_ray import actors
from maggnn import config as configs
from maggnn.config import Config
from maggnn.training.progress import read_log
from maggnn.training.run import train_on

LONGEST_S = 150.0
TRAINED = Config().replaced(
    data={"name": "csl8"},
    encoder={"num_layers": 1, "hidden": 8},
    agent={"num_tuples": 2, "num_moves": 1},
    replay={"capacity": 500, "warmup": 50},
    training={"predictor_steps": 60, "agent_steps": 30, "batch_size": 4, "agent_batch_size": 8, "walkers": 8},
    runtime={"checkpoint_every": 10, "log_every": 5, "device": "cpu", "tests": 1},
)


def same_training(folder: Path, other: Path) -> bool:
    """Whether two runs have the same files, the same log, and the same weights and checkpoint to the last bit."""
    if sorted(path.name for path in folder.iterdir()) != sorted(path.name for path in other.iterdir()):
        return False
    for name in ("model.safetensors", "checkpoint.safetensors"):
        found, expected = load_file(folder / name), load_file(other / name)
        if found.keys() != expected.keys() or not all(torch.equal(found[key], expected[key]) for key in expected):
            return False
    return read_log(folder) == read_log(other)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training in two processes without Ray."""
    pytest.importorskip("lightning_fabric", reason="needs Lightning Fabric: pip install 'maggnn[devices]'")
    folder = tmp_path_factory.mktemp("trained")
    (folder / "run.toml").write_text(configs.to_toml(TRAINED))
    train_on(2, 1, TRAINED, folder / "trained", quiet=True)
    return folder / "trained"


@pytest.mark.timeout(1800)
def test_training_on_ray_is_that_of_two_processes(cluster, trained, call_command, tmp_path):
    """And the folder of a finished run is refused in one line by a worker that is to do something else there."""
    command = ["train", "run.toml", "--devices", "2", "--ray", cluster, "-o", tmp_path / "run"]
    said = call_command("maggnn", *command, "--json", cwd=trained.parent)
    assert said.code == 0 and list(json.loads(said.out)["train_s"]) == ["predictor", "agent"], said.err
    assert same_training(tmp_path / "run", trained) and "parameters" in said.err
    other = call_command("maggnn", *command, "--set", "training.batch_size=5", cwd=trained.parent)
    assert "other settings" in other.mistake()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("killed", ["worker", "command"])
def test_training_on_ray_goes_on_exactly_after_a_kill(cluster, trained, start_command, tmp_path, killed):
    """Of a worker: by itself. Of the command: when it is started again."""
    command = ["train", "run.toml", "--devices", "2", "--ray", cluster, "-o", tmp_path / "run"]
    with start_command("maggnn", *command, cwd=trained.parent) as process:
        end = time.monotonic() + LONGEST_S
        while process.poll() is None and len(read_log(tmp_path / "run")) < 4 and time.monotonic() < end:
            time.sleep(0.01)
        (actors("RayTrainWorker")[-1] if killed == "worker" else process).kill()
        _, said = process.communicate(timeout=LONGEST_S)
    assert process.returncode == (0 if killed == "worker" else -signal.SIGKILL), said
    if killed == "worker":
        assert "a worker died: all workers are started again" in said
    else:
        assert not (tmp_path / "run" / "model.safetensors").exists()
        with start_command("maggnn", *command, cwd=trained.parent) as process:
            _, said = process.communicate(timeout=LONGEST_S)
            assert process.returncode == 0, said
    assert same_training(tmp_path / "run", trained)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_model_fitted_on_ray_is_that_of_two_processes(cluster, call_command, tmp_path):
    rows = [f"{'C' * (1 + n % 7)}{'O' * (n % 3)}C,{n % 3}.5" for n in range(60)]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    command = ["fit", "mine.csv", "--target", "y", "--steps", "12", "--ensemble", "1", "--device", "cpu"]
    for out, options in (("plain", []), ("ray", ["--ray", cluster])):
        call_command("maggnn", *command, "--devices", "2", "-o", out, *options, cwd=tmp_path).output()
    found, expected = (load_file(tmp_path / out / "model.safetensors") for out in ("ray", "plain"))
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


MISTAKES = {
    "address": (["--ray", "127.0.0.1:1"], "--ray 127.0.0.1:1: Ray does not respond there"),
    "devices": (["--ray", "--devices", "3"], "--devices 3: the cluster has 2 CPUs"),
    "gpus": (["--ray", "--set", "runtime.device=cuda"], "--devices 1: the cluster has 0 GPUs"),
    "nodes": (["--ray", "--nodes", "2"], "--nodes 2: with --ray"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_of_training_in_one_line(cluster, call_command, tmp_path, case):
    options, words = MISTAKES[case]
    (tmp_path / "run.toml").write_text(configs.to_toml(TRAINED))
    assert words in call_command("maggnn", "train", "run.toml", "-o", "out", *options, cwd=tmp_path).mistake()
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]
