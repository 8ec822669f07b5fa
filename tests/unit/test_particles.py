"""Theorem 3: the particle filter run as a MAG-GNN is PF-GNN run as its own paper writes it."""

from itertools import pairwise

import networkx
import pytest
import torch

from maggnn.config import EncoderConfig
from maggnn.encoder import Encoder
from maggnn.features import FeatureSpec
from maggnn.graphs import PackedGraphs
from maggnn.particles import ParticleFilter, filtered, gumbel, resampled
from maggnn.runtime import make_generator
from maggnn.state import State

torch.set_num_threads(1)
GRAPHS = [networkx.petersen_graph(), networkx.cycle_graph(6), networkx.path_graph(3), networkx.empty_graph(1)]
PARTICLES, STEPS = 4, 3


def batch():
    edges = [torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).T for graph in GRAPHS]
    return PackedGraphs.build(
        torch.tensor([len(graph) for graph in GRAPHS]),
        torch.tensor([part.shape[1] for part in edges]),
        torch.cat(edges, 1),
        undirected_once=True,
    )[torch.arange(len(GRAPHS))]


@pytest.fixture
def particles():
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(num_layers=2, hidden=8, norm="layer"), 0, FeatureSpec(), FeatureSpec())
    made = ParticleFilter(encoder, STEPS).eval()
    with torch.no_grad():  # louder than fresh networks are, so that particles differ
        made.individualise[-1].weight *= 10
        made.observe[-1].weight *= 20
        made.policy[-1].weight *= 5
    return made


def recursive_pf_gnn(particles, graphs, generator):
    """PF-GNN with particles (H, w) that are carried along and resampled, as in Eqs. 14-16; weights of every step."""
    particles.start(graphs, PARTICLES, generator)  # draws as many numbers as ours
    h = particles.refined(graphs, PARTICLES)
    weights = torch.full((len(GRAPHS), PARTICLES), 1 / PARTICLES)
    nodes, steps = [], []
    for _ in range(STEPS):
        noise = gumbel((graphs.total_nodes, PARTICLES), graphs.device, generator)
        chosen = graphs.padded(particles.log_policy(h, graphs) + noise, float("-inf")).argmax(dim=1)  # [B, M]
        # Ours breaks ties and explores with random numbers too.
        torch.rand((2, len(GRAPHS), PARTICLES), generator=generator, dtype=torch.float64)
        torch.rand((len(GRAPHS), PARTICLES), generator=generator)
        torch.rand((len(GRAPHS), PARTICLES, graphs.max_num_nodes * STEPS), generator=generator)
        torch.rand(len(GRAPHS), generator=generator)
        h = particles.step(h, graphs, chosen)
        weights = particles.weights(h, graphs, weights)
        nodes.append(chosen)
        steps.append((weights, h))
        ancestor = torch.multinomial(weights, PARTICLES, replacement=True, generator=generator)
        h = h.gather(1, ancestor[graphs.node_graph][..., None].expand_as(h))
        nodes = [node.gather(1, ancestor) for node in nodes]
        weights = torch.full_like(weights, 1 / PARTICLES)
    return steps


@torch.no_grad()
@pytest.mark.parametrize("seed", range(5))
def test_weights_and_embeddings_are_those_of_pf_gnn(particles, seed):
    graphs = batch()
    ours = filtered(particles, graphs, PARTICLES, make_generator(seed))
    theirs = recursive_pf_gnn(particles, graphs, make_generator(seed))
    assert len(ours) == STEPS + 1
    for state, (weights, h) in zip(ours[1:], theirs, strict=True):
        torch.testing.assert_close(state.history[..., -1], weights)
        torch.testing.assert_close(particles.embed(state), h, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(weights.sum(1), torch.ones(len(GRAPHS)))
    weights = torch.stack([weights for weights, _ in theirs])  # [T, B, M]
    assert weights[:, 2].std() > 0.01  # on the path particles do differ,
    assert weights[0, :2].std() < 1e-6  # but not after one step where all nodes are alike


@torch.no_grad()
def test_nodes_once_individualised_stay(particles):
    states = filtered(particles, batch(), 1, make_generator(1))  # one particle is its own ancestor
    for number, (before, after) in enumerate(pairwise(states)):
        changed = (before.tuples != after.tuples).any(dim=0)[0]
        assert not changed[:number].any() and not changed[number + 1 :].any()
        assert after.history[0, 0, :STEPS].tolist() == [*range(1, number + 2), *[0.0] * (STEPS - number - 1)]


@torch.no_grad()
def test_the_best_move_is_a_sample_of_the_policy(particles):
    graphs = batch()
    expected = particles.log_policy(particles.refined(graphs, 1), graphs).exp()  # [N, 1]
    torch.testing.assert_close(expected[:10].sum(), torch.tensor(1.0))
    many = 4000
    start = State.start(graphs, torch.zeros(len(GRAPHS), many, STEPS, dtype=torch.long), STEPS + 1)
    q_table, _ = particles.scores(start, gumbel((graphs.total_nodes, many), graphs.device, make_generator(0)))
    drawn = graphs.padded(q_table[..., 0], float("-inf")).argmax(dim=1)  # [B, M]
    path = slice(16, 19)  # the nodes of the path are not alike
    counts = torch.bincount(drawn[2], minlength=3) / many
    torch.testing.assert_close(counts, expected[path, 0], atol=0.03, rtol=0)


def test_resampling_follows_the_weights():
    graphs = batch()
    tuples = torch.arange(3).reshape(1, 3, 1).repeat(len(GRAPHS), 1, 1)
    state = State.start(graphs, tuples, 2)
    state.history[..., 0] = torch.arange(3.0)
    state.history[..., -1] = torch.tensor([0.0, 1.0, 0.0])
    after = resampled(state, make_generator(0))
    assert (after.tuples == 1).all() and (after.history[..., 0] == 1).all()
    torch.testing.assert_close(after.history[..., -1], torch.full((len(GRAPHS), 3), 1 / 3))
