"""The initial weights that come with the package: one small file that fits the networks of `maggnn fit`."""

import json
from pathlib import Path

import pytest

from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.own_table import FEATURES, read_own_table
from maggnn.model import weights_file
from maggnn.model.pretrained import PREDICTOR_FOLDER, PREDICTORS, pretrained_predictor, with_fitting_weights
from maggnn.training.paradigms import make_model

LEDGER = Path(__file__).parents[3] / "results" / "ledger.jsonl"
SMILES = ("CCO", "CCN", "CCC", "CCCl", "c1ccccc1", "CC(=O)O", "CC#N", "COC", "CCS", "CC=O", "CCBr", "CNC")


@pytest.mark.parametrize("name", PREDICTORS)
def test_shipped_weights_say_where_they_come_from(name):
    path = PREDICTOR_FOLDER / f"{name}.safetensors"
    assert path.stat().st_size < 1_000_000
    _, facts = weights_file.load(path)
    assert facts["ledger"] in [json.loads(line) for line in LEDGER.read_text().splitlines()]
    assert facts["ledger"]["dataset"] == "properties"


def test_networks_of_molecules_start_from_weights_of_the_package(tmp_path):
    """They fit the default settings, so that no network falls back to random weights."""
    table = tmp_path / "table.csv"
    table.write_text("smiles,y\n" + "".join(f"{smiles},{number}\n" for number, smiles in enumerate(SMILES)))
    own = read_own_table(table, "smiles", ["y"], "regression", "random", 0, 1)
    config = own_config(own.dataset, features=FEATURES)
    name = config.training.initial_weights
    assert name in PREDICTORS and with_fitting_weights(config) is config
    pretrained_predictor(name).check(config, make_model(config, own.dataset))
