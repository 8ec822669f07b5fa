"""Converts a PyG dataset to a `Dataset`: infers its task, and splits it if it has no split.

dataset = dataset_from_pyg(TUDataset(root, "PROTEINS"))
trained = maggnn.train(config, dataset=dataset)          # or the PyG dataset itself
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maggnn.data.dataset import USUAL_METRIC, Dataset
from maggnn.data.splits import Split
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, Task
from maggnn.graphs.checks import short_floats
from maggnn.graphs.conversions import batch_from_pyg, pack_pyg
from maggnn.graphs.packed import PackedGraphs

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data
    from torch_geometric.data import Dataset as TorchDataset

SHARES = (0.8, 0.1)
"""The shares of training and validation graphs if no split is given; the others are test graphs."""


def dataset_from_pyg(
    graphs: TorchDataset | Sequence[Data],
    split: Split | None = None,
    task: Task | None = None,
    num_outputs: int | None = None,
    name: str = "",
) -> Dataset:
    """Pack a PyG dataset, with its transform applied once to every graph.

    Args:
        graphs: a PyG dataset or a list of `Data`, each with `y`. Of numbers and of several two-class targets, values
            that are NaN are missing, as in MoleculeNet: losses and scores leave them out.
        split: the ids of training, validation and test graphs; by default random shares of 80, 10 and 10 %, drawn with
            the seed `data.split_seed` of a config.
        task: classification, multilabel or regression; by default regression if `y` has floats.
        num_outputs: by default the number of classes or columns of `y`.
        name: the name in messages; by default that of the dataset's class.

    Example:
        >>> maggnn.train(config, dataset=dataset_from_pyg(dataset, Split(train_ids, val_ids, test_ids)))
    """
    packed = as_graphs(graphs)
    if not isinstance(packed, PackedGraphs):
        raise InputError("one Data or Batch is not a data set: give a list of Data or a PyG dataset")
    task = task or task_of(packed.y)
    count = num_outputs or num_outputs_of(packed.y, task)
    if packed.y is None:
        raise InputError("the graphs have no y: a data set to train on needs targets")
    name = name or type(graphs).__name__
    return Dataset(
        name=name,
        graphs=replace(packed, y=_targets(packed.y, task, count, name)),
        task=task,
        num_outputs=count,
        protocol=lambda dataset, generator: [split or _random_split(len(dataset.graphs), generator)],
        metric=USUAL_METRIC[task],
    )


def _targets(y: Tensor, task: Task, num_outputs: int, name: str) -> Tensor:
    """Return checked classes [rows], or numbers [rows, num_outputs], of which some may be missing (NaN)."""
    missing = y.isnan()
    if bool(missing.any()):
        if task == "classification":
            raise InputError(f"{name}: y has NaN, which is no class: remove these graphs, or give task='multilabel'")
        count = f"{int(missing.sum())} of {y.numel()}"
        warnings.warn(f"{name}: {count} values of y are missing (NaN); losses and scores leave them out", stacklevel=3)
    if task == "classification":
        classes = y.reshape(-1).long()
        if len(classes) != len(y) or int(classes.min()) < 0 or int(classes.max()) >= num_outputs:
            raise InputError(f"{name}: y must be one class for each row, from 0 to {num_outputs - 1}")
        return classes
    columns = y.reshape(len(y), -1)
    if columns.shape[1] != num_outputs:
        raise InputError(f"{name}: y has {columns.shape[1]} columns, but num_outputs is {num_outputs}")
    if task == "multilabel" and not bool(((columns == 0) | (columns == 1) | columns.isnan()).all()):
        raise InputError(f"{name}: y of a multilabel set must be 0 or 1, or NaN where it is missing")
    empty = columns.isnan().all(dim=0)
    if len(columns) and bool(empty.any()):
        raise InputError(f"{name}: column {int(empty.nonzero()[0])} of y has no value: remove this column")
    return short_floats(columns)


def _random_split(count: int, generator: torch.Generator) -> Split:
    if count < 10:
        raise InputError(f"{count} graphs are too few for a random split: give split=Split(train, val, test)")
    order, first = torch.randperm(count, generator=generator), round(SHARES[0] * count)
    second = first + round(SHARES[1] * count)
    return Split(order[:first].sort().values, order[first:second].sort().values, order[second:].sort().values)


def as_graphs(data: Batch | Data | TorchDataset | Sequence[Data]) -> PackedGraphs | GraphBatch:
    """Return one object with the features and targets of all graphs."""
    from torch_geometric.data import Data, HeteroData

    if isinstance(data, HeteroData):
        raise InputError("HeteroData has nodes of several types: give data.to_homogeneous()")
    if isinstance(data, Data):  # a Batch is a Data too
        return batch_from_pyg(data, missing_targets=True)
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        kind = type(data).__name__
        raise InputError(
            f"data is of type {kind}: give a PyG Data, Batch, dataset or list of Data; for a loader, give its dataset"
        )
    items = (data[index] for index in range(len(data)))  # one by one, so that a dataset's transform is applied
    return pack_pyg([_as_data(item, index) for index, item in enumerate(items)], missing_targets=True)


def _as_data(item: object, index: int) -> Data:
    from torch_geometric.data import Data

    if not isinstance(item, Data):
        raise InputError(f"item {index} of data is of type {type(item).__name__}, must be a PyG Data")
    return item


def task_of(y: Tensor | None) -> Task:
    """Return regression if the targets are floats, else classification; warns of floats that look like classes."""
    if y is None or not y.is_floating_point():
        return "classification"
    if torch.equal(y[~y.isnan()].unique(), torch.tensor([0.0, 1.0], dtype=y.dtype, device=y.device)):
        warnings.warn(
            "y has only the floats 0 and 1, which are taken as numbers: give task='multilabel' (or y as integers) for "
            "classes, or task='regression'",
            stacklevel=4,
        )
    return "regression"


def num_outputs_of(y: Tensor | None, task: Task) -> int:
    """Return the number of classes (the largest class must occur) or of columns of several targets."""
    if y is None:
        raise InputError("the data have no y from which the number of outputs could be inferred: give num_outputs")
    columns = y.reshape(len(y), -1).shape[1]
    if task != "classification":
        return columns
    if columns > 1:
        raise InputError(
            f"y has {columns} columns of integers: give task='multilabel' if each is 0 or 1, or floats for regression"
        )
    if y.is_floating_point() or int(y.min()) < 0:
        raise InputError("classes in y must be integers from 0 up: give num_outputs, or task='regression'")
    return int(y.max()) + 1
