"""SUN: a pair (root v, node u) aggregates its copy, node u in all copies, and the roots of the copies of u and v.

Frasca, Bevilacqua, Bronstein and Maron, "Understanding and Extending Subgraph GNNs by Rethinking Their Symmetries",
NeurIPS 2022.

    near(v, u) = (1 + eps) h(v, u) + sum of relu(h(v, w) + e_wu) over neighbours w of u        in the copy of v
    all(u)     = the same sum over neighbours in the graph, of the mean over copies of h(., u)

    h'(v, u) = relu( norm( MLP near(v, u) + A h(v, u) + B h(v, v) + C mean of h(v, .) + D h(u, u) + MLP all(u) ) )

and for u = v the same with parameters of its own (without the repeated h(v, v)). Copies are marked at their roots; a
node is the mean over its copy.

Departures: the terms of a single row or pool go through linear maps and not perceptrons (the authors' code has both);
roots share the bonds' embeddings with the others; pools are means throughout.
"""

from __future__ import annotations

from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn.model.kernels.messages import spread_to_nodes
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import Copies, node_copies
from maggnn_paper.baselines.parts import Atoms, Layers, NeighbourSum, Output, Perceptron, at_nodes, plain


class SUN(Baseline):
    """Layers over all pairs of a root and a node."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.atoms = Atoms(self)
        self.mark = nn.Embedding(1, config.hidden)
        self.layers = Layers(config, (_Layer(config, edge_features) for _ in range(config.num_layers)))

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        copies = node_copies(self.with_structure(graphs), self.baseline.hops)
        h = at_nodes(self.atoms(copies, tuples), copies)  # [P, 1, d]
        marked = self.mark.weight[None].expand(len(copies.roots), -1, -1)
        h = self.layers(h.index_add(0, copies.root_rows[:, 0], marked), copies)
        return copies.sum_first_root(copies.mean_copy(h))  # [N, 1, d]


class _Layer(nn.Module):
    """Pairs to pairs, [P, 1, d]."""

    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec) -> None:
        super().__init__()
        self.near, self.all = NeighbourSum(config, edge_features), NeighbourSum(config, edge_features)
        self.away, self.own = _Terms(config), _Terms(config)
        self.root, self.twin = plain(config), plain(config)  # B and D, which roots do without
        self.output = Output(config)

    def forward(self, h: Tensor, copies: Copies) -> Tensor:
        near = self.near(h, copies.graphs)  # [P, 1, d]
        roots, pooled = copies.at_root(h), copies.mean_copy(h)  # [R, 1, d]
        everywhere = self.all(copies.pool_node(h), copies.base)[: len(roots)]
        of_pair, of_copy, of_node = self.away(near, h, pooled, everywhere)
        of_copy, of_node = of_copy + self.root(roots), of_node + self.twin(roots)
        total = of_pair + spread_to_nodes(of_copy, copies.graphs) + at_nodes(of_node, copies)
        of_root = sum(self.own(copies.at_root(near), roots, pooled, everywhere))
        return self.output(total.index_copy(0, copies.root_rows[:, 0], of_root), h)


class _Terms(nn.Module):
    """The terms that roots and other nodes have alike, with parameters of their own: of a pair, a copy and a node."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.near, self.all = Perceptron(config), Perceptron(config)
        self.pair, self.pool = plain(config), plain(config)

    def forward(self, near: Tensor, h: Tensor, pooled: Tensor, everywhere: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.near(near) + self.pair(h), self.pool(pooled), self.all(everywhere)
