"""Folds, trees as arrays, weights out of fold, uncertainty, and the folder of an ensemble."""

import copy
import shutil
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from rdkit import Chem, DataStructs
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from damage import edit_json, edit_tensors
from maggnn import InputError, MagClassifier, MagRegressor
from maggnn.apps.fit.answers.blended import Blend
from maggnn.apps.fit.answers.target_weights import with_fitted_weights
from maggnn.apps.fit.blend import blend_weights, blended, loss
from maggnn.apps.fit.classical import cheap_baselines as baselines
from maggnn.apps.fit.classical.descriptors import NUMBERS, descriptors_of
from maggnn.apps.fit.classical.trees import Trees
from maggnn.apps.fit.classical.trees_file import TREES
from maggnn.apps.fit.ensemble import fit_blend, fold_set, trimmed
from maggnn.apps.fit.fitted import FACTS, Facts, FittedModel, UnseenWarning
from maggnn.apps.fit.folds import deal_folds
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.uncertainty import best_temperature, check_coverage, fitted_spread, nearest_similarity, tempered
from maggnn.data.dataset import Dataset
from maggnn.data.inputs import packed_inputs
from maggnn.data.molecules.scaffolds import scaffold
from maggnn.data.own_file import official_split
from maggnn.graphs.batch import Task

RINGS = ["", "c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNC1", "c1ccoc1"]


def molecules(count: int) -> list[str]:
    rng = Random(0)
    return [
        "".join(rng.choice("CCCON") for _ in range(rng.randint(2, 7))) + RINGS[number % 6] for number in range(count)
    ]


SMILES = molecules(60)
OXYGENS = np.array([2.0 * text.count("O") + 0.1 * len(text) for text in SMILES])


def rows(kind: str, count: int = 300) -> np.ndarray:
    """Rows as a baseline reads them, with missing values among the descriptors."""
    rng = np.random.default_rng(1)
    if kind == baselines.FOREST:
        return (rng.random((count, baselines.BITS)) < 0.3).astype(np.float32)
    x = rng.normal(size=(count, NUMBERS)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


def task_of(classes: int) -> Task:
    return "classification" if classes else "regression"


@cache
def learned(kind: str, classes: int) -> tuple[Trees, np.ndarray, np.ndarray]:
    """Trees as arrays, rows, and what scikit-learn answers for them."""
    x = rows(kind)
    score = np.nan_to_num(x[:, :5]) @ np.array([1.0, 2.1, 3.3, 4.7, 6.1]) + (0.0 if classes else 1000.0)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)) if classes else score[:, None]
    task = baselines.TreeTask(kind, x[:200], y[:200], task_of(classes), classes or 1, 0, 10)
    forests = {0: RandomForestRegressor(10, max_features=0.1, min_samples_leaf=2, random_state=0)}
    boostings = {0: HistGradientBoostingRegressor(random_state=0)}
    if kind == baselines.FOREST:
        model = forests.get(classes, RandomForestClassifier(10, random_state=0))
    else:
        model = boostings.get(classes, HistGradientBoostingClassifier(random_state=0))
    mean, spread = (0, 1) if classes else (task.y.mean(axis=0), task.y.std(axis=0))
    model.fit(task.x, task.y if classes else ((task.y - mean) / spread)[:, 0])
    expected = model.predict_proba(x) if classes else model.predict(x)[:, None] * spread + mean
    return baselines.fit_trees(task), x, expected


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("kind", [baselines.FOREST, baselines.BOOSTING])
def test_trees_answer_as_scikit_learn_does_whatever_the_chunks(kind, classes):
    trees, x, expected = learned(kind, classes)
    answers = baselines.tree_answers(kind, trees, x, 1, task_of(classes))[0]
    assert np.abs(answers - expected).max() < 1e-6
    both = baselines.joined([trees, trees])
    twice = baselines.tree_answers(kind, both, x, 2, task_of(classes))
    assert np.array_equal(twice[0], answers) and np.array_equal(twice[1], answers)
    singly = [baselines.tree_answers(kind, both, row[None], 2, task_of(classes))[0, 0] for row in x[:20]]
    assert np.array_equal(np.stack(singly), answers[:20])


DAMAGE = {
    "a loop": ("right", lambda array: array.__setitem__(0, 0)),
    "a child far away": ("right", lambda array: array.__setitem__(0, 10**6)),
    "a column that there is not": ("feature", lambda array: array.__setitem__(0, 30_000)),
    "a negative column": ("feature", lambda array: array.__setitem__(0, -7)),
    "no number": ("value", lambda array: array.__setitem__(0, np.nan)),
    "a tree that begins nowhere": ("start", lambda array: array.__setitem__(-1, 10**8)),
    "an output that there is not": ("column", lambda array: array.__setitem__(-1, 9)),
}


@pytest.mark.parametrize(("name", "change"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_trees_are_refused(name, change):
    arrays = {key: array.copy() for key, array in learned(baselines.BOOSTING, 0)[0].arrays().items()}
    change(arrays[name])
    with pytest.raises(InputError, match="trees are damaged"):
        Trees.checked(arrays, NUMBERS, 1)
    for changed in ({name: arrays[name].astype(np.float64).reshape(-1, 1, 1)}, {"base": np.zeros(2)}):
        with pytest.raises(InputError, match="trees are damaged"):
            Trees.checked(learned(baselines.BOOSTING, 0)[0].arrays() | changed, NUMBERS, 1)


def test_every_row_but_the_tests_is_in_one_fold_with_its_twins():
    names = [*SMILES, *SMILES[:10]]
    y = np.arange(70) % 2
    used = np.arange(65)
    folds = deal_folds(used, y, "classification", 5, 0, names)
    assert folds is not None and folds.count == 5
    assert (folds.fold[65:] == -1).all() and sorted(set(folds.fold[:65])) == [0, 1, 2, 3, 4]
    for number in range(5):
        assert sorted([*folds.train(number), *folds.held_out(number)]) == used.tolist()
        assert set(y[folds.held_out(number)]) == {0, 1}
    assert all(folds.fold[place] == folds.fold[60 + place] for place in range(5))


def test_scaffolds_stay_in_a_fold_and_large_ones_do_not_count():
    rings = [f"{'C' * (1 + number % 3)}C1{'C' * (2 + number // 3)}C1" for number in range(60)]
    names = [*["CCO" + "C" * number for number in range(30)], *rings]
    folds = deal_folds(
        np.arange(90), np.zeros((90, 1)) + np.arange(90)[:, None], "regression", 3, 0, names, list(map(scaffold, names))
    )
    assert folds is not None
    assert not folds.counted[:30].any() and folds.counted[30:].all()
    for name in {scaffold(text) for text in rings}:
        own = [folds.fold[30 + place] for place, text in enumerate(rings) if scaffold(text) == name]
        assert len(set(own)) == 1


@pytest.mark.parametrize("count", [2, 5, 10])
def test_the_newest_rows_are_a_fold_after_a_split_by_time(count):
    generator = np.random.default_rng(0)
    rows, years = np.arange(300), generator.integers(2000, 2020, 300).astype(float)
    names = [f"molecule {number}" for number in generator.integers(0, 200, 300)]
    oldest = np.array([min(years[other] for other in rows if names[other] == name) for name in names])
    folds = deal_folds(rows, generator.normal(size=(300, 1)), "regression", count, 0, names, times=years)
    assert folds.count == count and len(np.unique(folds.fold)) == count
    assert (
        np.array_equal(folds.counted, ~folds.newest)
        and folds.like_test is folds.newest
        and np.unique(folds.fold[folds.newest]).tolist() == [count - 1]
    )
    assert oldest[folds.newest].min() >= oldest[~folds.newest].max()
    assert max(30, 300 / count) <= folds.newest.sum() < max(30, 300 / count) + 10
    assert all(len({folds.fold[row] for row in rows if names[row] == name}) == 1 for name in set(names))


def test_folds_are_random_for_classes_and_where_the_newest_values_are_few():
    years = np.arange(100.0)
    sparse = np.stack([years, np.where(years < 80, years, np.nan)], axis=1)
    for y, task in ((np.arange(100) % 2, "classification"), (sparse, "regression"), (years[:50, None], "regression")):
        by_time, random = (deal_folds(np.arange(len(y)), y, task, 5, 0, times=t) for t in (years[: len(y)], None))
        assert by_time.newest is None and by_time.like_test is by_time.counted
        assert np.array_equal(by_time.fold, random.fold)


def test_intervals_are_as_wide_as_the_errors_of_the_rows_that_are_like_the_test():
    generator = np.random.default_rng(0)
    newest = np.arange(400) >= 300
    y = generator.normal(size=(400, 1))
    part = y + generator.normal(size=(400, 1)) * np.where(newest, 3.0, 1.0)[:, None]
    everything, start = np.ones(400, dtype=bool), Blend({"network": 1.0}, folds=5)
    wide, narrow = (
        with_fitted_weights(start, {"network": part}, y, "regression", counted, None, None, rows).spreads[0]
        for counted, rows in ((~newest, newest), (everything, None))
    )
    none = np.zeros(1)
    assert wide.rows == 100 and narrow.rows == 400
    assert wide.errors(none, None) * wide.reach(0.9) > 1.5 * narrow.errors(none, None) * narrow.reach(0.9)


def test_folds_are_fewer_where_a_class_is_rare_and_none_where_there_are_no_two():
    y = np.zeros(60, dtype=int)
    y[:3] = 1
    folds = deal_folds(np.arange(60), y, "classification", 5, 0)
    assert folds is not None and folds.count == 3
    y[1:3] = 0
    assert deal_folds(np.arange(60), y, "classification", 5, 0) is None


@pytest.mark.parametrize("classify", [False, True])
def test_a_blend_is_never_worse_out_of_fold_than_a_part(classify):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200) if classify else rng.normal(size=(200, 1))
    parts = {}
    for name, noise in (("network", 0.5), ("boosting", 0.6), ("forest", 5.0)):
        if classify:
            logits = 2 * (2 * y - 1) + 4 * noise * rng.normal(size=200)
            share = 1 / (1 + np.exp(-logits))
            parts[name] = np.stack([1 - share, share], axis=1)
        else:
            parts[name] = y + noise * rng.normal(size=(200, 1))
    weights = blend_weights(parts, y, classify)
    assert sum(weights.values()) == pytest.approx(1) and min(weights.values()) >= 0
    best = min(loss(part, y, classify) for part in parts.values())
    assert loss(blended(parts, weights), y, classify) <= best
    assert weights["network"] > 0 and weights["boosting"] > 0 and weights["forest"] < 0.1


def test_intervals_cover_as_many_as_they_say_and_are_wider_where_errors_are():
    rng = np.random.default_rng(0)
    far, apart = rng.random(8000), rng.random(8000)
    errors = (0.1 + apart + 2 * far) * rng.normal(size=8000)
    spread = fitted_spread(errors[:4000], apart[:4000], 1 - far[:4000])
    expected = spread.errors(apart[4000:], 1 - far[4000:])
    for coverage in (0.5, 0.8, 0.9, 0.95):
        assert abs((np.abs(errors[4000:]) <= spread.reach(coverage) * expected).mean() - coverage) < 0.025
    assert np.mean(expected[far[4000:] > 0.9]) > 2 * np.mean(expected[far[4000:] < 0.1])
    assert spread.factor * expected.mean() == pytest.approx(np.abs(errors).std() + np.abs(errors).mean() * 0.5, rel=0.5)


def test_probabilities_for_balanced_classes_are_calibrated_for_these():
    """Otherwise the blend prefers the part that ignores the weights, and its temperature undoes them."""
    rng = np.random.default_rng(0)
    y = (rng.random(6000) < 0.1).astype(int)
    hint = rng.normal(size=6000) + 1.5 * y
    odds = 1.5 * hint - 1.125  # of two normal distributions that are equally frequent
    balanced, common = (1 / (1 + np.exp(-odds + shift)) for shift in (0.0, np.log(9.0)))
    parts = {name: np.stack([1 - p, p], axis=1) for name, p in {"network": balanced, "forest": common}.items()}
    weights = np.where(y == 1, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    start, counted = Blend(dict.fromkeys(parts, 0.5), folds=2), np.ones(6000, dtype=bool)
    plain = with_fitted_weights(start, parts, y, "classification", counted, None)
    fair = with_fitted_weights(start, parts, y, "classification", counted, None, weights)
    assert plain.weights["forest"] > 0.8 and fair.weights["network"] > 0.8
    warm = {name: fair.calibrated(part, name, "classification") for name, part in parts.items()}
    likely = fair.combined(warm, "classification")[:, 1]
    assert np.average(likely, weights=weights) == pytest.approx(0.5, abs=0.03) and abs(fair.thresholds[0] - 0.5) < 0.1
    pairs = {name: np.stack([part[:, 1]] * 2, axis=1) for name, part in parts.items()}
    both = with_fitted_weights(
        start, pairs, np.stack([y, y], axis=1).astype(float), "multilabel", counted, None,
        np.stack([weights, np.ones(6000)], axis=1),
    )  # fmt: skip
    assert both.targets[0].weights["network"] > 0.8 and both.targets[1].weights["forest"] > 0.8
    none = with_fitted_weights(start, parts, y, "classification", counted, None, np.zeros(6000))
    assert none.weights == plain.weights


def test_a_coverage_that_few_errors_cannot_calibrate_is_refused():
    """Of 15 errors the largest is exceeded by a sixteenth of new ones, so an interval of 99 % is unknown."""
    errors = np.random.default_rng(1).normal(size=(2000, 16))
    spreads = [fitted_spread(row[:15], np.zeros(15), None) for row in errors[:50]]
    check_coverage(0.93, spreads)
    with pytest.raises(InputError, match=r"calibrated on 15 rows, which is enough for 0\.93 at most"):
        check_coverage(0.99, spreads)
    inside = [abs(row[15]) <= abs(row[:15]).max() for row in errors]
    assert 0.91 < np.mean(inside) < 0.96
    check_coverage(0.99, [])
    check_coverage(0.99, [replace(spread, rows=0) for spread in spreads])  # of a folder that does not say it


def test_a_temperature_lowers_the_loss_of_probabilities_that_are_too_sure():
    rng = np.random.default_rng(0)
    true = rng.random(4000)
    y = (rng.random(4000) < true).astype(int)
    sure = tempered(np.stack([1 - true, true], axis=1), 0.4)
    temperature = best_temperature(sure, y)
    assert temperature == pytest.approx(2.5, rel=0.15)
    assert loss(tempered(sure, temperature), y, True) < loss(sure, y, True)
    assert best_temperature(np.full((4000, 2), 0.5), y) == 1.0


def test_descriptors_do_not_depend_on_how_a_molecule_is_written_and_similarity_is_rdkits():
    mols = [Chem.MolFromSmiles(text) for text in SMILES]
    again = [Chem.MolToSmiles(mol, doRandom=True) for mol in mols]
    table, other = descriptors_of(SMILES), descriptors_of(again)
    assert table.numbers.shape == (60, NUMBERS) and np.isfinite(table.numbers).all()
    assert np.array_equal(table.bits, other.bits)
    assert np.allclose(table.numbers, other.numbers, rtol=1e-6, atol=1e-6)
    prints = [GetMorganGenerator(radius=2, fpSize=2048).GetFingerprint(mol) for mol in mols]
    expected = [max(DataStructs.BulkTanimotoSimilarity(own, prints[:30])) for own in prints[30:]]
    assert np.allclose(nearest_similarity(table.bits[30:], table.bits[:30]), expected)
    assert np.isnan(descriptors_of(["C("]).numbers).all()


def test_estimators_say_how_sure_they_are():
    regressor = MagRegressor(steps=5, ensemble=2).fit(SMILES, OXYGENS)
    values, std = regressor.predict(SMILES[:7], return_std=True)
    low, high = regressor.predict_interval(SMILES[:7], coverage=0.8)
    wider = regressor.predict_interval(SMILES[:7], coverage=0.95)[1]
    assert values.shape == std.shape == low.shape == (7,) and (std > 0).all()
    assert ((low < values) & (values < high) & (high <= wider)).all()
    with pytest.raises(InputError, match="coverage is 2"):
        regressor.predict_interval(SMILES[:2], coverage=2.0)
    with pytest.raises(InputError, match="the errors are unknown"):
        MagRegressor(steps=1).fit(SMILES[:9], OXYGENS[:9]).predict(SMILES[:2], return_std=True)
    assert set(regressor.fitted_.facts.blend.weights) >= {"network"} and regressor.fitted_.facts.blend.folds == 2


@pytest.fixture(scope="module")
def fitted() -> FittedModel:
    """A blend of all parts, each with two models."""
    packed = replace(packed_inputs(SMILES)[0], y=torch.from_numpy(OXYGENS).float()[:, None])
    dataset = Dataset("mine", packed, "regression", 1, official_split, metric="mae")
    folds = deal_folds(np.arange(60), OXYGENS[:, None], "regression", 2, 0, SMILES)
    assert folds is not None
    config = own_config(fold_set(dataset, folds, 0), predictor_steps=3)
    fitted, held_out, _ = fit_blend(dataset, Facts("smiles", "regression", "mol"), config, folds, SMILES)
    weights = {"network": 0.1, "network+descriptors": 0.3, "boosting": 0.2, "forest": 0.2, "kernel": 0.2}
    assert sorted(held_out.rows) == list(range(60)) and set(held_out.parts) == set(weights)
    blend = replace(fitted.facts.blend, weights=weights)
    return replace(fitted, facts=replace(fitted.facts, blend=blend))


def test_an_ensemble_of_graphs_has_networks_alone():
    packed, _ = packed_inputs(SMILES)
    model = MagClassifier(steps=2, ensemble=2).fit(packed, OXYGENS > 3)
    assert model.fitted_.facts.blend.weights == {"network": 1.0} and len(model.fitted_.others) == 1
    mean = model.fitted_.fold_answers(packed, None)["network"].mean(axis=0)
    heat = model.fitted_.facts.blend.temperatures
    assert set(heat) == {"network", "blend"}
    assert np.allclose(model.predict_proba(packed), tempered(mean, heat["blend"]), atol=1e-6)


def test_the_folder_of_a_blend_answers_the_same_and_leaves_nothing_of_the_one_before(fitted, tmp_path):
    fitted.save(tmp_path)
    packed, table = packed_inputs(SMILES)[0], descriptors_of(SMILES)
    loaded = FittedModel.load(tmp_path)
    assert torch.equal(loaded.predict(packed, molecules=table), fitted.predict(packed, molecules=table))
    with pytest.raises(InputError, match="descriptors"):
        loaded.predict(packed)
    loaded.networks[0].save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fitted.json", "model.safetensors"]


@pytest.mark.parametrize("agents", ["the same", "different"])
def test_networks_say_the_same_together_as_each_alone(fitted, agents):
    """Also of molecules with elements that no network saw, and where a search cannot be shared."""
    if agents == "different":
        other = copy.deepcopy(fitted.others[0])
        for weight in other.q_network.parameters():
            weight.data.neg_()
        fitted = replace(fitted, others=(other,))
    packed = packed_inputs([*SMILES[:30], "CCCl", "BrC1CC1", *SMILES[30:]])[0]
    with pytest.warns(UnseenWarning):
        together = fitted.fold_answers(packed, None, parts=["network"])["network"]
    with warnings.catch_warnings(action="ignore", category=UnseenWarning):
        alone = np.stack([network.predict(packed).numpy() for network in fitted.networks])
    assert together.shape == (2, 62, 1)
    assert np.allclose(together, alone, rtol=1e-6, atol=1e-6)
    assert not np.allclose(together[0], together[1], atol=1e-3)


def test_parts_without_weight_are_left_out_of_the_folder(fitted, tmp_path):
    packed, table = packed_inputs(SMILES)[0], descriptors_of(SMILES)
    for weights in ({"network": 0.0, "boosting": 1.0, "forest": 0.0}, {"network": 1.0, "boosting": 0.0, "forest": 0.0}):
        blend = replace(fitted.facts.blend, weights=weights)
        whole = replace(fitted, facts=replace(fitted.facts, blend=blend))
        trimmed(whole).save(tmp_path)
        loaded = FittedModel.load(tmp_path)
        assert (tmp_path / "model-2.safetensors").exists() == bool(weights["network"])
        assert list(loaded.trees) == [name for name in ("boosting",) if weights[name]]
        assert torch.equal(loaded.predict(packed, molecules=table), whole.predict(packed, molecules=table))


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        FittedModel.load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_changed_folder_of_a_blend_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "whole")

    def fresh():
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        return shutil.copytree(tmp_path / "whole", tmp_path / "model")

    folder = fresh()
    (folder / TREES).unlink()
    assert "no such file" in refused(folder)
    shutil.copy(folder / "model.safetensors", folder / "model-2.safetensors")
    assert "checksum" in refused(folder)
    folder = fresh()
    edit_tensors(folder / TREES, lambda tensors: tensors.update(known=torch.zeros(3, 7)))
    refused(folder)
    edit_json(folder / FACTS, lambda values: values["blend"]["files"].update({TREES: ""}))
    assert "fingerprints are damaged" in refused(folder)
    for change in (
        {"weights": {"network": 0.7}},
        {"weights": {"network": -1.0, "boosting": 2.0}},
        {"weights": {"boosting": 1.0}},
        {"weights": {"network": 0.5, "other": 0.5}},
        {"folds": 10**6},
        {"temperatures": {"blend": float("nan")}},
        {"temperatures": {"other": 1.0}},
        {"spreads": [{"size": [1.0], "factor": 1.0, "quantiles": [1.0]}]},
        {"spreads": [{"size": [1.0, 0.0, 0.0], "factor": float("inf"), "quantiles": [1.0] * 99}]},
        {"seen": [[[[0]], [[0]]]]},
    ):
        folder = fresh()
        edit_json(folder / FACTS, lambda values, change=change: values["blend"].update(change))
        assert "does not match" in refused(folder) or "damaged" in refused(folder)


@pytest.mark.slow
def test_members_trained_side_by_side_are_those_trained_in_turn(tmp_path):
    packed = replace(packed_inputs(SMILES)[0], y=torch.from_numpy(OXYGENS).float()[:, None])
    dataset = Dataset("mine", packed, "regression", 1, official_split, metric="mae")
    folds = deal_folds(np.arange(60), OXYGENS[:, None], "regression", 3, 0, SMILES)
    assert folds is not None
    config = own_config(fold_set(dataset, folds, 0), predictor_steps=4)
    given, found = Facts("smiles", "regression", "mol"), []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        fitted, held_out, _ = fit_blend(dataset, given, config, folds, SMILES, folder, workers)
        found.append((fitted.facts, [network.model.state_dict() for network in fitted.networks], held_out.answers))
    (facts, models, answers), (others, other_models, other_answers) = found
    assert facts == others and np.array_equal(answers, other_answers)
    for one, other in zip(models, other_models, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    (tmp_path / "2" / "member-2" / "model.safetensors").unlink()  # killed: two are done, one goes on where it was
    written = (tmp_path / "2" / "member-1" / "model.safetensors").stat().st_mtime_ns
    again, _, _ = fit_blend(dataset, given, config, folds, SMILES, tmp_path / "2", 2)
    assert again.facts.blend == others.blend
    assert (tmp_path / "2" / "member-1" / "model.safetensors").stat().st_mtime_ns == written
