"""DropGNN: the mean of one GNN over several runs on a graph, each without some random nodes.

    h_v = mean over runs r of g( G without the nodes that r drops )_v,   each dropped with p = 2 / (1 + n)

Papp, Martinkus, Faber and Wattenhofer, "DropGNN: Random Dropouts Increase the Expressiveness of Graph Neural
Networks", NeurIPS 2021.

A dropped node begins with features 0 and neither sends nor hears anything; its row stays and counts in the mean.

Departures: the authors' code sets a dropped node's features to 0 and keeps its edges, so that there it still hears and
sends; n is the graph's own number of nodes, where the authors take the data set's mean, so that an answer does not
depend on the other graphs, and p is at most 1/2, so that tiny graphs keep something; their auxiliary loss on each run
alone is left out; `baseline.copies` runs, where they make about n.

Shapes: B graphs, N nodes, E edges of the batch, without padding; R runs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch, batch_of_edges
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline


class DropGNN(Baseline):
    """The base GNN on copies of a graph that lack random nodes."""

    draws = True

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.g = self.inner()

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        num_nodes = int(graphs.num_nodes.sum())
        chance = (2 / (1 + graphs.num_nodes)).clamp(max=0.5)[graphs.node_graph[:num_nodes]]  # [N]
        dropped = torch.rand(self.baseline.copies, num_nodes, device=graphs.device) < chance
        runs = _without(self.with_structure(graphs), dropped)
        start = self.g.initial(runs, tuples.new_empty(runs.num_graphs, 1, 0))  # [R N, 1, d]
        h = self.g.onward(start.masked_fill(dropped.reshape(-1, 1, 1), 0.0), runs, first=0)
        h = h.reshape(*dropped.shape, -1).transpose(0, 1)  # [N, R, d]
        return functional.pad(h, (0, 0, 0, 0, 0, graphs.total_nodes - num_nodes))


def _without(graphs: GraphBatch, dropped: Tensor) -> GraphBatch:
    """The graphs once for each run, run after run, without the edges of nodes that are `dropped` [R, N] there."""
    runs, num_nodes = dropped.shape
    source, target = graphs.edge_index[:, : int(graphs.edge_offsets[-1])]  # what lies beyond is padding
    run, edge = (~dropped[:, source] & ~dropped[:, target]).nonzero(as_tuple=True)  # in the order of targets
    source, target = source[edge] + run * num_nodes, target[edge] + run * num_nodes
    return batch_of_edges(
        graphs.num_nodes.repeat(runs),
        torch.stack([source, target]),
        x=None if graphs.x is None else graphs.x[:num_nodes].repeat(runs, 1),
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[edge],
        structure=None if graphs.structure is None else graphs.structure[:num_nodes].repeat(runs, 1),
        rings=None if graphs.rings is None else graphs.rings[edge],
    )
