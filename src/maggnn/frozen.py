"""A model that only answers: each layer of its encoders becomes one kernel, with BatchNorm folded into its weights.

In evaluation BatchNorm is a fixed linear map, so  norm(W z + b) = (s W) z + s (b - mean) + beta  with
s = gamma / sqrt(var + eps). The bond embeddings of a layer are looked up from one small table, one row for each
combination of categories that can occur.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from maggnn.config import Precision
from maggnn.encoder import Encoder, GINELayer, GINLayer
from maggnn.features import FeatureEmbedding
from maggnn.graphs import GraphBatch
from maggnn.kernels.messages import frozen_layer
from maggnn.model import MagGNN
from maggnn.normalise import Norm

MAX_KINDS = 4096
"""Combinations of bond categories that are worth a table."""


def frozen(model: MagGNN, precision: Precision = "float32") -> MagGNN:
    """A copy of `model` for answering alone: same outputs, no gradients, faster layers where there is a kernel."""
    answering = copy.deepcopy(model).eval().requires_grad_(False)
    for module in answering.modules():
        if isinstance(module, Encoder):
            for number, layer in enumerate(module.layers):
                if isinstance(layer, GINLayer) and _foldable(layer):
                    module.layers[number] = FrozenLayer(layer, precision)
    return answering


def _foldable(layer: GINLayer) -> bool:
    """LayerNorm depends on its input; floats as bond features have no table."""
    if not isinstance(layer.norm.norm, nn.BatchNorm1d):
        return False
    embedding = layer.edge_embedding if isinstance(layer, GINELayer) else None
    return embedding is None or (bool(embedding.spec.categories) and math.prod(embedding.spec.categories) <= MAX_KINDS)


class FrozenLayer(nn.Module):
    """h_v' = relu(W2 relu(W1 ((1 + eps) h_v + sum of messages) + b1) + b2) (+ h_v), as one call."""

    def __init__(self, layer: GINLayer, precision: Precision) -> None:
        super().__init__()
        self.precision: Precision = precision
        self.residual = layer.residual
        self.relu = isinstance(layer, GINELayer)
        first, first_bias = _folded(layer.first, layer.norm)
        second, second_bias = _folded(layer.second, layer.last_norm)
        self.weights = nn.ParameterList([first, first_bias, second, second_bias]).requires_grad_(False)
        self.scale = nn.Parameter(1 + layer.eps, requires_grad=False)
        embedding = layer.edge_embedding if isinstance(layer, GINELayer) else None
        self.categories = () if embedding is None else embedding.spec.categories
        self.table = None if embedding is None else nn.Parameter(_table(embedding), requires_grad=False)

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        first, first_bias, second, second_bias = self.weights
        kinds = None if self.table is None else graphs.edge_kind(self.categories)
        return frozen_layer(
            h, graphs, self.scale, first, first_bias, second, second_bias,
            self.relu, self.table, kinds, self.residual, self.precision,
        )  # fmt: skip


def _folded(linear: nn.Linear, norm: Norm) -> tuple[nn.Parameter, nn.Parameter]:
    """Weight, as [in, out], and bias of `norm` after `linear`, in double precision while folding."""
    batch_norm = norm.norm
    assert isinstance(batch_norm, nn.BatchNorm1d)
    assert batch_norm.running_mean is not None and batch_norm.running_var is not None
    scale = batch_norm.weight.double() / (batch_norm.running_var.double() + batch_norm.eps).sqrt()
    shift = -batch_norm.running_mean.double()
    if linear.bias is not None:
        shift = shift + linear.bias.double()
    weight = (linear.weight.double() * scale[:, None]).T.contiguous()
    bias = scale * shift + batch_norm.bias.double()
    dtype = linear.weight.dtype
    return nn.Parameter(weight.to(dtype)), nn.Parameter(bias.to(dtype))


def _table(embedding: FeatureEmbedding) -> Tensor:
    """The embedding of every combination of categories, [kinds, d]."""
    counts = embedding.spec.categories
    index = torch.arange(math.prod(counts), device=next(embedding.parameters()).device)
    columns = []
    for count in reversed(counts):
        columns.append(index % count)
        index = index // count
    return embedding(torch.stack(columns[::-1], dim=1))
