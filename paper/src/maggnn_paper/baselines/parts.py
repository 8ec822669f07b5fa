"""What baselines with layers of their own are built from: atoms, bonds, sums over neighbours, perceptrons, distances.

A layer over copies maps (h, copies) to the next h, whose rows are pairs of a root and a node, [P, 1, d], or nodes,
[R, 1, d]. Rows of padding are in no copy and come back as zeros (`Copies.sum_first_root`).

Shapes: R nodes of the batch that are no padding, which are the copies' roots; P pairs; d width.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from maggnn.config import EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.model.edge_embedding import EdgeEmbedding
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec, look_up, needed
from maggnn.model.kernels.messages import aggregate
from maggnn.model.normalise import Norm
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import UNREACHED, Copies, cached

FARTHEST = 8
"""Distances that are distinguished where `hops` sets no bound; farther nodes count as this far."""


class Atoms(nn.Module):
    """h^(0) of the nodes themselves, without marks, for a batch's R nodes: [R, 1, d]."""

    def __init__(self, baseline: Baseline) -> None:
        super().__init__()
        config = replace(baseline.config, num_layers=0, jk="none")
        self.encoder = Encoder(config, 0, baseline.node_features, baseline.edge_features)

    def forward(self, copies: Copies, tuples: Tensor) -> Tensor:
        return self.encoder(copies.base, tuples[:, :1])[: len(copies.roots)]


class Layers(nn.Module):
    """Layers one after the other, then the config's jumping knowledge.

    Args of a call:
        more: what every layer gets beside h and the copies.
    """

    def __init__(self, config: EncoderConfig, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.sum = config.jk == "sum"
        self.layers = nn.ModuleList(layers)
        self.last = nn.Linear(config.hidden, config.hidden) if config.jk == "last" else None

    def forward(self, h: Tensor, copies: Copies, *more: Tensor) -> Tensor:
        total = h
        for layer in self.layers:
            h = layer(h, copies, *more)
            total = total + h if self.sum else h
        return total if self.last is None else self.last(total)


class NeighbourSum(nn.Module):
    """GIN's sum, (1 + eps) h_v + sum of h_u over neighbours u; for gine, with bonds, of relu(h_u + e_uv)."""

    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec) -> None:
        super().__init__()
        if config.conv not in ("gin", "gine"):
            raise InputError(
                f"encoder.conv is {config.conv}, but this baseline makes its own messages: use gin or gine"
            )
        self.eps = nn.Parameter(torch.zeros(1))
        self.relu = config.conv == "gine"
        self.edge_embedding = bond_embedding(config, edge_features) if self.relu else None

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        edges, kinds = (None, None) if self.edge_embedding is None else self.edge_embedding.rows(graphs)
        return aggregate(h, 1 + self.eps, graphs, self.relu, edges, kinds)


class Perceptron(nn.Module):
    """Two linear maps with a norm and relu between them, [..., width] -> [..., d]; another norm is to follow."""

    def __init__(self, config: EncoderConfig, width: int | None = None) -> None:
        super().__init__()
        d, bias = config.hidden, config.norm != "batch"  # BatchNorm, which follows both, takes a bias out again
        self.first = nn.Linear(width or d, d, bias)
        self.norm = Norm(config.norm, d)
        self.second = nn.Linear(d, d, bias)

    def forward(self, h: Tensor) -> Tensor:
        return self.second(self.norm.relu(self.first(h)))


class Dense(nn.Module):
    """relu(norm(W x)) over rows of any object, of which a batch may also have none, [rows, ..., width] -> [..., d].

    Args of a call:
        num_real: how many rows are rows and not padding; None: all are.
    """

    def __init__(self, width: int, config: EncoderConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(width, config.hidden, bias=config.norm != "batch")  # BatchNorm takes a bias out again
        self.norm = Norm(config.norm, config.hidden)

    def forward(self, x: Tensor, num_real: Tensor | None = None) -> Tensor:
        h = self.linear(x)
        return self.norm.relu(h, num_real) if len(h) else h  # no rows have no statistics


class Output(nn.Module):
    """How every layer ends: norm, relu and the config's dropout, then the sum with the layer's input if residual."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.norm = Norm(config.norm, config.hidden)
        self.residual, self.dropout = config.residual, config.dropout

    def forward(self, total: Tensor, h: Tensor) -> Tensor:
        out = functional.dropout(self.norm.relu(total), self.dropout, self.training)
        return h + out if self.residual else out


class Distance(nn.Module):
    """A learned row for each distance between a root and a node, [P, 1, d]."""

    def __init__(self, hops: int, hidden: int) -> None:
        super().__init__()
        self.farthest = farthest(hops)
        self.table = nn.Parameter(torch.randn(num_distance_kinds(hops, self.farthest), hidden))

    def forward(self, copies: Copies) -> Tensor:
        return look_up(self.table, distance_kinds(copies.distance[:, 0], self.farthest))[:, None]


class DistanceFeatures(nn.Module):
    """Copies whose nodes have, among their own features, a category for how far they are from each of the roots.

    Attributes:
        node_features: what the GNN of such copies reads.
    """

    def __init__(self, node_features: FeatureSpec, num_roots: int, hops: int) -> None:
        super().__init__()
        self.own, self.farthest = node_features, farthest(hops, num_roots)
        self.count = count = num_distance_kinds(hops, self.farthest)
        self.node_features = (
            FeatureSpec(width=node_features.width + num_roots * count)  # one-hot beside floats
            if node_features.width
            else FeatureSpec(categories=(*node_features.categories, *[count] * num_roots))
        )

    def forward(self, copies: Copies) -> GraphBatch:
        return cached(copies.graphs, f"with distances up to {self.farthest}", lambda: self._with_distances(copies))

    def _with_distances(self, copies: Copies) -> GraphBatch:
        distance = distance_kinds(copies.distance, self.farthest)  # [P, k]
        if self.own.empty:
            return replace(copies.graphs, x=distance)
        x = needed(copies.graphs.x, "x")
        if self.own.width:
            distance = functional.one_hot(distance, self.count).flatten(1).to(x.dtype)
        else:
            x = x.long()  # a narrower type might not hold a distance
        return replace(copies.graphs, x=torch.cat([x, distance], dim=1))


def farthest(hops: int, num_roots: int = 1) -> int:
    """How many distances from 1 up are distinguished; a second root, the first one's neighbour, is one edge farther."""
    return hops + num_roots - 1 if hops else FARTHEST


def num_distance_kinds(hops: int, farthest: int) -> int:
    """Of distances: 0, 1, ..., farthest, and for whole graphs one more, for nodes that no path leads to."""
    return farthest + (1 if hops else 2)


def distance_kinds(distance: Tensor, farthest: int) -> Tensor:
    """The kind of each distance, of any one shape."""
    return torch.where(distance == UNREACHED, farthest + 1, distance.clamp(max=farthest))


def plain(config: EncoderConfig) -> nn.Linear:
    """A linear map of one term of a sum that a norm follows."""
    return nn.Linear(config.hidden, config.hidden, bias=False)


def at_nodes(h: Tensor, copies: Copies) -> Tensor:
    """The nodes' rows at each of their copies, [R, ...] -> [P, ...]."""
    return h.index_select(0, copies.node)


def bond_embedding(config: EncoderConfig, edge_features: FeatureSpec) -> EdgeEmbedding | None:
    """What is known of each edge to [E, d]; None: nothing is."""
    known = config.rings or not edge_features.empty
    return EdgeEmbedding(edge_features, config.rings, config.hidden) if known else None
