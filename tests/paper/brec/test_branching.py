"""The invariant search: what it finds does not depend on the numbering, and ties are decided by its rule."""

import networkx as nx
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
from maggnn_paper.brec.branching import first_in_order, invariant_search, starting_tuples, tied_outcomes

REGULAR = pack_networkx([nx.random_regular_graph(degree, n, seed=n) for degree, n in ((3, 12), (4, 10), (3, 14))])
SYMMETRIC = pack_networkx([nx.petersen_graph(), nx.cycle_graph(9), nx.hypercube_graph(3)])


def q_network(order: int) -> QNetwork:
    torch.manual_seed(3)
    network = AgentShape(EncoderConfig(num_layers=4, hidden=16, marking="distance"), "mean", "zero").build(order)
    torch.nn.init.zeros_(network.all_tuples.weight)
    return network.eval()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("graphs", [REGULAR, SYMMETRIC, shrikhande_rook()], ids=["regular", "symmetric", "srg16"])
def test_numbering_does_not_change_what_is_found(graphs, order):
    network = q_network(order)
    found = []
    for seed in range(4):
        batch = all_of(with_distances(renumbered(graphs, seed)))
        tuples = invariant_search(network, batch, num_tuples=2, tuple_order=order, starts=3, num_moves=2)
        assert tuples.shape == (len(graphs), 2, order)
        assert bool((tuples < batch.num_nodes[:, None, None]).all())
        found.append(refine(batch, tuples).hashes)
    assert all(torch.equal(hashes, found[0]) for hashes in found)


def test_the_network_looks_at_as_many_copies_as_the_search_says():
    network, looks = q_network(2), []

    def counted(state: State):
        looks.append(state.tuples.shape[1])
        return network(state)

    invariant_search(counted, all_of(with_distances(REGULAR)), num_tuples=1, tuple_order=2, starts=5, num_moves=3)
    assert looks == [5, 5, 5]


def test_other_graphs_of_the_batch_do_not_change_what_is_found():
    """A symmetric graph has one start; beside an irregular one it gets as many rows, which count nothing."""
    network, graphs = q_network(2), with_distances(pack_networkx([nx.petersen_graph(), nx.path_graph(10)]))
    settings = {"num_tuples": 4, "tuple_order": 2, "starts": 5, "num_moves": 2}
    together = invariant_search(network, all_of(graphs), **settings)
    for graph in range(2):
        alone = graphs[torch.tensor([graph])]
        assert torch.equal(invariant_search(network, alone, **settings)[0], together[graph])


def test_starts_are_one_node_of_each_kind():
    """A path of five nodes has three kinds; marks in the middle leave it symmetric, so these come last."""
    path = all_of(pack_networkx([nx.path_graph(5), nx.cycle_graph(5)]))
    starts, real = starting_tuples(path, most=4, tuple_order=2)
    assert real.tolist() == [[True, True, True], [True, False, False]]
    assert bool((starts[..., 0] == starts[..., 1]).all())
    kinds = [{0: "end", 4: "end", 1: "next", 3: "next", 2: "middle"}[node] for node in starts[0, :, 0].tolist()]
    assert sorted(kinds[:2]) == ["end", "next"] and kinds[2] == "middle"
    assert starts[1, :, 0].tolist() == [0, 0, 0]  # all nodes of a cycle are alike: the first again


def test_the_order_is_colours_then_rarity_then_value():
    tuples = torch.arange(6)[:, None]
    hashes, colours = torch.tensor([7, 7, 5, 9, 9, 1]), torch.tensor([3, 3, 3, 3, 3, 2])
    every = torch.ones(6, dtype=torch.bool)
    assert first_in_order(tuples, hashes, colours, every, 5)[:, 0].tolist() == [2, 0, 3, 5, 2]
    without = torch.tensor([True, True, False, True, True, True])
    assert first_in_order(tuples, hashes, colours, without, 1)[:, 0].tolist() == [0]


def test_all_best_moves_are_tried():
    """One graph of three nodes and one of two, one start each, k = 2; node-major rows."""
    low = float("-inf")
    rows = torch.tensor([[[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]], [[0.0, 2.0, 0.0, 0.0, low, low]]])
    tuples = torch.tensor([[[0, 1]], [[1, 1]]])
    outcomes, owner = tied_outcomes(rows, tuples)
    assert outcomes[0].tolist() == [[0, 1], [1, 1], [0, 2]] and owner[0].tolist() == [0, 0, 0]
    assert outcomes[1, 0].tolist() == [1, 0] and owner[1].tolist() == [0, -1, -1]


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

    found = invariant_search(teacher, batch, num_tuples=1, tuple_order=2, starts=14, num_moves=2)
    colours = refine(batch, found).num_colours[:, 0]
    for graph, size in enumerate(batch.num_nodes.tolist()):
        pairs = torch.cartesian_prod(torch.arange(size), torch.arange(size))
        assert int(colours[graph]) == int(refine(REGULAR[torch.tensor([graph])], pairs[None]).num_colours.max())
