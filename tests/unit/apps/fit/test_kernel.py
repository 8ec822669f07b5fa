"""Gaussian processes: exact answers, what they leave out, and damaged arrays."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from maggnn import InputError
from maggnn.apps.fit.classical import kernel
from maggnn.apps.fit.classical.descriptors import NUMBERS, descriptors_of
from maggnn.apps.fit.classical.kernel import Kernels, fit_kernels
from maggnn.data.dataset import Dataset
from maggnn.data.inputs import packed_inputs
from maggnn.data.own_file import official_split
from maggnn.graphs.batch import Task

SMILES = [
    head + "C" * length + tail for head in ("O", "N", "F", "c1ccccc1") for length in range(1, 9) for tail in "OSC"
]
LENGTHS = np.array([len(text) + 3.0 * text.count("O") for text in SMILES])
MOLECULES = descriptors_of(SMILES)
HALVES = [np.arange(0, len(SMILES), 2), np.arange(1, len(SMILES), 2)]


def dataset(y: np.ndarray, task: Task = "regression", outputs: int = 1, weights: np.ndarray | None = None) -> Dataset:
    graphs = replace(packed_inputs(SMILES, "smiles", "mol")[0], y=torch.from_numpy(y))
    given = None if weights is None else torch.from_numpy(weights)
    return Dataset("own", graphs, task, outputs, official_split, weights=given)


def test_answers_are_those_of_scikit_learns_gaussian_process(monkeypatch):
    monkeypatch.setattr(kernel, "SHARES", (0.0,))  # descriptors alone, as scikit-learn has no Tanimoto kernel
    monkeypatch.setattr(kernel, "NOISES", (0.1,))
    made = fit_kernels(MOLECULES, dataset(LENGTHS[:, None]), HALVES, seed=0)
    for fold, rows in enumerate(HALVES):
        process = GaussianProcessRegressor(
            RBF((made.shape[fold, 1] / 2) ** 0.5), alpha=0.1, optimizer=cast("str", None)
        )
        mean = LENGTHS[rows].mean()
        process.fit(made.descriptors[rows], LENGTHS[rows] - mean)
        expected = process.predict(made.descriptors) + mean
        assert np.allclose(made.answers(MOLECULES, "regression")[fold, :, 0], expected, atol=1e-3)


def test_a_fold_knows_nothing_of_rows_that_it_did_not_learn_from():
    changed = LENGTHS.copy()
    changed[HALVES[1]] += np.random.default_rng(0).normal(size=len(HALVES[1]))
    first, second = (
        fit_kernels(MOLECULES, dataset(y[:, None]), HALVES, seed=0).answers(MOLECULES, "regression")
        for y in (LENGTHS, changed)
    )
    assert np.array_equal(first[0], second[0]) and not np.allclose(first[1], second[1])
    new = first[0, HALVES[1], 0]  # of molecules that are new to it
    assert np.abs(new - LENGTHS[HALVES[1]]).mean() < 0.3 * np.abs(LENGTHS - LENGTHS.mean()).mean()


def test_missing_targets_and_classes_are_learned_too():
    many = np.stack([LENGTHS > 8, LENGTHS > 10], axis=1).astype(np.float32)
    many[::3, 1] = np.nan
    many = np.column_stack([many, np.full(len(many), np.nan, dtype=np.float32)])  # of the last nothing is known
    shares = fit_kernels(MOLECULES, dataset(many, "multilabel", 3), HALVES, 0).answers(MOLECULES, "multilabel")
    assert shares.shape == (2, len(SMILES), 3) and ((shares > 0) & (shares < 1)).all()
    assert ((shares[0, HALVES[1], 1] > 0.5) == (LENGTHS[HALVES[1]] > 10)).mean() > 0.8
    classes = (LENGTHS > 8).astype(np.int64)
    likely = fit_kernels(MOLECULES, dataset(classes, "classification", 2), HALVES, 0)
    assert np.allclose(likely.answers(MOLECULES, "classification").sum(axis=-1), 1.0)


def test_a_row_without_weight_is_not_learned_from():
    weights = np.ones((len(SMILES), 1))
    weights[::4] = 0.0
    wrong = np.where(weights[:, 0] > 0, LENGTHS, 99.0)
    answers = [
        fit_kernels(MOLECULES, dataset(y[:, None], weights=weights), [np.arange(len(SMILES))], 0)
        for y in (LENGTHS, wrong)
    ]
    assert not answers[0].dual[0, ::4].any() and not answers[1].dual[0, ::4].any()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dual", lambda array: array[:, :-1]),
        ("dual", lambda array: np.full_like(array, np.nan)),
        ("unit", np.zeros_like),
        ("shape", lambda array: -array - 1),
        ("bits", lambda array: array.astype("int32")),
    ],
)
def test_damaged_arrays_are_refused(name, change):
    arrays = fit_kernels(MOLECULES, dataset(LENGTHS[:, None]), HALVES, seed=0).arrays()
    assert Kernels.checked(arrays, NUMBERS, 2, 1).dual.shape == (2, len(SMILES), 1)
    with pytest.raises(InputError, match="Gaussian process is damaged"):
        Kernels.checked(arrays | {name: change(arrays[name])}, NUMBERS, 2, 1)
    with pytest.raises(InputError, match="is missing"):
        Kernels.checked({key: array for key, array in arrays.items() if key != name}, NUMBERS, 2, 1)


def test_probabilities_keep_the_order_of_values_beyond_0_and_1():
    values = np.linspace(-0.4, 1.4, 500)
    shares = kernel._share(values)
    assert (np.diff(shares) > 0).all() and shares[0] > 0 and shares[-1] < 1
    assert np.array_equal(shares[(values > 0.1) & (values < 0.5)], values[(values > 0.1) & (values < 0.5)])
