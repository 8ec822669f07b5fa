"""A model that only answers: each layer of its encoders becomes one kernel, with BatchNorm folded into its weights.

In evaluation BatchNorm is a fixed linear map, so  norm(W z + b) = (s W) z + s (b - mean) + beta  with
s = gamma / sqrt(var + eps). The bond embeddings of a layer are looked up from one small table, one row for each
combination of categories that can occur.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from maggnn.config import Precision
from maggnn.encoder import Encoder, GINELayer, GINLayer
from maggnn.errors import InputError
from maggnn.features import FeatureEmbedding
from maggnn.graphs import GraphBatch
from maggnn.kernels.messages import frozen_layer
from maggnn.model import MagGNN
from maggnn.normalise import Norm

MAX_KINDS = 4096
"""Combinations of categories that are worth a table."""


def frozen(model: MagGNN, precision: Precision = "float32") -> MagGNN:
    """A copy of `model` for answering alone: same outputs, no gradients, faster layers where there is a kernel."""
    dtype = torch.bfloat16 if precision == "bfloat16" else next(model.parameters()).dtype
    answering = copy.deepcopy(model).eval().requires_grad_(False)
    for module in answering.modules():
        if isinstance(module, Encoder):
            if isinstance(module.node_embedding, FeatureEmbedding) and _has_table(module.node_embedding):
                module.node_embedding = FrozenFeatures(module.node_embedding)
            for number, layer in enumerate(module.layers):
                if isinstance(layer, GINLayer) and _foldable(layer):
                    module.layers[number] = FrozenLayer(layer, dtype)
    return answering


def _foldable(layer: GINLayer) -> bool:
    """LayerNorm depends on its input; floats as bond features have no table."""
    if not isinstance(layer.norm.norm, nn.BatchNorm1d):
        return False
    embedding = layer.edge_embedding if isinstance(layer, GINELayer) else None
    return embedding is None or _has_table(embedding)


def _has_table(embedding: FeatureEmbedding) -> bool:
    return embedding.num_kinds is not None and embedding.num_kinds <= MAX_KINDS


class FrozenLayer(nn.Module):
    """h_v' = relu(W2 relu(W1 ((1 + eps) h_v + sum of messages) + b1) + b2) (+ h_v), as one call."""

    def __init__(self, layer: GINLayer, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.residual = layer.residual
        self.relu = isinstance(layer, GINELayer)
        first, first_bias = _folded(layer.first, layer.norm)
        second, second_bias = _folded(layer.second, layer.last_norm)
        self.weights = nn.ParameterList([first, first_bias, second, second_bias]).to(dtype).requires_grad_(False)
        self.scale = nn.Parameter(1 + layer.eps, requires_grad=False)
        embedding = layer.edge_embedding if isinstance(layer, GINELayer) else None
        self.edge_embedding = embedding
        self.table = None if embedding is None else nn.Parameter(embedding.table(), requires_grad=False)

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        first, first_bias, second, second_bias = self.weights
        kinds = None if self.edge_embedding is None else _kinds(self.edge_embedding, graphs)
        h = h.to(self.dtype)
        return frozen_layer(
            h, graphs, self.scale, first, first_bias, second, second_bias, self.relu, self.table, kinds, self.residual
        )


def _kinds(embedding: FeatureEmbedding, graphs: GraphBatch) -> Tensor:
    edge_attr = graphs.edge_attr
    if edge_attr is None:
        raise InputError("the model was made for graphs with edge_attr, but these graphs have none")
    return graphs.derived(f"edge kinds {embedding.spec}", lambda: embedding.kinds(edge_attr))


class FrozenFeatures(nn.Module):
    """Features of nodes as one look-up, where there are few enough combinations of categories."""

    def __init__(self, embedding: FeatureEmbedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.table = nn.Parameter(embedding.table(), requires_grad=False)

    def forward(self, values: Tensor) -> Tensor:
        return self.table.index_select(0, self.embedding.kinds(values))


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
