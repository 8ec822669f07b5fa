"""Chosen moves equal a brute-force argmax over (i, j, l), and states change as Eq. 7 says."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import best_move
from maggnn.model.state import Move, State
from maggnn.model.tuples import sample_tuples

ACTIONS = ("simultaneous", "in_turn", "choose")
SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=5)


def random_state(sizes, num_tuples, tuple_order, generator):
    packed = PackedGraphs.build(torch.tensor(sizes), torch.zeros(len(sizes)), torch.empty(2, 0, dtype=torch.long))
    graphs = packed[torch.arange(len(sizes))]
    tuples = sample_tuples(graphs, num_tuples, tuple_order, generator)
    turn = torch.randint(num_tuples, (len(sizes),), generator=generator)
    return State(graphs, tuples, torch.zeros(len(sizes), num_tuples, 0), turn)


def moves_of(graph, size, num_tuples, tuple_order, turn, actions):
    """The tuples that share one decision: all actions (i, j, l) of each group compete."""
    cells = [list(itertools.product([i], range(tuple_order), range(size))) for i in range(num_tuples)]
    if actions == "simultaneous":
        return cells
    return [cells[turn]] if actions == "in_turn" else [list(itertools.chain(*cells))]


@pytest.mark.parametrize("actions", ACTIONS)
@settings(max_examples=40, deadline=None)
@given(sizes=SIZES, num_tuples=st.integers(1, 3), tuple_order=st.integers(1, 3), seed=st.integers(0, 2**20))
def test_best_moves_equal_brute_force(actions, sizes, num_tuples, tuple_order, seed):
    generator = torch.Generator().manual_seed(seed)
    state = random_state(sizes, num_tuples, tuple_order, generator)
    cells = sum(sizes) * num_tuples * tuple_order
    values = torch.randperm(cells, generator=generator) - cells / 2  # distinct, of either sign
    q_table = values.reshape(sum(sizes), num_tuples, tuple_order)
    best, move = best_move(q_table, state, actions, generator)
    for graph, size in enumerate(sizes):
        first = int(state.graphs.first_node[graph])
        moved = set()
        groups = moves_of(graph, size, num_tuples, tuple_order, int(state.turn[graph]), actions)
        for group in groups:
            i, j, node = max(group, key=lambda a: float(q_table[first + a[2], a[0], a[1]]))
            assert (move.slot[graph, i], move.node[graph, i]) == (j, node)
            assert best[graph, i] == q_table[first + node, i, j]
            moved.add(i)
        assert set(move.moved[graph].nonzero()[:, 0].tolist()) == moved


@settings(max_examples=40, deadline=None)
@given(sizes=SIZES, num_tuples=st.integers(1, 3), tuple_order=st.integers(1, 4), seed=st.integers(0, 2**20))
def test_the_next_state_is_equation_7(sizes, num_tuples, tuple_order, seed):
    generator = torch.Generator().manual_seed(seed)
    state = random_state(sizes, num_tuples, tuple_order, generator)
    slot = torch.randint(tuple_order, (len(sizes), num_tuples), generator=generator)
    node = sample_tuples(state.graphs, num_tuples, 1, generator)[..., 0]
    moved = torch.rand(len(sizes), num_tuples, generator=generator) < 0.5
    after = state.after(Move(slot, node, moved), state.history)
    expected = state.tuples.tolist()
    for b, i in itertools.product(range(len(sizes)), range(num_tuples)):
        if moved[b, i]:
            expected[b][i][int(slot[b, i])] = int(node[b, i])
    assert after.tuples.tolist() == expected
    assert after.graphs is state.graphs
    assert torch.equal(after.turn, (state.turn + 1) % num_tuples)
