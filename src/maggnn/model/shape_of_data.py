"""What a model must know of PyG data, read off the data: `MagGNN.for_data` builds a model for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, Level, Task
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import DataShape

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data, Dataset

    Graphs = GraphBatch | PackedGraphs | Batch | Data | Dataset | Sequence[Data]

MOST_CATEGORIES = 100_000
"""Values that an integer column may have when it is read as categories: each of them gets an embedding of its own."""


def shape_of_data(
    data: Graphs, num_outputs: int | None = None, task: Task | None = None, level: Level | None = None
) -> DataShape:
    """Read everything off that is not given; arguments as those of `MagGNN.for_data`."""
    graphs = _as_graphs(data)
    for name, values in (("x", graphs.x), ("edge_attr", graphs.edge_attr)):
        _check_categories(name, values)
    task = task or _task(graphs.y)
    return DataShape.of(graphs, num_outputs or _num_outputs(graphs.y, task), task, level)


def _as_graphs(data: Graphs) -> PackedGraphs | GraphBatch:
    """One object that has the features and targets of all graphs."""
    if isinstance(data, PackedGraphs | GraphBatch):
        return data
    from torch_geometric.data import Data, HeteroData

    from maggnn.graphs.conversions import batch_from_pyg, pack_pyg

    if isinstance(data, HeteroData):
        raise InputError("HeteroData has nodes of several types: give data.to_homogeneous()")
    if isinstance(data, Data):  # a Batch is a Data too
        return batch_from_pyg(data)
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        kind = type(data).__name__
        raise InputError(
            f"data is of type {kind}: give a PyG Data, Batch, dataset or list of Data; of a loader, its dataset"
        )
    items = (data[index] for index in range(len(data)))  # one by one, so that a dataset's transform is applied
    return pack_pyg([_as_data(item, index) for index, item in enumerate(items)])


def _as_data(item: object, index: int) -> Data:
    from torch_geometric.data import Data

    if not isinstance(item, Data):
        raise InputError(f"item {index} of data is of type {type(item).__name__}, must be a PyG Data")
    return item


def _check_categories(name: str, values: Tensor | None) -> None:
    """Refuse integers that are hardly categories: each would get an embedding of its own."""
    if values is None or not values.numel() or values.is_floating_point() or values.ndim != 2:
        return
    most, column = values.long().amax(dim=0).max(dim=0)
    if int(most) >= MOST_CATEGORIES:
        raise InputError(
            f"{name} holds integers up to {int(most)} in column {int(column)}, too many for categories: "
            f"give numbers as floats ({name}.float())"
        )


def _task(y: Tensor | None) -> Task:
    return "regression" if y is not None and y.is_floating_point() else "classification"


def _num_outputs(y: Tensor | None, task: Task) -> int:
    """Classes, of which the largest occurs, or columns of numbers."""
    if y is None:
        raise InputError("the data have no y to read the number of outputs off: give num_outputs")
    if task == "regression":
        return 1 if y.ndim == 1 else y.shape[-1]
    if y.is_floating_point() or int(y.min()) < 0:
        raise InputError("classes in y must be integers from 0 up: give num_outputs, or task='regression'")
    return int(y.max()) + 1
