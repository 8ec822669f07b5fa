"""The MPNN g of Eq. 1 over marked copies: h^(0) = [x, X(v)] through a linear map, then T layers.

Features are [N, m, d], and all m copies share the edges. GIN and GINE work on that layout directly; any PyG convolution
works too, on a disjoint union of the copies (`base_gnn`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from maggnn.config import EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.structure import FARTHEST, distances_and_walks, random_walk
from maggnn.model.edge_embedding import DirectionEmbedding, EdgeEmbedding
from maggnn.model.features import FeatureEmbedding, FeatureSpec, FrozenFeatures, needed
from maggnn.model.kernels.messages import aggregate
from maggnn.model.marking import edge_ways, make_marking
from maggnn.model.normalise import Norm

if TYPE_CHECKING:
    from maggnn.graphs.packed import PackedGraphs
    from maggnn.model.base_gnn import BaseGNN
    from maggnn.model.frozen_layers import FoldedLayer, Freezing, FrozenStart, Present


class GINLayer(nn.Module):
    """h_v' = MLP((1 + eps) h_v + sum of h_u over neighbours u)   [Xu et al. 2019, eq. 4.1], normalised, then relu."""

    relu = False
    """Whether messages pass through relu."""

    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec, tuple_order: int = 0) -> None:
        super().__init__()
        d, bias = config.hidden, config.norm != "batch"  # BatchNorm follows and would cancel a bias
        self.eps = nn.Parameter(torch.zeros(1))
        self.first = nn.Linear(d, d, bias)
        self.norm = Norm(config.norm, d)
        self.second = nn.Linear(d, d, bias)
        self.last_norm = Norm(config.norm, d)
        self.residual, self.dropout = config.residual, config.dropout
        self.edge_embedding: EdgeEmbedding | None = None
        self.direction_embedding: DirectionEmbedding | None = None

    def forward(self, h: Tensor, graphs: GraphBatch, directions: Tensor | None = None) -> Tensor:
        total = self.aggregate(h, graphs) if directions is None else self.aggregate(h, graphs, directions)
        hidden = self.norm.relu(self.first(total), graphs.num_real)
        rest = h if self.residual else None
        if not self.training or not self.dropout:
            return self.last_norm.relu(self.second(hidden), graphs.num_real, rest)
        out = functional.dropout(self.last_norm.relu(self.second(hidden), graphs.num_real), self.dropout)
        return out if rest is None else rest + out

    def aggregate(self, h: Tensor, graphs: GraphBatch, directions: Tensor | None = None) -> Tensor:
        return aggregate(h, 1 + self.eps, graphs)

    def folded(self) -> FoldedLayer | None:
        """Return the layer in evaluation mode, with its norms folded into its weights; None with LayerNorm."""
        from maggnn.model.frozen_layers import FoldedLayer

        first, second = self.norm.folded(self.first), self.last_norm.folded(self.second)
        if first is None or second is None:
            return None
        embeddings = self.edge_embedding, self.direction_embedding
        return FoldedLayer(*first, *second, 1 + self.eps, self.residual, self.relu, *embeddings)

    def frozen(self, how: Freezing) -> nn.Module:
        """Return a frozen layer with folded norms, or the layer itself if they cannot be folded."""
        from maggnn.model.frozen_layers import FrozenLayer

        folded = self.folded()
        return self if folded is None else FrozenLayer(folded, how.dtype)


class GINELayer(GINLayer):
    """GIN with bonds: messages relu(h_u + e_uv)   [Hu et al. 2020], also with directions (see `edge_embedding`)."""

    relu = True

    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec, tuple_order: int = 0) -> None:
        super().__init__(config, edge_features, tuple_order)
        reads = config.rings or not edge_features.empty
        if reads:
            self.edge_embedding = EdgeEmbedding(edge_features, config.rings, config.hidden)
        if tuple_order and edge_ways(config):
            self.direction_embedding = DirectionEmbedding(tuple_order, edge_ways(config), config.hidden)

    def aggregate(self, h: Tensor, graphs: GraphBatch, directions: Tensor | None = None) -> Tensor:
        edges, kinds = self.edges(graphs)
        if self.direction_embedding is not None and directions is not None:
            edges, kinds = self.direction_embedding.joined(edges, kinds, directions)
        return aggregate(h, 1 + self.eps, graphs, relu=True, edges=edges, kinds=kinds)

    def edges(self, graphs: GraphBatch) -> tuple[Tensor | None, Tensor | None]:
        """Return edge embeddings and each edge's row in them; bonds of the same kind share a row."""
        return (None, None) if self.edge_embedding is None else self.edge_embedding.rows(graphs)

    def frozen(self, how: Freezing) -> nn.Module:
        """Return a frozen layer with folded norms and a table of bonds, or the layer itself if bonds are floats."""
        no_table = self.edge_embedding is not None and not self.edge_embedding.has_table
        return self if no_table else super().frozen(how)


class AnyEncoder(nn.Module, ABC):
    """An encoder for the predictor: maps marked copies to node embeddings. Baselines (`named_encoders`) derive from it.

    Shapes:
        tuples: [B, m, k]; result: [N, m, d].
    """

    recordable = True
    """Whether a pass may be recorded as a CUDA graph: no tensor size depends on values."""

    draws = False
    """Whether outputs are random in evaluation mode, too; they draw from torch's global generator, like dropout."""

    def __init__(self, config: EncoderConfig, tuple_order: int) -> None:
        super().__init__()
        self.config = config
        self.tuple_order = tuple_order

    @abstractmethod
    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor: ...

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype


class Encoder(AnyEncoder):
    """The encoder g: maps marked copies to node embeddings.

    Args:
        config: its settings.
        tuple_order: k.
        node_features, edge_features: the features in `x` and `edge_attr`.
        base: a convolution, or a function of the width that makes one, in place of the one that `config.conv` names.

    Shapes:
        tuples: [B, m, k]; result: [N, m, d].
    """

    def __init__(
        self,
        config: EncoderConfig,
        tuple_order: int,
        node_features: FeatureSpec,
        edge_features: FeatureSpec,
        base: BaseGNN | None = None,
    ) -> None:
        super().__init__(config, tuple_order)
        if config.rings and not config.reads_edges and base is None:
            raise InputError(
                f"encoder.rings describes edges, which encoder.conv = {config.conv} does not read: use gine"
            )
        self.node_embedding: FeatureEmbedding | FrozenFeatures | None = None
        if not node_features.empty:
            self.node_embedding = FeatureEmbedding(node_features, config.hidden)
        self.mark_embedding = make_marking(config, tuple_order)
        self.later_marks = nn.ModuleList()
        if config.mark_every_layer and self.mark_embedding is not None:
            width = self.mark_embedding.weight.shape[1]
            self.later_marks.extend(nn.Linear(width, config.hidden) for _ in range(1, config.num_layers))
        self.structure_norm = self.structure_embedding = None
        width = config.random_walk + (FARTHEST if config.distances else 0)
        if width:
            self.structure_norm = Norm("batch", width)
            self.structure_embedding = nn.Linear(width, config.hidden, bias=False)
        self.constant = nn.Parameter(torch.randn(config.hidden)) if self._blank else None
        self.layers = nn.ModuleList(_layer(config, edge_features, base, tuple_order) for _ in range(config.num_layers))
        known = self.mark_embedding is None or not self.mark_embedding.looks_at_values
        # PyG's layers may synchronise the GPU too.
        self.recordable = known and all(isinstance(layer, GINLayer) for layer in self.layers)
        self.start: nn.Module | None = None  # in a frozen encoder: `initial` and the first layer combined
        self.last = nn.Linear(config.hidden, config.hidden) if config.jk == "last" else None

    @property
    def reads_edges(self) -> bool:
        """Whether its layers read features of edges."""
        return any(getattr(layer, "edge_embedding", None) is not None for layer in self.layers)

    @property
    def _blank(self) -> bool:
        """Whether there are neither features nor marks: every node then starts from one learned constant."""
        return self.node_embedding is None and self.mark_embedding is None and self.structure_embedding is None

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        if self.start is not None:
            return self.onward(self.start(graphs, tuples), graphs, 1, tuples)
        return self.onward(self.initial(graphs, tuples), graphs, 0, tuples)

    def onward(self, h: Tensor, graphs: GraphBatch, first: int, tuples: Tensor | None = None) -> Tensor:
        """Apply the layers from number `first` on, then jumping knowledge: [N, m, d] -> [N, m, d].

        Args:
            tuples: the marks, which layers read again with `encoder.mark_every_layer` and for the directions of edges.
        """
        total, marks = h, self._marks_for_layers(graphs, tuples)
        directions = self._directions(graphs, tuples)
        for number in range(first, len(self.layers)):
            if marks is not None and number:
                h = h + self.later_marks[number - 1](marks)
            layer = self.layers[number]
            h = layer(h, graphs) if directions is None else layer(h, graphs, directions)
            total = total + h if self.config.jk == "sum" else h
        total = total.to(self.dtype)  # frozen layers may have a lower precision
        return total if self.last is None else self.last(total)

    def _marks_for_layers(self, graphs: GraphBatch, tuples: Tensor | None) -> Tensor | None:
        """Return X(v) for the layers after the first, [N, m, width]; None if they do not read it."""
        if self.mark_embedding is None or not len(self.later_marks):
            return None
        if tuples is None:
            raise InputError("encoder.mark_every_layer is not for this method: its layers do not know the marks")
        return self.mark_embedding.values(graphs, tuples)

    def _directions(self, graphs: GraphBatch, tuples: Tensor | None) -> Tensor | None:
        """Return the way in which each edge of each copy is marked, [E, m]; None if the marks leave edges alone."""
        if self.mark_embedding is None or not self.mark_embedding.edge_ways:
            return None
        if tuples is None:
            raise InputError(
                f"encoder.marking = {self.config.marking} is not for this method: its layers do not know the marks"
            )
        return self.mark_embedding.directions(graphs, tuples)

    def initial(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Return h^(0) of G(v), [N, m, d]."""
        nodes = marks = structure = None
        if self.node_embedding is not None:
            nodes = self.node_embedding(needed(graphs.x, "x"))[:, None]  # [N, 1, d]
        if self.mark_embedding is not None:
            marks = self.mark_embedding(graphs, tuples)  # [N, m, d]
        if self.structure_norm is not None and self.structure_embedding is not None:
            read = distances_and_walks if self.config.distances else random_walk
            values = read(graphs, self.config.random_walk).to(self.dtype)  # [N, S]
            structure = self.structure_embedding(self.structure_norm(values, graphs.num_real))[:, None]
        return self._sum(nodes, marks, structure).expand(graphs.total_nodes, tuples.shape[1], -1)

    def _sum(self, nodes: Tensor | None, marks: Tensor | None, structure: Tensor | None = None) -> Tensor:
        """Return Linear([x, X(v)]) as the sum of its blocks, [..., d]; a learned constant if there are none."""
        parts = [part for part in (nodes, marks, structure, self.constant) if part is not None]
        return sum(parts[1:], parts[0])

    def initial_table(self, atoms: Tensor | None) -> Tensor:
        """Return h^(0) of each kind of atom in `atoms`, marked in each way, [atoms * ways, d]; ways vary fastest.

        The result is in double precision. `atoms` is None if all nodes have the same features.
        """
        nodes = None
        if isinstance(self.node_embedding, FeatureEmbedding):
            nodes = self.node_embedding.table()[atoms].double()[:, None]  # [atoms, 1, d]
        marks = None if self.mark_embedding is None else self.mark_embedding.table()  # [ways, d]
        return self._sum(nodes, marks).double().reshape(-1, self.config.hidden)

    def present_kinds(self, graphs: PackedGraphs | GraphBatch | None) -> Present:
        """Return which kinds of atoms and bonds occur in `graphs`; for None, any may occur."""
        from maggnn.model.frozen_layers import Present

        layer = self.layers[0] if len(self.layers) else None
        edges = layer.edge_embedding if isinstance(layer, GINLayer) else None
        bonds = None if edges is None else edges.present(None if graphs is None else edges.of_set(graphs))
        if not isinstance(self.node_embedding, FeatureEmbedding):
            return Present(None, bonds)
        return Present(self.node_embedding.present(None if graphs is None else graphs.x), bonds)

    def frozen(self, how: Freezing) -> Encoder:
        """Freeze this encoder in place: frozen layers, and tables instead of the first layer."""
        from maggnn.model.frozen_layers import FrozenLayer, freeze_module

        if not len(self.layers):  # only features, for a baseline with its own layers
            return self
        layers = [freeze_module(layer, how) for layer in self.layers]
        if isinstance(layers[0], FrozenLayer):
            self.start = self._frozen_start(how)
        if isinstance(self.node_embedding, FeatureEmbedding):
            self.node_embedding = self.node_embedding.frozen(how)
        self.layers = nn.ModuleList(layers)
        return self

    def _frozen_start(self, how: Freezing) -> FrozenStart | None:
        """Return `initial` and the first layer as tables; None if it reads floats or the tables would be too large."""
        from maggnn.model.frozen_layers import MAX_ROWS, FrozenStart, Kinds

        atoms, bonds = how.present.get(self) or self.present_kinds(None)
        ways = 1 if self.mark_embedding is None else self.mark_embedding.table_rows()
        reads_floats = self.structure_embedding is not None or (self.node_embedding is not None and atoms is None)
        if reads_floats or ways is None or self.config.jk == "sum":  # jk reads h^(0) itself
            return None
        if ways * math.prod(len(kinds) for kinds in (atoms, bonds) if kinds is not None) > MAX_ROWS:
            return None
        layer, embedding = self.layers[0], self.node_embedding
        assert isinstance(layer, GINLayer)
        folded = layer.folded()
        assert folded is not None
        numbers = Kinds(embedding, atoms) if isinstance(embedding, FeatureEmbedding) and atoms is not None else None
        return FrozenStart(folded, self.initial_table(atoms), self.mark_embedding, numbers, bonds, how.dtype)


def _layer(config: EncoderConfig, edge_features: FeatureSpec, base: BaseGNN | None, tuple_order: int) -> nn.Module:
    layers = {"gin": GINLayer, "gine": GINELayer}
    if base is None and config.conv in layers:
        return layers[config.conv](config, edge_features, tuple_order)
    if tuple_order and edge_ways(config):
        raise InputError(f"encoder.marking = {config.marking} marks edges for gine only: use gine, or another marking")
    from maggnn.model.base_gnn import ConvolutionLayer  # few models need it

    return ConvolutionLayer(config, edge_features, base)
