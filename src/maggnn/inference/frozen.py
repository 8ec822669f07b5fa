"""A model that only answers: a copy whose parts are replaced by their frozen twins.

How a part is frozen is a method of that part (`frozen`), and the twins are in `maggnn.model.frozen_layers`: BatchNorm
is folded into weights, a layer is three kernels, and the first one comes from tables.
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
from maggnn.model.frozen_layers import Freezing, Present, frozen_twin
from maggnn.model.mag_gnn import MagGNN


def present_kinds(model: MagGNN, graphs: PackedGraphs | GraphBatch) -> list[Present]:
    """What occurs in `graphs`, for the predictor's encoder and the agent's own: what `frozen` makes tables of."""
    return [encoder.present_kinds(graphs) for encoder in _own_encoders(model)]


def _own_encoders(model: MagGNN) -> list[Encoder]:
    """The encoders that read the graphs themselves; those within a baseline may know more, such as distances."""
    q_encoder = None if model.q_network is None else model.q_network.encoder
    return [encoder for encoder in (model.predictor.encoder, q_encoder) if isinstance(encoder, Encoder)]


def frozen(
    model: MagGNN, precision: Precision = "float32", present: Sequence[Present] | PackedGraphs | None = None
) -> MagGNN:
    """A copy of `model` for answering alone: same outputs, no gradients, faster layers where there is a kernel.

    Args:
        present: the graphs that the copy will be asked about, or what occurs in them (`present_kinds`); its tables
            then hold these atoms and bonds alone.
    """
    dtype = torch.bfloat16 if precision == "bfloat16" else next(model.parameters()).dtype
    if isinstance(present, PackedGraphs):
        present = present_kinds(model, present)
    answering = copy.deepcopy(model).eval().requires_grad_(False)
    known: dict[nn.Module, Present] = {}
    if present is not None:
        known.update(zip(_own_encoders(answering), present, strict=True))
    twin = frozen_twin(answering, Freezing(dtype, known))
    assert isinstance(twin, MagGNN)
    return twin
