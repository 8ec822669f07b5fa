"""A table of molecules of one's own as a data set: what its target column means, how it is split, what was left out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from maggnn.apps.fit.packing import shown
from maggnn.data.dataset import Dataset
from maggnn.data.molecules.scaffolds import scaffold_parts
from maggnn.data.molecules.table import Deal, PackedTable, count_lines, read_table
from maggnn.data.molecules.target_column import LEAST_SPREAD, TargetKind, target_kind
from maggnn.data.own_file import metric_of_classes, official_split
from maggnn.data.packing import Arrays, DuplicateWarning
from maggnn.data.sources import GRAPH_ARRAYS
from maggnn.data.splits import PARTS
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs

FEATURES = "mol"

FEWEST = {"train": 8, "val": 1, "test": 1}
"""Molecules that a part must have."""


@dataclass(frozen=True)
class OwnTable:
    """A table that was read.

    Attributes:
        split: how it was split, in words.
        balance: how many molecules of each class each part has; empty for numbers.
        whole_scaffolds: whether no scaffold is in two parts.
    """

    dataset: Dataset
    table: PackedTable
    split: str
    balance: dict[str, dict[str, int]]
    whole_scaffolds: bool = False

    @property
    def classes(self) -> tuple[str, ...]:
        """Labels in the order of their numbers; empty for numbers."""
        return self.table.target.classes


class SplitChoice(NamedTuple):
    """What --split says: a column, or how to deal the molecules."""

    words: str
    column: str | None
    deal: Deal | None


def read_own_table(
    path: Path, smiles: str, targets: Sequence[str], task: str, split: str, seed: int, workers: int
) -> OwnTable:
    """Read a table for training: `split` is random, scaffold or column:NAME."""
    choice = split_choice(split, seed)
    kind = target_kind(path, targets, task)
    table = packed_table(path, smiles, targets, kind, workers, choice.column, seed, choice.deal)
    _check_parts(path, table.arrays, choice)
    if not kind.classes:
        _check_numbers(path, targets, table.arrays)
        return OwnTable(_dataset(path, table.arrays, targets, kind), table, choice.words, {}, choice.deal is not None)
    balance = class_balance(table.arrays, kind.classes)
    _check_balance(path, targets[0], balance, choice)
    dataset = _dataset(path, table.arrays, targets, kind)
    return OwnTable(dataset, table, choice.words, balance, choice.deal is not None)


def packed_table(
    path: Path,
    smiles: str,
    targets: Sequence[str],
    kind: TargetKind,
    workers: int,
    split_column: str | None = None,
    seed: int = 0,
    deal: Deal | None = None,
) -> PackedTable:
    """The table as arrays, with progress on the terminal."""
    with warnings.catch_warnings(), shown(count_lines(path) - 1) as on_row:
        warnings.simplefilter("ignore", DuplicateWarning)  # said in the model card
        return read_table(path, smiles, targets, FEATURES, split_column, seed, workers, on_row, kind, deal)


def graphs_of(arrays: Arrays) -> PackedGraphs:
    """Packed graphs from arrays in the smallest types."""
    tensors = {name: torch.from_numpy(arrays[name]) for name in GRAPH_ARRAYS if name in arrays}
    wide = {name: value if value.is_floating_point() else value.long() for name, value in tensors.items()}
    if "y" in wide and wide["y"].is_floating_point():
        wide["y"] = wide["y"].reshape(len(wide["y"]), -1)
    return PackedGraphs.build(**wide, level="graph", undirected_once=True)  # pyright: ignore[reportArgumentType]


def split_choice(split: str, seed: int) -> SplitChoice:
    """What --split asks for."""
    if split == "random":
        return SplitChoice(f"random, 80/10/10, seed {seed}", None, None)
    if split == "scaffold":
        words = f"whole scaffolds, near 80/10/10, large ones to train, seed {seed}"
        return SplitChoice(words, None, partial(scaffold_parts, seed=seed))
    kind, _, column = split.partition(":")
    if kind != "column" or not column:
        raise InputError(f"--split is {split!r}: give random, scaffold or column:NAME")
    return SplitChoice(f"as column {column!r} says", column, None)


def class_balance(arrays: Arrays, classes: Sequence[str]) -> dict[str, dict[str, int]]:
    """How many molecules of each class each part has."""
    counts = {part: np.bincount(arrays["y"][arrays[part]], minlength=len(classes)) for part in PARTS}
    return {part: dict(zip(classes, count.tolist(), strict=True)) for part, count in counts.items()}


def _check_parts(path: Path, arrays: Arrays, choice: SplitChoice) -> None:
    counts = {part: len(arrays[part]) for part in PARTS}
    for part in PARTS:
        if counts[part] < FEWEST[part]:
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InputError(
                f"{path}: too few rows for the split ({choice.words}): {found}; {part} needs at least {FEWEST[part]}"
            )


def _check_balance(path: Path, target: str, balance: dict[str, dict[str, int]], choice: SplitChoice) -> None:
    """Two classes or more wherever there is something to learn, to choose by or to test."""
    for part, counts in balance.items():
        found = [label for label, count in counts.items() if count]
        if len(found) < 2:
            raise InputError(
                f"{path}: {part} has only one class of {target!r}, {found[0]!r} ({counts[found[0]]} rows; split: "
                f"{choice.words}): {_other_splits(choice)}"
            )


def _other_splits(choice: SplitChoice) -> str:
    """What to do about a split that does not serve."""
    if choice.column is not None:
        return f"deal the rows out anew in column {choice.column!r}, or give --split random or --split scaffold"
    column = "--split column:NAME with a column that says train, val or test"
    if choice.deal is not None:
        return f"give another --seed, --split random, or {column}"
    return f"add rows of the other classes, which need three each, or give {column}"  # a seed deals the same numbers


def _check_numbers(path: Path, targets: Sequence[str], arrays: Arrays) -> None:
    values = arrays["y"][arrays["train"]].reshape(len(arrays["train"]), -1)
    for target, column in zip(targets, values.T, strict=True):
        if column.min() == column.max():
            raise InputError(f"{path}: column {target!r} is {column[0]:g} in all rows to train on: nothing to learn")
        if column.max() - column.min() < LEAST_SPREAD:
            raise InputError(
                f"{path}: values of column {target!r} differ by less than {LEAST_SPREAD:g}: use other units"
            )


def _dataset(path: Path, arrays: Arrays, targets: Sequence[str], kind: TargetKind) -> Dataset:
    return Dataset(
        name=path.name,
        graphs=graphs_of(arrays),
        task=kind.task,
        num_outputs=len(kind.classes) or len(targets),
        protocol=official_split,
        class_names=kind.classes or None,
        metric=metric_of_classes(len(kind.classes)) if kind.classes else "mae",
        target_names=tuple(targets),
        extra={part: arrays[part].astype("int64") for part in PARTS},
    )
