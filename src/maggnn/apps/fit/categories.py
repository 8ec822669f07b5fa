"""The categories of nodes and edges that occur in training; any other is replaced by the most frequent one.

Shapes: F columns of features.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.apps.fit.answers.blended import Seen
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import FeatureSpec


def seen_categories(graphs: PackedGraphs, learned: Tensor) -> tuple[Seen, Seen]:
    """Return the categories of nodes and of edges that occur in the graphs that a network learned from."""
    chosen = graphs.select(learned)
    return _seen(chosen.x), _seen(chosen.edge_attr)


def _seen(values: Tensor | None) -> Seen:
    """Return the categories of each column of [rows, F], the most frequent first."""
    if not FeatureSpec.of(values).categories:
        return ()
    assert values is not None
    counts = (column.unique(return_counts=True) for column in values.cpu().T)
    return tuple(tuple(found[count.argsort(descending=True, stable=True)].tolist()) for found, count in counts)


def known_categories(seen: Seen, spec: FeatureSpec) -> Seen:
    """Return the categories of training, or all categories of the model if its file does not list them."""
    return seen or tuple(tuple(range(count)) for count in spec.categories)


def without_unseen(values: Tensor | None, seen: Seen, name: str) -> tuple[Tensor | None, int]:
    """Replace unseen categories in features [rows, F]. Returns the features and the number of rows that had one."""
    if values is None or not seen or not values.numel():
        return values, 0
    if values.is_floating_point() or values.shape[1] != len(seen):
        raise InputError(
            f"the model was fitted to {name} features of {len(seen)} integer columns, "
            f"these are {values.shape[1]} of {str(values.dtype).removeprefix('torch.')}"
        )
    known = [torch.isin(column, column.new_tensor(found)) for column, found in zip(values.T, seen, strict=True)]
    unseen = ~torch.stack(known, dim=1)  # [rows, F]
    if not bool(unseen.any()):
        return values, 0
    commonest = values.new_tensor([found[0] for found in seen])
    return torch.where(unseen, commonest, values), int(unseen.any(dim=1).sum())
