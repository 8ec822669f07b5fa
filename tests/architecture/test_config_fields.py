"""Every setting changes something: a known key that no program reads is a silent lie.

Small real trainings run while every read of a setting outside `maggnn.config` is noted down.
"""

import dataclasses
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maggnn import config as configs
from maggnn.apps import cli
from maggnn.config import Config
from maggnn.data.molecules.table import read_table
from maggnn.data.packing import save_packed
from maggnn.training.run import train

SECTIONS = {field.name: type(getattr(Config(), field.name)) for field in dataclasses.fields(Config)}
FIELDS = {f"{name}.{field.name}" for name, kind in SECTIONS.items() for field in dataclasses.fields(kind)}

TINY = {
    "data": {"name": "shrikhande_rook"},
    "encoder": {"num_layers": 1, "hidden": 4},
    "agent": {"num_moves": 1},
    "replay": {"warmup": 4, "capacity": 64},
    "training": {"predictor_steps": 2, "agent_steps": 2, "batch_size": 2, "agent_batch_size": 2, "walkers": 2},
    "runtime": {"log_every": 1, "checkpoint_every": 1},
}
PLAIN = {"agent": {"tuple_order": 0, "num_moves": 0}, "training": {"agent_steps": 0}}
RUNS = {
    "ORD": {},
    "whitened": {"predictor": {"whiten": True}},
    "the paper's replay": {"training": {"target": "dqn", "gamma": 0.9}},
    "SIMUL": {"training": {"paradigm": "simul"}},
    "PRE": {"agent": {"pretrained": "cycles6"}, "training": {"paradigm": "pre", "agent_steps": 0}},
    "subgraphs": {**PLAIN, "baseline": {"name": "ngnn"}},
    "random copies": {**PLAIN, "baseline": {"name": "dropgnn"}},
    "counted cycles": {**PLAIN, "baseline": {"name": "gsn"}},
}


@pytest.fixture
def noted(monkeypatch):
    """Names of the settings that were read, as `section.key`."""
    seen: set[str] = set()
    home = Path(configs.__file__).parent

    def noting(name, kind):
        read = kind.__getattribute__

        def get(self, key):
            reader = Path(sys._getframe(1).f_code.co_filename)
            if f"{name}.{key}" in FIELDS and home not in reader.parents and reader != Path(dataclasses.__file__):
                seen.add(f"{name}.{key}")
            return read(self, key)

        return get

    for name, kind in SECTIONS.items():
        monkeypatch.setattr(kind, "__getattribute__", noting(name, kind))
    return seen


def tiny(**changes) -> Config:
    return Config().replaced(**TINY).replaced(**changes)


def molecules(folder: Path) -> Path:
    """A packed file with a validation part."""
    rows = [f"{'C' * (1 + n % 7)}O,{n % 7}.5,{('train', 'val', 'test')[n % 3]}" for n in range(18)]
    (folder / "mine.csv").write_text("smiles,y,part\n" + "\n".join(rows) + "\n")
    table = read_table(folder / "mine.csv", "smiles", ["y"], split_column="part")
    save_packed(folder / "mine.npz", table.arrays)
    return folder / "mine.npz"


@pytest.mark.filterwarnings("ignore")
def test_every_setting_is_read_by_a_program(noted, tmp_path):
    for name, changes in RUNS.items():
        train(tiny(**changes), tmp_path / name, quiet=True)
    validated = tiny(data={"name": str(molecules(tmp_path))}, training={"validate_every": 1, "patience": 1})
    train(validated, quiet=True)
    (tmp_path / "tiny.toml").write_text(configs.to_toml(tiny()), encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["train", str(tmp_path / "tiny.toml"), "-o", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert not FIELDS - noted, f"known to the configuration but read nowhere: {sorted(FIELDS - noted)}"


def test_the_note_is_honest(noted):
    """What only the configuration's own checks look at does not count."""
    tiny()
    assert not noted
    assert tiny().agent.num_moves == 1
    assert noted == {"agent.num_moves"}
