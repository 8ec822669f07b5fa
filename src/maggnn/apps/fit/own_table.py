"""A table of molecules of one's own as a data set: what its target column means, how it is split, what was left out."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

import torch

from maggnn.apps.fit.packing import shown
from maggnn.data.benchmarks import official_split
from maggnn.data.dataset import Dataset
from maggnn.data.molecules.scaffolds import scaffold_parts
from maggnn.data.molecules.table import MOST_CLASSES, PARTS, PackedTable, column_labels, count_lines, read_table
from maggnn.data.packing import Arrays, DuplicateWarning
from maggnn.data.sources import GRAPH_ARRAYS
from maggnn.errors import InputError
from maggnn.graphs.batch import Task
from maggnn.graphs.packed import PackedGraphs
from maggnn.training.metrics import Metric

FEATURES = "mol"
TaskChoice = Literal["auto", "classification", "regression"]

MOST_LABELS = 100
"""More classes than that are taken for a mistake."""

FEWEST = {"train": 8, "val": 1, "test": 1}
"""Molecules that a part must have."""


@dataclass(frozen=True)
class OwnTable:
    """A table that was read.

    Attributes:
        classes: labels in the order of their numbers; empty for numbers.
        split: how it was split, in words.
    """

    dataset: Dataset
    table: PackedTable
    classes: tuple[str, ...]
    split: str


class SplitChoice(NamedTuple):
    """What --split says: a column, or how to deal the molecules."""

    words: str
    column: str | None
    deal: Callable[[Sequence[str]], list[str]] | None


def read_own_table(
    path: Path, smiles: str, targets: Sequence[str], task: str, split: str, seed: int, workers: int
) -> OwnTable:
    """Read a table for training: `split` is random, scaffold or column:NAME."""
    choice = split_choice(split, seed)
    classes = target_classes(path, targets, task)
    table = packed_table(path, smiles, targets, classes, workers, choice.column, seed, choice.deal)
    _check_parts(path, table.arrays, choice)
    if classes:
        _check_classes(path, targets[0], table.arrays, classes)
    else:
        _check_numbers(path, targets, table.arrays)
    return OwnTable(_dataset(path, table.arrays, targets, classes), table, classes, choice.words)


def packed_table(
    path: Path,
    smiles: str,
    targets: Sequence[str],
    classes: Sequence[str],
    workers: int,
    split_column: str | None = None,
    seed: int = 0,
    deal: Callable[[Sequence[str]], list[str]] | None = None,
) -> PackedTable:
    """The table as arrays, with progress on the terminal."""
    with warnings.catch_warnings(), shown(count_lines(path) - 1) as on_row:
        warnings.simplefilter("ignore", DuplicateWarning)  # said in the model card
        return read_table(
            path, smiles, targets, FEATURES, split_column, seed, workers, on_row, regression=not classes,
            classes=classes or None, deal=deal,
        )  # fmt: skip


def graphs_of(arrays: Arrays) -> PackedGraphs:
    """Packed graphs from arrays in the smallest types."""
    tensors = {name: torch.from_numpy(arrays[name]) for name in GRAPH_ARRAYS if name in arrays}
    wide = {name: value if value.is_floating_point() else value.long() for name, value in tensors.items()}
    if "y" in wide and wide["y"].is_floating_point():
        wide["y"] = wide["y"].float().reshape(len(wide["y"]), -1)
    return PackedGraphs.build(**wide, level="graph", undirected_once=True)  # pyright: ignore[reportArgumentType]


def split_choice(split: str, seed: int) -> SplitChoice:
    """What --split asks for."""
    if split == "random":
        return SplitChoice(f"random, 80/10/10, seed {seed}", None, None)
    if split == "scaffold":
        return SplitChoice("whole scaffolds, 80/10/10, the largest to train", None, scaffold_parts)
    kind, _, column = split.partition(":")
    if kind != "column" or not column:
        raise InputError(f"--split is {split!r}: give random, scaffold or column:NAME")
    return SplitChoice(f"as column {column!r} says", column, None)


def target_classes(path: Path, targets: Sequence[str], task: str) -> tuple[str, ...]:
    """The classes that the target column holds, in order; none where it holds numbers to predict.

    Unless told, a column without a single number holds classes, and so does one of the numbers 0, 1, ... up to 19.
    """
    if task not in get_args(TaskChoice):
        raise InputError(f"--task is {task!r}: give {', '.join(get_args(TaskChoice))}")
    repeated = [name for name, count in Counter(targets).items() if count > 1]
    if repeated:
        raise InputError(f"{path}: target {repeated[0]!r} is given twice")
    if task == "regression" or (task == "auto" and len(targets) > 1):
        return ()
    if len(targets) > 1:
        raise InputError(f"{path}: {len(targets)} target columns of classes: one is possible")
    found = column_labels(path, targets[0])
    if task == "auto" and not _look_like_classes(found):
        return ()
    if len(found) == 1:
        raise InputError(f"{path}: column {targets[0]!r} has only one class, {next(iter(found))!r}: nothing to learn")
    if len(found) > MOST_LABELS:
        raise InputError(f"{path}: column {targets[0]!r} has {len(found)} classes, at most {MOST_LABELS} are possible")
    return tuple(sorted(found, key=_order))


def _look_like_classes(found: Counter[str]) -> bool:
    if not any(_is_number(label) for label in found):
        return bool(found)
    return 1 < len(found) <= MOST_CLASSES and set(found) == {str(number) for number in range(len(found))}


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _order(label: str) -> tuple[float, str]:
    """Numbers in their order, then texts in theirs."""
    value = float(label) if _is_number(label) else math.inf
    return (math.inf if math.isnan(value) else value, label)


def _check_parts(path: Path, arrays: Arrays, choice: SplitChoice) -> None:
    counts = {part: len(arrays[part]) for part in PARTS}
    for part in PARTS:
        if counts[part] < FEWEST[part]:
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InputError(
                f"{path}: too few rows for the split ({choice.words}): {found}; {part} needs at least {FEWEST[part]}"
            )


def _check_classes(path: Path, target: str, arrays: Arrays, classes: tuple[str, ...]) -> None:
    found = set(arrays["y"][arrays["train"]].tolist())
    if len(found) < 2:
        raise InputError(f"{path}: the rows to train on have only one class of {target!r}, {classes[min(found)]!r}")


def _check_numbers(path: Path, targets: Sequence[str], arrays: Arrays) -> None:
    values = arrays["y"][arrays["train"]].reshape(len(arrays["train"]), -1)
    for target, column in zip(targets, values.T, strict=True):
        if column.min() == column.max():
            raise InputError(f"{path}: column {target!r} is {column[0]:g} in all rows to train on: nothing to learn")


def _dataset(path: Path, arrays: Arrays, targets: Sequence[str], classes: tuple[str, ...]) -> Dataset:
    task: Task = "classification" if classes else "regression"
    extra = {part: arrays[part].astype("int64") for part in PARTS}
    return Dataset(
        name=path.name,
        graphs=graphs_of(arrays),
        task=task,
        num_outputs=len(classes) or len(targets),
        protocol=official_split,
        class_names=classes or None,
        metric=_metric(arrays, classes),
        target_names=tuple(targets),
        extra=extra,
    )


def _metric(arrays: Arrays, classes: tuple[str, ...]) -> Metric:
    if not classes:
        return "mae"
    # An area under the curve needs both classes wherever it is measured.
    both = all(len(set(arrays["y"][arrays[part]].tolist())) == 2 for part in ("val", "test"))
    return cast("Metric", "auroc" if len(classes) == 2 and both else "accuracy")
