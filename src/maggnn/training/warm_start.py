"""Training that goes on from the weights of another model instead of fresh ones (fine-tuning).

Whatever has the same name and shape is taken over. Tables of categories may have other numbers of rows, since a set
brings the elements and bonds that it has: their common rows are taken over. What has another shape, such as the last
layer of a model with other targets, stays fresh, and so do the units of the targets, which the new training rows give.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.model.mag_gnn import MagGNN

TAKEN = "predictor."
"""What learns; the agent of a fitted model is the package's own."""

TABLES = ".embeddings."


@torch.no_grad()
def begin_from(model: MagGNN, weights: Mapping[str, Tensor]) -> int:
    """Give the predictor of `model` the weights that fit it; how many tensors those are.

    Args:
        weights: a model's `state_dict`, or a part of it.
    """
    taken = 0
    for name, own in model.state_dict().items():
        given = weights.get(name)
        if given is None or not name.startswith(TAKEN):
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
        raise InputError("the model to begin from has no weights of the same shape: its settings are others")
    return taken
