"""The ring of experiences: preallocated, oldest overwritten, what comes out is what went in."""

import torch

from maggnn.graphs import PackedGraphs
from maggnn.state import Move, State
from maggnn.training import checkpoint
from maggnn.training.replay import Replay
from maggnn.tuples import sample_tuples

torch.set_num_threads(1)
CPU = torch.device("cpu")
PACKED = PackedGraphs.build(
    torch.tensor([4, 2, 7]),
    torch.tensor([1, 0, 2]),
    torch.tensor([[0, 0, 1], [1, 1, 2]]),
    undirected_once=True,
)


def make_replay(capacity=10):
    return Replay(capacity, num_tuples=2, tuple_order=3, history_width=5, device=CPU)


def experience(number, count=3):
    """A batch of experiences whose rewards are number, number + 0.1, ..., the rest random."""
    generator = torch.Generator().manual_seed(number)
    ids = torch.randint(3, (count,), generator=generator)
    graphs = PACKED[ids]

    def state():
        tuples = sample_tuples(graphs, 2, 3, generator)
        history = torch.rand(count, 2, 5, generator=generator)
        return State(graphs, tuples, history, torch.randint(2, (count,), generator=generator), ids)

    slot = torch.randint(3, (count, 2), generator=generator)
    node = sample_tuples(graphs, 2, 1, generator)[..., 0]
    move = Move(slot, node, torch.rand(count, 2, generator=generator) < 0.5)
    return state(), move, number + torch.arange(count) / 10, state()


def test_nothing_grows_and_the_oldest_is_overwritten():
    replay = make_replay(10)
    places = {name: values.data_ptr() for name, values in replay.tensors().items()}
    for number in range(5):
        replay.add(*experience(number))
        assert len(replay) == min(10, 3 * (number + 1))
    assert {name: values.data_ptr() for name, values in replay.tensors().items()} == places
    rewards = sorted(replay.floats[:, 0].tolist())
    newest = sorted(float(r) for number in range(5) for r in experience(number)[2])[-10:]
    torch.testing.assert_close(torch.tensor(rewards), torch.tensor(newest))


def test_a_sample_is_what_was_added():
    replay = make_replay(10)
    known = {}
    for number in range(3):
        state, move, reward, after = experience(number)
        replay.add(state, move, reward, after)
        for row, value in enumerate(reward.tolist()):
            known[round(value, 3)] = (state, move, after, row)
    sample = replay.sample(PACKED, 40, torch.Generator().manual_seed(0))
    assert sample.state.ids is not None and len(sample.reward) == 40
    for place, value in enumerate(sample.reward.tolist()):
        state, move, after, row = known[round(value, 3)]
        for drawn, stored in ((sample.state, state), (sample.next_state, after)):
            for name in ("tuples", "history", "turn", "ids"):
                assert torch.equal(getattr(drawn, name)[place], getattr(stored, name)[row])
            assert drawn.graphs.num_nodes[place] == PACKED.num_nodes[stored.ids[row]]
        for name in ("slot", "node", "moved"):
            assert torch.equal(getattr(sample.move, name)[place], getattr(move, name)[row])


def test_samples_are_uniform_over_what_is_there():
    replay = make_replay(100)
    replay.add(*experience(0, count=5))
    rewards = replay.sample(PACKED, 5000, torch.Generator().manual_seed(0)).reward
    counts = (rewards * 10).round().long().bincount(minlength=5)
    assert len(counts) == 5  # never an empty place
    assert ((counts - 1000) ** 2 / 1000).sum() < 18.5  # 99.9 %, 4 degrees of freedom


def test_checkpoint_round_trip_is_exact(tmp_path):
    replay, again = make_replay(10), make_replay(10)
    for number in range(5):
        replay.add(*experience(number))
    checkpoint.save(tmp_path / "replay", replay.tensors(), {"added": replay.added})
    tensors, facts = checkpoint.load(tmp_path / "replay")
    again.load(tensors, facts["added"])
    for copy in (replay, again):
        copy.add(*experience(9))
    assert again.added == replay.added
    assert all(torch.equal(values, again.tensors()[name]) for name, values in replay.tensors().items())
