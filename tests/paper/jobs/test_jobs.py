"""Tiny real trainings side by side: results are kept, what is there is not run again, environments are shared."""

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from maggnn import config as configs
from maggnn.config import Config
from maggnn.errors import InputError
from maggnn.model import saving as checkpoint
from maggnn_paper.jobs import job as jobs
from maggnn_paper.jobs.job import Job, run_job, run_jobs
from maggnn_paper.recipes import plain_gnn

CONFIG = Config().replaced(
    data={"name": "csl8"},
    encoder={"num_layers": 2, "hidden": 8},
    agent={"num_moves": 2},
    replay={"capacity": 50, "warmup": 20},
    training={"predictor_steps": 6, "agent_steps": 4, "batch_size": 8, "agent_batch_size": 8, "walkers": 4},
    runtime={"device": "cpu"},
)
JOB = Job("csl8", CONFIG, max_moves=3, tests=20, keep_model=True)


@pytest.fixture(autouse=True)
def known_commit(monkeypatch):
    monkeypatch.setenv("MAGGNN_COMMIT", "1234567")


def with_seed(seed, **changes):
    return replace(JOB, config=CONFIG.replaced(runtime={"seed": seed}), **changes)


def measured(result):
    """What does not depend on the clock."""
    return {name: result[name] for name in ("name", "recipe", "config", "metric", "scores", "params", "commit")}


def refuse_to_train(monkeypatch):
    def no_training(*args, **options):
        raise AssertionError("a result that is there was measured again")

    monkeypatch.setattr(jobs, "train", no_training)


def test_a_result_is_kept_and_not_measured_again(tmp_path, monkeypatch):
    plain = Job("csl8", plain_gnn(CONFIG), max_moves=0, tests=1)
    results = run_jobs([JOB, plain], tmp_path, workers=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [JOB.name, f"{JOB.name}.json", f"{plain.name}.json"]
    )
    for job, result in zip((JOB, plain), results, strict=True):
        assert json.loads((tmp_path / f"{job.name}.json").read_text()) == result
        assert configs.from_dict(result["config"], "result") == job.config
        assert (result["name"], result["recipe"], result["commit"]) == (job.name, "csl8", "1234567")
        assert result["train_s"] >= sum(result["phase_s"].values()) > 0 and result["infer_ms"] > 0
        for kept in result["scores"].values():
            for table in kept.values():
                assert torch.tensor(table).shape == (job.tests, job.max_moves + 1)
    assert results[0]["scores"].keys() == {"mag-gnn", "random-moves"} and results[1]["scores"].keys() == {"gin"}
    model, config = checkpoint.load_model(tmp_path / JOB.name / "model.safetensors")
    assert config == CONFIG
    assert results[0]["params"] == sum(weight.numel() for weight in model.parameters())

    refuse_to_train(monkeypatch)
    assert run_jobs([plain, JOB], tmp_path, workers=1) == results[::-1]
    with pytest.raises(AssertionError, match="measured again"):
        run_jobs([JOB, with_seed(1)], tmp_path, workers=1)


def test_controls_at_equal_cost_are_measured():
    """The mean of three starts, marks on central nodes, and the agent's moves from there."""
    result = run_job(replace(JOB, tests=2, keep_model=False, means=(4,), central=True))
    scores = result["scores"]
    assert torch.tensor(scores["random-moves"][jobs.mean_of(4)]).shape == (2, 1)
    central = scores[jobs.CENTRAL]
    assert torch.tensor(central["last"]).shape == torch.tensor(central[jobs.WALK]).shape == (1, JOB.max_moves + 1)
    assert torch.tensor(central[jobs.mean_of(4)]).shape == (1, 1)
    still = replace(JOB, config=CONFIG.replaced(training={"agent_steps": 0}), tests=1, keep_model=False, central=True)
    assert torch.tensor(run_job(still)["scores"][jobs.CENTRAL]["last"]).shape == (1, 1)  # nobody to move marks


def test_processes_side_by_side_measure_the_same(tmp_path, monkeypatch):
    todo = [with_seed(seed, keep_model=False) for seed in (2, 0, 1)]
    alone = run_jobs(todo, tmp_path / "alone", workers=1)
    together = run_jobs(todo, tmp_path / "together", workers=2)
    assert [measured(result) for result in together] == [measured(result) for result in alone]
    assert sorted(path.name for path in (tmp_path / "together").iterdir()) == sorted(f"{job.name}.json" for job in todo)
    refuse_to_train(monkeypatch)
    assert run_jobs(todo[:2], tmp_path / "together", workers=2) == together[:2]


def test_another_agent_in_the_same_environment(tmp_path):
    other_training = {"target": "dqn", "gamma": 0.5, "learning_rate": 0.05}
    variant = replace(JOB, recipe="dqn", config=CONFIG.replaced(training=other_training), predictor_of=JOB)
    first, second = (run_jobs([job], tmp_path, workers=1)[0] for job in (JOB, variant))
    assert second["scores"]["random-moves"] == first["scores"]["random-moves"]
    assert first["config"]["training"]["target"] != second["config"]["training"]["target"]
    models = [checkpoint.load_model(tmp_path / job.name / "model.safetensors")[0] for job in (JOB, variant)]
    ours, theirs = (model.predictor.state_dict() for model in models)
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    agents = [torch.cat([w.flatten() for w in model.q_network.parameters()]) for model in models]
    assert not torch.equal(*agents)
    assert set(first["phase_s"]) == {"predictor", "agent"}
    assert second["phase_s"]["predictor"] == first["phase_s"]["predictor"]  # counted where it was spent


def test_names_tell_jobs_apart():
    others = [
        with_seed(1),
        replace(JOB, tests=21),
        replace(JOB, max_moves=4),
        replace(JOB, config=CONFIG.replaced(training={"learning_rate": 0.5})),
        replace(JOB, config=CONFIG.replaced(data={"fold": 1})),
    ]
    assert len({job.name for job in (JOB, *others)}) == 1 + len(others)
    assert JOB.name == replace(JOB, recipe="other").name  # the settings count, not the file they came from


def test_a_borrowed_predictor_is_checked_and_leaves_the_name_alone(tmp_path):
    borrower = replace(with_seed(1), predictor_of=JOB)
    assert borrower.name == with_seed(1).name  # the predictor of equal settings is meant, wherever it was trained
    with pytest.raises(InputError, match="needs the folder"):
        run_job(borrower)


def test_progress_is_told(tmp_path, capsys):
    run_jobs([JOB], tmp_path, workers=1)
    told = capsys.readouterr()
    assert told.out == "" and f"[1/1, 0 s left] {JOB.name}  mag-gnn" in told.err and "random-moves" in told.err


LONG = """
import sys
from dataclasses import dataclass
from pathlib import Path
from maggnn_paper.jobs.side_by_side import run_all

@dataclass(frozen=True)
class Sleep:
    name: str

def run(job, folder):
    import os, time
    (folder / f"{job.name}.pid").write_text(str(os.getpid()))
    time.sleep(300)

if __name__ == "__main__":
    run_all([Sleep("a"), Sleep("b")], run, lambda job, result: "", Path(sys.argv[1]), workers=2)
"""


def test_workers_end_with_a_command_that_is_killed(tmp_path):
    psutil = pytest.importorskip("psutil")
    (tmp_path / "long.py").write_text(LONG)
    command = subprocess.Popen([sys.executable, tmp_path / "long.py", tmp_path], stderr=subprocess.DEVNULL)
    try:
        until(lambda: all((tmp_path / f"{name}.pid").exists() for name in "ab"))
        time.sleep(0.2)
        workers = [int((tmp_path / f"{name}.pid").read_text()) for name in "ab"]
        assert all(psutil.pid_exists(worker) for worker in workers)
    finally:
        command.kill()
        command.wait()
    until(lambda: not any(psutil.pid_exists(worker) for worker in workers))


def until(holds, longest_s=120.0):
    end = time.monotonic() + longest_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
