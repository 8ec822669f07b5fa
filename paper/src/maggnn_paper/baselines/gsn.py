"""GSN: a GNN whose inputs count the small subgraphs of each type that contain a node or an edge.

Bouritsas, Frasca, Zafeiriou and Bronstein, "Improving Graph Neural Network Expressivity via Subgraph Isomorphism
Counting", TPAMI 2022.

    c_v, c_uv = how many cycles of 3, 4, ..., L nodes hold the node v, the edge uv
    h^0_v     = x_v + W log(1 + c_v)
    h^t+1_v   = MLP( (1 + eps) h^t_v + sum over neighbours u of relu( h^t_u + e_uv + W_t log(1 + c_uv) ) )

Departures: the subgraphs are cycles alone, as in its experiments on molecules; nodes and edges both have their counts
(GSN-v and GSN-e in one); counts enter as logarithms through a linear map where the paper makes them categories.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.encoder import GINELayer
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.cycles import neighbours, simple_cycles, through_edges


class CountingLayer(GINELayer):
    """GINE whose messages also know the cycles that their edge lies in."""

    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec, largest: int) -> None:
        super().__init__(config, edge_features)
        self.largest = largest
        self.counts = nn.Linear(largest - 2, config.hidden, bias=False)

    def edges(self, graphs: GraphBatch) -> tuple[Tensor, None]:
        _, counts = cycle_counts(graphs, self.largest)
        edges = self.counts(counts.to(self.counts.weight.dtype))  # [E, d]
        if self.edge_embedding is not None:
            edges = edges + self.edge_embedding(self.edge_embedding.of(graphs))
        return edges, None


class GSN(Baseline):
    """GINE over counts of cycles; always reads bonds, whatever `encoder.conv` is."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        largest = baseline.largest_ring
        self.g = self.inner(num_layers=0)
        self.g.layers.extend(CountingLayer(config, edge_features, largest) for _ in range(config.num_layers))
        self.counts = nn.Linear(largest - 2, config.hidden, bias=False)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        counts, _ = cycle_counts(graphs, self.baseline.largest_ring)
        h = self.g.initial(graphs, tuples[:, :1]) + self.counts(counts.to(self.dtype))[:, None]  # [N, 1, d]
        return self.g.onward(h, graphs, first=0)


def cycle_counts(graphs: GraphBatch, largest: int) -> tuple[Tensor, Tensor]:
    """log(1 + the cycles of 3, 4, ..., `largest` nodes) that hold each node and each edge: [N, L - 2], [E, L - 2]."""
    name, total = f"cycles up to {largest}", graphs.total_nodes
    both = graphs.derived(name, lambda: _counts(graphs, largest).log1p())  # one search for all layers
    return both[:total], both[total:]


def _counts(graphs: GraphBatch, largest: int) -> Tensor:
    """Of the nodes and then of the edges, [N + E, L - 2]."""
    columns = []
    for cycles in simple_cycles(neighbours(graphs), largest):
        of_nodes = torch.bincount(cycles.flatten(), minlength=graphs.total_nodes)
        columns.append(torch.cat([of_nodes, through_edges(graphs, cycles)]))
    return torch.stack(columns, dim=1).float()
