"""Options of `maggnn fit` about rows: cross-validation, weights, salts, repeated molecules, splits by time."""

import csv
import json
from functools import partial
from pathlib import Path
from random import Random

import pytest

from maggnn.apps.fit.tables.cross_validation import CrossValidated, Plan

FIT = ("fit", "t.csv", "--smiles", "smiles", "--steps", "4", "--workers", "1", "--ensemble", "1")


@pytest.fixture
def maggnn(call_command, tmp_path):
    write(tmp_path / "t.csv")
    return partial(call_command, "maggnn", cwd=tmp_path)


def write(path: Path) -> None:
    """Molecules, some of them salts or repeated, with a number, a rare class, a weight and a year."""
    rng = Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y", "hit", "weight", "year"])
        for number in range(80):
            text = "C" * (number // 4 + 1) + rng.choice(["O", "N", "c1ccccc1", "C(=O)[O-].[Na+]"])
            writer.writerow(
                [text, f"{text.count('O') + 0.01 * len(text):.3f}", int(number % 8 == 0), number % 3, 1940 + number]
            )


def result(ended) -> dict:
    return json.loads(ended.output().splitlines()[-1])


def test_cross_validation_stands_on_the_card(maggnn, tmp_path):
    fitted = result(maggnn(*FIT, "--target", "y", "--folds", "2", "--repeats", "1", "-o", "m", "--json"))
    found = fitted["cross_validation"]["this model"]
    assert found["low"] < found["mean"] < found["high"] and found["std"] > 0
    assert set(fitted["cross_validation"]) == set(fitted["test_scores"])
    card = (tmp_path / "m" / "README.md").read_text()
    assert "## Cross-validation" in card and "2 folds, drawn 1 times" in card
    assert not list((tmp_path / "m").glob("training-*"))


def test_intervals_of_cross_validation_end_at_the_best_and_the_worst_score():
    scores = {"good": [99.0, 100.0, 95.0], "bad": [1.0, 12.0, 3.0]}
    found = CrossValidated(Plan(3), scores, 0.5).summary("auroc")
    assert found["good"]["high"] == 100.0 and found["bad"]["low"] == 0.0 and 80 < found["good"]["low"] < 98
    assert CrossValidated(Plan(3), scores, 0.5).summary("mae")["good"]["high"] > 100.0


def test_weights_salts_and_repeats_are_said_on_the_card(maggnn, tmp_path):
    options = ("--salts", "largest", "--duplicates", "mean", "--weight", "weight", "--split", "time:year")
    fitted = result(maggnn(*FIT, "--target", "y", *options, "-o", "m", "--json"))
    card = (tmp_path / "m" / "README.md").read_text()
    for words in ("largest organic fragment", "rows were merged", "by column weight", "oldest 80 % train"):
        assert words in card
    merged = fitted["rows"] - fitted["train"] - fitted["val"] - fitted["test"]
    assert merged > 0 and f"{merged} rows were merged" in card
    (tmp_path / "new.csv").write_text("smiles\nCCCC(=O)[O-].[Na+]\nCCCC(=O)[O-]\nCCCC(=O)[O-].[K+]\n")
    maggnn("predict", "m", "new.csv", "-o", "out.csv", "--workers", "1").output()
    with (tmp_path / "out.csv").open() as file:
        answers = [float(row["predicted_y"]) for row in csv.DictReader(file)]
    assert answers == pytest.approx(
        [answers[0]] * 3, rel=1e-6
    )  # the last bit depends on a molecule's place in its batch


def test_mirror_images_of_training_molecules_are_counted_on_the_card(maggnn, tmp_path):
    lines = [f"C[C@H](O)C{'CNOF'[n % 4]}{'C' * (n // 4)},{n}.5,{'val' if n % 5 == 0 else 'train'}" for n in range(40)]
    mirrored = [line.replace("@", "@@").rpartition(",")[0] + ",test" for line in lines[:3]]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y,part", *lines, *mirrored, "c1ccccc1,3.5,test"]) + "\n")
    maggnn(*FIT[:-1], "2", "--target", "y", "--split", "column:part", "-o", "m").output()
    assert "3 test molecules have the fingerprint of a training molecule" in (tmp_path / "m" / "README.md").read_text()


def test_json_has_null_where_a_target_has_no_score(maggnn, tmp_path):
    def refused(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    part = ["train"] * 30 + ["val"] * 10 + ["test"] * 10
    lines = [f"{'C' * (n // 2 + 1)}{'ON'[n % 2]},{n}.5,{f'{n}.25' if n < 40 else ''},{part[n]}" for n in range(50)]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,a,b,part", *lines]) + "\n")
    fit = (*FIT, "--target", "a", "--target", "b", "--split", "column:part", "-o", "m", "--json")
    found = json.loads(maggnn(*fit).output().splitlines()[-1], parse_constant=refused)
    assert found["targets"]["b"]["this model"]["value"] is None and found["targets"]["a"]["this model"]["value"] > 0


def test_rare_classes_weigh_more_where_that_is_asked_for(maggnn, tmp_path):
    fit = (*FIT[:5], "25", *FIT[6:], "--target", "hit", "--task", "classification")
    for name, more in (("plain", ()), ("balanced", ("--balance-classes",))):
        maggnn(*fit, *more, "-o", name, "--json").output()
        maggnn("predict", name, "t.csv", "-o", f"{name}.csv", "--workers", "1").output()
    means = {}
    for name in ("plain", "balanced"):
        with (tmp_path / f"{name}.csv").open() as file:
            shares = [float(row["p_1"]) for row in csv.DictReader(file)]
        means[name] = sum(shares) / len(shares)
    assert "have the same total weight" in (tmp_path / "balanced" / "README.md").read_text()
    assert means["balanced"] > means["plain"]


def test_a_column_of_numbers_is_read_with_the_descriptors(maggnn, tmp_path):
    rows = ["smiles,y,dose"] + [f"{'C' * (1 + n // 8)}O,{3 * (n % 8) + 0.01 * n:.2f},{n % 8}" for n in range(160)]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    fit = (*FIT[:-1], "2", "--target", "y", "--feature", "dose", "-o", "m", "--json")
    fitted = result(maggnn(*fit))
    own, network = (fitted["test_scores"][name]["value"] for name in ("this model", "its MAG-GNN networks"))
    assert own < 0.6 * network  # no molecule says what the dose says
    (tmp_path / "new.csv").write_text("smiles,dose\nCCO,1\nCCO,6\nCCO,\nCCO,much\n")
    maggnn("predict", "m", "new.csv", "-o", "out.csv", "--workers", "1").output()
    with (tmp_path / "out.csv").open() as file:
        low, high, unknown, wrong = csv.DictReader(file)
    assert float(high["predicted_y"]) - float(low["predicted_y"]) > 4 and unknown["predicted_y"]
    assert not wrong["predicted_y"] and wrong["reason"] == "column 'dose' is 'much', not a number"
    (tmp_path / "words.csv").write_text("smiles,dose\nCCO,much\nCCN,more\n")
    ended = maggnn("predict", "m", "words.csv", "-o", "words_out.csv", "--workers", "1")
    assert ended.err.endswith("is 'smiles' the column of SMILES, and are there numbers in 'dose'?\n")
    found = json.loads(maggnn("evaluate", "m", "t.csv", "--workers", "1", "--json").output().splitlines()[-1])
    assert found["mae"] < 2 * own + 1
    (tmp_path / "bare.csv").write_text("smiles\nCCO\n")
    ended = maggnn("predict", "m", "bare.csv", "-o", "none.csv")
    assert ended.code == 2 and "no column 'dose'" in ended.err
    ended = maggnn("serve", "m")
    assert ended.code == 2 and "reads column 'dose' besides molecules: use `maggnn predict`, without" in ended.err
    card = (tmp_path / "m" / "README.md").read_text()
    assert "Columns read with the descriptors, by all parts that read these: dose" in card
    described = "its MAG-GNN networks with descriptors"
    assert described in card and "The networks answer without and with descriptors" in card
    assert 0.0 in (fitted["parts"][name]["weight"] for name in (described, "its MAG-GNN networks"))
    assert described in fitted["test_scores"] and described in fitted["metrics"]["y"]["methods"]


MISTAKES = {
    "a feature for one network": (("--feature", "year"), "--feature is for boosting"),
    "a feature that is the target": (("--feature", "y", "--ensemble", "2"), "'y' is a target"),
    "folds by time": (("--split", "time:year", "--folds", "3"), "--folds splits the rows itself"),
    "one fold": (("--folds", "1"), "--folds is 1"),
    "repeats of nothing": (("--repeats", "3"), "give --folds too"),
    "balanced numbers": (("--balance-classes",), "--balance-classes is for classes"),
    "unknown salts": (("--salts", "most"), "--salts is 'most'"),
    "repeats refused": (("--duplicates", "refuse"), "rows repeat a molecule"),
    "no times": (("--split", "time:smiles"), "neither a number nor a date"),
}


@pytest.mark.parametrize(("options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_line(maggnn, options, message, tmp_path):
    ended = maggnn(*FIT, "--target", "y", *options, "-o", "m")
    assert ended.code == 2 and message in ended.err and ended.err.count("\n") == 1
    assert not (tmp_path / "m" / "fitted.json").exists()
