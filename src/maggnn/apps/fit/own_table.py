"""A user's table of molecules as a data set: what its target columns mean, how it is split, and what was left out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from maggnn.apps.fit.packing import row_progress
from maggnn.apps.fit.tables.number_columns import check_numbers, number_parsers
from maggnn.data.dataset import Dataset, Metric
from maggnn.data.molecules.row_weights import training_weights, weight_value
from maggnn.data.molecules.rows import count_lines
from maggnn.data.molecules.scaffolds import scaffold
from maggnn.data.molecules.several_targets import Known, chosen_targets, known_counts
from maggnn.data.molecules.table import NumberColumn, PackedTable, read_table
from maggnn.data.molecules.table_splits import SplitChoice, Times, split_choice
from maggnn.data.molecules.target_column import LEAST_SPREAD, TargetKind, target_kind
from maggnn.data.own_file import metric_of_classes, official_split
from maggnn.data.packing import Arrays, DuplicateWarning
from maggnn.data.sources import graphs_of
from maggnn.data.splits import PARTS
from maggnn.errors import InputError

FEATURES = "mol"
ALL_AT_RANDOM = split_choice("random", 0)

FEWEST = {"train": 8, "val": 1, "test": 1}
"""The smallest number of molecules in each part of the split."""

MOST_ORDERS = 4
"""The largest number of orders of magnitude of positive values at which their mean absolute error is about all rows."""

MOST_NAMED = 3
"""The largest number of targets that are named in a line about them."""

MOST_SHARED = 0.02
"""The largest share of test molecules with a scaffold of training at which a given split counts as one by scaffolds.
It is not 0, because programs define a few scaffolds differently."""


@dataclass(frozen=True)
class Cleaning:
    """How molecules are cleaned before they are used.

    Attributes:
        salts: "keep" all fragments of salts and mixtures, or only the "largest" (`fragments`).
        duplicates: "keep" all rows with the same molecule, merge them into one ("mean") or "refuse" them.
    """

    salts: str = "keep"
    duplicates: str = "keep"


@dataclass(frozen=True)
class Weighting:
    """The weights of rows in training: a column, and whether all classes get the same total weight."""

    column: str | None = None
    balance: bool = False


@dataclass(frozen=True)
class OwnTable:
    """A table that has been read.

    Attributes:
        split: a description of how it was split.
        balance: the number of molecules of each class in each part; empty for numbers and for several targets.
        known: for several targets, the number of known values in each part; else empty.
        groups: the scaffold or cluster of each molecule, by which the table was split; None for other splits.
        times: the time of each molecule, by which the table was split, [G]; None for other splits.
    """

    dataset: Dataset
    table: PackedTable
    split: str
    balance: dict[str, dict[str, int]]
    groups: list[str] | None = None
    known: dict[str, dict[str, Known]] = field(default_factory=dict)
    times: np.ndarray | None = None

    @property
    def weights(self) -> np.ndarray | None:
        """How much each target of each molecule counts in training; None for all alike."""
        return None if self.dataset.weights is None else self.dataset.weights.numpy()

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of a single target, in the order of their numbers; empty for numbers."""
        return self.table.target.classes


def read_own_table(
    path: Path,
    smiles: str,
    targets: Sequence[str],
    task: str,
    split: str,
    seed: int,
    workers: int,
    cleaning: Cleaning = Cleaning(),  # noqa: B008 (frozen)
    weighting: Weighting = Weighting(),  # noqa: B008 (frozen)
    number_columns: Sequence[str] = (),
) -> OwnTable:
    """Read a table for training.

    Args:
        split: random, scaffold, cluster, time:COLUMN or column:NAME.
        number_columns: additional numeric columns to read (`number_columns`).
    """
    choice = split_choice(split, seed)
    targets = chosen_targets(path, targets, [smiles, *filter(None, (choice.column, weighting.column)), *number_columns])
    kind = target_kind(path, targets, task)
    times = Times()
    numbers = {} if choice.time_column is None else {choice.time_column: NumberColumn(times, "least")}
    numbers |= {} if weighting.column is None else {weighting.column: NumberColumn(weight_value, "total")}
    if weighting.column is not None and weighting.column in (*targets, choice.column):
        raise InputError(f"{path}: --weight {weighting.column!r} is a target, or the column of --split: leave it out")
    _check_uses(path, targets, numbers, number_columns)
    numbers |= number_parsers(number_columns)
    table = packed_table(path, smiles, targets, kind, workers, choice, numbers, cleaning)
    times.check(f"{path}: column {choice.time_column!r}")
    check_numbers(path, {name: table.numbers[name] for name in number_columns})
    _check_parts(path, table, choice)
    balance: dict[str, dict[str, int]] = {}
    known: dict[str, dict[str, Known]] = {}
    if kind.classes:
        balance = class_balance(table.arrays, kind.classes)
        _check_balance(path, targets[0], balance, choice)
    else:
        _check_numbers(path, targets, table.arrays, kind)
        if len(targets) > 1:
            known = known_counts(table.arrays["y"], targets, {part: table.arrays[part] for part in PARTS})
    dataset = replace(_dataset(path, table.arrays, targets, kind), weights=_weights(path, table, kind, weighting))
    groups = _groups(table, choice)
    words = choice.words
    if groups is not None and choice.groups is None:
        words += "; the test part has its own scaffolds, so folds keep scaffolds together"
    when = None if choice.time_column is None else table.numbers[choice.time_column]
    return OwnTable(dataset, table, words, balance, groups, known, when)


def _groups(table: PackedTable, choice: SplitChoice) -> list[str] | None:
    """Return the groups that stay together in folds, as in the split.

    A column may contain a split by scaffolds. If hardly any test molecule shares its scaffold with other parts, folds
    keep scaffolds together, so that out-of-fold predictions are about new scaffolds, as those of the test are.
    """
    if choice.groups is not None:
        return choice.groups(table.canonical)
    if choice.split_column is None:
        return None
    names, parts = [scaffold(smiles) for smiles in table.canonical], table.arrays
    learned = {names[row] for part in ("train", "val") for row in parts[part]}
    shared = [names[row] in learned for row in parts["test"]]
    return names if np.mean(shared) <= MOST_SHARED else None


def _weights(path: Path, table: PackedTable, kind: TargetKind, weighting: Weighting) -> Tensor | None:
    """Return the training weight of each target of each molecule; None if all are equal."""
    if weighting.balance and kind.task == "regression":
        raise InputError(f"{path}: --balance-classes is for classes, but the targets are numbers: leave it out")
    y = table.arrays["y"]
    y = y.reshape(len(y), -1) if kind.task == "regression" else y  # the shape that `graphs_of` uses
    rows = None if weighting.column is None else table.numbers[weighting.column]
    try:
        weights = training_weights(y, table.arrays["train"], rows, weighting.balance)
    except InputError as error:
        raise InputError(f"{path}: column {weighting.column!r}: {error}") from error
    return None if weights is None else torch.from_numpy(weights)


def _check_uses(path: Path, targets: Sequence[str], used: Mapping[str, NumberColumn], columns: Sequence[str]) -> None:
    """Check that no column is used in two ways, and that no target is used as an input."""
    for name in columns:
        if name in targets or name in used or list(columns).count(name) > 1:
            raise InputError(f"{path}: --feature {name!r} is a target, or is used for something else already")


def packed_table(
    path: Path,
    smiles: str,
    targets: Sequence[str],
    kind: TargetKind,
    workers: int,
    choice: SplitChoice = ALL_AT_RANDOM,
    numbers: Mapping[str, NumberColumn] = MappingProxyType({}),
    cleaning: Cleaning = Cleaning(),  # noqa: B008 (frozen)
) -> PackedTable:
    """Return the table as arrays, and show progress on the terminal."""
    with warnings.catch_warnings(), row_progress(count_lines(path) - 1) as on_row:
        warnings.simplefilter("ignore", DuplicateWarning)  # the model card mentions them
        return read_table(
            path, smiles, targets, FEATURES, choice.split_column, 0, workers, on_row, kind, choice.deal, partial=True,
            numbers=numbers, duplicates=cleaning.duplicates, salts=cleaning.salts,
        )  # fmt: skip


def metric_of(kind: TargetKind) -> Metric:
    """Return the metric of a task; for several targets, scores are means over them."""
    if kind.task == "regression":
        return "mae"
    return "auroc" if kind.labels else metric_of_classes(len(kind.classes))


def class_balance(arrays: Arrays, classes: Sequence[str]) -> dict[str, dict[str, int]]:
    """Count the molecules of each class in each part."""
    counts = {part: np.bincount(arrays["y"][arrays[part]], minlength=len(classes)) for part in PARTS}
    return {part: dict(zip(classes, count.tolist(), strict=True)) for part, count in counts.items()}


def _check_parts(path: Path, table: PackedTable, choice: SplitChoice) -> None:
    counts = {part: len(table.arrays[part]) for part in PARTS}
    different = len(set(table.canonical))
    repeated = "" if different == len(table.canonical) else f" ({different} different molecules)"
    first = table.errors[0] if table.errors else None
    unused = (
        ""
        if first is None
        else f"; {len(table.errors)} rows were left out, the first in line {first.row}: {first.reason}"
    )
    for part in PARTS:
        if counts[part] < FEWEST[part]:
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InputError(
                f"{path}: too few rows{repeated} for the split ({choice.words}): {found}; {part} needs at least "
                f"{FEWEST[part]}{unused}"
            )


def _check_balance(path: Path, target: str, balance: dict[str, dict[str, int]], choice: SplitChoice) -> None:
    """Check that the training, validation and test parts have at least two classes each."""
    for part, counts in balance.items():
        found = [label for label, count in counts.items() if count]
        if len(found) < 2:
            raise InputError(
                f"{path}: {part} has only one class of {target!r}, {found[0]!r} ({counts[found[0]]} rows; split: "
                f"{choice.words}): {_other_splits(choice)}"
            )


def _other_splits(choice: SplitChoice) -> str:
    """Return advice for a split that cannot be used."""
    if choice.split_column is not None:
        return f"change the split in column {choice.column!r}, or give --split random or --split scaffold"
    column = "--split column:NAME with a column of train, val and test"
    if choice.time_column is not None:
        return f"give --split random or --split scaffold, or {column}"
    if choice.groups is not None:
        return f"give another --seed, --split random, or {column}"
    # Another seed would not help, because random splits are stratified.
    return f"add rows of the other classes, which need three each, or give {column}"


def _check_numbers(path: Path, targets: Sequence[str], arrays: Arrays, kind: TargetKind) -> None:
    """Check that training has two values of every target, and validation and test both classes of some target."""
    values = {part: arrays["y"][arrays[part]].reshape(len(arrays[part]), -1) for part in PARTS}
    for place, target in enumerate(targets):
        column = values["train"][:, place]
        column = column[~np.isnan(column)]
        if not len(column):
            raise InputError(f"{path}: column {target!r} has no value in the rows to train on: leave it out")
        if column.min() == column.max():
            value = kind.labels[place][int(column[0])] if kind.labels else f"{column[0]:g}"
            raise InputError(f"{path}: column {target!r} is {value} in all rows to train on: there is nothing to learn")
        if column.max() - column.min() < LEAST_SPREAD:
            raise InputError(
                f"{path}: values of column {target!r} differ by less than {LEAST_SPREAD:g}: use other units"
            )
    for part in ("val", "test"):
        both = [bool((column == 0).any() and (column == 1).any()) for column in values[part].T]
        if kind.labels and not any(both):
            raise InputError(f"{path}: no target has both of its classes in {part}: give more rows or another --seed")


def skewed_targets(dataset: Dataset) -> str:
    """Name the targets whose positive values span so many orders of magnitude that few rows count; empty if none."""
    if dataset.task != "regression":
        return ""
    names = [
        repr(name)
        for name, column in zip(dataset.target_names or (), dataset.y.reshape(len(dataset.y), -1).T, strict=True)
        if _orders(column[~column.isnan()].double().numpy()) > MOST_ORDERS
    ]
    if not names:
        return ""
    shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    return (
        f"Values of {shown} span more than {MOST_ORDERS} orders of magnitude: models learn, and scores measure, the "
        "largest alone; if ratios matter, fit the logarithm"
    )


def _orders(values: np.ndarray) -> float:
    """Return how many orders of magnitude the middle 90 % of values span, [n]; 0 unless all are positive."""
    if not (values > 0).all():
        return 0.0
    low, high = np.quantile(values, (0.05, 0.95))
    return float(np.log10(high / low))


def _dataset(path: Path, arrays: Arrays, targets: Sequence[str], kind: TargetKind) -> Dataset:
    return Dataset(
        name=path.name,
        graphs=graphs_of(arrays),
        task=kind.task,
        num_outputs=len(kind.classes) or len(targets),
        protocol=official_split,
        class_names=kind.classes or None,
        metric=metric_of(kind),
        target_names=tuple(targets),
        extra={part: arrays[part].astype("int64") for part in PARTS},
    )
