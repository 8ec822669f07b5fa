"""A model for inference only: a copy whose modules are replaced by frozen versions.

Each module defines its frozen version in a method `frozen`, and these versions are in `maggnn.model.frozen_layers`:
BatchNorm is folded into weights, a layer is three kernels, and the first layer comes from tables.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn

from maggnn.config import Precision
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.encoder import Encoder
from maggnn.model.frozen_layers import Freezing, Present, freeze_module
from maggnn.model.mag_gnn import MagGNN


def present_kinds(model: MagGNN, graphs: PackedGraphs | GraphBatch) -> list[Present]:
    """Return the kinds that occur in `graphs`, for the encoders of predictor and agent, as `frozen` takes them."""
    return [encoder.present_kinds(graphs) for encoder in _own_encoders(model)]


def _own_encoders(model: MagGNN) -> list[Encoder]:
    """Return the encoders that read only the graphs; those within a baseline may read more, such as distances."""
    q_encoder = None if model.q_network is None else model.q_network.encoder
    return [encoder for encoder in (model.predictor.encoder, q_encoder) if isinstance(encoder, Encoder)]


def frozen(
    model: MagGNN, precision: Precision = "float32", present: Sequence[Present] | PackedGraphs | None = None
) -> MagGNN:
    """Return a copy of `model` for inference: the same outputs, no gradients, and faster layers if there is a kernel.

    Args:
        present: the graphs to predict, or the kinds that occur in them (`present_kinds`); the tables then contain only
            these atoms and bonds.
    """
    dtype = torch.bfloat16 if precision == "bfloat16" else next(model.parameters()).dtype
    if isinstance(present, PackedGraphs):
        present = present_kinds(model, present)
    answering = copy.deepcopy(model).eval().requires_grad_(False)
    known: dict[nn.Module, Present] = {}
    if present is not None:
        known.update(zip(_own_encoders(answering), present, strict=True))
    twin = freeze_module(answering, Freezing(dtype, known))
    assert isinstance(twin, MagGNN)
    return twin
