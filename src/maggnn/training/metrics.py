"""What a set of answers is worth: accuracy and area under the ROC curve in percent, mean absolute error.

Of several targets a score is the mean over targets, each on the rows where it is known (not NaN).

Shapes: answers [..., rows, out], y [rows, ...]; a score for each leading index.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.data.dataset import Metric
from maggnn.errors import InputError


def score(answers: Tensor, y: Tensor, metric: Metric) -> Tensor:
    """The metric of probabilities [..., rows, classes] or values [..., rows, out], [...].

    NaN where an answer is no finite number: the likeliest class of such a row would be the first one.
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
    """Mean absolute error of each output over the rows where it is known, [..., out]; NaN where there is none."""
    y = y.reshape(len(y), -1).double()
    known = ~y.isnan()
    return torch.where(known, (answers.double() - y).abs(), 0.0).sum(dim=-2) / known.sum(dim=0)


def aurocs(answers: Tensor, y: Tensor) -> Tensor:
    """The area under the ROC curve of each two-class target [rows, out], [..., out]; NaN without both classes."""
    areas = []
    for column, target in enumerate(y.T):
        known = ~target.isnan()
        found = target[known]
        both = bool((found == 1).any()) and bool((found == 0).any())
        lacking = answers.new_full(answers.shape[:-2], torch.nan, dtype=torch.float64)
        areas.append(auroc(answers[..., known, column], found).double() if both else lacking)
    return torch.stack(areas, dim=-1)


def trimmed_error(answers: Tensor, y: Tensor, worst: float = 0.01) -> Tensor:
    """Mean absolute error without the share `worst` of rows that are farthest off, [...].

    One molecule of ZINC's validation split is ten spreads away from all others: whether a network happens to come near
    it moves the plain mean more than most settings do.
    """
    y = y.reshape(len(y), -1).double()
    known = ~y.isnan()
    errors = torch.where(known, (answers.double() - y).abs(), 0.0).sum(dim=-1) / known.sum(dim=-1)  # [..., rows]
    kept = max(1, errors.shape[-1] - round(worst * errors.shape[-1]))
    return errors.sort(dim=-1).values[..., :kept].mean(dim=-1)


def auroc(scores: Tensor, y: Tensor) -> Tensor:
    """The share of (positive, negative) pairs that `scores` [..., rows] orders rightly, ties counting half."""
    positive = y == 1
    num_positive, num_negative = int(positive.sum()), int((~positive).sum())
    if not num_positive or not num_negative:
        raise InputError("the area under the ROC curve needs rows of both classes")
    ranks = _mean_ranks(scores.reshape(-1, len(y)))[:, positive].sum(dim=-1)
    pairs = (ranks - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative)
    return pairs.reshape(scores.shape[:-1])


def _mean_ranks(rows: Tensor) -> Tensor:
    """Ranks from 1 up within each row [R, n]; equal values share the mean of theirs."""
    ranks = []
    for row in rows:
        _, place, counts = row.unique(return_inverse=True, return_counts=True)
        last = counts.cumsum(0).double()
        ranks.append((last - (counts - 1) / 2)[place])
    return torch.stack(ranks)
