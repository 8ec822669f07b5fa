"""The folds of an ensemble: for every row of the training and validation splits, one member did not learn from it.

Random folds are stratified by class (for several targets, by the rarest label of a row), and the copies of a repeated
molecule stay in one fold. After a split by scaffolds (or clusters), whole scaffolds are assigned to folds, so that
out-of-fold predictions are about new scaffolds, as those of the test are. The few large scaffolds, which that split
puts into training, are distributed molecule by molecule, and their out-of-fold predictions are not counted.

After a split by time, numbers have the newest rows as a fold of their own, and the older rows are divided at random.
Intervals are calibrated on the newest fold, which is predicted from older rows, as the test is: the models of the other
folds know both earlier and later molecules. The weights of parts are chosen by the older rows: the newest are few, and
their errors, which are larger, would decide alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from maggnn.data.molecules.scaffolds import LARGE, dealing_cost
from maggnn.data.molecules.several_targets import strata
from maggnn.data.splits import Split, stratified_folds
from maggnn.graphs.batch import Task

FEWEST_IN_FOLD, FEWEST_TO_TRAIN = 4, 8
FEWEST_COUNTED = 30


@dataclass(frozen=True)
class Folds:
    """The assignment of rows to folds.

    Attributes:
        fold: the fold of each row, -1 for rows of the test split, [G].
        counted: whether the weights of parts are chosen by a row's out-of-fold prediction, [G].
        count: the number of folds.
        newest: after a split by time, whether a row is in the fold on which intervals are calibrated, [G]; else None,
            and all counted rows are used.
    """

    fold: np.ndarray
    counted: np.ndarray
    count: int
    newest: np.ndarray | None = None

    @property
    def like_test(self) -> np.ndarray:
        """Whether the errors of a row are like those of the test, so that intervals are calibrated on it, [G]."""
        return self.counted if self.newest is None else self.newest

    def train(self, number: int) -> np.ndarray:
        """Return the rows that member `number` learns from, ascending."""
        return np.flatnonzero((self.fold >= 0) & (self.fold != number))

    def held_out(self, number: int) -> np.ndarray:
        """Return the rows that member `number` does not learn from, ascending."""
        return np.flatnonzero(self.fold == number)


def single_fold(split: Split, count: int) -> Folds:
    """Return a single fold for a split of `count` rows: one member, whose fold is the validation split."""
    fold = np.full(count, -1)
    fold[split.train.numpy()], fold[split.val.numpy()] = 1, 0
    return Folds(fold, np.ones(count, dtype=bool), 1)


def deal_folds(
    rows: np.ndarray,
    y: np.ndarray,
    task: Task,
    count: int,
    seed: int,
    names: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    weights: np.ndarray | None = None,
    times: np.ndarray | None = None,
) -> Folds | None:
    """Assign rows to `count` folds, or to as many as the rows allow; returns None if not even two folds are possible.

    Args:
        rows: the rows of the training and validation splits, ascending.
        y: the targets of all rows, [G] or [G, targets]; NaN for missing values.
        names: canonical SMILES of all rows; equal ones stay together.
        groups: the scaffold or cluster of all rows, which is kept together; None if rows are independent.
        weights: how much each target counts in training, in the shape of y; nothing is learned where it is 0.
        times: when each row was measured, if the test rows are the newest, [G]. Folds are random for classes, and if
            there are too few new values of a target to calibrate intervals on.
    """
    labels = strata(y[rows])
    alike = np.arange(len(rows))
    if names is not None:
        alike = np.unique([names[int(row)] for row in rows], return_inverse=True)[1].reshape(-1)
    together = None if groups is None else np.array([groups[int(row)] for row in rows])
    for number in range(min(count, len(rows) // FEWEST_IN_FOLD, int(alike.max()) + 1), 1, -1):
        counted, newest = np.ones(len(rows), dtype=bool), None
        if together is None:
            dealt = _random(labels, alike, number, seed)
        else:
            dealt, counted = _by_group(labels, alike, together, number, seed)
        if times is not None and task == "regression" and len(rows) >= 2 * FEWEST_COUNTED:
            by_time = _by_time(labels, alike, times[rows], number, seed)
            last = rows[by_time == number - 1]
            if _are_many(y[last]):
                dealt, counted = by_time, by_time != number - 1
                newest = np.isin(np.arange(len(y)), last)
        if _serves(dealt, number, y[rows], task, None if weights is None else weights[rows] > 0):
            fold, all_counted = np.full(len(y), -1), np.zeros(len(y), dtype=bool)
            fold[rows], all_counted[rows] = dealt, counted
            return Folds(fold, all_counted, number, newest)
    return None


def _random(labels: np.ndarray, alike: np.ndarray, number: int, seed: int) -> np.ndarray:
    generator = torch.Generator().manual_seed(seed)
    fold = np.zeros(len(labels), dtype=int)
    splits = stratified_folds(torch.from_numpy(labels.astype("int64")), number, generator, torch.from_numpy(alike))
    for place, split in enumerate(splits):
        fold[split.test.numpy()] = place
    return fold


def _by_time(labels: np.ndarray, alike: np.ndarray, times: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Return the fold of each row, the last one for the newest molecules.

    As in the split, a molecule is as old as its oldest row, and molecules of equal times are drawn.
    """
    sizes = np.bincount(alike)
    oldest = np.full(len(sizes), np.inf)
    np.minimum.at(oldest, alike, times)
    drawn = np.random.default_rng(seed).permutation(len(sizes))
    order = np.lexsort((drawn, oldest))  # molecules, the oldest first
    wanted = max(len(labels) / number, FEWEST_COUNTED)
    newer = np.cumsum(sizes[order][::-1])[::-1] - sizes[order]  # rows of newer molecules
    newest = np.isin(alike, order[newer < wanted])
    fold = np.full(len(labels), number - 1)
    older = np.unique(alike[~newest], return_inverse=True)[1].reshape(-1)
    fold[~newest] = _random(labels[~newest], older, number - 1, seed) if number > 2 else 0
    return fold


def _are_many(y: np.ndarray) -> bool:
    """Whether every target has enough known values [rows, targets] to calibrate intervals on."""
    return bool(((~np.isnan(y.reshape(len(y), -1))).sum(axis=0) >= FEWEST_COUNTED).all())


def _by_group(
    labels: np.ndarray, alike: np.ndarray, groups: np.ndarray, number: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the fold of each row, and whether its whole group is in it."""
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    whole = sizes[group] <= LARGE * len(labels) / number
    fold = np.zeros(len(labels), dtype=int)
    if not whole.all():
        single = np.unique(alike[~whole], return_inverse=True)[1].reshape(-1)
        enough = int(single.max()) + 1 >= number
        fold[~whole] = _random(labels[~whole], single, number, seed) if enough else 0
    _, label = np.unique(labels, return_inverse=True)
    width = int(label.max()) + 1
    wanted = np.tile(np.bincount(label, minlength=width) / number, (number, 1))  # [folds, classes]
    has = np.stack([np.bincount(label[~whole & (fold == place)], minlength=width) for place in range(number)])
    has = has.astype(float)
    order = np.random.default_rng(seed).permutation(len(sizes))
    for name in order[np.argsort(-sizes[order], kind="stable")]:
        members = np.flatnonzero((group == name) & whole)
        if len(members):
            brings = np.bincount(label[members], minlength=width)
            fold[members] = place = int(dealing_cost(brings, has, wanted).argmin())
            has[place] += brings
    enough = whole.sum() >= max(FEWEST_COUNTED, 0.2 * len(labels))
    return fold, whole if enough else np.ones(len(labels), dtype=bool)


def _serves(fold: np.ndarray, number: int, y: np.ndarray, task: Task, counts: np.ndarray | None) -> bool:
    """Whether every fold has something to validate with and leaves values of every target to learn from."""
    to_learn = y if counts is None else np.where(counts, y, np.nan)
    for place in range(number):
        learned, held_out = _varied(to_learn[fold != place]), _varied(y[fold == place])
        if (fold != place).sum() < FEWEST_TO_TRAIN or not (fold == place).any() or not learned.all():
            return False
        if (task == "classification" and not held_out.all()) or (task == "multilabel" and not held_out.any()):
            return False
    return True


def _varied(y: np.ndarray) -> np.ndarray:
    """Whether each target [rows, targets] has two different known values, [targets]."""
    y = y.reshape(len(y), -1)
    known = (column[~np.isnan(column)] for column in y.T)
    return np.array([len(column) > 0 and bool((column != column[0]).any()) for column in known])
