"""RNI: random features make a GNN universal, in expectation over their draws.

    h_v^(0) = [ x_v, r_v ],   r_v ~ N(0, 1) in half of the features, drawn anew in every pass

Abboud, Ceylan, Grohe and Lukasiewicz, "The Surprising Power of Graph Neural Networks with Random Node
Initialization", IJCAI 2021; Sato, Yamada and Kashima, "Random Features Strengthen Graph Neural Networks", SDM 2021.

Departure: an answer pools over several draws, `baseline.copies`, where the papers take one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline


class RNI(Baseline):
    """The base GNN on copies of a graph that differ in half of their nodes' features."""

    draws = True
    recordable = True

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.g = self.inner()

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        no_marks = tuples.new_empty(graphs.num_graphs, self.baseline.copies, 0)
        start = self.g.initial(graphs, no_marks)  # [N, copies, d]
        known, replaced = start.tensor_split(2, dim=-1)
        start = torch.cat([known, torch.randn_like(replaced)], dim=-1)
        return self.g.onward(start, graphs, first=0)
