"""Several targets with missing values: losses, metrics, trees, weights, folders, commands and estimators."""

import csv
import json
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn import functional

from maggnn import InputError, MagClassifier, MagRegressor
from maggnn.apps.fit.answers.blended import Blend
from maggnn.apps.fit.answers.target_weights import with_fitted_weights
from maggnn.apps.fit.card.intervals import judge, judge_targets
from maggnn.apps.fit.card.markdown import with_interval
from maggnn.apps.fit.card.metrics import bootstrap_intervals, number_metrics
from maggnn.apps.fit.card.target_lines import dominated
from maggnn.apps.fit.classical import cheap_baselines as baselines
from maggnn.apps.fit.classical.descriptors import descriptors_of
from maggnn.apps.fit.fitted import FittedModel
from maggnn.data.molecules.several_targets import chosen_targets, strata
from maggnn.data.molecules.target_column import target_kind
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.targets import TargetScale
from maggnn.training.environment import individual_loss
from maggnn.training.metrics import absolute_errors, score

RINGS = ["", "c1ccccc1", "C1CCCCC1", "c1ccncc1"]


def molecules(count: int) -> list[str]:
    rng = Random(1)
    return [
        "".join(rng.choice("CCCON") for _ in range(rng.randint(3, 8))) + RINGS[number % 4] for number in range(count)
    ]


SMILES = molecules(90)
TRUTH = np.array([[float("O" in text), float("N" in text), float("1" in text)] for text in SMILES])
VALUES = np.array([[text.count("O") + 0.1 * len(text), 100.0 + 5.5 * text.count("N")] for text in SMILES])


def holes(values: np.ndarray, share: float = 0.3) -> np.ndarray:
    """The same values, some of them missing, of every row one known."""
    gone = np.random.default_rng(0).random(values.shape) < share
    gone[np.arange(len(values)), np.arange(len(values)) % values.shape[1]] = False
    return np.where(gone, np.nan, values)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_a_missing_target_adds_nothing_to_the_loss_and_its_gradient(task):
    y = torch.tensor([[1.0, torch.nan], [torch.nan, 0.0], [0.0, 1.0]])
    outputs = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = individual_loss(outputs, y, task)
    each = functional.binary_cross_entropy_with_logits if task == "multilabel" else functional.l1_loss
    expected = torch.stack(
        [sum(each(outputs[r, k], y[r, k]) for k in range(2) if not y[r, k].isnan()) / 2 for r in range(3)]
    )
    torch.testing.assert_close(loss, expected)
    loss.sum().backward()
    assert outputs.grad is not None
    assert (outputs.grad[y.isnan()] == 0).all() and (outputs.grad[~y.isnan()] != 0).all()
    doubled = individual_loss(outputs, y, task, weights=torch.full_like(y, 2.0))
    torch.testing.assert_close(doubled, 2 * loss)
    starts = individual_loss(outputs[:, None].expand(3, 4, 2), y, task)
    torch.testing.assert_close(starts, loss[:, None].expand(3, 4))


def test_a_classifiers_weights_scale_rows():
    outputs, y = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0])
    weights = torch.tensor([1.0, 0.0, 3.0, 0.5])
    plain = individual_loss(outputs, y, "classification")
    torch.testing.assert_close(individual_loss(outputs, y, "classification", weights=weights), plain * weights)


def test_scores_are_means_over_targets_on_their_known_rows():
    rng = np.random.default_rng(3)
    y, said = holes(rng.integers(0, 2, (60, 3)).astype(float)), rng.random((60, 3)).round(1)
    areas = [100 * roc_auc_score(t[~np.isnan(t)], s[~np.isnan(t)]) for t, s in zip(y.T, said.T, strict=True)]
    found = score(torch.from_numpy(said), torch.from_numpy(y), "auroc")
    assert float(found) == pytest.approx(np.mean(areas))
    assert [judged.value for judged in judge_targets(torch.from_numpy(said), torch.from_numpy(y), "auroc")] == (
        pytest.approx(areas)
    )
    y[:, 2] = 1.0  # one class alone: it cannot be judged, and the others are
    assert float(score(torch.from_numpy(said), torch.from_numpy(y), "auroc")) == pytest.approx(np.mean(areas[:2]))
    assert judge(torch.from_numpy(said), torch.from_numpy(y), "auroc").value == pytest.approx(np.mean(areas[:2]))
    errors = absolute_errors(torch.from_numpy(said), torch.from_numpy(holes(said + 1)))
    assert errors.tolist() == pytest.approx([1.0, 1.0, 1.0])
    bad = torch.from_numpy(np.where(np.arange(60)[:, None] == 0, np.nan, said))
    assert score(bad, torch.from_numpy(holes(said)), "mae").isnan()  # an answer that is missing is no missing target


def test_draws_of_the_bootstrap_are_those_of_drawn_rows():
    rng = np.random.default_rng(0)
    y, said = rng.integers(0, 2, (40, 2)).astype(float), rng.random((40, 2)).round(1)
    judged = judge_targets(torch.from_numpy(said), torch.from_numpy(y), "auroc", seed=5)
    ids = np.random.default_rng(5).integers(40, size=40)
    assert judged[1].draws[0] == pytest.approx(100 * roc_auc_score(y[ids, 1], said[ids, 1]))
    low, high = judged[0].interval
    assert low < judged[0].value < high


def test_samples_of_the_mean_are_means_over_the_same_targets():
    """A rare target is in few samples; without it, the mean over the others would be of another size."""
    rng = np.random.default_rng(1)
    said = np.stack([1e6 * rng.random(12), rng.random(12), np.ones(12)], axis=1)
    y = np.zeros_like(said)
    y[1:, 1] = np.nan
    y[2:, 2] = np.nan
    first, single, rare = judge_targets(torch.from_numpy(said), torch.from_numpy(y), "mae")
    mean = judge(torch.from_numpy(said), torch.from_numpy(y), "mae")
    assert mean.value == pytest.approx((first.value + single.value + rare.value) / 3)
    assert mean.draws == pytest.approx((first.draws + single.value + rare.value) / 3)
    assert np.isnan(single.draws).all() and with_interval(single, "mae") == f"{single.value:.4g}"
    assert bootstrap_intervals(y[:1, 0], said[:1, 0], number_metrics) == {}
    judged = {name: {"mine": one} for name, one in (("a_b", single), ("big", first))}
    assert dominated(judged, "mae", "mine").startswith(
        "The mean over targets is hardly more than the error of big (100 %"
    )
    assert not dominated({"a": {"mine": single}, "b": {"mine": rare}}, "mae", "mine")
    assert not dominated({"big": {"mine": first}}, "mae", "mine")


def test_targets_are_standardised_by_their_known_values():
    y = torch.tensor([[1.0, torch.nan], [3.0, 10.0], [torch.nan, 30.0], [5.0, 50.0]])
    counts = torch.ones(4, dtype=torch.long)
    packed = PackedGraphs.build(counts, 0 * counts, torch.empty(2, 0, dtype=torch.long), y=y, missing_targets=True)
    scale = TargetScale(2)
    scale.fit(packed, torch.arange(4))
    assert scale.mean.tolist() == pytest.approx([3.0, 30.0])
    scaled = scale.standardised(packed)
    assert torch.equal(scaled.isnan(), y.isnan())
    assert scaled.nanmean(dim=0).tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    with pytest.raises(InputError, match="NaN"):
        PackedGraphs.build(counts, 0 * counts, torch.empty(2, 0, dtype=torch.long), y=y)


def test_rows_are_dealt_by_their_rarest_label():
    y = np.zeros((40, 2))
    y[:4, 1], y[:20, 0] = 1.0, 1.0
    found = strata(y)
    assert len(set(found[:4])) == 1 and not set(found[:4]) & set(found[4:])
    assert (strata(np.arange(5.0)) == 0).all()
    sparse = np.column_stack([np.arange(6.0), [9.5, np.nan, np.nan, np.nan, np.nan, 2.0]])
    assert (strata(sparse) == [1, 0, 0, 0, 0, 1]).all()
    assert (strata(np.array([0, 2, 1])) == [0, 2, 1]).all()


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("task", ["multilabel", "regression"])
@pytest.mark.parametrize("kind", [baselines.FOREST, baselines.BOOSTING])
def test_trees_learn_each_target_from_its_known_rows(kind, task, missing):
    y = TRUTH if task == "multilabel" else VALUES
    y = holes(y) if missing else y
    x = baselines.table(kind, descriptors_of(SMILES))
    task_of = partial(baselines.TreeTask, kind, x, task=task, outputs=y.shape[1], seed=0, trees=20)
    trees = baselines.fit_trees(task_of(y=y, together=not missing))
    said = baselines.tree_answers(kind, trees, x, 1, task)[0]
    assert said.shape == y.shape and np.isfinite(said).all()
    true = TRUTH if task == "multilabel" else VALUES
    for place in range(y.shape[1]):
        assert np.corrcoef(said[:, place], true[:, place])[0, 1] > 0.7
    if task == "multilabel":
        assert ((said >= 0) & (said <= 1)).all()
        only = np.where(np.arange(3) == 1, 1.0, y)  # a target with one class alone has it as its answer
        alone = baselines.fit_trees(task_of(y=np.where(np.isnan(y), np.nan, only), together=False))
        assert baselines.tree_answers(kind, alone, x, 1, task)[0][:, 1].min() > 0.99


def test_each_target_has_the_weights_that_serve_it():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(200, 2))
    right, wrong = y + 0.1 * rng.normal(size=y.shape), rng.normal(size=y.shape)
    parts = {
        "network": np.column_stack([right[:, 0], wrong[:, 1]]),
        "forest": np.column_stack([wrong[:, 0], right[:, 1]]),
    }
    start = Blend({"network": 1.0, "forest": 0.0}, folds=2)
    blend = with_fitted_weights(start, parts, holes(y), "regression", np.ones(200, dtype=bool), None)
    assert blend.targets[0].weights["network"] > 0.9 and blend.targets[1].weights["forest"] > 0.9
    assert sum(blend.weights.values()) == pytest.approx(1.0) and len(blend.spreads) == 2
    mixed = blend.combined(parts, "regression")
    assert np.abs(mixed - y).mean() < 0.2
    truth = (y > 0).astype(float)
    likely = {name: 1 / (1 + np.exp(-3 * part)) for name, part in parts.items()}
    classes = with_fitted_weights(start, likely, holes(truth), "multilabel", np.ones(200, dtype=bool), None)
    assert classes.targets[0].weights["network"] > classes.targets[1].weights["network"]
    calibrated = {name: classes.calibrated(part, name, "multilabel") for name, part in likely.items()}
    assert ((classes.combined(calibrated, "multilabel") > 0.5) == truth).mean() > 0.9


def test_estimators_take_columns_with_missing_values():
    classifier = MagClassifier(steps=20).fit(SMILES, holes(TRUTH))
    likely = classifier.predict_proba(SMILES)
    assert likely.shape == TRUTH.shape and [labels.tolist() for labels in classifier.classes_] == [[0.0, 1.0]] * 3
    assert (classifier.predict(SMILES) == TRUTH).mean() > 0.6
    words = np.where(TRUTH == 1, "yes", "no").astype(object)
    words[0, 0] = None
    assert set(MagClassifier(steps=1).fit(SMILES, words).predict(SMILES[:5]).ravel()) <= {"no", "yes"}
    words[:, 0] = TRUTH[:, 0].astype(int)
    mixed = MagClassifier(steps=1).fit(SMILES, words).predict(SMILES)
    assert set(mixed[:, 0]) <= {0, 1} and set(mixed[:, 1]) <= {"no", "yes"}
    regressor = MagRegressor(steps=20, ensemble=2).fit(SMILES, holes(VALUES))
    said, std = regressor.predict(SMILES, return_std=True)
    assert said.shape == std.shape == VALUES.shape and (std > 0).all()
    assert np.abs(said - VALUES).mean(axis=0)[1] < np.abs(VALUES - VALUES.mean(axis=0)).mean(axis=0)[1]
    for wrong, message in (
        (np.full((90, 2), np.nan), "no labels"),
        (np.where(np.arange(90)[:, None] < 30, 2.0, TRUTH), "has 3 classes"),
    ):
        with pytest.raises(InputError, match=message):
            MagClassifier(steps=1).fit(SMILES, wrong)
    with pytest.raises(InputError, match=r"y\[4\] has no value"):
        MagRegressor(steps=1).fit(SMILES, np.where(np.arange(90)[:, None] == 4, np.nan, VALUES))


def write(path: Path, y: np.ndarray, names: list[str]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *names])
        for text, row in zip(SMILES, y, strict=True):
            writer.writerow([text, *("" if np.isnan(value) else f"{value:g}" for value in row)])


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_several_classes_from_table_to_answers(tmp_path, call_command):
    maggnn = partial(call_command, "maggnn", cwd=tmp_path)
    y = holes(TRUTH)
    y[7] = np.nan
    write(tmp_path / "t.csv", y, ["has O", "has N", "ring"])
    fit = ("fit", "t.csv", "--smiles", "smiles", "--target", "has*", "--target", "ring", "--steps", "20")
    fitted = json.loads(
        maggnn(*fit, "--ensemble", "2", "--workers", "1", "-o", "m", "--json").output().splitlines()[-1]
    )
    assert (fitted["task"], fitted["metric"], fitted["left_out"]) == ("multilabel", "auroc", 1)
    assert sum(part["values"] for part in fitted["known"]["ring"].values()) == (~np.isnan(y[:, 2])).sum()
    assert FittedModel.load(tmp_path / "m").facts.labels == (("0", "1"),) * 3
    card = (tmp_path / "m" / "README.md").read_text()
    assert "| has O | 1 |" in card and "two classes each" in card and "| ring |" in card
    maggnn("predict", "m", "t.csv", "-o", "out.csv", "--workers", "1").output()
    rows = read(tmp_path / "out.csv")
    assert list(rows[0])[4:-2] == [
        f"{kind}_{name}" for name in ("has O", "has N", "ring") for kind in ("predicted", "p")
    ]  # fmt: skip
    likely = np.array([[row[f"p_{name}"] for name in ("has O", "has N", "ring")] for row in rows], dtype=float)
    labels = np.array([[row[f"predicted_{name}"] for name in ("has O", "has N", "ring")] for row in rows])
    assert ((likely > 0.5) == (labels == "1")).all()
    found = json.loads(maggnn("evaluate", "m", "t.csv", "--workers", "1", "--json").output().splitlines()[-1])
    assert found["auroc"] == pytest.approx(np.mean(list(found["targets"].values()))) and found["auroc"] > 60
    assert found["left_out"] == 1


def test_several_numbers_with_missing_values_have_intervals_each(tmp_path, call_command):
    maggnn = partial(call_command, "maggnn", cwd=tmp_path)
    write(tmp_path / "t.csv", holes(VALUES), ["a", "b"])
    fit = ("fit", "t.csv", "--smiles", "smiles", "--target", "a", "--target", "b", "--steps", "10", "--ensemble", "2")
    fitted = json.loads(maggnn(*fit, "--workers", "1", "-o", "m", "--json").output().splitlines()[-1])
    assert (fitted["task"], fitted["left_out"], set(fitted["targets"])) == ("regression", 0, {"a", "b"})
    assert 0 < fitted["coverage"]["share"] <= 1
    maggnn("predict", "m", "t.csv", "-o", "out.csv", "--workers", "1").output()
    row = read(tmp_path / "out.csv")[0]
    assert all(float(row[f"low_{name}"]) < float(row[f"predicted_{name}"]) for name in "ab")
    evaluate = ("evaluate", "m", "t.csv", "--workers", "1", "--json")
    found, turned = (maggnn(*evaluate, *more).output() for more in ((), ("--target", "b", "--target", "a")))
    assert turned == found  # each target is compared with its own column
    write(tmp_path / "other.csv", holes(VALUES), ["c", "a"])
    ended = maggnn("evaluate", "m", "other.csv", "--target", "c", "--target", "a", "--workers", "1")
    assert ended.code == 2 and "predicts 'a', but its column is given for 'b'" in ended.err
    assert maggnn("data", "pack", "t.csv", "--smiles", "smiles", "--target", "*", "-o", "p.npz").output()


def test_a_target_without_a_score_is_said_to_have_none(tmp_path, call_command):
    maggnn = partial(call_command, "maggnn", cwd=tmp_path)
    write(tmp_path / "t.csv", TRUTH[:, :2], ["a", "b"])
    fit = ("fit", "t.csv", "--smiles", "smiles", "--target", "a", "--target", "b", "--steps", "2", "--ensemble", "1")
    maggnn(*fit, "--workers", "1", "-o", "m").output()
    write(tmp_path / "one.csv", np.where([True, False], 1.0, TRUTH[:, :2]), ["a", "b"])
    said = maggnn("evaluate", "m", "one.csv", "--workers", "1").output().splitlines()
    assert "a: no score, because the rows lack values or one of the classes" in said


def test_columns_by_pattern_and_kind(tmp_path):
    (tmp_path / "t.csv").write_text("smiles,x1,x2,w,mono\nC,0,1,1.5,0\nCC,1,0,2.5,0\nCCC,NA,1,3.25,0\n")
    path = tmp_path / "t.csv"
    assert chosen_targets(path, ["x*"], ["smiles"]) == ["x1", "x2"]
    assert chosen_targets(path, ["w", "*"], ["smiles", "mono"]) == ["w", "x1", "x2"]
    (tmp_path / "numbered.csv").write_text(",smiles,y\n0,C,1.5\n1,CC,2.5\n")  # as pandas writes a frame with its index
    assert chosen_targets(tmp_path / "numbered.csv", ["*"], ["smiles"]) == ["y"]
    (tmp_path / "numbered.csv").write_text("smiles,y,__index_level_0__\nC,1.5,0\nCC,2.5,1\n")  # as in its Parquet files
    assert chosen_targets(tmp_path / "numbered.csv", ["*"], ["smiles"]) == ["y"]
    assert target_kind(path, ["x1", "x2"]).labels == (("0", "1"), ("0", "1"))
    assert target_kind(path, ["x1", "w"], "regression").task == "regression"
    with pytest.raises(InputError, match="'x1' looks like classes and column 'w' like numbers"):
        target_kind(path, ["x1", "w"])
    with pytest.raises(InputError, match="'mono' has only the value '0'"):
        target_kind(path, ["x1", "mono"])
    with pytest.raises(InputError, match="has only one class"):
        target_kind(path, ["x1", "mono"], "classification")
