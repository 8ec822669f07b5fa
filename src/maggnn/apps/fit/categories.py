"""The categories of nodes and edges that occur in training; any other is replaced by the most frequent one.

Shapes: F columns of features.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from maggnn.apps.fit.answers.blended import Seen
from maggnn.errors import InputError
from maggnn.graphs.hashes import MOST_CATEGORIES
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
    columns = zip(values.cpu().numpy().T, seen, strict=True)
    unseen = np.stack([~are_among(column, found) for column, found in columns], axis=1)  # [rows, F]
    if not unseen.any():
        return values, 0
    values, replaced = values.long(), torch.from_numpy(unseen).to(values.device)
    commonest = values.new_tensor([found[0] for found in seen])
    return torch.where(replaced, commonest, values), int(unseen.any(axis=1).sum())


def are_among(column: np.ndarray, found: Sequence[int]) -> np.ndarray:
    """Return which categories of a column [rows] are among those found, [rows]."""
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    if low < 0 or high >= MOST_CATEGORIES:
        return np.isin(column, found)
    table = np.zeros(high + 1, dtype=bool)
    table[[category for category in found if 0 <= category <= high]] = True
    return table.take(column)
