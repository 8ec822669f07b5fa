"""The ring of experiences: preallocated, oldest overwritten, what comes out is what went in."""

import torch

from maggnn.graphs.packed import PackedGraphs
from maggnn.model import weights_file
from maggnn.model.state import Move, State
from maggnn.model.tuples import sample_tuples
from maggnn.training.replay import Replay, columns_of

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


def add(replay, before, move, reward, after):
    replay.write(replay.reserve(before.ids), before, move, reward, after)


def sample(replay, count):
    rows = replay.draw(count, torch.Generator().manual_seed(0))
    return replay.read(rows, PACKED, PACKED.size_of(replay.graph_ids[rows]))


def test_nothing_grows_and_the_oldest_is_overwritten():
    replay = make_replay(10)
    places = {name: values.data_ptr() for name, values in replay.tensors().items()}
    for number in range(5):
        add(replay, *experience(number))
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
        add(replay, state, move, reward, after)
        for row, value in enumerate(reward.tolist()):
            known[round(value, 3)] = (state, move, after, row)
    drawn = sample(replay, 40)
    assert drawn.state.ids is not None and len(drawn.reward) == 40
    for place, value in enumerate(drawn.reward.tolist()):
        state, move, after, row = known[round(value, 3)]
        for ours, stored in ((drawn.state, state), (drawn.next_state, after)):
            for name in ("tuples", "history", "turn", "ids"):
                assert torch.equal(getattr(ours, name)[place], getattr(stored, name)[row])
            assert ours.graphs.num_nodes[place] == PACKED.num_nodes[stored.ids[row]]
        for name in ("slot", "node", "moved"):
            assert torch.equal(getattr(drawn.move, name)[place], getattr(move, name)[row])


def test_the_ids_on_the_cpu_are_those_of_the_rows():
    replay = make_replay(10)
    for number in range(5):
        add(replay, *experience(number))
        rows = torch.arange(len(replay))
        column = columns_of(replay.integers[rows], replay.integer_columns)["ids"]
        assert torch.equal(replay.graph_ids[rows], column)


def test_rows_are_reserved_in_a_ring():
    replay = make_replay(5)
    reserved = [replay.reserve(torch.full((3,), number)).tolist() for number in range(3)]
    assert reserved == [[0, 1, 2], [3, 4, 0], [1, 2, 3]]
    assert replay.graph_ids.tolist() == [1, 2, 2, 2, 1]
    assert (replay.added, len(replay)) == (9, 5)


def test_samples_are_uniform_over_what_is_there():
    replay = make_replay(100)
    add(replay, *experience(0, count=5))
    rewards = sample(replay, 5000).reward
    counts = (rewards * 10).round().long().bincount(minlength=5)
    assert len(counts) == 5  # never an empty place
    assert ((counts - 1000) ** 2 / 1000).sum() < 18.5  # 99.9 %, 4 degrees of freedom


def test_checkpoint_round_trip_is_exact(tmp_path):
    replay, again = make_replay(10), make_replay(10)
    for number in range(5):
        add(replay, *experience(number))
    weights_file.save(tmp_path / "replay", replay.tensors(), {"added": replay.added})
    tensors, facts = weights_file.load(tmp_path / "replay")
    again.load(tensors, facts["added"])
    for copy in (replay, again):
        add(copy, *experience(9))
    assert again.added == replay.added
    assert all(torch.equal(values, again.tensors()[name]) for name, values in replay.tensors().items())
