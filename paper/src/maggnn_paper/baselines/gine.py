"""GINE (Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020): GIN that reads bonds.

    h_v' = MLP( (1 + eps) h_v + sum of relu(h_u + e_uv) over neighbours u )

The plain GNN of the molecules, whatever `encoder.conv` says; the control `gin` follows the config of its table.
Departure: none but the config's norms and residuals.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline


class GINE(Baseline):
    """The base GNN, without marks."""

    recordable = True

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.g = Encoder(replace(config, conv="gine"), 0, node_features, edge_features)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        return self.g(graphs, tuples[:, :1])  # [N, 1, d]
