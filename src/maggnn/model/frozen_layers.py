"""Layers for inference only: BatchNorm folded into weights, a layer as three kernels, and the first layer from tables.

A module with a frozen version has a method `frozen(how)`, which returns that version, or the module itself if its
settings do not allow one. `freeze_module` calls it; modules without the method are left unchanged.

Shapes: N nodes, E edges of the batch, m copies, d width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, values_known
from maggnn.model.edge_embedding import DirectionEmbedding, EdgeEmbedding
from maggnn.model.features import FeatureEmbedding, needed
from maggnn.model.kernels.messages import aggregate, product_relu, sum_kinds
from maggnn.model.marking import Marking

MAX_ROWS = 20_000
"""The largest number of combinations of atom, marks and bond for a table of the first layer's messages."""


class Present(NamedTuple):
    """The kinds of atoms and bonds that occur, as numbered by an encoder; None if it reads none or cannot list them."""

    atoms: Tensor | None
    bonds: Tensor | None

    def within(self, other: Present) -> bool:
        """Whether everything that occurs here also occurs in `other`."""
        pairs = ((own, known) for own, known in zip(self, other, strict=True) if own is not None)
        return all(known is not None and bool(torch.isin(own, known).all()) for own, known in pairs)

    def joined(self, other: Present) -> Present:
        """Return the union with `other`."""
        return Present(*(_union(own, known) for own, known in zip(self, other, strict=True)))


def _union(own: Tensor | None, other: Tensor | None) -> Tensor | None:
    if own is None or other is None:
        return other if own is None else own
    return torch.cat([own, other]).unique()


@dataclass(frozen=True)
class Freezing:
    """How modules are frozen.

    Attributes:
        dtype: the type of the layers' tensors.
        present: the kinds that will occur, if they are known; tables then contain only these.
    """

    dtype: torch.dtype
    present: Mapping[nn.Module, Present] = field(default_factory=dict)


def freeze_module(module: nn.Module, how: Freezing) -> nn.Module:
    """Return the result of `module.frozen`, or without such a method the module itself, with its submodules frozen.

    The method must be defined by the module's own class, because a subclass may compute something else.
    """
    make = vars(type(module)).get("frozen")
    if make is not None:
        return make(module, how)
    for name, part in list(module.named_children()):
        setattr(module, name, freeze_module(part, how))
    return module


class FoldedLayer(NamedTuple):
    """A GIN or GINE layer in evaluation: h_v' = relu(W2 relu(W1 (scale h_v + sum of messages) + b1) + b2) (+ h_v).

    Shapes:
        first, second: W1 and W2, [d, d] as [in, out]; first_bias, second_bias: [d]; scale: [1].
    """

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    scale: Tensor
    residual: bool
    relu: bool
    edge_embedding: EdgeEmbedding | None
    direction_embedding: DirectionEmbedding | None


class FrozenLayer(nn.Module):
    """A folded layer as three kernels; the embeddings of bonds and directions are read from one small table."""

    def __init__(self, layer: FoldedLayer, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.residual, self.relu = layer.residual, layer.relu
        weights = (layer.first, layer.first_bias, layer.second, layer.second_bias)
        self.weights = nn.ParameterList([nn.Parameter(weight) for weight in weights]).to(dtype).requires_grad_(False)
        self.scale = nn.Parameter(layer.scale, requires_grad=False)
        self.edge_embedding, self.direction_embedding = layer.edge_embedding, layer.direction_embedding
        table = None if self.edge_embedding is None else self.edge_embedding.table()
        if self.direction_embedding is not None:
            table = self.direction_embedding.table() if table is None else self.direction_embedding.rows(table)
        self.table = None if table is None else nn.Parameter(table, requires_grad=False)

    def forward(self, h: Tensor, graphs: GraphBatch, directions: Tensor | None = None) -> Tensor:
        first, first_bias, second, second_bias = self.weights
        kinds = None if self.edge_embedding is None else self.edge_embedding.kinds_of(graphs)
        if self.direction_embedding is not None and directions is not None:
            kinds = directions if kinds is None else self.direction_embedding.row_numbers(kinds, directions)
        h = h.to(self.dtype)
        rows = aggregate(h, self.scale, graphs, self.relu, self.table, kinds).flatten(0, 1)
        out = product_relu(product_relu(rows, first, first_bias), second, second_bias).reshape(h.shape)
        return out.add_(h) if self.residual else out


class FrozenStart(nn.Module):
    """Marks, features and the first layer up to its second product, from tables made once.

    The input of a node is its kind of atom and the way in which it is marked (`Marking.kinds`), of which there are few
    combinations. So there are few different messages, and as W1 is linear,  W1 (sum of messages) = sum of (W1 message):
    the product is computed once for the rows of the table instead of for all nodes of all copies.

    Args:
        initial: h^(0) of each atom that occurs, marked in each way, [kinds, d], in double precision; ways vary
            fastest.
        marking: numbers the ways of being marked; None if there are no marks.
        atoms: numbers the atoms that occur; None if nodes have no features.
        present: the bonds that occur, for layers that read bonds.
    """

    def __init__(
        self,
        layer: FoldedLayer,
        initial: Tensor,
        marking: Marking | None,
        atoms: Kinds | None,
        present: Tensor | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.marking, self.atoms, self.residual = marking, atoms, layer.residual
        self.ways = 1 if marking is None else marking.num_kinds or 1
        self.bonds = None
        messages = initial[:, None]  # [kinds, bond kinds, d]
        if layer.edge_embedding is not None and present is not None:
            self.bonds = Kinds(layer.edge_embedding, present)
            messages = messages + layer.edge_embedding.table()[present].double()
        if layer.relu:
            messages = messages.relu()
        first = layer.first.double()
        own = layer.scale.double() * initial @ first + layer.first_bias.double()
        tables = [initial, own, (messages @ first).flatten(0, 1), layer.second, layer.second_bias]
        self.tables = nn.ParameterList([nn.Parameter(table.to(dtype)) for table in tables]).requires_grad_(False)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        initial, own, sent, second, second_bias = self.tables
        kinds = self._kinds(graphs, tuples)
        bonds = None if self.bonds is None else self.bonds.of_edges(graphs)
        hidden = sum_kinds(own, sent, kinds, graphs, bonds)
        out = product_relu(hidden.flatten(0, 1), second, second_bias).reshape(hidden.shape)
        return out.add_(initial[kinds]) if self.residual else out

    def _kinds(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Return each node's row in the tables, [N, m]; ways of being marked vary fastest."""
        if self.marking is None:
            kinds = torch.zeros(graphs.total_nodes, tuples.shape[1], dtype=torch.long, device=graphs.device)
        else:
            kinds = self.marking.kinds(graphs, tuples)
        return kinds if self.atoms is None else kinds + (self.atoms.of_nodes(graphs) * self.ways)[:, None]


class Kinds(nn.Module):
    """Combinations of categories, numbered among those that occur.

    Args:
        present: the combinations that occur, [kinds].
    """

    place: Tensor

    def __init__(self, embedding: FeatureEmbedding, present: Tensor) -> None:
        super().__init__()
        assert embedding.num_kinds is not None, "floats have no kinds"
        self.embedding = embedding
        place = torch.full((embedding.num_kinds,), -1, device=present.device)  # -1: does not occur
        place[present] = torch.arange(len(present), device=present.device)
        self.register_buffer("place", place)

    def of_nodes(self, graphs: GraphBatch) -> Tensor:
        """Return the number of each node's kind of atom, [N]."""
        x = needed(graphs.x, "x")
        return graphs.derived("atom numbers", lambda: self._among_present(self.embedding.kinds(x)), of=self.place)

    def of_edges(self, graphs: GraphBatch) -> Tensor:
        """Return the number of each edge's kind of bond, [E]."""
        assert isinstance(self.embedding, EdgeEmbedding)
        kinds = self.embedding.kinds_of(graphs)
        return graphs.derived("bond numbers", lambda: self._among_present(kinds), of=self.place)

    def _among_present(self, kinds: Tensor) -> Tensor:
        number = self.place[kinds]
        if values_known(number) and bool((number < 0).any()):
            raise InputError("an atom or bond does not occur in the graphs that this model was frozen for")
        return number
