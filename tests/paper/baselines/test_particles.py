"""Theorem 3: the particle filter run as a MAG-GNN is PF-GNN run as its own paper writes it."""

from itertools import pairwise

import networkx
import pytest
import torch

from builders import all_of
from maggnn.config import EncoderConfig
from maggnn.graphs.conversions import pack_networkx
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec
from maggnn.model.runtime import make_generator
from maggnn.model.state import State
from maggnn_paper.baselines.particles import ParticleFilter, filtered, gumbel, resampled

GRAPHS = [networkx.petersen_graph(), networkx.cycle_graph(6), networkx.path_graph(3), networkx.empty_graph(1)]
PARTICLES, STEPS = 4, 3


def batch():
    return all_of(pack_networkx(GRAPHS))


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


def refine(particles, h, graph):
    """g on dense algebra, for one graph and one particle: h [n, d]."""
    adjacency = torch.tensor(networkx.to_numpy_array(graph), dtype=h.dtype)
    for layer in particles.encoder.layers:
        h = (1 + layer.eps) * h + adjacency @ h
        h = layer.norm.norm(layer.first(h)).relu()
        h = layer.last_norm.norm(layer.second(h)).relu()
    return h


def pf_gnn(particles, graph, chosen, ancestors):
    """Eqs. 14-16 for one graph by hand: a list of (H, w) that is carried along; H and w of every step.

    Args:
        chosen: the node that each particle individualises in each step, [T][M].
        ancestors: whom each particle is drawn from after each step, [T][M].
    """
    first = refine(particles, particles.encoder.constant.expand(len(graph), -1), graph)
    carried, steps = [(first.clone(), 1 / PARTICLES) for _ in range(PARTICLES)], []
    for nodes, drawn in zip(chosen, ancestors, strict=True):
        moved = []
        for (h, weight), node in zip(carried, nodes, strict=True):
            individualised = h.clone()
            individualised[node] = particles.individualise(h[node])
            refined = refine(particles, individualised, graph)
            moved.append((refined, float(particles.observe(refined.mean(dim=0)).exp()) * weight))
        total = sum(weight for _, weight in moved)
        steps.append([(h, weight / total) for h, weight in moved])
        carried = [(steps[-1][ancestor][0], 1 / PARTICLES) for ancestor in drawn]
    return steps


@torch.no_grad()
@pytest.mark.parametrize("seed", range(5))
def test_weights_and_embeddings_are_those_of_pf_gnn(particles, seed, monkeypatch):
    """The same draws, handed to PF-GNN as its own paper writes it, give the same particles and weights."""
    graphs, drawn = batch(), []
    multinomial = torch.multinomial
    monkeypatch.setattr(torch, "multinomial", lambda *given, **options: _noted(drawn, multinomial(*given, **options)))
    states = filtered(particles, graphs, PARTICLES, make_generator(seed))
    assert len(states) == STEPS + 1 and len(drawn) == STEPS
    embeddings = [particles.embed(state).split(graphs.num_nodes.tolist()) for state in states]
    for number, graph in enumerate(GRAPHS):
        chosen = [state.tuples[number, :, step].tolist() for step, state in enumerate(states[1:])]
        ancestors = [draw[number].tolist() for draw in drawn]
        for step, expected in enumerate(pf_gnn(particles, graph, chosen, ancestors), start=1):
            for particle, (h, weight) in enumerate(expected):
                torch.testing.assert_close(embeddings[step][number][:, particle], h, atol=1e-4, rtol=1e-4)
                assert float(states[step].history[number, particle, -1]) == pytest.approx(weight, abs=1e-5)
    weights = torch.stack([state.history[..., -1] for state in states[1:]])  # [T, B, M]
    assert weights[:, 2].std() > 0.01  # on the path particles do differ,
    assert weights[0, :2].std() < 1e-6  # but not after one step where all nodes are alike


def _noted(notes, value):
    notes.append(value)
    return value


@torch.no_grad()
def test_weights_count_on_from_those_before(particles):
    graphs, before = batch(), torch.tensor([0.1, 0.2, 0.3, 0.4]).expand(len(GRAPHS), -1)
    h = torch.randn(graphs.total_nodes, PARTICLES, 8)
    found = particles.weights(h, graphs, before)
    product = particles.observe(h[10:16].mean(dim=0))[:, 0].exp() * before[1]  # the cycle's nodes
    torch.testing.assert_close(found[1], product / product.sum())


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
