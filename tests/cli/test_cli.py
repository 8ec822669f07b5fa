"""The `maggnn` command as people run it: what it prints, what it writes, how it fails; training in a real process."""

import json
from pathlib import Path

import pytest

from maggnn.config import describe

TINY = """
[data]
name = "shrikhande_rook"

[encoder]
num_layers = 2
hidden = 8

[agent]
num_moves = 2

[replay]
warmup = 8

[training]
batch_size = 2
predictor_steps = 6
agent_steps = 6
agent_batch_size = 4
walkers = 4

[runtime]
device = "cpu"
log_every = 2
checkpoint_every = 4
tests = 2
"""


@pytest.fixture(scope="module")
def stdout_of(call_command):
    """What a command prints."""

    def stdout_of(*arguments: str | Path, cwd: Path) -> str:
        return call_command("maggnn", *arguments, cwd=cwd).output()

    return stdout_of


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, run_command) -> tuple[Path, str]:
    """A folder with a tiny config and its finished run, and what the training printed, in a process of its own."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "tiny.toml").write_text(TINY)
    return folder, run_command("maggnn", "train", "tiny.toml", "--set", "runtime.seed=3", cwd=folder).output()


def test_help_names_the_commands(tmp_path, stdout_of):
    text = stdout_of("--help", cwd=tmp_path)
    own = ("fit", "predict", "explain", "show", "export", "tune", "distinguish")
    for command in ("train", "evaluate", "data", "agents", "settings", "demo", *own):
        assert f"\n  {command} " in text


def test_settings_lists_every_key(tmp_path, stdout_of):
    for flags, experimental in (((), False), (("--experimental",), True)):
        text = stdout_of("settings", *flags, cwd=tmp_path)
        assert all(key in text for key, _, _ in describe(experimental))


def test_data(tmp_path, stdout_of):
    text = stdout_of("data", "list", cwd=tmp_path)
    listed = json.loads(stdout_of("data", "list", "--json", cwd=tmp_path))
    assert listed["sr25"]["graphs"] == 15 and listed["exp"]["from"] == "data root"
    assert all(name in text for name in listed)
    checked = stdout_of("data", "check", "sr25", cwd=tmp_path).splitlines()
    assert len(checked) == 5 and all(line.startswith("ok") for line in checked)


def test_train_writes_a_run_folder(trained):
    folder, text = trained
    run_folder = folder / "runs" / "tiny"
    for name in ("model.safetensors", "checkpoint.safetensors", "metrics.jsonl"):
        assert (run_folder / name).stat().st_size > 0
    log = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    assert [(entry["phase"], entry["step"]) for entry in log] == [(0, 1), (0, 3), (0, 5), (1, 1), (1, 3), (1, 5)]
    assert {"predictor/loss"} < set(log[0]) and {"agent/reward", "agent/q_loss", "agent/epsilon"} < set(log[-1])
    assert "mag-gnn, last state" in text and "random-moves, last state" in text


def test_a_warning_is_one_line(trained, run_command):
    """PRE with another number of tuples than its agent learned with."""
    settings = ("training.paradigm=pre", "training.agent_steps=0", "agent.pretrained=cycles6", "agent.num_tuples=1")
    options = [word for setting in settings for word in ("--set", setting)]
    ended = run_command("maggnn", "train", "tiny.toml", *options, "-o", "pre", cwd=trained[0])
    warnings = [line for line in ended.err.splitlines() if "warning" in line.lower()]
    assert ended.code == 0 and len(warnings) == 1 and ".py" not in ended.err
    assert warnings[0].startswith("maggnn: warning: agent cycles6 learned with agent.num_tuples = 2")


def test_training_again_resumes_at_the_end(trained, stdout_of):
    folder, text = trained
    log = folder / "runs" / "tiny" / "metrics.jsonl"
    before = log.read_text()
    again = json.loads(
        stdout_of("train", "tiny.toml", "--set", "runtime.seed=3", "--json", cwd=folder).splitlines()[-1]
    )
    assert again["train_s"].keys() == {"predictor", "agent"} and log.read_text() == before  # no step was made
    assert f"{again['accuracy']['mag-gnn, last state'][-1]:.2f}" in text


def test_evaluate(trained, stdout_of):
    folder, _ = trained
    text = stdout_of("evaluate", "runs/tiny", "--tests", "3", cwd=folder)
    assert "accuracy, 3 tests on 2 graphs" in text and "t = 2" in text and "t = 3" not in text
    result = json.loads(stdout_of("evaluate", "runs/tiny", "--moves", "3", "--json", cwd=folder).splitlines()[-1])
    assert (result["metric"], result["moves"], result["tests"], result["graphs"]) == ("accuracy", 3, 10, 2)
    for values in result["accuracy"].values():
        assert len(values) == 4 and all(0 <= value <= 100 for value in values)


MISTAKES = {
    "unknown key": (
        ["train", "tiny.toml", "--set", "agent.num_move=2"],
        ["agent.num_move", "did you mean 'num_moves'?"],
    ),
    "unknown key in the file": (["train", "bad_key.toml"], ["bad_key.toml", "did you mean 'hidden'?"]),
    "wrong type": (["train", "tiny.toml", "--set", "encoder.hidden=wide"], ["encoder.hidden", "'wide'", "int"]),
    "set without a value": (["train", "tiny.toml", "--set", "agent.num_moves"], ["section.key=value"]),
    "no such config": (["train", "absent.toml"], ["absent.toml", "no such config file"]),
    "other settings": (["train", "tiny.toml"], ["other settings", "choose another folder"]),
    "unknown data set": (["data", "check", "zink"], ["'zink'", "did you mean 'zinc'?"]),
    "unknown data set in a config": (["train", "tiny.toml", "--set", "data.name=cls"], ["'cls'", "'csl'"]),
    "absent data file": (["data", "check", "exp"], ["exp.npz", "MAGGNN_DATA"]),
    "fold out of range": (["train", "tiny.toml", "--set", "data.fold=5"], ["data.fold is 5", "1 split"]),
    "truncated model": (["evaluate", "cut.safetensors"], ["cut.safetensors", "truncated or damaged"]),
    "no model": (["evaluate", "absent"], ["absent", "no such file"]),
    "a checkpoint is no model": (["evaluate", "runs/tiny/checkpoint.safetensors"], ["model.safetensors"]),
}


@pytest.fixture(scope="module")
def mistaken(trained: tuple[Path, str]) -> Path:
    """What wrong commands find, without any data sets."""
    folder, _ = trained
    (folder / "bad_key.toml").write_text("[encoder]\nhiden = 8\n")
    (folder / "cut.safetensors").write_bytes((folder / "runs/tiny/model.safetensors").read_bytes()[:200])
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_get_one_line(mistaken, call_command, arguments, expected):
    line = call_command("maggnn", *arguments, cwd=mistaken, MAGGNN_DATA=str(mistaken / "empty")).mistake()
    assert all(part in line for part in expected), line


def test_a_mistake_in_a_process_of_its_own(mistaken, run_command):
    arguments, expected = next(iter(MISTAKES.values()))
    line = run_command("maggnn", *arguments, cwd=mistaken).mistake()
    assert all(part in line for part in expected), line
