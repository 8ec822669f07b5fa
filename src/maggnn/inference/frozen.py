"""A model that only answers: BatchNorm folded into weights, a layer as three kernels, the first layer from tables.

In evaluation BatchNorm is a fixed linear map, so  norm(W z + b) = (s W) z + s (b - mean) + beta  with
s = gamma / sqrt(var + eps). The bond embeddings of a layer are looked up from one small table, one row for each
combination of categories that can occur.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from maggnn.config import Precision
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.edge_embedding import EdgeEmbedding
from maggnn.model.encoder import Encoder, GINELayer, GINLayer
from maggnn.model.features import FeatureEmbedding
from maggnn.model.kernels.messages import aggregate, product_relu, sum_kinds
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.normalise import Norm

MAX_KINDS = 4096
"""Combinations of categories that are worth a table."""

MAX_ROWS = 20_000
"""Combinations of atom, marks and bond that are worth a table of the first layer's messages."""


class Present(NamedTuple):
    """Which kinds of atom and bond occur, as an encoder numbers them; None where it reads none or cannot list them."""

    atoms: Tensor | None
    bonds: Tensor | None

    def within(self, other: Present) -> bool:
        """Whether nothing occurs here that does not occur there."""
        pairs = ((own, known) for own, known in zip(self, other, strict=True) if own is not None)
        return all(known is not None and bool(torch.isin(own, known).all()) for own, known in pairs)

    def joined(self, other: Present) -> Present:
        """What occurs here or there."""
        return Present(*(_union(own, known) for own, known in zip(self, other, strict=True)))


def _union(own: Tensor | None, other: Tensor | None) -> Tensor | None:
    if own is None or other is None:
        return other if own is None else own
    return torch.cat([own, other]).unique()


def present_kinds(model: MagGNN, graphs: PackedGraphs | GraphBatch) -> list[Present]:
    """What occurs in `graphs`, for the predictor's encoder and the agent's own: what `frozen` makes tables of."""
    return [_present_for(encoder, graphs) for encoder in _own_encoders(model)]


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
    own = _own_encoders(answering)
    for encoder, kinds in zip(own, present or [None] * len(own), strict=True):
        _freeze(encoder, dtype, kinds)
    for module in list(answering.modules()):
        if isinstance(module, Encoder) and module not in own:
            _freeze(module, dtype, None)
    for module in list(answering.modules()):  # rivals have such layers outside encoders too
        for name, layer in module.named_children():
            if _foldable(layer):
                setattr(module, name, FrozenLayer(layer, dtype))
    return answering


def _present_for(encoder: Encoder, graphs: PackedGraphs | GraphBatch | None) -> Present:
    layer = encoder.layers[0] if len(encoder.layers) else None
    edges = layer.edge_embedding if isinstance(layer, GINELayer) else None
    atoms = _present(encoder.node_embedding, None if graphs is None else graphs.x)
    return Present(atoms, _present(edges, None if graphs is None or edges is None else edges.of_set(graphs)))


def _freeze(encoder: Encoder, dtype: torch.dtype, present: Present | None) -> None:
    if not len(encoder.layers):  # features alone, of a baseline with layers of its own
        return
    atoms, bonds = present or _present_for(encoder, None)
    if FrozenStart.can_be_made(encoder, atoms, bonds):
        encoder.start = FrozenStart(encoder, dtype, atoms, bonds)
    if isinstance(encoder.node_embedding, FeatureEmbedding) and _has_table(encoder.node_embedding):
        encoder.node_embedding = FrozenFeatures(encoder.node_embedding)


def _foldable(layer: nn.Module) -> TypeGuard[GINLayer]:
    """LayerNorm depends on its input; floats as bond features have no table; layers of rivals may read more."""
    if not isinstance(layer, GINLayer) or type(layer) not in (GINLayer, GINELayer):
        return False
    if not isinstance(layer.norm.norm, nn.BatchNorm1d):
        return False
    embedding = layer.edge_embedding if isinstance(layer, GINELayer) else None
    return embedding is None or _has_table(embedding)


def _has_table(embedding: FeatureEmbedding) -> bool:
    return embedding.num_kinds is not None and embedding.num_kinds <= MAX_KINDS


class FrozenLayer(nn.Module):
    """h_v' = relu(W2 relu(W1 ((1 + eps) h_v + sum of messages) + b1) + b2) (+ h_v)."""

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
        kinds = None if self.edge_embedding is None else self.edge_embedding.kinds_of(graphs)
        h = h.to(self.dtype)
        rows = aggregate(h, self.scale, graphs, self.relu, self.table, kinds).flatten(0, 1)
        out = product_relu(product_relu(rows, first, first_bias), second, second_bias).reshape(h.shape)
        return out.add_(h) if self.residual else out


class FrozenStart(nn.Module):
    """Marks, features and the first layer up to its second product, from tables made once.

    A node enters with its atom kind and the way in which it is marked (`Marking.kinds`), of which there are few
    combinations. So there are few messages too, and as W1 is linear,  W1 (sum of messages) = sum of (W1 message):  the
    product is taken of the table's rows instead of all nodes of all copies, once and for all.
    """

    def __init__(
        self, encoder: Encoder, dtype: torch.dtype, atoms: Tensor | None = None, bonds: Tensor | None = None
    ) -> None:
        super().__init__()
        layer = encoder.layers[0]
        assert isinstance(layer, GINLayer)
        self.marking, self.residual = encoder.mark_embedding, layer.residual
        self.ways = ways_of_being_marked(encoder) or 1
        self.atoms = None if atoms is None else Kinds(encoder.node_embedding, atoms)
        bond_embedding = layer.edge_embedding if isinstance(layer, GINELayer) else None
        self.bonds = None if bonds is None else Kinds(bond_embedding, bonds)
        initial = _initial_table(encoder, atoms)  # [kinds, d]
        first, first_bias = (value.double() for value in _folded(layer.first, layer.norm))
        second, second_bias = _folded(layer.second, layer.last_norm)
        messages = initial[:, None]  # [kinds, bond kinds, d]
        if bond_embedding is not None and bonds is not None:
            messages = messages + bond_embedding.table()[bonds].double()
        if isinstance(layer, GINELayer):
            messages = messages.relu()
        own = (1 + layer.eps.double()) * initial @ first + first_bias
        tables = [initial, own, (messages @ first).flatten(0, 1), second, second_bias]
        self.tables = nn.ParameterList([nn.Parameter(table.to(dtype)) for table in tables]).requires_grad_(False)

    @staticmethod
    def can_be_made(encoder: Encoder, atoms: Tensor | None, bonds: Tensor | None) -> bool:
        layer = encoder.layers[0]
        if not _foldable(layer) or encoder.config.jk == "sum":
            return False
        if encoder.node_embedding is not None and atoms is None:
            return False
        if encoder.structure_embedding is not None:  # floats have no table
            return False
        ways = ways_of_being_marked(encoder)
        if ways is None:  # a marking without a table
            return False
        return ways * math.prod(len(kinds) for kinds in (atoms, bonds) if kinds is not None) <= MAX_ROWS

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        initial, own, sent, second, second_bias = self.tables
        kinds = self._kinds(graphs, tuples)
        bonds = None if self.bonds is None else self.bonds.of_edges(graphs)
        hidden = sum_kinds(own, sent, kinds, graphs, bonds)
        out = product_relu(hidden.flatten(0, 1), second, second_bias).reshape(hidden.shape)
        return out.add_(initial[kinds]) if self.residual else out

    def _kinds(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Each node's row of the tables, [N, m]; ways of being marked count fastest."""
        if self.marking is None:
            kinds = torch.zeros(graphs.total_nodes, tuples.shape[1], dtype=torch.long, device=graphs.device)
        else:
            kinds = self.marking.kinds(graphs, tuples)
        return kinds if self.atoms is None else kinds + (self.atoms.of_nodes(graphs) * self.ways)[:, None]


def ways_of_being_marked(encoder: Encoder) -> int | None:
    """In how many ways a node can be marked; None where they cannot be listed."""
    return 1 if encoder.mark_embedding is None else encoder.mark_embedding.num_kinds


class Kinds(nn.Module):
    """Combinations of categories, numbered among those that occur."""

    place: Tensor

    def __init__(self, embedding: nn.Module | None, present: Tensor) -> None:
        super().__init__()
        assert isinstance(embedding, FeatureEmbedding) and embedding.num_kinds is not None
        self.embedding = embedding
        place = torch.full((embedding.num_kinds,), -1, device=present.device)  # -1: does not occur
        place[present] = torch.arange(len(present), device=present.device)
        self.register_buffer("place", place)

    def of_nodes(self, graphs: GraphBatch) -> Tensor:
        """The number of each node's atom, [N]."""
        x = graphs.x
        if x is None:
            raise InputError("the model was made for graphs with x, but these graphs have none")
        return graphs.derived("atom numbers", lambda: self._among_present(self.embedding.kinds(x)), of=self.place)

    def of_edges(self, graphs: GraphBatch) -> Tensor:
        """The number of each edge's bond, [E]."""
        assert isinstance(self.embedding, EdgeEmbedding)
        kinds = self.embedding.kinds_of(graphs)
        return graphs.derived("bond numbers", lambda: self._among_present(kinds), of=self.place)

    def _among_present(self, kinds: Tensor) -> Tensor:
        number = self.place[kinds]
        if number.device.type == "cpu" and bool((number < 0).any()):
            raise InputError("an atom or bond that occurs in none of the graphs this model was frozen for")
        return number


def _present(embedding: nn.Module | None, values: Tensor | None) -> Tensor | None:
    """The combinations that occur in `values`, all where there are none to look at; None without a table."""
    if not isinstance(embedding, FeatureEmbedding) or not _has_table(embedding):
        return None
    device = next(embedding.parameters()).device
    if values is None:
        return torch.arange(embedding.num_kinds or 1, device=device)
    return embedding.kinds(values).unique().to(device)


def _initial_table(encoder: Encoder, present: Tensor | None) -> Tensor:
    """h^(0) of every atom that occurs and way of being marked, [kinds, d], in double precision; ways count fastest."""
    if isinstance(encoder.node_embedding, FeatureEmbedding):
        atoms = encoder.node_embedding.table()[present].double()
    else:
        atoms = torch.zeros(1, encoder.config.hidden, dtype=torch.float64, device=next(encoder.parameters()).device)
        atoms = atoms if encoder.constant is None else atoms + encoder.constant.double()
    if encoder.mark_embedding is None:
        return atoms
    return (atoms[:, None] + encoder.mark_embedding.table()).flatten(0, 1)


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
