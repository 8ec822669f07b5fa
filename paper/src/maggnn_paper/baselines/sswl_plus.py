"""SSWL+: a pair (root v, node u) aggregates u's neighbours in its copy and node u in the copies of v's neighbours.

Zhang, Feng, Du, He and Wang, "A Complete Expressiveness Hierarchy for Subgraph GNNs via Subgraph Weisfeiler-Lehman
Tests", ICML 2023, which ranks it above the other node-rooted methods.

    near(v, u)   = (1 + eps) h(v, u) + sum of relu(h(v, w) + e_wu) over neighbours w of u
    across(v, u) = (1 + eps) h(v, u) + sum of relu(h(w, u) + e_wv) over neighbours w of the root v
    twin(v, u)   = (1 + eps) h(v, u) + h(u, u)

    h'(v, u) = relu( norm( MLP near + MLP across + MLP twin ) )

with parameters of its own for each sum. A pair begins with its node's features and its distance; a node is the mean
over its copy.

Departures: the paper's copies are whole graphs (`hops` = 0), here they may be neighbourhoods; it
pools all pairs of a graph at once, here first those of a copy.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import Copies, node_copies
from maggnn_paper.baselines.parts import Atoms, Distance, Layers, NeighbourSum, Output, Perceptron, at_nodes


class SSWLPlus(Baseline):
    """Layers over all pairs of a root and a node, symmetric in the two."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.atoms = Atoms(self)
        self.distance = Distance(baseline.hops, config.hidden)
        self.layers = Layers(config, (_Layer(config, edge_features) for _ in range(config.num_layers)))

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        copies = node_copies(self.with_structure(graphs), self.baseline.hops)
        h = at_nodes(self.atoms(copies, tuples), copies) + self.distance(copies)  # [P, 1, d]
        return copies.sum_first_root(copies.mean_copy(self.layers(h, copies)))  # [N, 1, d]


class _Layer(nn.Module):
    """Pairs to pairs, [P, 1, d]."""

    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec) -> None:
        super().__init__()
        self.near, self.across = NeighbourSum(config, edge_features), NeighbourSum(config, edge_features)
        self.eps = nn.Parameter(torch.zeros(1))
        self.of_near, self.of_across, self.of_twin = Perceptron(config), Perceptron(config), Perceptron(config)
        self.output = Output(config)

    def forward(self, h: Tensor, copies: Copies) -> Tensor:
        near, across = self.near(h, copies.graphs), across_copies(self.across, h, copies)
        twin = (1 + self.eps) * h + at_nodes(copies.at_root(h), copies)
        return self.output(self.of_near(near) + self.of_across(across) + self.of_twin(twin), h)


def across_copies(total: NeighbourSum, h: Tensor, copies: Copies) -> Tensor:
    """The sum over neighbours w of a pair's root, of rows (w, u) at (v, u): [P, 1, d] -> [P, 1, d].

    Turned round, that is the sum over neighbours of a pair's node: in the copy of u, of rows (u, w) at (u, v).
    """
    turned = copies.transposed
    return total(h.index_select(0, turned), copies.graphs).index_select(0, turned)
