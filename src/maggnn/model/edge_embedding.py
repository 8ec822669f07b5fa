"""The embedding of edge features, optionally with the smallest ring of each edge as an additional category."""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.rings import NUM_CATEGORIES, edge_rings
from maggnn.model.features import FeatureEmbedding, FeatureSpec

MAX_KINDS = 256
"""Up to this many combinations of bond categories, a layer embeds the combinations instead of each bond."""


class EdgeEmbedding(FeatureEmbedding):
    """Maps features of edges to [E, d], optionally with the smallest ring of each edge as an additional category.

    Args:
        bonds: the edges' own features.
        rings: whether to add the smallest ring: as a category, or one-hot to float features.
    """

    def __init__(self, bonds: FeatureSpec, rings: bool, hidden: int) -> None:
        super().__init__(_with_ring_column(bonds) if rings else bonds, hidden)
        self.bonds, self.rings = bonds, rings

    def of(self, graphs: GraphBatch) -> Tensor:
        """Return the features that are embedded, [E, F]."""
        if not self.bonds.empty and graphs.edge_attr is None:
            raise InputError("the model was made for graphs with edge_attr, but these graphs have none")
        if not self.rings:
            assert graphs.edge_attr is not None
            return graphs.edge_attr
        return graphs.derived(f"edges, {self.bonds}, rings", lambda: self._beside(graphs.edge_attr, edge_rings(graphs)))

    def of_set(self, packed: PackedGraphs | GraphBatch) -> Tensor | None:
        """Return the same for a whole set, [total edges, F]; None if its rings are unknown."""
        if not self.rings:
            return packed.edge_attr
        return None if packed.rings is None else self._beside(packed.edge_attr, packed.rings)

    def kinds_of(self, graphs: GraphBatch) -> Tensor:
        """Return the combination of categories of each edge as one number, [E]."""
        return graphs.derived(f"edge kinds, {self.bonds}, {self.rings}", lambda: self.kinds(self.of(graphs)))

    def rows(self, graphs: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Return embeddings, and each edge's row in them; None means that edge i has row i."""
        if self.num_kinds is None or self.num_kinds > MAX_KINDS:
            return self(self.of(graphs)), None
        return self.table(), self.kinds_of(graphs)

    def _beside(self, edge_attr: Tensor | None, rings: Tensor) -> Tensor:
        if self.bonds.empty or edge_attr is None:
            return rings[:, None]
        if edge_attr.is_floating_point():
            one_hot = rings[:, None] == torch.arange(NUM_CATEGORIES, device=rings.device)
            return torch.cat([edge_attr, one_hot.to(edge_attr.dtype)], dim=1)
        return torch.cat([edge_attr.long(), rings[:, None]], dim=1)


def _with_ring_column(bonds: FeatureSpec) -> FeatureSpec:
    if bonds.width:
        return FeatureSpec(width=bonds.width + NUM_CATEGORIES)
    return FeatureSpec(categories=(*bonds.categories, NUM_CATEGORIES))
