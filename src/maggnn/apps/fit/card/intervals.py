"""The uncertainty of a score: a 95 % bootstrap interval over the rows that it was measured on.

Shapes: answers [rows, out], y [rows, ...]; R bootstrap samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from maggnn.apps.fit.card.metrics import limits
from maggnn.training.metrics import Metric, score

DRAWS = 1000


@dataclass(frozen=True)
class Judged:
    """A score, and its values in bootstrap samples, [R]. Samples of equal rows and seeds can be compared pairwise."""

    value: float
    draws: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that contains 95 % of the samples."""
        return limits(self.draws)


def judge(answers: Tensor, y: Tensor, metric: Metric, seed: int = 0) -> Judged:
    """Return the metric of probabilities or values; for several targets, the mean over those with a score."""
    if y.is_floating_point():
        return mean_of_targets(judge_targets(answers, y, metric, seed))
    value = float(score(answers, y, metric))
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(DRAWS):
        ids = torch.from_numpy(rng.integers(len(y), size=len(y)))
        drawn = y[ids]
        one_sided = metric == "auroc" and len(drawn.unique()) < 2
        draws.append(np.nan if one_sided else float(score(answers[ids], drawn, metric)))
    return Judged(value, np.array(draws))


def judge_targets(answers: Tensor, y: Tensor, metric: Metric, seed: int = 0) -> list[Judged]:
    """Return the metric of each target on the rows where it is known; NaN if it is not defined there.

    All targets use the same samples, which are counts of rows: a sample then costs a product instead of a sort.

    Shapes:
        answers: [rows, targets]; y: [rows, targets] or [rows], NaN where a value is missing.
    """
    values, true = answers.double().numpy(), y.reshape(len(y), -1).double().numpy()
    rng, count = np.random.default_rng(seed), len(true)
    drawn = np.stack([np.bincount(rng.integers(count, size=count), minlength=count) for _ in range(DRAWS)])
    weights = np.concatenate([np.ones((1, count)), drawn])  # [1 + R, rows]
    scores = _areas if metric == "auroc" else _errors
    judged = []
    for said, own in zip(values.T, true.T, strict=True):
        known = ~np.isnan(own)
        found = scores(said[known], own[known], weights[:, known]) if np.isfinite(said).all() else None
        undefined = np.full(DRAWS, np.nan)
        if found is None:
            judged.append(Judged(np.nan, undefined))
            continue
        # All samples of a single row are equal, which says nothing about its uncertainty.
        judged.append(Judged(float(found[0]), undefined if known.sum() < 2 else found[1:]))
    return judged


def mean_of_targets(judged: Sequence[Judged]) -> Judged:
    """Return the mean score over targets, also of each sample; NaN if an answer is not finite or no target counts.

    A target without a score in a sample, where none of its rows was drawn, keeps its own there: means over different
    targets could not be compared, since their errors have different sizes.
    """
    known = [entry for entry in judged if np.isfinite(entry.value)]
    if not known:
        return Judged(np.nan, np.full(DRAWS, np.nan))
    draws, values = np.stack([entry.draws for entry in known]), np.array([entry.value for entry in known])
    scored = np.isfinite(draws)
    means = np.where(scored, draws, values[:, None]).mean(axis=0)
    return Judged(float(values.mean()), np.where(scored.any(axis=0), means, np.nan))


def judged_singly(
    methods: Mapping[str, Tensor], y: Tensor, names: Sequence[str], metric: Metric
) -> dict[str, dict[str, Judged]]:
    """Return the score of each method for each target: {target: {method: score}}."""
    found = {method: judge_targets(answers, y, metric) for method, answers in methods.items()}
    return {name: {method: judged[place] for method, judged in found.items()} for place, name in enumerate(names)}


def _errors(said: np.ndarray, true: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the mean absolute errors of samples with row counts [R, rows], [R]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return weights @ np.abs(said - true) / weights.sum(axis=1)


def _areas(said: np.ndarray, true: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the areas under the ROC curve in percent, [R], of samples with row counts [R, rows]; ties count half."""
    _, place = np.unique(said, return_inverse=True)
    values = int(place.max(initial=-1)) + 1
    positive, negative = (
        np.stack([np.bincount(place, row * mask, minlength=values) for row in weights])
        for mask in (true == 1, true == 0)
    )  # [R, values] each
    below = np.cumsum(negative, axis=1) - negative
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return 100 * (positive * (below + negative / 2)).sum(axis=1) / pairs
