"""Infers what a model must know about PyG data, for `MagGNN.for_data`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from maggnn.data.from_pyg import as_graphs, num_outputs_of, task_of
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, Level, Task
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import DataShape

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data, Dataset

    Graphs = GraphBatch | PackedGraphs | Batch | Data | Dataset | Sequence[Data]

MOST_CATEGORIES = 100_000
"""The largest number of categories of an integer column: each category gets its own embedding."""


def shape_of_data(
    data: Graphs, num_outputs: int | None = None, task: Task | None = None, level: Level | None = None
) -> DataShape:
    """Infer everything that is not given; the arguments are those of `MagGNN.for_data`."""
    graphs = data if isinstance(data, PackedGraphs | GraphBatch) else as_graphs(data)
    for name, values in (("x", graphs.x), ("edge_attr", graphs.edge_attr)):
        _check_categories(name, values)
    task = task or task_of(graphs.y)
    return DataShape.of(graphs, num_outputs or num_outputs_of(graphs.y, task), task, level)


def _check_categories(name: str, values: Tensor | None) -> None:
    """Reject integers that are too large for categories, each of which would get its own embedding."""
    if values is None or not values.numel() or values.is_floating_point() or values.ndim != 2:
        return
    most, column = values.long().amax(dim=0).max(dim=0)
    if int(most) >= MOST_CATEGORIES:
        raise InputError(
            f"{name} has integers up to {int(most)} in column {int(column)}, too many for categories: "
            f"give numbers as floats ({name}.float())"
        )
