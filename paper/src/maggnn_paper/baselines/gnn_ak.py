"""GNN-AK+: a layer runs a GNN on the ego net of every node, where a plain layer sees the star of its neighbours.

Zhao, Jin, Akoglu and Shah, "From Stars to Subgraphs: Uplifting Any GNN with Local Structure Awareness", ICLR 2022.

    x(v, u) = g( G_v, h_u + D(v, u) )                       one layer of the base GNN in the copy of root v
    centroid(v) = x(v, v)
    subgraph(v) = R over u of  s(v, u) * S x(v, u)          all that v's copy holds
    context(v)  = R over u of  c(u, v) * C x(u, v)          what the other copies say of v
    h_v' = relu( norm( W (centroid + subgraph + context) ) )

R is the mean, or the sum where counts are asked for. D, and the gates s and c (through a sigmoid), are learned of the
distance between root and node.

Departures: every layer holds one layer of the base GNN, so that the depth is the config's; D is added to h and not
concatenated; the gate of the centroid, whose distance is always 0, is left out: W scales as well. Without the
subgraph sampling that the paper offers for large graphs.
"""

from __future__ import annotations

from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn.model.normalise import Norm
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import Copies, node_copies
from maggnn_paper.baselines.parts import Atoms, Distance, Layers, Output, at_nodes, plain


class GNNAKPlus(Baseline):
    """Layers from nodes to nodes, each through the copies around them."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.atoms = Atoms(self)
        inner = self.inner().layers
        self.layers = Layers(config, (_Layer(layer, baseline, config) for layer in inner))

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        copies = node_copies(self.with_structure(graphs), self.baseline.hops)
        return copies.sum_first_root(self.layers(self.atoms(copies, tuples), copies))  # [N, 1, d]


class _Layer(nn.Module):
    """Nodes to nodes, [R, 1, d].

    Args:
        inner: the layer of the base GNN.
    """

    def __init__(self, inner: nn.Module, baseline: BaselineConfig, config: EncoderConfig) -> None:
        super().__init__()
        self.inner, self.pooling = inner, baseline.pooling
        self.distance = Distance(baseline.hops, config.hidden)
        self.subgraph, self.context = _Gated(baseline.hops, config), _Gated(baseline.hops, config)
        self.join = plain(config)
        self.output = Output(config)

    def forward(self, h: Tensor, copies: Copies) -> Tensor:
        x = self.inner(at_nodes(h, copies) + self.distance(copies), copies.graphs)  # [P, 1, d]
        subgraph = copies.pool_copy(self.subgraph(x, copies), self.pooling)  # [R, 1, d]
        context = copies.pool_node(self.context(x, copies), self.pooling)[: len(h)]
        return self.output(self.join(copies.at_root(x) + subgraph + context), h)


class _Gated(nn.Module):
    """A linear map, norm and relu, then a gate that depends on the distance: [P, 1, d] -> [P, 1, d]."""

    def __init__(self, hops: int, config: EncoderConfig) -> None:
        super().__init__()
        self.map, self.norm = plain(config), Norm(config.norm, config.hidden)
        self.gate = Distance(hops, config.hidden)

    def forward(self, x: Tensor, copies: Copies) -> Tensor:
        return self.gate(copies).sigmoid() * self.norm.relu(self.map(x))
