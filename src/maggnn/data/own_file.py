"""A user's packed file as a data set: it contains the targets and the split.

Its layout is described in `sources`; `maggnn data pack` makes one from a table of SMILES.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from maggnn.data.dataset import Dataset, Metric
from maggnn.data.mapped import ENDING, read_mapped
from maggnn.data.sources import read_packed
from maggnn.data.splits import PARTS, Split
from maggnn.errors import InputError
from maggnn.graphs.checks import short_floats


def load_own(path: Path) -> Dataset:
    """Load your own packed file as a data set.

    Args:
        path: an .npz file, or a folder of `maggnn data map`, with `y`, `train`, `val` and `test`; float targets are
            numbers, integers are classes.

    Returns:
        The data set with its split.
    """
    graphs, extra = read_mapped(path) if path.suffix == ENDING else read_packed(path)
    if graphs.y is None:
        raise InputError(f"{path}: has no array y: there is nothing to learn")
    missing = [part for part in PARTS if part not in extra]
    if missing:
        raise InputError(f"{path}: has no array {missing[0]!r} with the graph ids of this part of the split")
    _check_parts(extra, len(graphs), path)
    names = tuple(str(name) for name in extra["target_names"]) if "target_names" in extra else None
    if graphs.y.is_floating_point():
        y = short_floats(graphs.y.reshape(len(graphs.y), -1))
        graphs = replace(graphs, y=y)
        return Dataset(
            str(path), graphs, "regression", y.shape[1], official_split, metric="mae", target_names=names, extra=extra
        )
    if graphs.y.ndim > 1 and graphs.y.shape[1] > 1:
        raise InputError(f"{path}: y has {graphs.y.shape[1]} columns of classes, but only one is supported")
    classes = graphs.y.reshape(-1)
    labels = tuple(str(name) for name in extra["class_names"]) if "class_names" in extra else None
    count = int(classes.max()) + 1 if labels is None else len(labels)
    if int(classes.max()) >= count:
        raise InputError(f"{path}: y has class {int(classes.max())}, but class_names has {count} names")
    graphs, metric = replace(graphs, y=classes), metric_of_classes(count)
    return Dataset(str(path), graphs, "classification", count, official_split, labels, metric=metric, extra=extra)


def metric_of_classes(count: int) -> Metric:
    """Return the metric of classifiers, which depends only on the number of classes and not on the split."""
    return "auroc" if count == 2 else "accuracy"


def official_split(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    """Return the file's own split; every part of a classification must be empty or have at least two classes."""
    if dataset.task == "classification" and dataset.graphs.level == "graph":
        _check_classes(dataset)
    return [Split(*(torch.from_numpy(dataset.extra[part]).sort().values for part in PARTS))]


def _check_classes(dataset: Dataset) -> None:
    for part in PARTS:
        found = dataset.y[torch.from_numpy(dataset.extra[part])].unique().tolist()
        if len(found) == 1:
            raise InputError(
                f"{dataset.name}: {part} has only one class, {found[0]}: split the graphs in another way "
                "(maggnn data pack: --seed, or --split with a column)"
            )


def _check_parts(extra: Mapping[str, np.ndarray], num_graphs: int, path: Path) -> None:
    for part in PARTS:
        ids = extra[part]
        if ids.dtype.kind != "i" or ids.ndim != 1 or (len(ids) and (ids.min() < 0 or ids.max() >= num_graphs)):
            raise InputError(f"{path}: {part} must contain graph ids from 0 to {num_graphs - 1}")
    if not len(extra["train"]):
        raise InputError(f"{path}: train is empty: there is nothing to learn from")
    shared = np.intersect1d(extra["train"], np.concatenate([extra["val"], extra["test"]]))
    if len(shared):
        warnings.warn(
            f"{path}: {len(shared)} graphs are in train and in val or test, such as {shared[0]}", stacklevel=3
        )
