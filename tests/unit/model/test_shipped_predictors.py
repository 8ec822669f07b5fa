"""The initial weights that come with the package: one small file that fits the networks of `maggnn fit`."""

import json
from pathlib import Path

import pytest

from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.own_table import OwnTable, read_own_table
from maggnn.data.registry import load
from maggnn.model import weights_file
from maggnn.model.pretrained import PREDICTOR_FOLDER, PREDICTORS, pretrained_predictor, with_fitting_weights
from maggnn.training.paradigms import make_model

LEDGER = Path(__file__).parents[3] / "results" / "ledger.jsonl"


@pytest.mark.parametrize("name", PREDICTORS)
def test_shipped_weights_say_where_they_come_from(name):
    path = PREDICTOR_FOLDER / f"{name}.safetensors"
    assert path.stat().st_size < 1_000_000
    _, facts = weights_file.load(path)
    assert facts["ledger"] in [json.loads(line) for line in LEDGER.read_text().splitlines()]
    assert facts["ledger"]["dataset"] == "properties"


@pytest.mark.parametrize(("task", "rows", "starts"), [("regression", 500, True), ("regression", 60, False)])
def test_networks_of_many_molecules_start_from_weights_of_the_package(task, rows, starts, tmp_path):
    """They fit the default settings, so that no network falls back to random weights."""
    own = table_of(tmp_path, rows, task)
    config = own_config(own.dataset)
    assert config.training.initial_weights == (PREDICTORS[0] if starts else "")
    assert with_fitting_weights(config) is config
    if starts:
        pretrained_predictor(PREDICTORS[0]).check(config, make_model(config, own.dataset))


def test_classes_and_other_graphs_start_from_random_weights(tmp_path):
    assert own_config(table_of(tmp_path, 500, "classification").dataset).training.initial_weights == ""
    assert own_config(load("csl")).training.initial_weights == ""


def table_of(folder: Path, rows: int, task: str) -> OwnTable:
    """A table of chains, with the number of their atoms or its parity as the target."""
    chains = ["".join("CNOS"[(row >> 2 * place) % 4] for place in range(5)) for row in range(rows)]
    y = [len(chain) + row % 3 for row, chain in enumerate(chains)]
    lines = [
        f"{chain},{value if task == 'regression' else 'ab'[value % 2]}" for chain, value in zip(chains, y, strict=True)
    ]
    path = folder / "table.csv"
    path.write_text("\n".join(["smiles,y", *lines]) + "\n")
    return read_own_table(path, "smiles", ["y"], task, "random", 0, 1)
