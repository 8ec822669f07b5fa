"""PF-GNN: particles that individualise one node after another and refine with a GNN in between.

    H_1 = g_0(G);   v ~ P(V | H_t);   H_{t+1} = g_t( H_t with MLP(h_v) at v );   w_{t+1} ~ f_obs(H_{t+1}) w_t

Dupty, Dong and Lee, "PF-GNN: Differentiable Particle Filtering based Approximation of Universal Graph
Representations", ICLR 2022.

After every step but the last, particles are drawn anew by weight; the answer reads the weighted mean of the last H.
The networks are those of `particles`, where the construction of Theorem 3 is.

Neither draw has a derivative. Both learn by the score function, through weights that keep their value:

    w_t is multiplied by P(v) / [P(v)],  and after a draw it is w / [w] / M,   with [.] taken as constants

so the derivative of the weighted mean is that of its expectation, and normalising the weights subtracts a baseline.

Departures: the authors learn the policy by REINFORCE with the loss as its reward, which an encoder does not see, and
draw particles from a mixture of the weights and 1 / M; their code reads the embeddings of all steps. Each step has a
GNN of its own, as in their code, where Eqs. 14-16 of the MAG-GNN paper have one g for all: the running statistics of
one BatchNorm would be a mixture over the steps that fits none of them. g_0 has LayerNorm: before anything is
individualised the nodes of regular graphs are all alike, and BatchNorm divides by their spread, which is rounding.
On SR25 networks that have learned the classes with the statistics of their batches still answer at random with fixed
ones: each of the many layers multiplies what all nodes share by thirteen, and with it every error of a norm's mean.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.particles import ParticleFilter, gumbel

STEPS = 2
"""T: nodes that a particle individualises."""


class PFGNN(Baseline):
    """Particles as copies, their weights folded into the embeddings.

    Shapes: B graphs, N nodes, M particles.
    """

    draws = True

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.filter = ParticleFilter(self.inner(norm="layer"), STEPS)
        onward = {"node_features": FeatureSpec(), "random_walk": 0, "distances": False}  # the first has read these
        self.refine = nn.ModuleList(self.inner(**onward) for _ in range(STEPS))

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        particles = self.baseline.copies
        h = self.filter.refined(graphs, 1).expand(-1, particles, -1)  # [N, M, d]: all alike
        weights = h.new_full((graphs.num_graphs, particles), 1 / particles)
        for number in range(STEPS):
            if number:
                h, weights = _resampled(h, weights, graphs)
            node, chance = self._individualised(h, graphs)
            h = self.step(number, h, graphs, node)
            weights = self.filter.weights(h, graphs, weights * chance)
        return particles * weights[graphs.node_graph][..., None] * h  # whose mean over particles is the weighted one

    def step(self, number: int, h: Tensor, graphs: GraphBatch, node: Tensor) -> Tensor:
        """Individualise `node` [B, M] (local ids) in H_t [N, M, d] and refine with the step's own GNN: H_{t+1}."""
        refine = self.refine[number]
        assert isinstance(refine, Encoder)
        return refine.onward(self.filter.individualised(h, graphs, node), graphs, first=0)

    def _individualised(self, h: Tensor, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
        """A node of each particle, drawn from the policy, and P(v) / [P(v)]: [B, M] both."""
        log_policy = self.filter.log_policy(h, graphs)  # [N, M]
        perturbed = log_policy.detach() + gumbel(tuple(log_policy.shape), h.device)
        node = graphs.padded(perturbed, float("-inf")).argmax(dim=1)
        chosen = log_policy.gather(0, node + graphs.first_node[:, None])
        return node, (chosen - chosen.detach()).exp()


def _resampled(h: Tensor, weights: Tensor, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
    """Particles drawn by weight, with replacement, and their weights, 1 / M each: [N, M, d] and [B, M]."""
    particles = weights.shape[1]
    noise = gumbel((len(weights), particles, particles), h.device)
    ancestor = (weights.detach().log()[:, None] + noise).argmax(dim=-1)  # [B, M]
    drawn = weights.gather(1, ancestor)
    return _particles(h, ancestor[graphs.node_graph]), drawn / drawn.detach() / particles


def _particles(h: Tensor, number: Tensor) -> Tensor:
    """Particle number [N, M] of each node, [N, M, d]."""
    return torch.take_along_dim(h, number[..., None], dim=1)
