"""A trained agent reaches what enumeration finds best, and random moves do not.

Two triangles or a hexagon hide beside a star. A mark on the star tells nothing, a mark on the other part
tells all, and the agent can see by the degrees which part is which.
"""

import networkx as nx
import pytest
import torch

from maggnn.config import Config
from maggnn.data.registry import Dataset
from maggnn.data.splits import all_in_all
from maggnn.graphs.conversions import pack_networkx
from maggnn.model.runtime import make_generator
from maggnn.model.state import State
from maggnn.model.tuples import all_tuples
from maggnn.training.evaluate import evaluate
from maggnn.training.paradigms import Ord

ALL = torch.arange(8)


def hidden_triangles():
    """Stars of four sizes, so that a batch is of mixed sizes."""
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    graphs = [
        nx.disjoint_union(nx.star_graph(leaves), part)
        for leaves in (8, 10, 12, 14)
        for part in (triangles, nx.cycle_graph(6))
    ]
    packed = pack_networkx(graphs, torch.tensor([0, 1] * 4))
    return Dataset("hidden", packed, "classification", 2, lambda dataset, generator: [all_in_all(8)])


def train(seed=0, predictor_steps=200, agent_steps=150, agent=None, **training):
    config = Config().replaced(
        encoder={"num_layers": 3, "hidden": 24},
        agent={"tuple_order": 1, "num_moves": 2} | (agent or {}),
        replay={"capacity": 2000, "warmup": 100},
        training={
            "predictor_steps": predictor_steps,
            "agent_steps": agent_steps,
            "batch_size": 16,
            "agent_batch_size": 32,
            "walkers": 16,
            "learning_rate": 5e-3,
            "reward": "error",
        }
        | training,
        runtime={"seed": seed},
    )
    dataset = hidden_triangles()
    paradigm = Ord(config, dataset, dataset.splits(0)[0], torch.device("cpu"))
    for phase in paradigm.phases:
        phase.begin()
        for step in range(phase.num_steps):
            phase.step(step)
    return paradigm


def accuracy(paradigm, epsilon):
    """Percent right after 0, 1, 2 moves, last state."""
    model, packed = paradigm.model, paradigm.packed
    result = evaluate(model, packed, ALL, "classification", 2, 40, epsilon, make_generator(1))
    return result.last.mean(dim=0)


def least_loss(paradigm):
    """The best state of each graph, by trying every node."""
    best = []
    for graph in ALL:
        tuples = all_tuples(int(paradigm.packed.num_nodes[graph]), 1)[:, None]  # [|V|, 1, 1]
        ids = graph.repeat(len(tuples))
        best.append(paradigm.environment.loss(State.start(paradigm.packed[ids], tuples, 0, ids)).min())
    return torch.stack(best)


def test_lookahead_reaches_what_enumeration_finds():
    paradigm = train()
    agent, random = accuracy(paradigm, 0.0), accuracy(paradigm, 1.0)
    assert agent[1] == agent[2] == 100.0
    assert random.max() < 80.0
    states = paradigm.model.walk(paradigm.packed[ALL], num_moves=2, generator=make_generator(2))
    reached = paradigm.environment.loss(states[-1])
    assert (reached - least_loss(paradigm)).max() < 0.05


@pytest.mark.parametrize(
    ("target", "agent"),
    [
        ("lookahead", {"num_tuples": 2, "history": "lstm", "state": "predictor"}),
        ("dqn", {"num_tuples": 2, "actions": "in_turn"}),
        ("double_dqn", {"actions": "choose", "history": "mean"}),
    ],
)
def test_other_agents_beat_random_moves(target, agent):
    paradigm = train(agent=agent, target=target, agent_steps=200)
    assert accuracy(paradigm, 0.0)[2] > accuracy(paradigm, 1.0)[2] + 10.0


@pytest.mark.parametrize("target", ["dqn", "double_dqn", "lookahead"])
def test_same_seed_same_run(target):
    first, again, other = (
        train(seed, predictor_steps=5, agent_steps=8, target=target).model.state_dict() for seed in (3, 3, 4)
    )
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert not all(torch.equal(value, other[name]) for name, value in first.items())


def test_the_global_generator_is_not_touched():
    before = torch.get_rng_state()
    train(predictor_steps=2, agent_steps=2)
    assert torch.equal(torch.get_rng_state(), before)
