"""fit, train, tune, predict and export, killed at random moments: the same command ends with the same result."""

import csv
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from killing import ended, kill_and_compare, started
from maggnn import config as configs
from maggnn.apps.fit import predicting
from maggnn.config import Config

CHAINS = [f"{'C' * (1 + number % 9)}{'O' * (number % 3)},{number % 3}.5" for number in range(60)]
TABLE = ["mine.csv", "--smiles", "smiles", "--target", "y", "--workers", "1"]
COMMANDS = {
    "fit": ["fit", *TABLE, "--config", "small.toml", "--steps", "60", "--ensemble", "2", "-o", "model"],
    "train": ["train", "run.toml", "-o", "run", "--json"],
    "tune": ["tune", *TABLE, "--steps", "8", "--trials", "3", "-o", "study"],
    "predict": ["predict", "model", "long.csv", "--workers", "1", "-o", "out.csv", "--json"],
    "export": ["export", "model", "-o", "model.pt2"],
}
SMALL = Config().replaced(
    encoder={"conv": "gine", "num_layers": 1, "hidden": 8, "random_walk": 2},
    agent={"num_tuples": 1, "tuple_order": 2, "num_moves": 1, "start": "central"},
    replay={"warmup": 8},
    training={"predictor_steps": 100, "agent_steps": 20, "batch_size": 8, "walkers": 4, "validate_every": 50},
    runtime={"checkpoint_every": 10, "log_every": 5},
)
RUN = Config().replaced(
    data={"name": "csl8"},
    encoder={"num_layers": 1, "hidden": 8},
    agent={"num_tuples": 2, "actions": "in_turn", "history": "lstm"},
    replay={"capacity": 500, "warmup": 50, "walk_length": 3},
    training={
        "predictor_steps": 120, "agent_steps": 120, "batch_size": 8, "agent_batch_size": 8, "walkers": 8,
        "target": "double_dqn", "gamma": 0.5, "sync_every": 35,
    },
    runtime={"checkpoint_every": 10, "log_every": 5, "device": "cpu", "tests": 1},
)  # fmt: skip


def tensors(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What is written beside the tensors, and digests of the tensors: safetensors orders its keys at random."""
    with safe_open(path, "np") as file:
        digests = {name: hashlib.sha256(file.get_tensor(name).tobytes()).hexdigest() for name in file.keys()}  # noqa: SIM118
        return file.metadata(), digests


def names(folder: Path) -> list[str]:
    """All files and folders below."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def fitted(folder: Path) -> Any:
    model = folder / "model"
    card = re.sub(r"[0-9.]+ s\b", "", (model / "README.md").read_text())
    log, facts = ((model / name).read_text() for name in ("metrics.jsonl", "fitted.json"))
    return names(model), [tensors(path) for path in sorted(model.glob("*.safetensors"))], facts, card, log


def trained(folder: Path) -> Any:
    said = json.loads((folder / "out.txt").read_text().splitlines()[-1])
    del said["train_s"]
    run = folder / "run"
    return tensors(run / "model.safetensors"), (run / "metrics.jsonl").read_text(), said


def tuned(folder: Path) -> Any:
    with (folder / "study" / "trials.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] != "fail"]
    kept = [{key: value for key, value in row.items() if key not in ("trial", "seconds", "reason")} for row in rows]
    return kept, (folder / "study" / "best.toml").read_text()


def predicted(folder: Path) -> Any:
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    printed = (folder / "out.txt").read_text()
    if printed:  # nothing where the one before was killed on its way out
        said = json.loads(printed)
        assert (said["rows"], said["without"]) == (len(rows), sum(not row["predicted_y"] for row in rows))
    return (folder / "out.csv").read_bytes()


def exported(folder: Path) -> Any:
    return (folder / "model.pt2").read_bytes()


RESULTS: dict[str, Callable[[Path], Any]] = {
    "fit": fitted, "train": trained, "tune": tuned, "predict": predicted, "export": exported,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables, the settings, and a model."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "mine.csv").write_text("\n".join(["smiles,y", *CHAINS]) + "\n")
    damaged = ["C(,1.5", "CCO", '"=1+1",2']
    rows = [CHAINS[number % 60] if number % 500 else damaged[number % 3] for number in range(2 * predicting.ROWS + 9)]
    (folder / "long.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    (folder / "small.toml").write_text(configs.to_toml(SMALL))
    (folder / "run.toml").write_text(configs.to_toml(RUN))
    ended(started(COMMANDS["fit"], folder), folder)
    return folder


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_at_random_and_started_again(folder, tmp_path, command, kills):
    def fresh(name: str) -> Path:
        """A folder of its own, in which only the command's result, and what it prints, is missing."""
        made = tmp_path / name
        made.mkdir()
        for path in folder.iterdir():
            if path.name not in (COMMANDS[command][COMMANDS[command].index("-o") + 1], "out.txt", "err.txt"):
                (made / path.name).symlink_to(path)
        return made

    fared = kill_and_compare(COMMANDS[command], RESULTS[command], fresh, kills, seed=kills)
    print(f"{command}: {fared.kills} kills, {fared.equal} equal")
    assert fared.kills == kills and not fared.others
