"""Networks that read descriptors: chosen out of fold, and the same predictions by every way of asking for them."""

import asyncio
import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from rdkit import Chem

from damage import edit_json
from maggnn import InputError
from maggnn.apps.explain.property import PropertyExplainer
from maggnn.apps.fit.answers.blended import Blend, TargetBlend
from maggnn.apps.fit.answers.target_weights import with_fitted_weights
from maggnn.apps.fit.blend import NETWORK, READINGS, WITH_DESCRIPTORS, blend_weights
from maggnn.apps.fit.classical.descriptors import Descriptors, descriptors_of
from maggnn.apps.fit.ensemble import OutOfFold, fit_blend, fold_set, trimmed
from maggnn.apps.fit.estimator import MagRegressor
from maggnn.apps.fit.fitted import FACTS, Facts, FittedModel
from maggnn.apps.fit.fitting import _learned_from, data_digest
from maggnn.apps.fit.folds import deal_folds, single_fold
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.own_table import read_own_table
from maggnn.apps.serve.batching import Batcher
from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.data.inputs import packed_inputs
from maggnn.data.own_file import official_split
from maggnn.data.splits import Split
from maggnn.graphs.canonical_order import in_canonical_order
from maggnn.model.saving import load_model

RNG = Random(0)
SMILES = [
    "".join(RNG.choice("CCCON") for _ in range(RNG.randint(3, 7))) + RNG.choice(["", "c1ccccc1", "C1CCNC1"])
    for _ in range(60)
]
OXYGENS = np.array([[float(text.count("O"))] for text in SMILES], dtype=np.float32)


def fit(
    y: np.ndarray,
    steps: int,
    smiles: Sequence[str] = SMILES,
    more: np.ndarray | None = None,
    number_columns: tuple[str, ...] = (),
) -> tuple[FittedModel, OutOfFold, Descriptors]:
    packed = replace(packed_inputs(smiles)[0], y=torch.from_numpy(y))
    dataset = Dataset("mine", packed, "regression", y.shape[1], official_split, metric="mae")
    folds = deal_folds(np.arange(len(y)), y, "regression", 2, 0, smiles if more is None else None)
    assert folds is not None
    config = own_config(fold_set(dataset, folds, 0), predictor_steps=steps).replaced(runtime={"device": "cpu"})
    facts = Facts("smiles", "regression", "mol", targets=("y",), metric="mae", number_columns=number_columns)
    fitted, held_out, molecules = fit_blend(dataset, facts, config, folds, smiles, more=more)
    assert molecules is not None
    return fitted, held_out, molecules


@pytest.fixture(scope="module")
def fitted() -> FittedModel:
    """A model whose answers are those of its networks with descriptors alone."""
    whole, *_ = fit(OXYGENS, steps=20)
    weights = {name: float(name == WITH_DESCRIPTORS) for name in whole.facts.blend.weights}
    return trimmed(replace(whole, facts=replace(whole.facts, blend=replace(whole.facts.blend, weights=weights))))


@pytest.fixture(scope="module")
def folder(fitted, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("descriptors")
    fitted.save(folder / "model")
    with (folder / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["smiles", "y"], *zip(SMILES, OXYGENS[:, 0].tolist(), strict=True)])
    return folder


# ---- the choice -----------------------------------------------------------------------------------------


def test_networks_that_read_the_column_with_the_target_win():
    """No molecule says what the column says, so that networks without it can only answer the mean."""
    doses = np.random.default_rng(0).normal(size=(240, 1)).astype(np.float32)
    y = doses + 0.1 * np.tile(OXYGENS, (4, 1))
    fitted, held_out, _ = fit(y, steps=200, smiles=SMILES * 4, more=doses, number_columns=("dose",))
    errors = {name: float(np.abs(part - y[held_out.rows]).mean()) for name, part in held_out.parts.items()}
    assert errors[WITH_DESCRIPTORS] < 0.6 * errors[NETWORK], errors
    weights = fitted.facts.blend.weights
    assert weights[NETWORK] == 0 and weights[WITH_DESCRIPTORS] > 0, weights


@pytest.mark.parametrize("classify", [False, True])
def test_only_the_better_reading_has_a_weight(classify):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300) if classify else rng.normal(size=(300, 1))

    def part(noise: float) -> np.ndarray:
        if not classify:
            return y + noise * rng.normal(size=y.shape)
        share = 1 / (1 + np.exp(-(2 * (2 * y - 1) + 4 * noise * rng.normal(size=300))))
        return np.stack([1 - share, share], axis=1)

    for better, worse in ((NETWORK, WITH_DESCRIPTORS), (WITH_DESCRIPTORS, NETWORK)):
        parts = {better: part(0.5), worse: part(0.7), "boosting": part(0.6)}
        weights = blend_weights(parts, y, classify)
        assert weights[better] > 0 and weights[worse] == 0 and weights["boosting"] > 0
        assert sum(weights.values()) == pytest.approx(1) and list(weights) == list(parts)
    same = part(0.5)
    assert blend_weights({NETWORK: same, WITH_DESCRIPTORS: same}, y, classify) == {NETWORK: 1.0, WITH_DESCRIPTORS: 0.0}


def test_targets_with_too_few_rows_of_a_class_share_one_reading():
    start = Blend({NETWORK: 1.0, WITH_DESCRIPTORS: 0.0, "forest": 0.0}, folds=2)
    parts = {name: np.full((40, 1), 0.1) for name in start.weights}
    y = (np.arange(40) == 0).astype(float)[:, None]
    blend = with_fitted_weights(start, parts, y, "multilabel", np.ones(40, dtype=bool), None)
    assert blend.targets[0].weights == {NETWORK: 0.5, WITH_DESCRIPTORS: 0.0, "forest": 0.5}


def test_a_single_network_reads_no_descriptors():
    packed = replace(packed_inputs(SMILES)[0], y=torch.from_numpy(OXYGENS))
    dataset = Dataset("mine", packed, "regression", 1, official_split, metric="mae")
    ids = torch.arange(60)
    folds = single_fold(Split(ids[:50], ids[50:], ids[:0]), 60)
    config = own_config(fold_set(dataset, folds, 0), predictor_steps=2)
    found, *_ = fit_blend(dataset, Facts("smiles", "regression", "mol"), config, folds, SMILES)
    assert found.model.graph_features == 0 and WITH_DESCRIPTORS not in found.facts.blend.weights


# ---- predictions ----------------------------------------------------------------------------------------


def test_both_readings_are_those_of_each_network(fitted):
    packed, table = packed_inputs(SMILES)[0], descriptors_of(SMILES)
    found = fitted.fold_answers(packed, table, parts=[NETWORK, WITH_DESCRIPTORS])
    for reading, graphs in (
        (NETWORK, packed),
        (WITH_DESCRIPTORS, packed.with_graph_attr(torch.from_numpy(table.numbers))),
    ):
        alone = [network.engine().predict(in_canonical_order(graphs)).numpy() for network in fitted.networks]
        assert np.allclose(found[reading], alone, rtol=1e-4, atol=1e-4)
    assert not np.allclose(found[NETWORK], found[WITH_DESCRIPTORS], atol=1e-3)
    assert np.allclose(
        fitted.predict(packed, molecules=table), found[WITH_DESCRIPTORS].mean(axis=0), rtol=1e-6, atol=1e-6
    )
    with pytest.raises(InputError, match="reads descriptors of molecules"):
        fitted.predict(packed)


def test_predictions_depend_neither_on_the_writing_nor_on_chunks(fitted):
    again = [Chem.MolToSmiles(Chem.MolFromSmiles(text), doRandom=True) for text in SMILES]
    expected = fitted.predict(SMILES)
    assert torch.allclose(fitted.predict(again), expected, rtol=1e-5, atol=1e-5)
    assert torch.allclose(fitted.predict(SMILES, memory_mb=0.01), expected, rtol=1e-5, atol=1e-5)
    assert torch.allclose(torch.cat([fitted.predict(SMILES[:7]), fitted.predict(SMILES[7:])]), expected, atol=1e-5)


def test_missing_descriptors_are_answered(fitted):
    packed, table = packed_inputs(SMILES)[0], descriptors_of(SMILES)
    gaps = replace(table, numbers=np.where(np.arange(table.numbers.shape[1]) % 3, table.numbers, np.nan))
    assert bool(fitted.predict(packed, molecules=gaps).isfinite().all())
    nothing = replace(table, numbers=np.full_like(table.numbers, np.nan))
    plain = fitted.fold_answers(packed, None, parts=[NETWORK])[NETWORK].mean(axis=0)
    assert np.allclose(fitted.predict(packed, molecules=nothing), plain, atol=1e-5)


def test_every_command_predicts_the_same(folder, fitted, call_command, tmp_path):
    maggnn = partial(call_command, "maggnn", cwd=folder)
    assert not FittedModel.load(folder / "model").trees
    expected = fitted.predict(SMILES)[:, 0].tolist()
    maggnn("predict", "model", "new.csv", "-o", tmp_path / "out.csv", "--workers", "1", "--device", "cpu").output()
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [float(row["predicted_y"]) for row in csv.DictReader(file)] == pytest.approx(expected, abs=1e-5)
    told = maggnn("evaluate", "model", "new.csv", "--workers", "1", "--json").output().splitlines()[-1]
    assert json.loads(told)["mae"] == pytest.approx(float(np.abs(np.array(expected) - OXYGENS[:, 0]).mean()), abs=1e-4)
    found = MagRegressor.load(folder / "model").predict(SMILES)
    assert found.tolist() == pytest.approx(expected, abs=1e-5)

    async def served() -> list[float]:
        async with Batcher(FittedModel.load(folder / "model")) as batcher:
            return (await batcher.answer(SMILES[:5]))[0]

    assert asyncio.run(served()) == pytest.approx(expected[:5], abs=1e-5)


def test_explanations_are_of_the_networks_with_descriptors(fitted):
    told = PropertyExplainer(fitted).explain("OCCc1ccccc1")
    assert len(told.contributions[0].values) == 9
    assert not any("blend" in note for note in told.notes)
    weights = {NETWORK: 0.0, WITH_DESCRIPTORS: 0.3, "boosting": 0.7}
    facts = replace(fitted.facts, blend=replace(fitted.facts.blend, weights=weights))
    notes = PropertyExplainer(replace(fitted, facts=facts))._notes()
    assert any("its 2 networks, which have 30 % of the weight; the gradient boosting reads" in note for note in notes)


def test_each_of_several_targets_is_explained_as_it_is_answered():
    y = np.concatenate([OXYGENS, -OXYGENS], axis=1)
    whole, *_ = fit(y, steps=20)
    found = []
    for first, second in ((NETWORK, NETWORK), (WITH_DESCRIPTORS, WITH_DESCRIPTORS), (NETWORK, WITH_DESCRIPTORS)):
        targets = tuple(TargetBlend({first: 1.0} if name == first else {second: 1.0}) for name in (first, second))
        weights = {name: float(np.mean([target.weights.get(name, 0.0) for target in targets])) for name in READINGS}
        blend = replace(whole.facts.blend, weights=weights, targets=targets)
        facts = replace(whole.facts, blend=blend, targets=("a", "b"))
        told = PropertyExplainer(replace(whole, facts=facts, trees={})).explain("OCCc1ccccc1")
        found.append(np.array([part.values for part in told.contributions]))
    without, with_them, mixed = found
    assert np.abs(without - with_them).min(axis=1).max() > 1e-6
    assert np.allclose(mixed[0], without[0], atol=1e-6) and np.allclose(mixed[1], with_them[1], atol=1e-6)


def test_a_fit_starts_from_networks_with_descriptors(folder, call_command, tmp_path):
    options = ("--target", "y", "--steps", "1", "--ensemble", "2", "--workers", "1", "--from", "model")
    call_command("maggnn", "fit", "new.csv", *options, "-o", tmp_path / "more", cwd=folder).output()
    (before, _), (after, _) = (load_model(path / "model.safetensors") for path in (folder / "model", tmp_path / "more"))
    moved = (after.predictor.first.weight - before.predictor.first.weight).detach().abs().max()
    assert after.graph_features == before.graph_features > 0 and 0 < float(moved) < 0.02


def test_a_fit_resumes_only_with_the_same_columns_in_the_same_order(tmp_path):
    """Networks of an interrupted fit have learned which column is which."""
    with (tmp_path / "t.csv").open("w", newline="") as file:
        rows = [[text, OXYGENS[place, 0], place, 60 - place] for place, text in enumerate(SMILES)]
        csv.writer(file).writerows([["smiles", "y", "dose", "year"], *rows])
    digests = set()
    for columns in ((), ("dose",), ("dose", "year"), ("year", "dose")):
        own = read_own_table(tmp_path / "t.csv", "smiles", ["y"], "auto", "random", 0, 1, number_columns=columns)
        folds = single_fold(own.dataset.split(0, 0), len(own.dataset.y))
        digests.add(data_digest(_learned_from(own, folds, None, columns), Config()))
    assert len(digests) == 4


CHANGES = {
    "other columns": ({"number_columns": ["dose"]}, "features of each graph"),
    "graphs": ({"source": "graphs", "features": ""}, "features of each graph"),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_folder_that_does_not_fit_its_networks_is_refused(fitted, tmp_path, change, expected):
    fitted.save(tmp_path)
    edit_json(tmp_path / FACTS, lambda values: values.update(change))
    with pytest.raises(InputError, match=expected):
        FittedModel.load(tmp_path)


def test_a_part_that_the_networks_do_not_have_is_refused(tmp_path):
    MagRegressor(steps=1).fit(SMILES, OXYGENS[:, 0]).fitted_.save(tmp_path)
    edit_json(tmp_path / FACTS, lambda values: values["blend"].update(weights={NETWORK: 0.0, WITH_DESCRIPTORS: 1.0}))
    with pytest.raises(InputError, match="a part whose networks read descriptors, which the model does not"):
        FittedModel.load(tmp_path)
