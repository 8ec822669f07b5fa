"""PNA: several means of aggregation side by side, each scaled by the degree.

    h_v' = U( h_v, [1, S(d_v), 1 / S(d_v)] x [mean, min, max, std] over neighbours u of M(h_v, h_u, e_uv) ),
    S(d) = log(d + 1) / mean of log(degree + 1)

Corso, Cavalleri, Beaini, Liò and Veličković, "Principal Neighbourhood Aggregation for Graph Nets", NeurIPS 2020.

The mean over degrees is that of molecules, for all data alike: as a number read off a batch it would make answers
depend on which batch came first, and all it does is to scale two of the blocks that the linear map U takes in.

Departures: that fixed mean (the paper takes the training set's); one tower. Bonds are always read, whatever
`encoder.conv` is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn.model.normalise import Norm
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.parts import bond_embedding

DEGREES = (0, 178, 506, 303, 13)
"""How many of 1,000 atoms of ZINC have 0, 1, 2, ... bonds; those of MolHIV are much the same."""


class PNA(Baseline):
    """The base GNN with PNA's layers."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.g = self.inner(num_layers=0)
        self.g.layers.extend(PNALayer(config, edge_features) for _ in range(config.num_layers))

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        return self.g(graphs, tuples[:, :1])  # [N, 1, d]


class PNALayer(nn.Module):
    """PyG's convolution, normalised, then relu.

    Shapes: [N, 1, d] -> [N, 1, d].
    """

    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec) -> None:
        super().__init__()
        from torch_geometric.nn import PNAConv

        d = config.hidden
        self.edge_embedding = bond_embedding(config, edge_features)
        self.conv = PNAConv(
            d,
            d,
            aggregators=["mean", "min", "max", "std"],
            scalers=["identity", "amplification", "attenuation"],
            deg=torch.tensor(DEGREES),
            edge_dim=None if self.edge_embedding is None else d,
        )
        self.norm = Norm(config.norm, d)
        self.residual, self.dropout = config.residual, config.dropout

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        embedding = self.edge_embedding
        edges = None if embedding is None else embedding(embedding.of(graphs))  # [E, d]
        out = self.conv(h[:, 0], graphs.edge_index, edges)[:, None]
        out = functional.dropout(self.norm.relu(out, graphs.num_real), self.dropout, self.training)
        return h + out if self.residual else out
