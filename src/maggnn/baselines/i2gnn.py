"""I2-GNN: a node is what a GNN says of its neighbourhood, once for each neighbour that is marked beside it.

Huang, Peng, Ma and Zhang, "Boosting the Cycle Counting Power of Graph Neural Networks with I2-GNNs", ICLR 2023.

    x(vw, .) = g( G_v^h, marks at v and at w )                          G_v^h the subgraph within h edges of v
    h_vw     = W [ mean over u of x(vw, u), x(vw, v), x(vw, w) ]
    h_v      = x_v + sum over neighbours w of h_vw

How far each node is from v and from w comes as two more categories of its own, as in the paper.

Departures: the node's own features x_v are added, since a node without neighbours has no copies and would otherwise
have no embedding at all; distances enter once, at the start, and not in every layer.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from maggnn.baselines.copies import Copies, edge_copies
from maggnn.baselines.parts import FARTHEST
from maggnn.baselines.rival import Rival
from maggnn.config import EncoderConfig, RivalConfig
from maggnn.features import FeatureSpec
from maggnn.graphs import GraphBatch


class I2GNN(Rival):
    """Copies marked at a node and at a neighbour of it, each pooled to the node."""

    def __init__(
        self, rival: RivalConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(rival, config, node_features, edge_features)
        self.farthest = rival.hops + 1 if rival.hops else FARTHEST  # a neighbour of the root is one edge farther
        self.g = self.inner(tuple_order=2, node_features=_with_distances(node_features, self.farthest + 1))
        self.own = self.inner(num_layers=0)
        self.read = nn.Linear(3 * config.hidden, config.hidden)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        own = self.own(graphs, tuples[:, :1])  # [N, 1, d]
        copies = edge_copies(graphs, self.rival.hops)
        if not len(copies.roots):
            return own
        h = self.g(self._described(copies), copies.tuples)  # [P, 1, d]
        three = torch.cat([copies.mean_copy(h), copies.at_root(h, 0), copies.at_root(h, 1)], dim=-1)  # [R, 1, 3d]
        return own + copies.sum_first_root(self.read(three))

    def _described(self, copies: Copies) -> GraphBatch:
        """The copies with distances among their nodes' features."""
        distance = copies.distance.clamp(max=self.farthest)  # [P, 2]
        if self.node_features.empty:
            return replace(copies.graphs, x=distance)
        x = copies.graphs.x
        assert x is not None, "`own` has read them before"
        if self.node_features.width:
            distance = functional.one_hot(distance, self.farthest + 1).flatten(1)
        return replace(copies.graphs, x=torch.cat([x, distance.to(x.dtype)], dim=1))


def _with_distances(features: FeatureSpec, count: int) -> FeatureSpec:
    """Two more columns of `count` categories; one-hot beside floats."""
    if features.width:
        return FeatureSpec(width=features.width + 2 * count)
    return FeatureSpec(categories=(*features.categories, count, count))
