"""Training that starts from the weights of another model instead of random ones (fine-tuning).

Weights with the same name and shape are copied. Embedding tables of categories may have different numbers of rows,
since data sets have different elements and bonds: their common rows are copied. Weights of another shape, as the last
layer of a model with other targets, stay random. The units of the targets and the standardisation of features of whole
graphs come from the new training rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.model.mag_gnn import MagGNN

TAKEN = "predictor."
"""The prefix of the weights that are copied; the agent of a fitted model comes with the package."""

STANDARDISATION = "predictor.graph_features."
"""The prefix of the mean and scale of features of whole graphs, which may be other columns in the new rows."""

TABLES = ".embeddings."


@torch.no_grad()
def begin_from(model: MagGNN, weights: Mapping[str, Tensor]) -> int:
    """Copy the weights that fit to the predictor of `model`. Returns the number of copied tensors.

    Args:
        weights: a model's `state_dict`, or a part of it.
    """
    taken = 0
    for name, own in model.state_dict().items():
        given = weights.get(name)
        if given is None or not name.startswith(TAKEN) or name.startswith(STANDARDISATION):
            continue
        if given.shape == own.shape:
            own.copy_(given)
        elif TABLES in name and given.ndim == own.ndim == 2 and given.shape[1] == own.shape[1]:
            rows = min(len(given), len(own))
            own[:rows].copy_(given[:rows])
        else:
            continue
        taken += 1
    if not taken:
        raise InputError("the model to start from has no weights of the same shape, so its settings are different")
    return taken
