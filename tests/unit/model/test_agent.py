"""The agent's choices: who moves, how ties fall, which state is kept."""

from itertools import pairwise

import pytest
import torch

from builders import edgeless, seeded
from maggnn.model.agent import best_move, epsilon_greedy, kept_state, q_rows, random_move, search
from maggnn.model.state import Move, State


def make_state(sizes, num_tuples, tuple_order):
    tuples = torch.zeros(len(sizes), num_tuples, tuple_order, dtype=torch.long)
    return State.start(edgeless(*sizes), tuples, 0)


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


def test_q_rows_are_node_major_and_end_at_the_last_node():
    graphs = edgeless(2, 3)
    q_table = torch.arange(5 * 1 * 2.0).reshape(5, 1, 2)
    rows = q_rows(q_table, graphs)
    assert rows[0, 0].tolist() == [0, 1, 2, 3, float("-inf"), float("-inf")]
    assert rows[1, 0].tolist() == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("noise", [0.0, 4e-6], ids=["exact", "up to rounding"])
def test_ties_are_broken_uniformly(noise):
    copies = 4000
    state = make_state([3] * copies, 1, 2)
    q_table = torch.tensor([[5.0 + noise, 1.0], [5.0, 5.0], [4.9, 5.0]]).repeat(copies, 1)[:, None]
    _, move = best_move(q_table, state, "simultaneous", seeded())
    counts = (move.node * 2 + move.slot)[:, 0].bincount(minlength=6)
    assert counts[[1, 4]].sum() == 0
    assert chi_square(counts[[0, 2, 3, 5]], copies / 4) < 16.3  # 99.9 %, 3 degrees of freedom


def test_ties_between_tuples_are_broken_uniformly():
    copies = 3000
    state = make_state([2] * copies, 3, 1)
    _, move = best_move(torch.zeros(2 * copies, 3, 1), state, "choose", seeded())
    assert (move.moved.sum(1) == 1).all()
    assert chi_square(move.moved.sum(0), copies / 3) < 13.8  # 99.9 %, 2 degrees of freedom


@pytest.mark.parametrize("actions", ["simultaneous", "in_turn", "choose"])
def test_same_seed_same_moves(actions):
    state = make_state([9] * 50, 3, 2)
    q_table = torch.zeros(450, 3, 2)
    first, again, other = (best_move(q_table, state, actions, seeded(seed))[1] for seed in (1, 1, 2))
    assert all(torch.equal(getattr(first, name), getattr(again, name)) for name in ("slot", "node", "moved"))
    assert not torch.equal(first.node, other.node)
    first, again = (random_move(state, actions, seeded(3)) for _ in range(2))
    assert all(torch.equal(getattr(first, name), getattr(again, name)) for name in ("slot", "node", "moved"))


def test_random_moves_are_uniform_over_slots_and_nodes():
    copies = 6000
    state = make_state([3, 2] * (copies // 2), 2, 2)
    move = random_move(state, "simultaneous", seeded())
    for size, first in ((3, 0), (2, 1)):
        cell = (move.node * 2 + move.slot)[first::2].flatten()
        counts = cell.bincount(minlength=2 * size)
        assert len(counts) == 2 * size
        assert chi_square(counts, copies / (2 * size)) < 20.6  # 99.9 %, 5 degrees of freedom


def test_full_exploration_does_not_ask_the_network():
    def never(state):
        raise AssertionError("epsilon = 1 needs no Q-table")

    state = make_state([4] * 10, 1, 2)
    move, after = epsilon_greedy(never, state, "simultaneous", 1.0, seeded())
    assert torch.equal(after.tuples.gather(-1, move.slot[..., None])[..., 0], move.node)


def test_epsilon_is_the_share_of_random_moves():
    copies = 20_000
    state = make_state([10] * copies, 1, 1)
    q_table = torch.zeros(10 * copies, 1, 1)
    q_table[3::10] = 1.0
    move, _ = epsilon_greedy(lambda s: (q_table, s.history), state, "simultaneous", 0.4, seeded())
    greedy = (move.node == 3).double().mean()
    assert abs(greedy - (0.6 + 0.4 / 10)) < 0.012  # 3.5 standard deviations


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_who_may_move(epsilon):
    state = make_state([5] * 40, 3, 2)
    q_table = torch.rand(200, 3, 2, generator=seeded())

    def walk(actions):
        return search(lambda s: (q_table, s.history), state, 6, actions, epsilon, seeded())

    def changed(states):
        return torch.stack([(a.tuples != b.tuples).any(-1) for a, b in pairwise(states)])  # [t, B, m]

    assert (changed(walk("choose")).sum(-1) <= 1).all()
    in_turn = changed(walk("in_turn"))
    for step, moved in enumerate(in_turn):
        others = [i for i in range(3) if i != step % 3]
        assert not moved[:, others].any()
    assert changed(walk("simultaneous"))[0].sum(-1).max() > 1


def test_a_state_is_not_changed_by_its_move():
    state = make_state([3], 1, 2)
    slot, node = torch.tensor([[1]]), torch.tensor([[2]])
    after = state.after(Move(slot, node, torch.tensor([[True]])), state.history)
    assert state.tuples.tolist() == [[[0, 0]]] and after.tuples.tolist() == [[[0, 2]]]


def test_a_search_has_the_start_and_every_state_after():
    state = make_state([3, 4], 1, 2)
    states = search(lambda s: (torch.zeros(7, 1, 2), s.history), state, 3, "simultaneous", 0.0, seeded())
    assert len(states) == 4 and states[0] is state


def test_keep_rules():
    confidence = torch.tensor([[0.5, 0.9, 0.4], [0.8, 0.9, 0.3], [0.7, 0.1, 0.6]])
    assert kept_state(confidence, "last").tolist() == [2, 2, 2]
    assert kept_state(confidence, "confident").tolist() == [1, 0, 2]  # the earliest of equals
