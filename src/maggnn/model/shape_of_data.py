"""What a model must know of PyG data, read off the data: `MagGNN.for_data` builds a model for it."""

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
"""Values that an integer column may have when it is read as categories: each of them gets an embedding of its own."""


def shape_of_data(
    data: Graphs, num_outputs: int | None = None, task: Task | None = None, level: Level | None = None
) -> DataShape:
    """Read everything off that is not given; arguments as those of `MagGNN.for_data`."""
    graphs = data if isinstance(data, PackedGraphs | GraphBatch) else as_graphs(data)
    for name, values in (("x", graphs.x), ("edge_attr", graphs.edge_attr)):
        _check_categories(name, values)
    task = task or task_of(graphs.y)
    return DataShape.of(graphs, num_outputs or num_outputs_of(graphs.y, task), task, level)


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
