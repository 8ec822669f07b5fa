"""Node tuples: drawn uniformly from V^k(G), changed in one slot, enumerated."""

import itertools

import networkx
import pytest
import torch

from builders import edgeless
from maggnn.data.synthetic.rooted import rooted_at_nodes
from maggnn.errors import InputError
from maggnn.graphs.conversions import pack_networkx
from maggnn.model.starts import neighbour_tuples
from maggnn.model.tuples import all_tuples, one_move_away, replace_slot, sample_tuples


def test_samples_are_local_nodes_of_their_graph():
    graphs = edgeless(1, 5, 2)
    tuples = sample_tuples(graphs, 50, 3, torch.Generator().manual_seed(0))
    assert tuples.shape == (3, 50, 3)
    assert (tuples >= 0).all() and (tuples < graphs.num_nodes[:, None, None]).all()
    assert [len(part.unique()) for part in tuples] == [1, 5, 2]


def test_samples_are_uniform_over_tuples():
    tuples = sample_tuples(edgeless(3), 9000, 2, torch.Generator().manual_seed(1))[0]
    counts = (tuples[:, 0] * 3 + tuples[:, 1]).bincount(minlength=9)
    chi_square = ((counts - 1000) ** 2 / 1000).sum()
    assert chi_square < 26.1  # 99.9 % of chi-square with 8 degrees of freedom


def test_the_generator_decides():
    graphs = edgeless(20, 30)
    first, again, other = (sample_tuples(graphs, 3, 4, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_order_zero_has_no_nodes():
    assert sample_tuples(edgeless(4, 2), 3, 0).shape == (2, 3, 0)


def test_neighbour_tuples_lie_on_the_neighbours_of_the_root():
    star, path = networkx.star_graph(3), networkx.path_graph(3)
    rooted = rooted_at_nodes(pack_networkx([star, path, networkx.empty_graph(1)]))
    tuples = neighbour_tuples(rooted[torch.arange(8)], 4, 2)
    assert tuples.shape == (8, 4, 2) and torch.equal(tuples[..., 0], tuples[..., 1])
    assert [set(row) for row in tuples[..., 0].tolist()] == [
        {0, 1, 2, 3},  # the hub's leaves, then the root itself
        *({root, 0} for root in (1, 2, 3)),
        *({0, 1}, {0, 1, 2}, {2, 1}),
        {0},
    ]
    assert neighbour_tuples(rooted[torch.tensor([0])], 2, 1)[0, :, 0].tolist() == [1, 2]
    padded = rooted.gather(torch.arange(8), rooted.rounded_size(torch.arange(8)))
    assert torch.equal(neighbour_tuples(padded, 4, 2), tuples)
    with pytest.raises(InputError, match="needs rooted graphs"):
        neighbour_tuples(edgeless(3), 1, 1)


def test_replace_slot_is_equation_7():
    generator = torch.Generator().manual_seed(0)
    tuples = torch.randint(9, (4, 3, 5), generator=generator)
    slot = torch.randint(5, (4, 3), generator=generator)
    node = torch.randint(9, (4, 3), generator=generator)
    expected = tuples.clone()
    for b, i in itertools.product(range(4), range(3)):
        expected[b, i, slot[b, i]] = node[b, i]
    assert torch.equal(replace_slot(tuples, slot, node), expected)


def test_one_move_away_lists_every_outcome():
    own = torch.tensor([[3, 0, 3], [1, 2, 0]])
    outcomes = one_move_away(own, 4)
    assert outcomes.shape == (2, 4, 3, 3)
    for b, node, slot in itertools.product(range(2), range(4), range(3)):
        expected = own[b].clone()
        expected[slot] = node
        assert torch.equal(outcomes[b, node, slot], expected)


def test_all_tuples_is_the_cartesian_power():
    assert all_tuples(3, 3).tolist() == [list(t) for t in itertools.product(range(3), repeat=3)]
    assert all_tuples(1, 2).tolist() == [[0, 0]]
