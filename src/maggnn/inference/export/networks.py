"""The networks of a model in plain torch, as an exported program runs them: the same maps and weights, other sums.

Norms are folded into the linear maps before them, and categories that training never saw are taken for the commonest.

Shapes: B graphs, N nodes, E edges of the batch, m tuples, k nodes a tuple, d width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_linear_bn_eval

from maggnn.errors import InputError
from maggnn.graphs.rings import NUM_CATEGORIES
from maggnn.inference.export.structure import Batch, sum_rows
from maggnn.model.encoder import Encoder, GINELayer, GINLayer
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.marking import BinaryMarking
from maggnn.model.normalise import Norm, Whitening
from maggnn.model.predictor import Predictor
from maggnn.model.q_network import QNetwork


class Familiar(nn.Module):
    """Features [rows, F] with every category one that training saw: others become the commonest of their column."""

    def __init__(self, categories: Sequence[int], seen: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.counts = tuple(categories)
        tables = []
        for count, known in zip(categories, seen, strict=bool(seen)):
            table = torch.full((count + 1,), known[0])  # the last row: out of range
            table[list(known)] = torch.tensor(known)
            tables.append(table)
        self.tables = nn.ParameterList(nn.Parameter(table, requires_grad=False) for table in tables)

    def forward(self, values: Tensor) -> Tensor:
        columns = []
        for column, table in enumerate(self.tables):
            count, value = self.counts[column], values[:, column].long()
            columns.append(table[torch.where((value >= 0) & (value < count), value, count)])
        return torch.stack(columns, dim=1) if columns else values


class Whitened(Norm):
    """Whitening with its factor inverted once and for all."""

    inverse: Tensor

    def __init__(self, whitening: Whitening) -> None:
        covariance = whitening.covariance.double()
        super().__init__("batch", len(covariance))
        self.norm = whitening.standardise.norm
        identity = torch.eye(len(covariance), dtype=torch.float64)
        factor = torch.linalg.cholesky(covariance + whitening.ridge * identity)
        self.register_buffer("inverse", torch.linalg.solve_triangular(factor, identity, upper=False))

    def forward(self, h: Tensor, num_real: Tensor | None = None) -> Tensor:
        return (super().forward(h).double() @ self.inverse.T).to(h.dtype)


class FoldedNorm(Norm):
    """A norm that lies in the weights of the linear map before it."""

    def __init__(self) -> None:
        super().__init__("layer", 1)

    def forward(self, h: Tensor, num_real: Tensor | None = None) -> Tensor:
        return h

    def relu(self, h: Tensor, num_real: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
        return h.relu() if residual is None else residual + h.relu()


def fold_norms(model: MagGNN) -> None:
    """BatchNorm in evaluation is a linear map: it becomes part of the one before it."""
    layers = [module for module in model.modules() if isinstance(module, GINLayer)]
    for layer in layers:
        layer.first, layer.norm = _folded(layer.first, layer.norm)
        layer.second, layer.last_norm = _folded(layer.second, layer.last_norm)
    predictor = model.predictor
    predictor.first, predictor.norm = _folded(predictor.first, predictor.norm)
    if isinstance(predictor.scale, Whitening):
        predictor.scale = Whitened(predictor.scale)


def _folded(linear: nn.Linear, norm: Norm) -> tuple[nn.Linear, Norm]:
    if not isinstance(norm.norm, nn.BatchNorm1d):
        return linear, norm
    return fuse_linear_bn_eval(linear, norm.norm), FoldedNorm()


def check_exportable(model: MagGNN) -> None:
    """Whether every part of the model has its plain form here."""
    for encoder in (model.predictor.encoder, None if model.q_network is None else model.q_network.encoder):
        if encoder is not None and not isinstance(encoder, Encoder):
            raise InputError(f"a rival method ({type(encoder).__name__}) cannot be exported, only MAG-GNN and GIN")
        if encoder is not None and not isinstance(encoder.mark_embedding, BinaryMarking | None):
            raise InputError(f"encoder.marking = {encoder.config.marking} cannot be exported, only binary")
        layers = [] if encoder is None else encoder.layers
        other = [layer for layer in layers if type(layer) not in (GINLayer, GINELayer)]
        if other:
            conv = model.predictor.encoder.config.conv
            raise InputError(f"encoder.conv = {conv} cannot be exported, only gin and gine")


def encoded(encoder: nn.Module, graphs: Batch, tuples: Tensor) -> Tensor:
    """g over marked copies, [N, m, d]: `Encoder.forward` with plain sums over neighbours."""
    assert isinstance(encoder, Encoder)
    total = h = _initial(encoder, graphs, tuples)
    values = _edge_values(encoder.layers[0], graphs)
    for layer in encoder.layers:
        assert isinstance(layer, GINLayer)
        hidden = layer.norm.relu(layer.first(_aggregated(layer, h, graphs, values)))
        h = layer.last_norm.relu(layer.second(hidden), residual=h if layer.residual else None)
        total = total + h if encoder.config.jk == "sum" else h
    return total if encoder.last is None else encoder.last(total)


def _initial(encoder: Encoder, graphs: Batch, tuples: Tensor) -> Tensor:
    """h^(0), [N, m, d]."""
    config, parts = encoder.config, []
    if encoder.node_embedding is not None:
        parts.append(encoder.node_embedding(graphs.x)[:, None])
    if encoder.mark_embedding is not None:
        is_marked = graphs.local_id[:, None, None] == tuples[graphs.node_graph]  # [N, m, k]
        marking = encoder.mark_embedding
        values = torch.where(is_marked, config.c_plus, config.c_minus)
        parts.append(functional.linear(values, marking.weight, marking.bias))
    if encoder.structure_norm is not None and encoder.structure_embedding is not None:
        described = [part for part in (graphs.distances, graphs.walks) if part is not None]
        structure = torch.cat(described, dim=1)[:, : encoder.structure_embedding.in_features]
        parts.append(encoder.structure_embedding(encoder.structure_norm(structure))[:, None])
    if encoder.constant is not None:
        parts.append(encoder.constant.expand(graphs.node_graph.shape[0], 1, -1))
    return sum(parts[1:], parts[0]).expand(-1, tuples.shape[1], -1)


def _aggregated(layer: GINLayer, h: Tensor, graphs: Batch, values: Tensor | None) -> Tensor:
    """(1 + eps) h_v + the sum of the messages that arrive at v, [N, m, d]."""
    messages = h[graphs.edge_index[0]]  # [E, m, d]
    if isinstance(layer, GINELayer):
        if layer.edge_embedding is not None:
            messages = messages + layer.edge_embedding(values)[:, None]
        messages = messages.relu()
    return (1 + layer.eps) * h + sum_rows(messages, graphs.edge_index[1], h.shape[0])


def _edge_values(layer: nn.Module, graphs: Batch) -> Tensor | None:
    """What layers embed of each edge, [E, F]: its features, and its ring as one more category (or one-hot)."""
    if not isinstance(layer, GINELayer) or layer.edge_embedding is None or not layer.edge_embedding.rings:
        return graphs.edge_attr
    assert graphs.rings is not None
    rings = graphs.rings[:, None]
    if graphs.edge_attr is None:
        return rings
    if graphs.edge_attr.is_floating_point():
        one_hot = rings == torch.arange(NUM_CATEGORIES, device=rings.device)
        return torch.cat([graphs.edge_attr, one_hot.to(graphs.edge_attr.dtype)], dim=1)
    return torch.cat([graphs.edge_attr.long(), rings], dim=1)


def pooled(predictor: Predictor, h: Tensor, graphs: Batch, tuples: Tensor) -> Tensor:
    """`Predictor.pool`, [rows, m, width]."""
    if predictor.level == "node":
        return h
    parts = [_pool_nodes(h, graphs, predictor.config.pooling)]
    if predictor.reads_marked:
        parts.append(_marked_nodes(h, graphs, tuples).flatten(2))
    if predictor.num_roots:
        assert graphs.roots is not None
        parts.append(h[graphs.roots + graphs.first_node[:, None]].transpose(1, 2).flatten(2))
    return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]


def _pool_nodes(h: Tensor, graphs: Batch, pooling: str) -> Tensor:
    """R^(G) within each marked copy: [N, m, d] -> [B, m, d]."""
    total = sum_rows(h, graphs.node_graph, graphs.num_nodes.shape[0])
    return total / graphs.num_nodes[:, None, None] if pooling == "mean" else total


def graph_mean(values: Tensor, graphs: Batch) -> Tensor:
    """[N, ...] -> [B, ...]."""
    total = sum_rows(values, graphs.node_graph, graphs.num_nodes.shape[0])
    return total / graphs.num_nodes.reshape(-1, *[1] * (values.ndim - 1))


def _marked_nodes(h: Tensor, graphs: Batch, tuples: Tensor) -> Tensor:
    """The embeddings at the marks, [N, m, d] -> [B, m, k, d]."""
    copy_id = torch.arange(tuples.shape[1], device=tuples.device)[None, :, None]
    return h[tuples + graphs.first_node[:, None, None], copy_id]


def q_table_of(
    q_network: QNetwork, h: Tensor, embeddings: Tensor | None, graphs: Batch, tuples: Tensor, history: Tensor
) -> tuple[Tensor, Tensor]:
    """`QNetwork.forward` from the nodes' embeddings h [N, m, d]."""
    own = _pool_nodes(h, graphs, q_network.pooling)  # [B, m, d]
    all_tuples = (own if embeddings is None else embeddings).sum(dim=1, keepdim=True)
    context = q_network.own_tuple(own) + q_network.all_tuples(all_tuples)
    if q_network.past is not None:
        history = q_network.update_history(history, _marked_nodes(h, graphs, tuples).mean(dim=2))
        context = context + q_network.past(history.mean(dim=1, keepdim=True))
    return q_network.head(q_network.node(h) + context[graphs.node_graph]), history
