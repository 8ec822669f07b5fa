"""Metrics: accuracy and area under the ROC curve in percent, and mean absolute error.

For several targets a score is the mean over targets, each on the rows where it is known (not NaN).

Shapes: answers [..., rows, out], y [rows, ...]; there is a score for each leading index.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.data.dataset import Metric
from maggnn.errors import InputError


def score(answers: Tensor, y: Tensor, metric: Metric) -> Tensor:
    """Return the metric of probabilities [..., rows, classes] or values [..., rows, out], [...].

    The result is NaN if an answer is not finite, because argmax would predict the first class for such a row.
    """
    if metric == "mae":
        known = ~y.reshape(len(y), -1).isnan()
        return absolute_errors(answers, y)[..., known.any(dim=0)].mean(dim=-1)
    if y.is_floating_point():
        right = aurocs(answers, y).nanmean(dim=-1)
    elif metric == "accuracy":
        right = (answers.argmax(dim=-1) == y).double().mean(dim=-1)
    else:
        right = auroc(answers[..., 1], y)
    return torch.where(answers.isfinite().all(dim=-1).all(dim=-1), 100 * right, torch.nan)


def absolute_errors(answers: Tensor, y: Tensor) -> Tensor:
    """Return the mean absolute error of each output over the rows where it is known, [..., out]; NaN if none is."""
    y = y.reshape(len(y), -1).double()
    known = ~y.isnan()
    return torch.where(known, (answers.double() - y).abs(), 0.0).sum(dim=-2) / known.sum(dim=0)


def aurocs(answers: Tensor, y: Tensor) -> Tensor:
    """Return the area under the ROC curve of each two-class target [rows, out], [..., out]; NaN for a single class."""
    areas = []
    for column, target in enumerate(y.T):
        known = ~target.isnan()
        found = target[known]
        both = bool((found == 1).any()) and bool((found == 0).any())
        lacking = answers.new_full(answers.shape[:-2], torch.nan, dtype=torch.float64)
        areas.append(auroc(answers[..., known, column], found).double() if both else lacking)
    return torch.stack(areas, dim=-1)


def trimmed_error(answers: Tensor, y: Tensor, worst: float = 0.01) -> Tensor:
    """Return the mean absolute error without the share `worst` of rows with the largest errors, [...].

    One molecule of ZINC's validation split is ten standard deviations away from all others: how well a network happens
    to fit it changes the plain mean more than most settings do.
    """
    y = y.reshape(len(y), -1).double()
    known = ~y.isnan()
    errors = torch.where(known, (answers.double() - y).abs(), 0.0).sum(dim=-1) / known.sum(dim=-1)  # [..., rows]
    kept = max(1, errors.shape[-1] - round(worst * errors.shape[-1]))
    return errors.sort(dim=-1).values[..., :kept].mean(dim=-1)


def auroc(scores: Tensor, y: Tensor) -> Tensor:
    """Return the share of (positive, negative) pairs that `scores` [..., rows] order correctly; ties count half."""
    positive = y == 1
    num_positive, num_negative = int(positive.sum()), int((~positive).sum())
    if not num_positive or not num_negative:
        raise InputError("the area under the ROC curve needs rows of both classes")
    ranks = _mean_ranks(scores.reshape(-1, len(y)))[:, positive].sum(dim=-1)
    pairs = (ranks - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative)
    return pairs.reshape(scores.shape[:-1])


def _mean_ranks(rows: Tensor) -> Tensor:
    """Return the ranks from 1 up within each row [R, n]; equal values get the mean of their ranks."""
    ranks = []
    for row in rows:
        _, place, counts = row.unique(return_inverse=True, return_counts=True)
        last = counts.cumsum(0).double()
        ranks.append((last - (counts - 1) / 2)[place])
    return torch.stack(ranks)
