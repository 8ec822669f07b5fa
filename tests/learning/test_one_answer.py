"""A molecule has one answer, however its SMILES is written: from the estimators, `maggnn predict` and a program."""

import csv

import numpy as np
import pytest

from maggnn import MagRegressor, load_exported
from maggnn.apps.export import export_model
from maggnn.apps.fit.predicting import predict_table

Chem = pytest.importorskip("rdkit.Chem", reason="molecules need the extra `chem` (RDKit)")

MOLECULES = [
    "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", r"F/C=C/Cl", r"F/C=C\Cl", "c1ccc2[nH]ccc2c1", "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@]12CC[C@H]3[C@@H](CC[C@H]4CC(=O)CC[C@]34C)[C@@H]1CC[C@@H]2O", "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H]1O",
    "C1CC2CCC1C2", "CCCCCC", "c1ccccc1", "C1CCCCC1", "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "CC(C)(C)C", "C1CC1C1CC1",
    "N[C@@H](Cc1ccccc1)C(=O)N[C@@H](CO)C(=O)O", "O=C1CCCN1", "c1ccc(-c2ccccc2)cc1", "CC#CC", "OCC(O)CO",
]  # fmt: skip
SPELLINGS = 6
CLOSE = 1e-5
"""Of answers for the same molecule, relative to the largest answer."""


def spelled(smiles, seed):
    return [smiles, *Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), SPELLINGS, randomSeed=seed + 1)]


@pytest.fixture(scope="module")
def fitted():
    y = [Chem.MolFromSmiles(smiles).GetNumAtoms() + smiles.count("@@") for smiles in MOLECULES]
    return MagRegressor(steps=60).fit(MOLECULES, np.array(y, dtype=float))


@pytest.fixture(scope="module")
def asked():
    return [other for seed, smiles in enumerate(MOLECULES) for other in spelled(smiles, seed)]


def apart(answers):
    """The largest difference between answers for one molecule, relative to the largest answer."""
    table = np.asarray(answers, dtype=float).reshape(len(MOLECULES), SPELLINGS + 1)
    return np.ptp(table, axis=1).max() / np.abs(table).max()


def test_estimators(fitted, asked):
    answers = fitted.predict(asked)
    assert apart(answers) < CLOSE and np.ptp(answers) > 0.1  # and molecules differ


def test_predict_and_exported_programs(fitted, asked, tmp_path):
    fitted.fitted_.save(tmp_path / "model")
    with (tmp_path / "asked.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["smiles"], *([smiles] for smiles in asked)])
    predict_table(tmp_path / "model", tmp_path / "asked.csv", tmp_path / "out.csv", "smiles", 1, False)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    column = next(name for name in rows[0] if name.startswith("predicted"))
    assert apart([float(row[column]) for row in rows]) < CLOSE
    export_model(tmp_path / "model", tmp_path / "model.pt2")
    assert apart(load_exported(tmp_path / "model.pt2", trust=True).predict(asked).numpy()) < CLOSE
