"""Rewards are differences of the loss (Eq. 8), so they telescope over a walk."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import packed_edges, random_edges, random_targets
from maggnn.config import Config, EncoderConfig
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import Randomness
from maggnn.model.state import State
from maggnn.training.environment import Environment
from maggnn.training.experience import Walkers
from maggnn.training.replay import Replay

CASES = list(itertools.product(["classification", "regression"], ["graph", "node"], ["loss", "error"]))


def make_packed(task, level, generator):
    sizes = torch.randint(1, 7, (4,), generator=generator).tolist()
    edges = random_edges(sizes, 0.5, generator)
    return packed_edges(sizes, edges, y=random_targets(task, level, sizes, 2, generator), level=level)


@pytest.mark.parametrize(("task", "level", "reward"), CASES)
@settings(max_examples=4, deadline=None)
@given(actions=st.sampled_from(["simultaneous", "in_turn", "choose"]), seed=st.integers(0, 2**20))
def test_rewards_are_loss_differences_and_telescope(task, level, reward, actions, seed):
    packed = make_packed(task, level, torch.Generator().manual_seed(seed))
    agent = {"num_tuples": 2, "tuple_order": 2, "actions": actions}
    config = Config().replaced(agent=agent, replay={"walk_length": 5}, training={"walkers": 6})
    encoder = EncoderConfig(num_layers=2, hidden=8)
    model = MagGNN(2, encoder=encoder, agent=config.agent, task=task, level=level).eval()
    environment = Environment(model.predictor, task, reward)
    replay = Replay(100, 2, 2, 0, torch.device("cpu"))
    random = Randomness(seed, torch.device("cpu"))
    walkers = Walkers(model, environment, packed, torch.arange(4), config, replay, random)
    states, rewards = [], []
    for _ in range(5):
        rewards.append(walkers.gather(epsilon=0.5))
        places = [values.clone() for values in (walkers.tuples, walkers.history, walkers.turn, walkers.ids)]
        states.append(State(packed[walkers.ids], *places))
    losses = torch.stack([environment.loss(state) for state in states])  # after 1, ..., 5 moves
    rewards = torch.stack(rewards)
    torch.testing.assert_close(rewards[1:], losses[:-1] - losses[1:], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rewards[1:].sum(0), losses[0] - losses[-1], atol=1e-5, rtol=1e-5)
    rows = replay.draw(50, torch.Generator().manual_seed(seed))
    stored = replay.read(rows, packed, packed.size_of(replay.graph_ids[rows]))
    expected = environment.loss(stored.state) - environment.loss(stored.next_state)
    torch.testing.assert_close(stored.reward, expected, atol=1e-5, rtol=1e-5)
