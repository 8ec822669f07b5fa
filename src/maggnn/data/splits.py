"""Splits into training, validation and test graphs: the protocols of the paper's synthetic sets.

Splits are tensors of graph ids; every random choice comes from a `torch.Generator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from maggnn.errors import InputError

PARTS = ("train", "val", "test")
"""The parts of a split; a packed file has arrays with these names."""


@dataclass(frozen=True)
class Split:
    """Graph ids of one split, each an ascending LongTensor.

    Attributes:
        train: graphs of training.
        val: graphs of validation; empty if a protocol has none.
        test: graphs of the test.
    """

    train: Tensor
    val: Tensor
    test: Tensor


def stratified_folds(
    y: Tensor,
    num_folds: int,
    generator: torch.Generator,
    groups: Tensor | None = None,
    with_val: bool = False,
) -> list[Split]:
    """Make the splits of a stratified cross-validation: fold i is the test split, the others are for training.

    Args:
        y: the class of each graph, [G].
        num_folds: the number of folds and splits.
        generator: shuffles the graphs of each class.
        groups: graphs of equal value stay in one fold, [G]; None if graphs are independent.
        with_val: whether fold i + 1 is the validation split instead of a part of training.

    Returns:
        One split for each fold.
    """
    y, groups = y.cpu(), torch.arange(len(y)) if groups is None else groups.cpu()
    if len(groups) != len(y):
        raise InputError(f"groups has {len(groups)} entries for {len(y)} graphs: give one for each graph")
    num_groups = int(groups.unique().numel())
    if not 2 <= num_folds <= num_groups:
        raise InputError(f"{num_folds} folds of {num_groups} graphs or groups: choose 2 to {num_groups} folds")
    fold = _fold_of_graph(y, groups, num_folds, generator)  # [G]
    splits = []
    for index in range(num_folds):
        is_test = fold == index
        is_val = (fold == (index + 1) % num_folds) & with_val
        splits.append(Split(_ids(~is_test & ~is_val), _ids(is_val), _ids(is_test)))
    return splits


def all_in_all(num_graphs: int) -> Split:
    """Train, validate and test on all graphs, to see whether they can be distinguished at all: the protocol of SR25.

    Args:
        num_graphs: the number of graphs of the set.

    Returns:
        The split.
    """
    ids = torch.arange(num_graphs)
    return Split(ids, ids, ids)


def held_out_classes(classes: Sequence[str], y: Tensor, share: float, generator: torch.Generator) -> Split:
    """Hold out whole isomorphism classes for the test, with at least one class of each label on either side.

    Args:
        classes: a name for each graph; graphs with equal names are assumed to be isomorphic.
        y: the label of each graph, [G]; equal within a class.
        share: the share of each label's classes to hold out, between 0 and 1.
        generator: selects the classes.
    """
    labels = y.tolist()
    label_of: dict[str, int] = {}
    for index, (name, label) in enumerate(zip(classes, labels, strict=True)):
        if label_of.setdefault(name, label) != label:
            raise InputError(f"graph {index} has label {label} but others of its class {name!r} have another one")
    held_out: set[str] = set()
    for label in sorted(set(labels)):
        names = sorted(name for name, own in label_of.items() if own == label)
        if len(names) < 2:
            raise InputError(f"label {label} has only {len(names)} class: holding one out needs at least two")
        count = min(max(round(share * len(names)), 1), len(names) - 1)
        chosen = torch.randperm(len(names), generator=generator)[:count].tolist()
        held_out.update(names[position] for position in chosen)
    is_test = torch.tensor([name in held_out for name in classes])
    return Split(_ids(~is_test), torch.empty(0, dtype=torch.long), _ids(is_test))


def _fold_of_graph(y: Tensor, groups: Tensor, num_folds: int, generator: torch.Generator) -> Tensor:
    """Return the fold of each graph, [G]: groups are shuffled, sorted by their labels, and assigned in turn."""
    _, label = y.unique(return_inverse=True)
    _, group = groups.unique(return_inverse=True)
    num_groups, num_labels = int(group.max()) + 1, int(label.max()) + 1
    counts = torch.bincount(group * num_labels + label, minlength=num_groups * num_labels)
    _, stratum = counts.view(num_groups, num_labels).unique(dim=0, return_inverse=True)  # [groups]
    shuffled = torch.randperm(num_groups, generator=generator)
    dealt = shuffled[stratum[shuffled].argsort(stable=True)]
    fold = torch.empty(num_groups, dtype=torch.long)
    fold[dealt] = torch.arange(num_groups) % num_folds
    return fold[group]


def _ids(mask: Tensor) -> Tensor:
    return mask.nonzero().squeeze(1)
