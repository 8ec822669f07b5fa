"""The invariant search: what it finds does not depend on the numbering, and ties are decided by its rule."""

import networkx as nx
import numpy as np
import pytest
import torch

from builders import all_of, renumbered
from maggnn.config import EncoderConfig
from maggnn.data.synthetic.expressivity import shrikhande_rook
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.distances import with_distances
from maggnn.model.q_network import AgentShape, QNetwork
from maggnn.model.refined.copies import refine
from maggnn.model.state import State
from maggnn_paper.brec.branching import best_outcomes, first_in_order, invariant_search, random_scores
from maggnn_paper.universal.classical import latin_square_graph
from maggnn_paper.universal.exclusion import packed
from maggnn_paper.universal.random_graphs import random_latin_square

REGULAR = pack_networkx([nx.random_regular_graph(degree, n, seed=n) for degree, n in ((3, 12), (4, 10), (3, 14))])
SYMMETRIC = pack_networkx([nx.petersen_graph(), nx.cycle_graph(9), nx.hypercube_graph(3)])


STRONGLY_REGULAR = packed(
    [latin_square_graph([random_latin_square(6, np.random.default_rng(seed))]) for seed in (1, 2)]
)
"""Colour refinement with one mark distinguishes none of their nodes, which are not symmetric."""


def q_network(order: int) -> QNetwork:
    torch.manual_seed(3)
    network = AgentShape(EncoderConfig(num_layers=4, hidden=16, marking="distance"), "mean", "zero").build(order)
    torch.nn.init.zeros_(network.all_tuples.weight)
    return network.eval()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "graphs",
    [REGULAR, SYMMETRIC, shrikhande_rook(), STRONGLY_REGULAR],
    ids=["regular", "symmetric", "srg16", "strongly regular"],
)
def test_numbering_does_not_change_what_is_found(graphs, order):
    network = q_network(order)
    found = []
    for seed in range(4):
        batch = all_of(with_distances(renumbered(graphs, seed)))
        tuples = invariant_search(network, batch, num_tuples=2, tuple_order=order, starts=3, num_moves=2).tuples
        assert tuples.shape == (len(graphs), 2, order)
        assert bool((tuples < batch.num_nodes[:, None, None]).all())
        found.append(refine(batch, tuples).hashes)
    assert all(torch.equal(hashes, found[0]) for hashes in found)


def test_starts_are_alike_but_not_symmetric_in_strongly_regular_graphs():
    """The case in which one node of a kind does not stand for the others: moves lead to copies of many kinds."""
    batch = all_of(STRONGLY_REGULAR)
    nodes = torch.arange(36)[None, :, None].expand(2, -1, -1)
    assert all(len(own.unique()) == 1 for own in refine(batch, nodes).hashes)
    first = torch.cat([torch.zeros(35, 1, dtype=torch.long), torch.arange(1, 36)[:, None]], dim=1)
    second = torch.cat([torch.ones(35, 1, dtype=torch.long), torch.tensor([0, *range(2, 36)])[:, None]], dim=1)
    moved = [refine(batch, tuples.expand(2, -1, -1)).hashes.sort(dim=1).values for tuples in (first, second)]
    assert not torch.equal(*moved)


def test_the_network_reads_one_copy_of_each_kind():
    network, looks = q_network(2), []

    def counted(state: State):
        looks.append(state.tuples.shape[1])
        return network(state)

    graphs = with_distances(REGULAR)
    passes = invariant_search(
        counted, all_of(graphs), num_tuples=1, tuple_order=2, starts=5, num_moves=3
    ).passes.tolist()
    assert looks[0] == 5 and max(looks) <= 5 and max(passes) <= sum(looks) <= 15
    looks.clear()
    symmetric = with_distances(STRONGLY_REGULAR)
    searched = invariant_search(counted, all_of(symmetric), num_tuples=1, tuple_order=2, starts=5, num_moves=2)
    assert looks == [1, 1] and searched.passes.tolist() == [2, 2] and bool((searched.refined <= 36**2).all())


def test_other_graphs_of_the_batch_do_not_change_what_is_found():
    """A symmetric graph has one start; beside an irregular one it gets as many rows, which count nothing."""
    network, graphs = q_network(2), with_distances(pack_networkx([nx.petersen_graph(), nx.path_graph(10)]))
    settings = {"num_tuples": 4, "tuple_order": 2, "starts": 5, "num_moves": 2}
    together = invariant_search(network, all_of(graphs), **settings).tuples
    for graph in range(2):
        alone = graphs[torch.tensor([graph])]
        found = invariant_search(network, alone, **settings).tuples
        batch = all_of(graphs)
        both = torch.stack([found[0], together[graph]]).flatten(0, 1)
        hashes = refine(batch, both.expand(2, -1, -1)).hashes[graph].view(2, -1)
        assert torch.equal(hashes[0], hashes[1])


def test_starts_are_all_nodes_of_the_first_kinds():
    """A path of five nodes has three kinds; marks in the middle leave it symmetric, so these come last."""
    seen = []

    def none_better(state: State):
        seen.append(state.tuples)
        return torch.zeros(state.graphs.total_nodes, state.tuples.shape[1], 2), state.history

    path = all_of(pack_networkx([nx.path_graph(5), nx.cycle_graph(5)]))
    searched = invariant_search(none_better, path, num_tuples=1, tuple_order=2, starts=4, num_moves=1)
    assert searched.passes.tolist() == [3, 1]
    kinds = [{0: "end", 4: "end", 1: "next", 3: "next", 2: "middle"}[node] for node in seen[0][0, :, 0].tolist()]
    assert sorted(kinds[:2]) == ["end", "next"] and kinds[2] == "middle"


def test_the_order_is_colours_then_rarity_then_value():
    hashes, colours = torch.tensor([7, 7, 5, 9, 9, 1]), torch.tensor([3, 3, 3, 3, 3, 2])
    assert first_in_order(hashes, colours, 5).tolist() == [2, 0, 3, 5, 2]


def test_all_best_moves_of_all_tuples_of_a_kind_are_tried():
    """A path of five nodes, both marks on an end: Q wants the second mark on the neighbour of the end that it reads."""
    path = all_of(pack_networkx([nx.path_graph(5)]))

    def to_the_neighbour(state: State):
        assert state.tuples.tolist() == [[[0, 0]]]
        q_table = torch.zeros(5, 1, 2)
        q_table[1, 0, 1] = 1.0
        return q_table, state.history

    outcomes = best_outcomes(to_the_neighbour, path, [[torch.tensor([0, 24])]], order=2)  # (0, 0) and (4, 4)
    assert [place.tolist() for place in outcomes[0]] == [[1, 23]]  # (0, 1) and (4, 3)


def test_random_moves_go_to_random_nodes_and_treat_nodes_of_a_colour_alike():
    """A star of five leaves with a mark on its centre: five sixths of the moves of a slot go to the leaves."""
    star = all_of(pack_networkx([nx.star_graph(5)]))
    state = State.start(star, torch.zeros(1, 1, 2, dtype=torch.long), history_width=0)
    scores, to_leaves, first_slot = random_scores(0), 0, 0
    for _ in range(1000):  # other moves each time, also from the same state
        q_table, _ = scores(state)
        leaves = q_table[1:, 0]
        assert q_table.shape == (6, 1, 2) and bool((leaves == leaves[0]).all())
        to_leaves += int(leaves.max() > q_table[0].max())
        first_slot += int(q_table[..., 0].max() > q_table[..., 1].max())
    assert abs(to_leaves / 1000 - 5 / 6) < 0.05 and abs(first_slot / 1000 - 0.5) < 0.06
    assert torch.equal(random_scores(3)(state)[0], random_scores(3)(state)[0])
    assert not torch.equal(random_scores(3)(state)[0], random_scores(4)(state)[0])


def test_a_kind_with_too_many_outcomes_goes_no_further(monkeypatch):
    monkeypatch.setattr("maggnn_paper.brec.branching.MOST_OUTCOMES", 10)
    searched = invariant_search(q_network(2), all_of(with_distances(STRONGLY_REGULAR)), 1, 2, starts=5, num_moves=3)
    assert searched.passes.tolist() == [1, 1] and searched.refined.tolist() == [36, 36]


def test_a_network_that_knows_the_values_finds_the_finest_tuple():
    """With exact promises of one move the search does as the exact teacher does."""
    batch = all_of(REGULAR)

    def teacher(state: State):
        rows = []
        for graph, size in enumerate(batch.num_nodes.tolist()):
            own = state.tuples[graph]  # [C, 2]
            moved = own[None, :, None].repeat(size, 1, 2, 1)
            for slot in range(2):
                moved[:, :, slot, slot] = torch.arange(size)[:, None]
            one = REGULAR[torch.tensor([graph])]
            colours = refine(one, moved.reshape(1, -1, 2)).num_colours
            rows.append(colours.reshape(size, len(own), 2).float())
        return torch.cat(rows), state.history

    found = invariant_search(teacher, batch, num_tuples=1, tuple_order=2, starts=14, num_moves=2).tuples
    colours = refine(batch, found).num_colours[:, 0]
    for graph, size in enumerate(batch.num_nodes.tolist()):
        pairs = torch.cartesian_prod(torch.arange(size), torch.arange(size))
        assert int(colours[graph]) == int(refine(REGULAR[torch.tensor([graph])], pairs[None]).num_colours.max())
