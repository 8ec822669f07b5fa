"""Repeated cross-validation of a whole fit: the performance of the same procedure on unseen rows.

The rows of a table are split into folds, several times. Each fold is tested by a model (an ensemble with its own folds,
weights and calibration) that was fitted to the other folds only. The folder's model is not one of these: it is fitted
to the split given by --split, as without cross-validation.

    interval = mean +- t sqrt((1 / n + n_test / n_train) * variance of the n scores)

This is the corrected interval of Nadeau and Bengio (2003): the training rows of two folds overlap, so their scores vary
less than those of independent tables would.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.apps.fit.card.markdown import number, plain, table
from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.folds import Folds, deal_folds
from maggnn.apps.fit.own_table import OwnTable
from maggnn.apps.terminal import tell
from maggnn.config import Config
from maggnn.data.files import whole_file
from maggnn.data.own_file import official_split
from maggnn.errors import InputError

SEEDS_APART = 1000
"""The difference between the seeds of two repeats."""

SHARE_TO_VALIDATE = 9
"""Without an ensemble, one of this many rows is held out of training to select the best weights."""

Scores = dict[str, float]
"""The score of each method; for several targets, the mean over them."""

Fit = Callable[..., tuple[Any, ...]]
"""`fit_blend` with the molecules and the options that are the same for all folds."""

Judge = Callable[..., Scores]
"""Computes the test scores of each method from the results of `fit_blend` and the data set."""


@dataclass(frozen=True)
class Plan:
    """The number of folds, and how many times the rows are split into them."""

    folds: int = 0
    repeats: int = 1

    def check(self, split: str) -> None:
        """Raise an `InputError` for a split that cannot be repeated."""
        if self.folds and split.partition(":")[0] not in ("random", "scaffold", "cluster"):
            raise InputError(
                f"--folds splits the rows itself, so it needs --split random, scaffold or cluster, not {split}"
            )
        if self.folds == 1:
            raise InputError("--folds is 1: give at least 2, or 0 for no cross-validation")
        if self.repeats > 1 and not self.folds:
            raise InputError("--repeats is for cross-validation: give --folds too")


@dataclass(frozen=True)
class CrossValidated:
    """The scores of every method in every fold of every repeat."""

    plan: Plan
    scores: dict[str, list[float]]
    test_share: float
    """The number of test rows divided by the number of training rows."""

    def summary(self, metric: str) -> dict[str, dict[str, float]]:
        """Return the mean, standard deviation and 95 % interval of each method."""
        best = math.inf if metric == "mae" else 100.0
        return {name: _summary(np.array(values), self.test_share, best) for name, values in self.scores.items()}

    def lines(self, metric: str, unit: str) -> list[str]:
        """Return the lines of the card."""
        rows = []
        for name, found in self.summary(metric).items():
            low, high = number(found["low"], metric), number(found["high"], metric)
            mean, spread = number(found["mean"], metric), number(found["std"], metric)
            rows.append([plain(name), mean, f"{low} to {high}", spread])
        return [
            "## Cross-validation",
            "",
            *table(["method", f"mean {unit}", "95 % interval", "standard deviation over folds"], rows),
            "",
            f"{self.plan.folds} folds, drawn {self.plan.repeats} times: each fold was tested by models fitted, blended",
            "and calibrated on the other folds only. The interval is corrected for overlapping training rows",
            "(Nadeau and Bengio, 2003). The model of this folder is not among them: it was fitted to the split above.",
            "",
        ]


def _summary(values: np.ndarray, test_share: float, most: float) -> dict[str, float]:
    """Return mean, standard deviation and interval, which ends at 0 and at the largest possible score."""
    from scipy.stats import t

    values = values[np.isfinite(values)]
    if len(values) < 2:
        return {"mean": float(values.mean()) if len(values) else math.nan, "std": math.nan, "low": math.nan,
                "high": math.nan}  # fmt: skip
    mean, variance = float(values.mean()), float(values.var(ddof=1))
    reach = float(t.ppf(0.975, len(values) - 1)) * math.sqrt((1 / len(values) + test_share) * variance)
    return {"mean": mean, "std": math.sqrt(variance), "low": max(mean - reach, 0.0), "high": min(mean + reach, most)}


def cross_validated(
    own: OwnTable,
    facts: Facts,
    config: Config,
    plan: Plan,
    ensemble: int,
    folder: Path,
    fit: Fit,
    judge: Judge,
) -> CrossValidated:
    """Fit and test on every fold of every repeat; folds whose scores are in `folder` already are skipped.

    Args:
        ensemble: the number of folds within the rows that a model is fitted to, as in the fit itself.
        folder: the folder of checkpoints and scores.
    """
    scores: dict[str, list[float]] = {}
    shares = []
    for name, seed, test, rest in _folds(own, plan, config.runtime.seed):
        shares.append(len(test) / len(rest))
        path = folder / f"{name}.json"
        if not path.exists():
            tell(f"{own.dataset.name}: cross-validation, {name}")
            inner = _inner_folds(own, rest, ensemble, seed)
            parts = {"train": inner.train(0), "val": inner.held_out(0), "test": test}
            dataset = replace(own.dataset, protocol=official_split, extra=parts)
            fitted = fit(dataset, facts, config.replaced(runtime={"seed": seed}), inner, folder=folder / name)
            found = {
                method: value if math.isfinite(value) else None for method, value in judge(*fitted, dataset).items()
            }
            with whole_file(path) as waiting:
                waiting.write_text(json.dumps(found), encoding="utf-8")
        for method, value in json.loads(path.read_text(encoding="utf-8")).items():
            scores.setdefault(method, []).append(math.nan if value is None else value)
    return CrossValidated(plan, scores, float(np.mean(shares)))


def _folds(own: OwnTable, plan: Plan, seed: int) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Yield a name, a seed, the test rows and the other rows, for each fold of each repeat."""
    rows = np.sort(np.concatenate(list(own.dataset.extra.values())))
    y, task = own.dataset.y.numpy(), own.dataset.task
    for repeat in range(plan.repeats):
        own_seed = seed + SEEDS_APART * (repeat + 1)
        dealt = deal_folds(rows, y, task, plan.folds, own_seed, own.table.canonical, own.groups, own.weights)
        if dealt is None or dealt.count < plan.folds:
            most = 1 if dealt is None else dealt.count
            raise InputError(f"{own.dataset.name}: the rows allow {most} folds, --folds asks for {plan.folds}")
        for fold in range(plan.folds):
            held_out = dealt.held_out(fold)
            test = held_out[dealt.counted[held_out]]  # only rows of new groups, if the split is by groups
            yield f"repeat-{repeat + 1}-fold-{fold + 1}", own_seed, test, dealt.train(fold)


def _inner_folds(own: OwnTable, rest: np.ndarray, ensemble: int, seed: int) -> Folds:
    """Return the folds of the rows that a model is fitted to; for one network, a single fold for validation."""
    y, task = own.dataset.y.numpy(), own.dataset.task
    count = ensemble if ensemble > 1 else SHARE_TO_VALIDATE
    dealt = deal_folds(rest, y, task, count, seed, own.table.canonical, own.groups, own.weights)
    if dealt is None:
        raise InputError(f"{own.dataset.name}: too few rows for cross-validation: leave --folds out")
    if ensemble > 1:
        return dealt
    return Folds(np.where(dealt.fold > 0, 1, dealt.fold), dealt.counted, 1)
