"""Training that starts from the weights of another model instead of random ones (fine-tuning).

Weights with the same name and shape are copied. Embedding tables of categories may have different numbers of rows,
since data sets have different elements and bonds: their common rows are copied. Readouts may join different numbers of
features of graphs to the pooled embedding: their common columns are copied. Weights of another shape, as the last layer
of a model with other targets, stay random. The units of the targets and the standardisation of features of whole
graphs come from the new training rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import EllipsisType

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.pretrained import PREDICTOR, TABLES

STANDARDISATION = "predictor.graph_features."
"""The prefix of the mean and scale of features of whole graphs, which may be other columns in the new rows."""

READOUT = ("predictor.first.weight", "predictor.scale.norm.")
"""The weights whose last dimension is the pooled embedding, followed by the features of graphs."""


@torch.no_grad()
def initialise_from(model: MagGNN, weights: Mapping[str, Tensor]) -> int:
    """Copy the weights that fit to the predictor of `model`. Returns the number of copied tensors.

    Args:
        weights: a model's `state_dict`, or a part of it.
    """
    taken, more = 0, _features_in(model.state_dict()) - _features_in(weights)
    for name, own in model.state_dict().items():
        given = weights.get(name)
        if given is None or not name.startswith(PREDICTOR) or name.startswith(STANDARDISATION):
            continue
        part = _common(name, own, given, more)
        if part is not None:
            own[part].copy_(given[part])
            taken += 1
    if not taken:
        raise InputError("the model to start from has no weights of the same shape, so its settings are different")
    return taken


def _features_in(weights: Mapping[str, Tensor]) -> int:
    """Return the number of features of graphs that a model reads."""
    mean = weights.get(f"{STANDARDISATION}mean")
    return 0 if mean is None else len(mean)


def _common(name: str, own: Tensor, given: Tensor, more: int) -> tuple[EllipsisType] | tuple[slice, ...] | None:
    """Return the part that two weights have in common; None if nothing is copied.

    Args:
        more: the number of features of graphs that only the new model reads; negative if it reads fewer.
    """
    if given.shape == own.shape:
        return (...,)
    part = tuple(slice(min(sizes)) for sizes in zip(own.shape, given.shape, strict=False))
    same = given.ndim == own.ndim and given.shape[1:] == own.shape[1:]
    if TABLES in name and own.ndim == 2 and same:
        return part
    wider = (*given.shape[:-1], given.shape[-1] + more) if given.ndim else ()
    return part if name.startswith(READOUT) and own.shape == wider else None
