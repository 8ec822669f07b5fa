"""The folds of an ensemble: for every row of the training and validation splits, one member did not learn from it.

Random folds are stratified by class (for several targets, by the rarest label of a row), and the copies of a repeated
molecule stay in one fold. After a split by scaffolds (or clusters), whole scaffolds are assigned to folds, so that
out-of-fold predictions are about new scaffolds, as those of the test are. The few large scaffolds, which that split
puts into training, are distributed molecule by molecule, and their out-of-fold predictions are not counted.
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
        counted: whether a row's out-of-fold prediction is of the same kind as those of the test, [G].
        count: the number of folds.
    """

    fold: np.ndarray
    counted: np.ndarray
    count: int

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
) -> Folds | None:
    """Assign rows to `count` folds, or to as many as the rows allow; returns None if not even two folds are possible.

    Args:
        rows: the rows of the training and validation splits, ascending.
        y: the targets of all rows, [G] or [G, targets]; NaN for missing values.
        names: canonical SMILES of all rows; equal ones stay together.
        groups: the scaffold or cluster of all rows, which is kept together; None if rows are independent.
        weights: how much each target counts in training, in the shape of y; nothing is learned where it is 0.
    """
    labels = strata(y[rows])
    alike = np.arange(len(rows))
    if names is not None:
        alike = np.unique([names[int(row)] for row in rows], return_inverse=True)[1].reshape(-1)
    together = None if groups is None else np.array([groups[int(row)] for row in rows])
    for number in range(min(count, len(rows) // FEWEST_IN_FOLD, int(alike.max()) + 1), 1, -1):
        counted = np.ones(len(rows), dtype=bool)
        if together is None:
            dealt = _random(labels, alike, number, seed)
        else:
            dealt, counted = _by_group(labels, alike, together, number, seed)
        if _serves(dealt, number, y[rows], task, None if weights is None else weights[rows] > 0):
            fold, all_counted = np.full(len(y), -1), np.zeros(len(y), dtype=bool)
            fold[rows], all_counted[rows] = dealt, counted
            return Folds(fold, all_counted, number)
    return None


def _random(labels: np.ndarray, alike: np.ndarray, number: int, seed: int) -> np.ndarray:
    generator = torch.Generator().manual_seed(seed)
    fold = np.zeros(len(labels), dtype=int)
    splits = stratified_folds(torch.from_numpy(labels.astype("int64")), number, generator, torch.from_numpy(alike))
    for place, split in enumerate(splits):
        fold[split.test.numpy()] = place
    return fold


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
