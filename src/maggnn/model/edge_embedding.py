"""The embedding of edges: their features, optionally the smallest ring of each edge, and directions.

Directions are what a marking of edges, such as `encoder.marking = "directed"`, adds to the messages of a marked copy:

    message from u to w in copy v:   relu(h_u + e_uw + sum over j of D_j[way in which v_j marks the edge])
    directed:                        the way is sign(d(v_j, w) - d(v_j, u))

Shapes: m copies of E edges, k marks of a copy, d width; K rows of bonds.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.rings import NUM_CATEGORIES, edge_rings
from maggnn.model.features import FeatureEmbedding, FeatureSpec, needed

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
        edge_attr = graphs.edge_attr if self.bonds.empty else needed(graphs.edge_attr, "edge_attr")
        if not self.rings:
            assert edge_attr is not None
            return edge_attr
        return graphs.derived(f"edges, {self.bonds}, rings", lambda: self._with_rings(edge_attr, edge_rings(graphs)))

    def of_set(self, packed: PackedGraphs | GraphBatch) -> Tensor | None:
        """Return the same for a whole set, [total edges, F]; None if its rings are unknown."""
        if not self.rings:
            return packed.edge_attr
        return None if packed.rings is None else self._with_rings(packed.edge_attr, packed.rings)

    def kinds_of(self, graphs: GraphBatch) -> Tensor:
        """Return the combination of categories of each edge as one number, [E]."""
        return graphs.derived(f"edge kinds, {self.bonds}, {self.rings}", lambda: self.kinds(self.of(graphs)))

    def rows(self, graphs: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Return embeddings, and each edge's row in them; None means that edge i has row i."""
        if self.num_kinds is None or self.num_kinds > MAX_KINDS:
            return self(self.of(graphs)), None
        return self.table(), self.kinds_of(graphs)

    def _with_rings(self, edge_attr: Tensor | None, rings: Tensor) -> Tensor:
        if self.bonds.empty or edge_attr is None:
            return rings[:, None]
        if edge_attr.is_floating_point():
            one_hot = rings[:, None] == torch.arange(NUM_CATEGORIES, device=rings.device)
            return torch.cat([edge_attr, one_hot.to(edge_attr.dtype)], dim=1)
        return torch.cat([edge_attr.long(), rings[:, None]], dim=1)


class DirectionEmbedding(nn.Module):
    """D: one vector for each slot and way of marking an edge. Ways of all slots are one number, the first slot fastest.

    Args:
        tuple_order: k.
        edge_ways: the number of ways of one slot, w.
        hidden: d.

    Shapes:
        weight: [k, w, d]; table: [w^k, d].
    """

    def __init__(self, tuple_order: int, edge_ways: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(tuple_order, edge_ways, hidden))

    @property
    def num_ways(self) -> int:
        tuple_order, edge_ways, _ = self.weight.shape
        return edge_ways**tuple_order

    def table(self) -> Tensor:
        """Return the sum over the slots for each way of being marked, [w^k, d]."""
        edge_ways = self.weight.shape[1]
        way = torch.arange(self.num_ways, device=self.weight.device)
        digits = (way // edge_ways**slot % edge_ways for slot in range(len(self.weight)))
        rows = [vectors[digit] for vectors, digit in zip(self.weight, digits, strict=True)]
        return torch.stack(rows).sum(dim=0)

    def joined(self, bonds: Tensor | None, kinds: Tensor | None, directions: Tensor) -> tuple[Tensor, Tensor | None]:
        """Add directions to the embeddings of bonds, in the form that `messages.aggregate` reads.

        Args:
            bonds: embeddings of the kinds of bonds [K, d], or of each edge [E, d] if `kinds` is None; None without
                edge features.
            kinds: each edge's row of `bonds`, [E], or None.
            directions: the way in which each edge of each copy is marked, [E, m].

        Returns:
            Rows and each edge's row in each copy [E, m]; without kinds of bonds, the rows of all edges [E, m, d] and
            None.
        """
        table = self.table()
        if bonds is None:
            return table, directions
        if kinds is None:
            return bonds[:, None] + table[directions], None
        return self.rows(bonds), self.row_numbers(kinds, directions)

    def rows(self, bonds: Tensor) -> Tensor:
        """Return the sum for each kind of bond [K, d] and way of being marked, [K * w^k, d]; ways vary fastest."""
        return (bonds[:, None] + self.table()).flatten(0, 1)

    def row_numbers(self, kinds: Tensor, directions: Tensor) -> Tensor:
        """Return the row of `rows` of each edge in each copy, [E] and [E, m] -> [E, m]."""
        return kinds[:, None] * self.num_ways + directions


def _with_ring_column(bonds: FeatureSpec) -> FeatureSpec:
    if bonds.width:
        return FeatureSpec(width=bonds.width + NUM_CATEGORIES)
    return FeatureSpec(categories=(*bonds.categories, NUM_CATEGORIES))
