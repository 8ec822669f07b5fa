"""k-OSAN for k = 1: a GNN upstream scores the nodes, one downstream reads the marked copies of those that are drawn.

    theta = f(G);   v_1, ..., v_m = the m largest of theta + Gumbel noise;   h = pool over i of g( G, mark at v_i )

Qian, Rattan, Geerts, Niepert and Morris, "Ordered Subgraph Aggregation Networks", NeurIPS 2022.

The largest entries of perturbed scores are a sample without replacement (perturb and MAP): v_i is drawn from the
softmax of theta over nodes that are not drawn yet. The mark's derivative goes straight through to that softmax.

Departures: the paper estimates that derivative by the finite difference of I-MLE, whose limit for small steps is, in
expectation, this one; it scores nodes for each subgraph apart and draws subgraphs independently, so that they can
coincide; its ZINC runs delete nodes where this marks one. A graph with fewer nodes than copies repeats its nodes.
The GNN upstream has LayerNorm: nodes of regular graphs are all alike to it, and BatchNorm divides by their spread,
which is rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.particles import gumbel


class KOSAN(Baseline):
    """Marked copies at nodes that a second GNN chooses.

    Shapes: B graphs, N nodes, V the most nodes of a graph, m copies.
    """

    draws = True

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        if config.marking != "binary":
            raise InputError("k-OSAN differentiates through 0/1 marks: set encoder.marking to binary")
        d = config.hidden
        self.upstream = self.inner(norm="layer")
        # No bias at the end: draws and softmax know differences of scores alone.
        self.score = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1, bias=False))
        self.g = self.inner(tuple_order=1)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        scores = self.score(self.upstream(graphs, tuples[:, :1]))[:, 0, 0]  # [N]
        roots, is_root = drawn(scores, graphs, self.baseline.copies)
        start = self.g.initial(graphs, roots[..., None]) + self._derivative(is_root)
        return self.g.onward(start, graphs, first=0)

    def _derivative(self, is_root: Tensor) -> Tensor:
        """Zeros [N, m, d] that hand what marks are worth on to `is_root` [N, m]."""
        assert self.g.mark_embedding is not None
        height = self.config.c_plus - self.config.c_minus
        return (is_root - is_root.detach())[..., None] * (height * self.g.mark_embedding.weight[:, 0])


def drawn(scores: Tensor, graphs: GraphBatch, copies: int) -> tuple[Tensor, Tensor]:
    """m nodes of each graph by scores [N], without replacement.

    Returns:
        Local ids [B, m]; and which node is the root of which copy, as zeros and ones with the derivative of the
        softmax, [N, m].
    """
    table = graphs.padded(scores, float("-inf"))  # [B, V]
    ranked = (table.detach() + gumbel(tuple(table.shape), scores.device)).argsort(dim=1, descending=True)
    place = torch.arange(copies, device=scores.device) % graphs.num_nodes[:, None]  # [B, m]
    rank, place_of_copy = ranked.argsort(dim=1)[..., None], place[:, None]  # [B, V, 1], [B, 1, m]
    likely = table[..., None].masked_fill(rank < place_of_copy, float("-inf")).softmax(dim=1)  # of those not yet drawn
    is_root = (rank == place_of_copy) + (likely - likely.detach())  # [B, V, m]
    local = graphs.local_id.clamp(max=table.shape[1] - 1)  # padding counts on beyond the last graph
    return ranked.gather(1, place), is_root[graphs.node_graph, local]
