"""Splits of a table's molecules into train, val and test; the same molecule is never in two parts.

    random        near 80/10/10, stratified by class
    scaffold      whole Bemis-Murcko scaffolds (`scaffolds`)
    cluster       whole clusters of similar molecules (`clusters`)
    time:COLUMN   the oldest 80 % train, the newest 10 % test; a molecule goes where its oldest row goes
    column:NAME   by a column with train, val (or valid) or test

Shapes: G molecules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from maggnn.data.molecules.clusters import CUTOFF, clusters
from maggnn.data.molecules.scaffolds import SHARES, group_parts, scaffold
from maggnn.data.molecules.target_column import as_number, is_missing
from maggnn.data.splits import PARTS
from maggnn.errors import InputError

HELD_OUT = 0.1
"""The share of molecules in val and in test, if the table has no split."""

SPLITS = "random, scaffold, cluster, time:COLUMN or column:NAME"


class SplitInput(NamedTuple):
    """The molecules to split: canonical SMILES, strata for a stratified split [G], and columns of numbers."""

    canonical: Sequence[str]
    strata: np.ndarray
    numbers: Mapping[str, np.ndarray]


SplitFunction = Callable[[SplitInput], list[str]]
"""A function that assigns a part to each molecule."""

Grouping = Callable[[Sequence[str]], list[str]]
"""A function from canonical SMILES to group names; molecules of one group stay together."""


@dataclass(frozen=True)
class SplitChoice:
    """The split that --split requests.

    Attributes:
        words: a description.
        deal: assigns a part to each molecule; None if a column does.
        column: that column, or the column of times.
        groups: the groups of molecules that stay together, also in folds; None if there are none.
    """

    words: str
    deal: SplitFunction | None
    column: str | None = None
    groups: Grouping | None = None

    @property
    def split_column(self) -> str | None:
        """The column with train, val or test."""
        return self.column if self.deal is None else None

    @property
    def time_column(self) -> str | None:
        """The column of times."""
        return self.column if self.deal is not None else None


def split_choice(split: str, seed: int) -> SplitChoice:
    """Parse the value of --split."""
    if split == "random":
        return SplitChoice(f"random, 80/10/10, seed {seed}", partial(random_parts, seed=seed))
    if split == "scaffold":
        words = f"whole scaffolds, near 80/10/10, large ones to train, seed {seed}"
        return SplitChoice(words, partial(_group_split, groups=_scaffolds, seed=seed), groups=_scaffolds)
    if split == "cluster":
        words = (
            f"whole clusters (Butina, Tanimoto distance {CUTOFF:g} of Morgan fingerprints), near 80/10/10, large ones "
            f"to train, seed {seed}"
        )
        return SplitChoice(words, partial(_group_split, groups=clusters, seed=seed), groups=clusters)
    kind, _, column = split.partition(":")
    if kind == "column" and column:
        return SplitChoice(f"by column {column!r}", None, column)
    if kind == "time" and column:
        words = (
            f"by column {column!r}: the oldest 80 % train, then val, the newest 10 % test; equal times by seed {seed}"
        )
        return SplitChoice(words, partial(time_parts, column=column, seed=seed), column)
    raise InputError(f"--split is {split!r}: give {SPLITS}")


class Times:
    """Converts the cells of a column to times that can be compared: numbers, or dates such as 2024-01-31 (ISO 8601).

    The year 2019 and the date 2018-05-01 cannot be compared, so a column has either numbers or dates.
    """

    def __init__(self) -> None:
        self.numbers: list[str] = []
        self.dates: list[str] = []

    def __call__(self, text: str) -> float:
        if is_missing(text):
            raise InputError("its time is missing")
        number = as_number(text)
        if number is not None:
            self.numbers = self.numbers or [text]
            return number
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError:
            raise InputError(f"its time is {text[:40]!r}, neither a number nor a date such as 2024-01-31") from None
        self.dates = self.dates or [text]
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

    def check(self, where: str) -> None:
        """Raise an `InputError` if the column has both numbers and dates."""
        if self.numbers and self.dates:
            raise InputError(
                f"{where} mixes numbers such as {self.numbers[0].strip()[:40]!r} with dates such as "
                f"{self.dates[0].strip()[:40]!r}: write all times alike"
            )


def time_parts(rows: SplitInput, column: str, seed: int = 0) -> list[str]:
    """Assign the oldest molecules to train and the newest to test.

    Molecules of equal times are drawn. In the order of the rows, those of a year that falls into two parts would be
    divided by whatever else the table is sorted by, such as the target.
    """
    names = np.unique(np.array(rows.canonical, dtype=object), return_inverse=True)[1].reshape(-1)
    oldest = np.full(names.max() + 1, np.inf)
    np.minimum.at(oldest, names, rows.numbers[column])
    drawn = np.random.default_rng(seed).permutation(len(oldest))
    order = np.lexsort((drawn[names], oldest[names]))
    parts = np.empty(len(names), dtype=object)
    limits = np.cumsum([SHARES[part] for part in PARTS]) * len(names)
    reached = np.empty(len(names), dtype=int)
    reached[order] = np.searchsorted(limits - 1e-9, np.arange(len(names)), side="right")
    first = np.full(names.max() + 1, len(PARTS))
    np.minimum.at(first, names, reached)  # a molecule is in one part
    parts[:] = [PARTS[min(place, len(PARTS) - 1)] for place in first[names]]
    return parts.tolist()


def random_parts(rows: SplitInput, seed: int = 0) -> list[str]:
    """Assign random parts to molecules, stratified; equal molecules get the same part."""
    _, first, place = np.unique(np.array(rows.canonical, dtype=object), return_index=True, return_inverse=True)
    order = np.argsort(first)  # molecules in the order of their first rows
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    dealt = _assign_at_random(rows.strata[first[order]], seed)
    return [dealt[rank[number]] for number in place.reshape(-1)]


def _scaffolds(canonical: Sequence[str]) -> list[str]:
    return [scaffold(smiles) for smiles in canonical]


def _group_split(rows: SplitInput, groups: Grouping, seed: int) -> list[str]:
    return group_parts(groups(rows.canonical), rows.strata, seed)


def _assign_at_random(classes: np.ndarray, seed: int) -> list[str]:
    """Assign a random part to each molecule, stratified by class or stratum [G]; equal seeds give equal parts."""
    count = len(classes)
    held_out = round(HELD_OUT * count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).argsort().numpy()
    parts = np.full(count, "train", dtype=object)
    labels, sizes = np.unique(classes, return_counts=True)
    for label, seats in zip(labels, _held_out_counts(sizes, held_out).tolist(), strict=True):
        members = order[classes[order] == label]
        parts[members[:seats]], parts[members[seats : 2 * seats]] = "val", "test"
    rest = order[parts[order] == "train"]
    for part in ("val", "test"):  # if classes are too small to fill a part
        lacking = held_out - int((parts == part).sum())
        parts[rest[:lacking]] = part
        rest = rest[lacking:]
    return parts.tolist()


def _held_out_counts(sizes: np.ndarray, seats: int) -> np.ndarray:
    """Return the number of molecules of each class in a part with `seats` molecules, [classes].

    It is a class's share, at least one if the class has one for each part, and never so many that none is left for
    training.
    """
    share, most = seats * sizes / sizes.sum(), (sizes - 1) // 2
    given = np.minimum(np.maximum(np.floor(share).astype(int), 1), most)
    while given.sum() > seats:
        given[(given - share).argmax()] -= 1
    while given.sum() < seats and (given < most).any():
        given[np.where(given < most, share - given, -np.inf).argmax()] += 1
    return given
