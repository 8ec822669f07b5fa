"""ID-GNN (You, Gomes-Selman, Ying and Leskovec, "Identity-aware Graph Neural Networks", AAAI 2021).

The GNN of a node's ego net knows which node that is: what the root sends goes through weights of its own.

    s_u  = W h_u + [u = v] W' h_u
    h_u' = MLP( (1 + eps) s_u + sum of relu(s_w + e_wu) over neighbours w of u )     in the copy of root v
    the node: h_v^(T) of its own copy

This is the full method, not ID-GNN-Fast, whose counts of cycles are features. Departures: the root's own part has the
other weights too, since maps come before the sum; bonds enter as in GINE; a perceptron follows the sum, as in GIN; the
ego net's radius is `hops`, where in the paper it is the number of layers.
"""

from __future__ import annotations

from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import Copies, node_copies
from maggnn_paper.baselines.parts import Atoms, Layers, NeighbourSum, Output, Perceptron, at_nodes, plain


class IDGNN(Baseline):
    """Copies around every node, whose roots send other messages than the rest; each read at its root."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.atoms = Atoms(self)
        self.layers = Layers(config, (_Layer(config, edge_features) for _ in range(config.num_layers)))

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        copies = node_copies(self.with_structure(graphs), self.baseline.hops)
        h = self.layers(at_nodes(self.atoms(copies, tuples), copies), copies)  # [P, 1, d]
        return copies.sum_first_root(copies.at_root(h))  # [N, 1, d]


class _Layer(nn.Module):
    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec) -> None:
        super().__init__()
        self.any, self.root = plain(config), plain(config)
        self.neighbours = NeighbourSum(config, edge_features)
        self.perceptron = Perceptron(config)
        self.output = Output(config)

    def forward(self, h: Tensor, copies: Copies) -> Tensor:
        sent = self.any(h).index_add(0, copies.root_rows[:, 0], self.root(copies.at_root(h)))  # [P, 1, d]
        return self.output(self.perceptron(self.neighbours(sent, copies.graphs)), h)
