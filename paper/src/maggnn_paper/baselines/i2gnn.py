"""I2-GNN: a node is embedded by a GNN over its neighbourhood, once for each neighbour, with both nodes marked.

Huang, Peng, Ma and Zhang, "Boosting the Cycle Counting Power of Graph Neural Networks with I2-GNNs", ICLR 2023.

    x(vw, .) = g( G_v^h, marks at v and at w )                          G_v^h the subgraph within h edges of v
    h_vw     = W [ R over u of x(vw, u), x(vw, v), x(vw, w) ]
    h_v      = x_v + sum over neighbours w of h_vw

How far each node is from v and from w comes as two more categories of its own, as in the paper.

Departures: the node's own features x_v are added, since a node without neighbours has no copies and would otherwise
have no embedding at all; distances enter once, at the start, and not in every layer; the roots' own rows are read
beside R. R is the mean, or the sum where counts are asked for.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import edge_copies
from maggnn_paper.baselines.parts import DistanceFeatures


class I2GNN(Baseline):
    """Copies marked at a node and at a neighbour of it, each pooled to the node."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.distances = DistanceFeatures(node_features, 2, baseline.hops)
        self.g = self.inner(tuple_order=2, node_features=self.distances.node_features)
        self.own = self.inner(num_layers=0)
        self.read = nn.Linear(3 * config.hidden, config.hidden)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        own = self.own(graphs, tuples[:, :1])  # [N, 1, d]
        copies = edge_copies(self.with_structure(graphs), self.baseline.hops)
        if not len(copies.roots):
            return own
        h = self.g(self.distances(copies), copies.tuples)  # [P, 1, d]
        pooled = copies.pool_copy(h, self.baseline.pooling)
        three = torch.cat([pooled, copies.at_root(h, 0), copies.at_root(h, 1)], dim=-1)  # [R, 1, 3d]
        return own + copies.sum_first_root(self.read(three))
