"""Tables that are read once in a thousand: bare atoms, rare classes, targets of odd sizes, molecules written twice."""

import csv
import re
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from maggnn import MagRegressor
from maggnn.apps.fit import estimator_base
from maggnn.apps.fit.answers import given_graphs
from maggnn.apps.fit.classical import cheap_baselines
from maggnn.apps.fit.classical.cheap_baselines import BOOSTING, FOREST, fit_trees, tree_answers, tree_task
from maggnn.apps.fit.classical.descriptors import descriptors_of
from maggnn.apps.fit.classical.trees import Trees
from maggnn.apps.fit.fitted import FittedModel
from maggnn.apps.fit.fitting import fit_table
from maggnn.apps.fit.folds import deal_folds
from maggnn.apps.fit.own_table import Weighting, read_own_table
from maggnn.apps.fit.predicting import UNSEEN, predict_table
from maggnn.data.dataset import Dataset
from maggnn.data.inputs import packed_inputs
from maggnn.data.molecules.scaffolds import group_parts, scaffold
from maggnn.data.molecules.smiles import canonical_smiles, featurise
from maggnn.data.own_file import official_split
from maggnn.errors import InputError

pytest.importorskip("rdkit.Chem", reason="molecules need the extra `chem` (RDKit)")

ATOMS = ["C", "N", "O", "S", "P", "F", "Cl", "Br", "I", "[Na+]", "[K+]", "[Li+]", "[Mg+2]", "[Ca+2]", "[He]", "[Ne]"]


def write(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_molecules_with_bonds_for_a_model_of_bare_atoms(tmp_path):
    """They have answers, which say that training never saw a bond."""
    table = write(tmp_path / "atoms.csv", ["smiles", "y"], [[atom, place / 4] for place, atom in enumerate(ATOMS)])
    fit_table(table, "smiles", ["y"], tmp_path / "model", steps=2, workers=1, ensemble=1)
    asked = write(tmp_path / "asked.csv", ["smiles"], [["C"], ["CCO"], ["[Na+].[K+]"]])
    predict_table(tmp_path / "model", asked, tmp_path / "out.csv", "smiles", 1)
    rows = rows_of(tmp_path / "out.csv")
    assert all(row["predicted_y"] for row in rows)
    assert [row["reason"] for row in rows] == ["", UNSEEN, ""]


SIZES = {"large": 3e37, "small": 1e-40}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_targets_that_float32_cannot_hold(tmp_path, size):
    """Answers were infinite, or off by more than the targets' whole spread."""
    rows = [["C" * (1 + place), repr(place * size)] for place in range(12)]
    table = write(tmp_path / "odd.csv", ["smiles", "y"], rows)
    with pytest.raises(InputError, match=r"none of the 12 rows|too few rows|use other units"):
        fit_table(table, "smiles", ["y"], tmp_path / "model", steps=2, workers=1, ensemble=1)
    with pytest.raises(InputError, match=r"too large|use other units"):
        MagRegressor(steps=2).fit([row[0] for row in rows], [float(row[1]) for row in rows])


def test_trees_of_a_class_so_rare_that_a_part_of_the_rows_has_none(monkeypatch):
    """Boosting took the absent class for the likelier one."""
    monkeypatch.setattr(cheap_baselines, "MOST_ROWS", 60)
    molecules = descriptors_of(["C" * (1 + place % 30) for place in range(200)])
    y = torch.zeros(200, dtype=torch.long)
    y[17] = 1
    graphs = replace(packed_inputs(["C"] * 200, "smiles", "mol")[0], y=y)
    dataset = Dataset("X", graphs, "classification", 2, official_split)
    for kind in (BOOSTING, FOREST):
        for seed in range(3):
            task = tree_task(kind, molecules, dataset, np.arange(200), seed, 1)
            assert len(task.y) == 60 and set(task.y) == {0, 1}
            answers = tree_answers(kind, fit_trees(task), cheap_baselines.table(kind, molecules), 1, "classification")
            assert answers[0, :, 0].mean() > 0.9


def test_a_molecule_written_in_two_ways_stays_in_one_fold():
    """What a model says out of fold is about molecules that are new to it."""
    chains = ["C" * (2 + place) for place in range(15)]
    smiles = [text for chain in chains for text in (f"O{chain}", f"{chain}O")]
    rng = np.random.default_rng(0)
    y = np.repeat(rng.normal(size=15), 2)  # nothing to learn but which molecule it is
    fitted = MagRegressor(steps=2, ensemble=3).fit(smiles, y).fitted_
    assert fitted.facts.rows["val"] % 2 == 0
    same = MagRegressor(steps=2, ensemble=3).fit([f"O{chain}" for chain in chains for _ in range(2)], y).fitted_
    assert same.facts.blend.spreads[0].quantiles == pytest.approx(fitted.facts.blend.spreads[0].quantiles, rel=1e-4)


def test_a_repeated_molecule_is_not_validated_by_a_network_that_learned_it():
    smiles = [text for text in CHAINS for _ in range(5)] + [f"OC{text}" for text in CHAINS]
    values = torch.linspace(0, 1, len(smiles))[:, None]
    split = estimator_base._held_out(values, 0.1, 0, [canonical_smiles(text) for text in smiles])
    learned, held_out = ({canonical_smiles(smiles[row]) for row in rows} for rows in (split.train, split.val))
    assert held_out and not learned & held_out and len(split.train) + len(split.val) == len(smiles)
    alone = estimator_base._held_out(values, 0.1, 0)
    assert len(alone.val) == round(0.1 * len(smiles))


def test_graphs_that_can_be_read_only_once():
    smiles = ["C" * (1 + place) for place in range(20)]
    model = MagRegressor(steps=2, ensemble=2).fit(iter(smiles), range(20))
    assert np.allclose(model.predict(iter(smiles)), model.predict(smiles))


def test_trees_with_wide_leaves_take_little_memory():
    """A file of some megabytes must not ask for gigabytes."""
    trees, width = 50, 5_000
    nodes = np.arange(trees, dtype="int32")
    made = Trees(
        start=nodes, column=np.zeros(trees, "int32"), right=np.zeros(trees, "int32"),
        feature=np.full(trees, -1, "int16"), threshold=np.zeros(trees, "float32"),
        missing_left=np.zeros(trees, bool), value=np.ones((trees, width), "float32"), base=np.zeros(width),
    )  # fmt: skip
    tracemalloc.start()
    assert (made.sums(np.zeros((300, 1), "float32")) == trees).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


MAPPED = {
    "C[C@H]1CC[C@@H](C)CC1": "[CH3:1][C@H:2]1[CH2:3][CH2:4][C@@H:5]([CH3:6])[CH2:7][CH2:8]1",
    "CC(C)O": "[CH3:1][C@H:2]([CH3:3])[OH:4]",
    "CC=C(C)C": "[CH3:1]/[C:2]([CH3:3])=[CH:4]/[CH3:5]",
    "C[C@H](N)O": "[H:9][C@:2]([CH3:1])([OH:3])[NH2:4]",
}


@pytest.mark.parametrize(("plain", "mapped"), MAPPED.items())
def test_numbers_of_atom_maps_change_nothing(plain, mapped):
    first, second = featurise(plain, "mol"), featurise(mapped, "mol")
    assert first.canonical == second.canonical
    assert np.array_equal(first.x, second.x)
    assert sorted(first.edge_attr.tolist()) == sorted(second.edge_attr.tolist())


def test_checkpoints_that_a_killed_fit_left(tmp_path):
    rows = [["C" * (1 + place), place / 2] for place in range(14)]
    table = write(tmp_path / "mine.csv", ["smiles", "y"], rows)
    arguments = (table, "smiles", ["y"], tmp_path / "model")
    fit_table(*arguments, steps=2, workers=1, ensemble=1)
    left = tmp_path / "model" / ".training-0123456789ab"
    (left / "member-1").mkdir(parents=True)
    with pytest.raises(InputError, match="already"):
        fit_table(*arguments, steps=2, workers=1, ensemble=1)
    assert not left.exists()


def children(process):
    found = []
    for task in (process / "task").iterdir():
        found += (task / "children").read_text().split()
    return found


def test_workers_end_with_a_command_that_is_killed(start_command, tmp_path):
    """They waited for tasks for ever, each with its memory."""
    write(
        tmp_path / "long.csv", ["smiles", "y"], [[f"{'C' * (1 + place % 40)}O", place / 2] for place in range(60_000)]
    )
    command = ("data", "pack", "long.csv", "--smiles", "smiles", "--target", "y", "--workers", "2", "-o", "set.npz")
    process = start_command("maggnn", *command, cwd=tmp_path)
    below: list[str] = []
    until = time.monotonic() + 60
    while len(below) < 3 and time.monotonic() < until:  # multiprocessing's tracker of resources is one
        time.sleep(0.1)
        below = children(Path("/proc") / str(process.pid))
    time.sleep(1.0)
    process.kill()
    process.communicate()
    until = time.monotonic() + 20
    while any(Path("/proc", number).exists() for number in below) and time.monotonic() < until:
        time.sleep(0.1)
    assert len(below) >= 3 and not any(Path("/proc", number).exists() for number in below)


def test_folds_follow_a_column_that_splits_by_scaffolds(tmp_path):
    """Out of fold, parts would otherwise be with_fitted_weights by how well they know the scaffolds of training."""
    rings = [
        "c1ccccc1",
        "C1CCCCC1",
        "c1ccncc1",
        "c1ccsc1",
        "C1CCNC1",
        "C1CCOC1",
        "c1ccoc1",
        "C1CCSC1",
        "C1CC1",
        "C1CCC1",
    ]
    smiles = ["C" * length + ring for ring in rings for length in range(1, 9)]
    by_scaffold = group_parts([scaffold(each) for each in smiles])
    for parts, grouped in ((by_scaffold, True), ((["train"] * 8 + ["val", "test"]) * 8, False)):
        rows = [[text, len(text), part] for text, part in zip(smiles, parts, strict=True)]
        table = write(tmp_path / "split.csv", ["smiles", "y", "set"], rows)
        own = read_own_table(table, "smiles", ["y"], "regression", "column:set", seed=0, workers=1)
        assert own.groups == ([scaffold(text) for text in smiles] if grouped else None)
        assert ("keep scaffolds together" in own.split) == grouped


CHAINS = ["C" * length + end for length in range(1, 13) for end in ("O", "N", "F", "Cl", "")]
ODD = {
    "times of two kinds": (
        lambda row: ["2019", "2018-05-01"][row % 2], {"split": "time:more"},
        "column 'more' mixes numbers such as '2019' with dates such as '2018-05-01'",
    ),
    "a weight for one row": (
        lambda row: row == 7, {"weighting": Weighting("more")},
        "the rows to train on whose weight is above 0 have only one value",
    ),
    "weights beyond all sums": (lambda row: "1e308", {"weighting": Weighting("more")}, "its weight is '1e308'"),
    "a weight that is the target": (lambda row: row, {"weighting": Weighting("y")}, "--weight 'y' is a target, or"),
    "a weight that is the time": (
        lambda row: row, {"split": "time:more", "weighting": Weighting("more")},
        "--weight 'more' is a target, or the column of --split",
    ),
    "a feature without a number": (lambda row: "NA", {"number_columns": ["more"]}, "column 'more' has no number"),
    "a feature beyond float32": (
        lambda row: 1.7e9 + row % 7, {"number_columns": ["more"]}, "column 'more' differ by less than float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("more", "how", "message"), ODD.values(), ids=ODD)
def test_columns_that_say_nothing_or_two_things_are_refused(tmp_path, more, how, message):
    rows = [[smiles, place / 7, str(more(place)).replace("True", "1").replace("False", "0")]
            for place, smiles in enumerate(CHAINS)]  # fmt: skip
    table = write(tmp_path / "t.csv", ["smiles", "y", "more"], rows)
    with pytest.raises(InputError, match=re.escape(message)):
        read_own_table(table, "smiles", ["y"], "auto", how.pop("split", "random"), 0, 1, **how)


def test_boosting_learns_where_a_column_has_no_number_in_its_rows():
    """A rare dose may be missing in all rows of a fold, and RDKit has no descriptors of some complexes."""
    molecules = descriptors_of(CHAINS)
    for numbers in (np.where(np.arange(molecules.numbers.shape[1]) % 2, molecules.numbers, np.nan).astype(np.float32),
                    np.full_like(molecules.numbers, np.nan)):  # fmt: skip
        for task, y in (
            ("regression", torch.arange(len(CHAINS)) / 7),
            ("classification", torch.arange(len(CHAINS)) % 2),
        ):
            y = y[:, None] if task == "regression" else y
            graphs = replace(packed_inputs(CHAINS)[0], y=y)
            data = Dataset("t", graphs, task, 1 if task == "regression" else 2, official_split)
            odd = replace(molecules, numbers=numbers)
            learned = fit_trees(tree_task(BOOSTING, odd, data, np.arange(len(CHAINS)), 0, 2))
            assert np.isfinite(tree_answers(BOOSTING, learned, odd.numbers, 1, task)).all()


def test_molecules_of_weight_0_are_not_those_that_a_model_knows(tmp_path):
    rows = [[smiles, place / 7, int(place % 4 > 0)] for place, smiles in enumerate(CHAINS)]
    table = write(tmp_path / "t.csv", ["smiles", "y", "w"], rows)
    fit_table(table, "smiles", ["y"], tmp_path / "m", steps=2, workers=1, ensemble=2, weighting=Weighting("w"))
    left = {smiles for smiles, _, weight in rows if not weight}
    known = {row["smiles"] for row in rows_of(tmp_path / "m" / "known_molecules.csv")}
    assert known and not known & left
    model = FittedModel.load(tmp_path / "m")
    assert model.known is not None and len(model.known) == len(known)


def test_weights_of_one_class_alone_are_refused(tmp_path):
    rows = [[smiles, "ab"[place % 2], place % 2] for place, smiles in enumerate(CHAINS)]
    table = write(tmp_path / "t.csv", ["smiles", "y", "w"], rows)
    with pytest.raises(InputError, match="have only one value"):
        read_own_table(table, "smiles", ["y"], "auto", "random", 0, 1, weighting=Weighting("w"))


def test_every_fold_has_rows_to_learn_from():
    """Of two rows with a weight, a fold that holds one of them out has only one value left."""
    y, weights = np.arange(60.0)[:, None], np.zeros((60, 1))
    weights[[3, 40]] = 1.0
    assert deal_folds(np.arange(60), y, "regression", 3, 0) is not None
    assert deal_folds(np.arange(60), y, "regression", 3, 0, weights=weights) is None
    weights[:30] = 1.0
    assert deal_folds(np.arange(60), y, "regression", 3, 0, weights=weights) is not None


def test_numbers_of_a_frame_are_read_as_those_of_a_table():
    names = ("kelvin",)
    values = pd.Series([300, None, pd.NA, "301.5", " ", float("nan")], dtype=object)
    found = given_graphs._number_columns(pd.DataFrame({"kelvin": values}), names)
    assert found is not None and np.array_equal(
        found[:, 0], np.array([300, np.nan, np.nan, 301.5, np.nan, np.nan], dtype=np.float32), equal_nan=True
    )
    for wrong, why in (
        ("1,5", "not"),
        (float("inf"), "not"),
        (True, "not"),
        (1e39, "but the largest possible value is"),
    ):
        with pytest.raises(InputError, match=rf"column 'kelvin' is .*, {why} "):
            given_graphs._number_columns(pd.DataFrame({"kelvin": pd.Series([wrong], dtype=object)}), names)


def test_exact_answers_for_graphs_stay_exact_in_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    graphs = [nx.path_graph(size) for size in range(3, 15)]
    model = MagRegressor(steps=2).fit(graphs, [1e9 + size / 1000 for size in range(12)])
    model.fitted_.save(tmp_path / "model")
    lines = [nx.to_graph6_bytes(graph, header=False).decode() for graph in graphs]
    (tmp_path / "t.g6").write_text("".join(lines))
    predict_table(tmp_path / "model", tmp_path / "t.g6", tmp_path / "out.parquet")
    column = parquet.read_table(tmp_path / "out.parquet").column("predicted_y").to_pylist()
    assert column == model.predict(graphs).tolist() and len(set(column)) > 1


def test_targets_of_many_orders_of_magnitude_are_named(tmp_path, call_command):
    """The mean absolute error of concentrations is that of the largest; a narrow or signed target is fine."""
    values = [(10 ** (n % 9 - 4), n % 9, n % 9 - 4) for n in range(60)]
    rows = [f"{'C' * (1 + n)}O,{wide:g},{narrow + 1},{signed}" for n, (wide, narrow, signed) in enumerate(values)]
    (tmp_path / "t.csv").write_text("smiles,wide,narrow,signed\n" + "\n".join(rows) + "\n")
    targets = [part for name in ("wide", "narrow", "signed") for part in ("--target", name)]
    fit = ("fit", "t.csv", *targets, "--task", "regression", "--steps", "1", "--ensemble", "1", "--workers", "1")
    ended = call_command("maggnn", *fit, "-o", "m", cwd=tmp_path)
    assert ended.code == 0 and "Values of 'wide' span more than 4 orders" in ended.err, ended.err
    card = (tmp_path / "m" / "README.md").read_text()
    assert "Values of 'wide' span more than 4 orders" in card and "if ratios matter, fit the logarithm." in card
