"""Practice tables are the same everywhere, cells are measured once, and rows are means over their splits."""

import csv
import sys
from dataclasses import replace

import numpy as np
import pytest

from maggnn.apps.fit.own_table import read_own_table
from maggnn.data.sources import data_root
from maggnn.errors import InputError
from maggnn_paper import ledger
from maggnn_paper.bench import chemist, chemprop
from maggnn_paper.bench.practice_sets import SETS, PracticeSet
from maggnn_paper.bench.tables import run_bench

STAND_IN = """#!{python}
import csv, pathlib, sys

options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
assert sys.argv[1] == "train" and options["--task-type"] == "regression" and options["--pytorch-seed"] == "3"
rows = list(csv.DictReader(open(options["--data-path"])))
assert {{row["split"] for row in rows}} == {{"train", "val", "test"}}
folder = pathlib.Path(options["--output-dir"], "model_0")
folder.mkdir(parents=True)
with open(folder / "test_predictions.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["smiles", "y"])
    writer.writerows([row["smiles"], row["y"]] for row in rows if row["split"] == "test")
"""
"""Takes the options of `chemprop train`, and writes its file of predictions."""

needs_data = pytest.mark.skipif(
    not (data_root() / "zinc12k_smiles.txt.xz").is_file(), reason="no packed data under the data root (MAGGNN_DATA)"
)


def made(name: str, tmp_path) -> list[dict[str, str]]:
    with SETS[name].write(tmp_path / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.dataset
@needs_data
@pytest.mark.parametrize("name", ["zinc-qed-300", "zinc-soluble-300", "zinc-plogp-1000", "clintox-1478", "sider-1427"])
def test_a_table_has_its_rows_and_both_classes(name, tmp_path):
    rows = made(name, tmp_path)
    assert len(rows) == SETS[name].rows and all(row["smiles"] and row["y"] for row in rows)
    assert rows == made(name, tmp_path)
    labels = {row["y"] for row in rows}
    if SETS[name].task == "classification":
        assert len(labels) == 2
    else:
        assert np.std([float(label) for label in labels]) > 0


@pytest.mark.dataset
@needs_data
def test_the_classes_of_molhiv_are_one_in_four(tmp_path):
    rows = made("molhiv-active-600", tmp_path)
    assert sum(row["y"] == "yes" for row in rows) == 150


def toy(count: int):
    rng = np.random.default_rng(0)
    for _ in range(count):
        chain = "".join(rng.choice(list("CCCON"), size=rng.integers(3, 9)))
        yield chain, round(chain.count("O") + 0.1 * float(rng.normal()), 4)


@pytest.mark.slow
def test_a_cell_is_measured_once_and_its_file_is_read_again(tmp_path, monkeypatch):
    one = PracticeSet("toy-80", "regression", 80, toy)
    monkeypatch.setattr(chemist, "SETS", {"toy-80": one})
    measure = chemist.measure
    short = ["--steps", "10", "--ensemble", "2", "--workers", "1"]
    monkeypatch.setattr(chemist, "measure", lambda *cell: measure(*cell, extra=short))
    told = []
    rows = chemist.bench(1, told.append, tmp_path)
    assert len(told) == 1 and len(list(tmp_path.glob("*.json"))) == 1
    by_key = {(row.method, row.metric): row for row in rows}
    assert {method for method, _ in by_key} == set(ledger.PEOPLE_METHODS)
    assert {metric for _, metric in by_key} == {"rmse", "mae", "coverage", "ms"}
    assert all(row.dataset == "toy-80-random" and row.runs == 1 for row in rows)
    monkeypatch.setattr(chemist, "cells", lambda sets: iter([(one, "random", 0)]))
    assert chemist.bench(5, told.append, tmp_path) == rows and len(told) == 1


def cell(seed: int, blend: float, boosting: float) -> chemist.Cell:
    scores = {chemist.BLEND: {"rmse": blend}, "descriptor-boosting": {"rmse": boosting}}
    return chemist.Cell("zinc-qed-300", "random", seed, scores, 90.0 + seed, 10.0, 30, "abc1234")


def test_rows_are_means_over_splits_and_say_how_often_the_blend_is_level(tmp_path):
    rows = chemist.rows([cell(0, 1.0, 1.0), cell(1, 3.0, 2.0), cell(2, 2.0, 3.0)])
    found = {(row.method, row.metric): row for row in rows}
    assert found[chemist.BLEND, "rmse"].mean == 2.0 and found[chemist.BLEND, "rmse"].std == 1.0
    assert found[chemist.BLEND, "coverage"].mean == 91.0 and found[chemist.BLEND, "ms"].mean == 10_000
    assert "at least level in 2 of 3 splits" in found["descriptor-boosting", "rmse"].note
    ledger.append(rows, tmp_path / "ledger.jsonl")
    assert ledger.read(tmp_path / "ledger.jsonl") == rows
    assert chemist.rows([replace(cell(0, 1.0, 1.0), coverage=None)])[-1].metric == "ms"


def test_small_and_early_cells_come_first():
    order = list(chemist.cells())
    sizes = [one.rows * (seed + 1) for one, _, seed in order]
    assert sizes == sorted(sizes) and len(order) == 2 * chemist.SEEDS * len(SETS)
    assert {one.name for one, _, _ in chemist.cells(["qm7-1000"])} == {"qm7-1000"}


def test_an_unknown_set_is_refused():
    with pytest.raises(InputError, match="no practice set 'zink'"):
        run_bench("chemist", "cpu", None, 100.0, sets=["zink"])
    with pytest.raises(InputError, match="nothing to measure"):
        run_bench("predict", "cpu", 0, 100.0)
    with pytest.raises(InputError, match="leave --set out"):
        run_bench("predict", "cpu", None, 100.0, sets=["qm7-1000"])


def test_a_program_that_is_not_there_is_named_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setenv(chemprop.VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(InputError, match=r"no program .*missing: install chemprop"):
        chemist.bench(folder=tmp_path, methods=["chemprop"])
    with pytest.raises(InputError, match="compares with no program 'chemprob'"):
        run_bench("chemist", "cpu", 0, 100.0, methods=["chemprob"])


def test_predictions_of_another_program_are_those_of_the_test_rows(tmp_path, monkeypatch):
    """A stand-in for the program answers each test row with its own target, so it must be right everywhere."""
    script = tmp_path / "chemprop"
    script.write_text(STAND_IN.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setenv(chemprop.VARIABLE, str(script))
    path = PracticeSet("toy-80", "regression", 80, toy).write(tmp_path / "table.csv")
    own = read_own_table(path, "smiles", ["y"], "regression", "random", 0, workers=1)
    answers = chemprop.predict_test_rows(own, seed=3)
    assert chemist._scores(own, answers)["rmse"] < 1e-6
