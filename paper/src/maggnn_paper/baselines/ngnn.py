"""NGNN (Zhang and Li, "Nested Graph Neural Networks", NeurIPS 2021): a GNN embeds the ego net of each node.

    x(v, .) = g( G_v^h, mark at v ),                 G_v^h the subgraph within h edges of v
    h_v     = W [ R over u of x(v, u), x(v, v) ],     the graph: sum of h_v

How far each node is from v comes as a category of its own, the distance encoding that the paper allows.

Departures: the outer GNN that the paper allows after the pooling is left out, as in its own experiments on molecules;
the root's own row is read beside R (its code has either), without which a count has to be inferred from a mean. R is
the mean, or the sum where counts are asked for.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import node_copies
from maggnn_paper.baselines.parts import DistanceFeatures


class NGNN(Baseline):
    """Marked copies around every node, each pooled to its root."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.distances = DistanceFeatures(node_features, 1, baseline.hops)
        self.g = self.inner(tuple_order=1, node_features=self.distances.node_features)
        self.read = nn.Linear(2 * config.hidden, config.hidden)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        copies = node_copies(self.with_structure(graphs), self.baseline.hops)
        h = self.g(self.distances(copies), copies.tuples)  # [P, 1, d]
        both = torch.cat([copies.pool_copy(h, self.baseline.pooling), copies.at_root(h)], dim=-1)  # [R, 1, 2d]
        return copies.sum_first_root(self.read(both))  # [N, 1, d]
