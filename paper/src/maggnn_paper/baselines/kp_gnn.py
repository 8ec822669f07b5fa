"""KP-GNN: separate messages from the nodes at each distance up to K, and the edges between nodes of one distance.

Feng, Chen, Li, Sarkar and Zhang, "How Powerful are K-hop Message Passing Graph Neural Networks", NeurIPS 2022.

    s_1(v) = (1 + eps) h_v + sum of relu(h_u + e_uv) over neighbours u
    s_k(v) = sum of h_u over the nodes u that are k edges away,   k = 2 ... K
    h_v'   = MLP( sum over k of W_k (s_k(v) + p_k(v)) )

p_k(v) describes the peripheral subgraph, the nodes k edges from v and the edges between them, by how its nodes lie:

    p_k(v) = sum over its nodes u of relu( norm( C log(1 + c_u) ) )

with c_u how many nodes are 1, 2 and 3 steps from u within it, and how many edges are between the nodes of each of these
three distances.

Departures: the authors' code adds the counts up over the subgraph before it looks them up in tables, clipped; here the
nodes' counts stay a multiset, which distinguishes all 15 graphs of SR25 (the sums have 12 values). Edges of a
peripheral subgraph count alike whatever their bond is. The hops join by their own maps into one perceptron (not one
perceptron each, then a learned weighting), and the number of paths to a node is not used. `hops` = 0 distinguishes
the first 8 distances; farther nodes count as 8 away.

Sums over one distance add to one row from many threads of a GPU, so that they do not repeat there bit for bit.
"""

from __future__ import annotations

from itertools import islice, pairwise

import torch
from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.structure import adjacency, as_undirected, balls
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import REACHABLE, Copies, node_copies
from maggnn_paper.baselines.parts import Atoms, Dense, Layers, NeighbourSum, Output, Perceptron, at_nodes, farthest

REACH = 3
"""Distances within a peripheral subgraph whose pairs are counted."""


class KPGNN(Baseline):
    """Layers from nodes to nodes; the copies around a node only list who is how far from it."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.num_hops = farthest(baseline.hops)
        self.atoms = Atoms(self)
        self.configuration = Dense(2 * REACH, config)
        layers = (_Layer(config, edge_features, self.num_hops) for _ in range(config.num_layers))
        self.layers = Layers(config, layers)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        copies = node_copies(graphs, self.baseline.hops or REACHABLE)
        counts = copies.graphs.derived("peripheral counts", lambda: peripheral_counts(copies))  # [P, 2 REACH]
        configuration = self.configuration(counts.to(self.dtype).log1p())  # [P, d]
        peripheral = _sum_hops(configuration, copies, self.num_hops)  # [R, K, d]
        return copies.sum_first_root(self.layers(self.atoms(copies, tuples), copies, peripheral))  # [N, 1, d]


def peripheral_counts(copies: Copies) -> Tensor:
    """How each node lies among those as far from the root, [P, 2 REACH].

    For 1, 2, ..., REACH steps by way of such nodes alone: how many of them are that far from it, and how many edges
    are between those, both directions counted.
    """
    distance = copies.graphs.padded(copies.distance[:, 0], -1)  # [R, V], V nodes of the largest copy
    together = distance[:, :, None] == distance[:, None]
    joined = as_undirected(adjacency(copies.graphs)) * together  # [R, V, V]
    columns = []
    for near, wider in islice(pairwise(balls(joined)), REACH):
        apart = wider - near  # just so many steps, within the peripheral subgraph
        columns += [apart.sum(dim=2), ((apart @ joined) * apart).sum(dim=2)]
    return torch.stack(columns, dim=-1)[copies.copy, copies.graphs.local_id]


def _sum_hops(h: Tensor, copies: Copies, num_hops: int) -> Tensor:
    """Sums over the nodes 1, 2, ..., K edges from each root, [P, width] -> [R, K, width]."""
    hop = copies.distance[:, 0].clamp(max=num_hops)
    slot = copies.copy * (num_hops + 1) + hop  # the root itself has a slot too, which is dropped
    sums = h.new_zeros(len(copies.roots) * (num_hops + 1), h.shape[1]).index_add(0, slot, h)
    return sums.unflatten(0, (-1, num_hops + 1))[:, 1:]


class _Layer(nn.Module):
    """Nodes to nodes, [R, 1, d]."""

    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec, num_hops: int) -> None:
        super().__init__()
        self.num_hops = num_hops
        self.near = NeighbourSum(config, edge_features)
        self.perceptron = Perceptron(config, num_hops * config.hidden)
        self.output = Output(config)

    def forward(self, h: Tensor, copies: Copies, peripheral: Tensor) -> Tensor:
        near = self.near(copies.sum_first_root(h), copies.base)[: len(h)]  # [R, 1, d]
        far = _sum_hops(at_nodes(h, copies)[:, 0], copies, self.num_hops)[:, 1:]  # [R, K - 1, d]
        sums = torch.cat([near, far], dim=1) + peripheral  # [R, K, d]
        return self.output(self.perceptron(sums.flatten(1)[:, None]), h)
