"""RL-Experience: walks that restart, and a state that can be put away."""

import pytest
import torch

from maggnn.config import Config, EncoderConfig
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import Randomness
from maggnn.training.environment import Environment
from maggnn.training.experience import Walkers
from maggnn.training.replay import Replay, columns_of

CPU = torch.device("cpu")
TRAIN = torch.tensor([1, 2, 4])
WALK_LENGTH, WALKERS, GAMMA = 3, 5, 0.7


def make_walkers(seed=0, capacity=100, returns=1):
    torch.manual_seed(0)
    sizes = torch.arange(3, 8)
    edges = [torch.stack([torch.arange(n - 1), torch.arange(1, n)]) for n in sizes.tolist()]
    packed = PackedGraphs.build(sizes, sizes - 1, torch.cat(edges, 1), y=torch.arange(5) % 2, undirected_once=True)
    agent = {"num_tuples": 2, "tuple_order": 2, "history": "mean", "actions": "in_turn"}
    sections = {"replay": {"walk_length": WALK_LENGTH}, "training": {"walkers": WALKERS}, "agent": agent}
    config = Config().replaced(**sections)
    model = MagGNN(2, encoder=EncoderConfig(num_layers=2, hidden=8), agent=config.agent).eval()
    environment = Environment(model.predictor, "classification", "loss")
    replay = Replay(capacity, 2, 2, model.history_width, CPU, WALKERS, returns, GAMMA)
    return Walkers(model, environment, packed, TRAIN, config, replay, Randomness(seed, CPU)), replay


def test_walks_continue_and_then_restart():
    walkers, replay = make_walkers()
    for _ in range(2 * WALK_LENGTH):
        walkers.gather(epsilon=0.5)
    column = columns_of(replay.integers[: len(replay)], replay.integer_columns)
    tuples, following = column["tuples"], column["next_tuples"]
    ids, steps = replay.graph_ids[: len(replay)].view(-1, WALKERS), 2 * WALK_LENGTH
    for step in range(steps - 1):
        here, there = following.view(steps, WALKERS, 2, 2)[step], tuples.view(steps, WALKERS, 2, 2)[step + 1]
        if (step + 1) % WALK_LENGTH:
            assert torch.equal(here, there) and torch.equal(ids[step], ids[step + 1])
    history = columns_of(replay.floats[: len(replay)], replay.float_columns)["history"]
    seen = history[:, 0, -1].view(steps, WALKERS)[:, 0]
    assert seen.tolist() == [0, 1, 2, 0, 1, 2]  # W starts at zero with every walk
    assert column["turn"][::WALKERS].tolist() == [0, 1, 0, 0, 1, 0]
    assert set(replay.graph_ids[: len(replay)].tolist()) <= set(TRAIN.tolist())


@pytest.mark.parametrize("moves", [4, 11])
def test_n_step_returns_follow_a_walk_to_its_end(moves):
    """Against a loop over all moves that were made; after 11 of them the ring has come round."""
    returns, capacity = 2, 7 * WALKERS + 2
    walkers, replay = make_walkers(capacity=capacity, returns=returns)
    made = []  # of each move of all walkers: rewards and where it led
    for number in range(moves):
        rows = [(replay.added + walker) % capacity for walker in range(WALKERS)]
        rewards = walkers.gather(epsilon=0.5)
        made.append((rows, rewards.tolist(), walkers.tuples.clone(), number % WALK_LENGTH))
    kept = [(number, walker) for number in range(max(0, moves - 7), moves) for walker in range(WALKERS)]
    rows = torch.tensor([made[number][0][walker] for number, walker in kept])
    read = replay.read(rows, walkers.packed, walkers.packed.size_of(replay.graph_ids[rows]))
    assert read.steps is not None
    for place, (number, walker) in enumerate(kept):
        last, total = number, made[number][1][walker]
        for step in range(1, returns):
            if number + step < moves and made[number][3] + step < WALK_LENGTH:
                last, total = number + step, total + GAMMA**step * made[number + step][1][walker]
        assert int(read.steps[place]) == last - number + 1
        torch.testing.assert_close(float(read.reward[place]), total)
        assert torch.equal(read.next_state.tuples[place], made[last][2][walker])


def test_going_on_from_tensors_is_exact():
    straight, _ = make_walkers()
    walkers, _ = make_walkers()
    for _ in range(2):
        straight.gather(0.5)
        walkers.gather(0.5)
    resumed, _ = make_walkers(seed=9)
    resumed.load({k: v.clone() for k, v in walkers.tensors().items()}, walkers.moves_made, walkers.walks_begun)
    resumed.random.load_state(walkers.random.state())
    for _ in range(4):
        assert torch.equal(straight.gather(0.5), resumed.gather(0.5))


def test_put_away_before_the_first_walk():
    straight, _ = make_walkers()
    walkers, replay = make_walkers()
    resumed, resumed_replay = make_walkers(seed=9)
    resumed.load({k: v.clone() for k, v in walkers.tensors().items()}, walkers.moves_made, walkers.walks_begun)
    resumed.random.load_state(walkers.random.state())
    assert len(replay) == len(resumed_replay) == 0
    for _ in range(4):
        assert torch.equal(straight.gather(0.5), resumed.gather(0.5))


def test_buffers_stay_where_they_are():
    """A recorded move finds them at the same place, and what it returns is not written over."""
    walkers, _ = make_walkers()
    places = {name: values.data_ptr() for name, values in walkers.tensors().items()}
    rewards = [walkers.gather(0.5) for _ in range(4)]
    copies = [reward.clone() for reward in rewards]
    walkers.gather(0.5)
    assert {name: values.data_ptr() for name, values in walkers.tensors().items()} == places
    assert all(torch.equal(reward, copy) for reward, copy in zip(rewards, copies, strict=True))


def test_walkers_stand_where_the_buffer_says():
    walkers, replay = make_walkers()
    for number in range(1, 2 * WALK_LENGTH):
        reward = walkers.gather(0.5)
        rows = torch.arange((number - 1) * WALKERS, number * WALKERS)
        stored = replay.read(rows, walkers.packed, walkers.packed.size_of(walkers.ids))
        assert torch.equal(stored.next_state.tuples, walkers.tuples)
        assert torch.equal(stored.next_state.history, walkers.history)
        assert torch.equal(stored.next_state.turn, walkers.turn)
        assert torch.equal(stored.state.ids, walkers.ids) and torch.equal(stored.reward, reward)
        torch.testing.assert_close(walkers.environment.loss(stored.next_state), walkers.loss)
