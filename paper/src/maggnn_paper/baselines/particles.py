"""Theorem 3, executable: PF-GNN (Dupty et al. 2022) as a MAG-GNN whose tuples are the particles.

A particle is a sequence of individualised nodes, here a tuple of order T filled slot by slot. The state matrix W of a
tuple holds T + 1 numbers: the step at which each slot was individualised (0: not yet) and the particle's weight.
Three choices make the search of `agent` PF-GNN's (Eqs. 14-16):

- Q is the log-probability of each node under the policy plus Gumbel noise, in the next slot alone. Its largest entry is
  then a sample of the policy, and nodes once individualised stay.
- f_W logs that slot.
- After every move the weights are those of Eq. 16 and the particles are drawn again with them.

The embeddings H_t come from the marked graph alone: g, then one changed node and g again for each logged slot.

Shapes: B graphs, N nodes, M particles, T steps, d the width.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from maggnn.graphs.batch import GraphBatch
from maggnn.model.agent import epsilon_greedy
from maggnn.model.encoder import Encoder
from maggnn.model.kernels.messages import sum_nodes
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples


class ParticleFilter(nn.Module):
    """PF-GNN's networks: g, the MLP that individualises, the policy P(V | H) and f_obs.

    Args:
        encoder: g, without marks (tuple order 0): PF-GNN changes embeddings, it does not add features.
        num_steps: T.
    """

    def __init__(self, encoder: Encoder, num_steps: int) -> None:
        super().__init__()
        d = encoder.config.hidden
        self.encoder, self.num_steps = encoder, num_steps
        self.individualise = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.policy = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1))
        self.observe = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1))

    def refined(self, graphs: GraphBatch, num_particles: int) -> Tensor:
        """H_1 = g(G), the same in every particle, [N, M, d]."""
        no_marks = torch.zeros(graphs.num_graphs, num_particles, 0, dtype=torch.long, device=graphs.device)
        return self.encoder(graphs, no_marks)

    def step(self, h: Tensor, graphs: GraphBatch, node: Tensor) -> Tensor:
        """Eq. 15: individualise `node` [B, M] (local ids) in H_t [N, M, d] and refine: H_{t+1}."""
        return self.encoder.onward(self.individualised(h, graphs, node), graphs, first=0)

    def individualised(self, h: Tensor, graphs: GraphBatch, node: Tensor) -> Tensor:
        """H_t [N, M, d] with MLP(h_v) at `node` [B, M] (local ids) of each particle."""
        row = node + graphs.first_node[:, None]  # [B, M]
        particle = torch.arange(node.shape[1], device=node.device).expand_as(row)
        return h.index_put((row, particle), self.individualise(h[row, particle]))

    def embed(self, state: State) -> Tensor:
        """H_t of each particle from its marked graph and its log, [N, M, d]."""
        h = self.refined(state.graphs, state.tuples.shape[1])
        log = state.history[..., : self.num_steps]  # [B, M, T]
        for number in range(1, int(log.max()) + 1):
            slot = (log == number).long().argmax(dim=-1, keepdim=True)  # every particle logs every step
            h = self.step(h, state.graphs, state.tuples.gather(-1, slot)[..., 0])
        return h

    def log_policy(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """log P(V | H_t), normalised over each graph's nodes, [N, M]."""
        logits = self.policy(h)[..., 0]
        largest = graphs.padded(logits, float("-inf")).amax(dim=1)  # [B, M]
        total = sum_nodes((logits - largest[graphs.node_graph]).exp()[..., None], graphs)[..., 0]
        return logits - (largest + total.log())[graphs.node_graph]

    def weights(self, h: Tensor, graphs: GraphBatch, before: Tensor) -> Tensor:
        """Eq. 16: f_obs(H_{t+1}) w_t with f_obs = exp(MLP(mean of nodes)), normalised over particles, [B, M]."""
        pooled = sum_nodes(h, graphs) / graphs.num_nodes[:, None, None]  # [B, M, d]
        return (self.observe(pooled)[..., 0] + before.log()).softmax(dim=1)

    def start(self, graphs: GraphBatch, num_particles: int, generator: torch.Generator | None = None) -> State:
        """Random tuples, nothing logged yet, equal weights."""
        tuples = sample_tuples(graphs, num_particles, self.num_steps, generator)
        state = State.start(graphs, tuples, self.num_steps + 1)
        state.history[..., -1] = 1 / num_particles
        return state

    def scores(self, state: State, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The Q-table [N, M, T] whose best move is a sample of the policy, and W with that move logged.

        Args:
            noise: Gumbel noise of each node and particle, [N, M].
        """
        log = state.history[..., : self.num_steps]
        slot = int(log.max())  # the next step's number from 0, which is also its slot
        q_table = torch.full((*noise.shape, self.num_steps), float("-inf"), device=noise.device)
        q_table[..., slot] = self.log_policy(self.embed(state), state.graphs) + noise
        history = state.history.clone()
        history[..., slot] = slot + 1
        return q_table, history

    def weighted(self, state: State) -> State:
        """The state with the weights of Eq. 16 in W."""
        new = self.weights(self.embed(state), state.graphs, state.history[..., -1])
        return replace(state, history=torch.cat([state.history[..., :-1], new[..., None]], dim=-1))


def resampled(state: State, generator: torch.Generator | None = None) -> State:
    """M particles drawn by weight, with replacement; the weights are 1 / M again."""
    num_particles = state.tuples.shape[1]
    ancestor = torch.multinomial(state.history[..., -1], num_particles, replacement=True, generator=generator)
    tuples = state.tuples.gather(1, ancestor[..., None].expand_as(state.tuples))
    history = state.history.gather(1, ancestor[..., None].expand_as(state.history)).clone()
    history[..., -1] = 1 / num_particles
    return replace(state, tuples=tuples, history=history)


def gumbel(shape: tuple[int, ...], device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    """Noise whose largest sum with log-probabilities is a sample of them."""
    uniform = torch.rand(shape, device=device, generator=generator, dtype=torch.float64)
    return -(-uniform.clamp(min=torch.finfo(torch.float64).tiny).log()).log().float()


def filtered(
    particles: ParticleFilter, graphs: GraphBatch, num_particles: int, generator: torch.Generator | None = None
) -> list[State]:
    """The states of a run of PF-GNN: the start, then those after each step, weighted but not yet resampled."""
    state = particles.start(graphs, num_particles, generator)
    states = [state]
    for _ in range(particles.num_steps):
        noise = gumbel((graphs.total_nodes, num_particles), graphs.device, generator)
        moved = epsilon_greedy(lambda s, n=noise: particles.scores(s, n), state, "simultaneous", 0.0, generator)[1]
        states.append(particles.weighted(moved))
        state = resampled(states[-1], generator)
    return states
