"""The smallest ring of each edge: equal to a search of each graph by hand, the same however it is batched or frozen."""

import networkx
import pytest
import torch

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.rings import LARGEST, edge_rings, with_rings
from maggnn.graphs.structure import adjacency
from maggnn.inference.frozen import frozen
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.q_network import AgentShape

FUSED = networkx.compose(networkx.cycle_graph(6), networkx.cycle_graph([4, 5, 6, 7, 8]))  # they share the edge 4-5
GRAPHS = [
    networkx.cycle_graph(6),
    networkx.empty_graph(1),
    networkx.petersen_graph(),
    networkx.path_graph(3),
    FUSED,
    networkx.cycle_graph(LARGEST + 1),
    networkx.complete_graph(4),
    networkx.barbell_graph(3, 1),
    networkx.gnp_random_graph(14, 0.18, seed=3),
]
ALL = torch.arange(len(GRAPHS))


def packed(edge_attr=None):
    edges = [torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).T for graph in GRAPHS]
    count = sum(part.shape[1] for part in edges)
    return PackedGraphs.build(
        torch.tensor([len(graph) for graph in GRAPHS]),
        torch.tensor([part.shape[1] for part in edges]),
        torch.cat(edges, 1),
        edge_attr=None if edge_attr is None else edge_attr(count),
        undirected_once=True,
    )


def bonds(count):
    return torch.arange(count)[:, None] % 3


def lengths(count):
    return torch.linspace(1, 2, count)[:, None]


def smallest_ring(graph, edge):
    without = graph.copy()
    without.remove_edge(*edge)
    if not networkx.has_path(without, *edge):
        return 0
    size = networkx.shortest_path_length(without, *edge) + 1
    return size - 2 if size <= LARGEST else 0


def test_equal_to_a_search_of_each_graph():
    batch = packed()[ALL]
    found = edge_rings(batch)
    source, target = batch.local_id[batch.edge_index].tolist()
    owner = batch.node_graph[batch.edge_index[1]].tolist()
    expected = [smallest_ring(GRAPHS[g], (u, v)) for g, u, v in zip(owner, source, target, strict=True)]
    assert found.tolist() == expected
    assert {0, 1, 3, 4} <= set(expected)


@pytest.mark.parametrize("cells", [8_000_000, 40])
def test_worked_out_once_or_for_each_batch_is_the_same(monkeypatch, cells):
    monkeypatch.setattr("maggnn.graphs.structure.CELLS_A_CHUNK", cells)
    graphs, ids = packed(), torch.tensor([4, 0, 4, 8, 1, 2])
    known = with_rings(graphs)
    assert with_rings(known) is known
    assert known[ids].rings.tolist() == edge_rings(graphs[ids]).tolist() == known.select(ids).rings.tolist()


def test_padding_changes_no_ring():
    graphs, ids = packed(), torch.tensor([4, 0, 8])
    exact, rounded = graphs.gather(ids, graphs.size_of(ids)), graphs.gather(ids, graphs.rounded_size(ids))
    count = exact.edge_index.shape[1]
    assert rounded.edge_index.shape[1] > count
    assert edge_rings(rounded)[:count].tolist() == edge_rings(exact).tolist()


def test_a_self_loop_is_no_ring_and_two_edges_between_a_pair_are_none():
    index = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]])
    graphs = PackedGraphs.build(torch.tensor([2]), torch.tensor([5]), index)
    assert edge_rings(graphs[torch.tensor([0])]).tolist() == [0] * 5


def test_asked_twice_and_moved():
    batch = packed()[ALL]
    first = edge_rings(batch)
    assert torch.equal(edge_rings(batch), first) and torch.equal(edge_rings(batch.to("cpu")), first)


def test_which_way_an_edge_goes_does_not_matter():
    index = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 3]])  # a triangle with a tail
    graphs = PackedGraphs.build(torch.tensor([4]), torch.tensor([4]), index)
    batch = graphs[torch.tensor([0])]
    found = dict(zip(map(tuple, batch.edge_index.T.tolist()), edge_rings(batch).tolist(), strict=True))
    assert found == {(0, 1): 1, (1, 2): 1, (2, 0): 1, (0, 3): 0}


def test_many_nodes_and_few_edges_are_searched_in_small_chunks(monkeypatch):
    monkeypatch.setattr("maggnn.graphs.structure.CELLS_A_CHUNK", 1000)
    sizes = []
    monkeypatch.setattr(
        "maggnn.graphs.rings.adjacency", lambda graphs: sizes.append(len(graphs.num_nodes)) or adjacency(graphs)
    )
    count = 8
    graphs = PackedGraphs.build(
        torch.full((count,), 30), torch.full((count,), 1), torch.tensor([[0], [1]]).repeat(1, count)
    )
    assert with_rings(graphs).rings.sum() == 0 and max(sizes) == 1


def make_model(graphs, rings):
    torch.manual_seed(0)
    encoder = EncoderConfig(conv="gine", num_layers=2, hidden=8, rings=rings)
    spec = FeatureSpec.of(graphs.edge_attr)
    return MagGNN(2, edge_features=spec, encoder=encoder, agent=AgentConfig(num_moves=0)).eval()


def test_an_agent_may_read_rings_where_its_predictor_reads_none():
    """And bonds that it was not made for do not disturb it."""
    graphs = packed(bonds)
    home = EncoderConfig(conv="gine", num_layers=2, hidden=8, rings=True)
    model = MagGNN(
        2,
        edge_features=FeatureSpec.of(graphs.edge_attr),
        encoder=EncoderConfig(conv="gine", num_layers=2, hidden=8),
        agent=AgentConfig(num_moves=1),
        pretrained=AgentShape(home, "mean", "zero"),
    ).eval()
    prepared = model.precomputed(graphs)
    assert prepared.rings is not None
    assert model(prepared[ALL]).shape == (len(GRAPHS), 2)


def test_missing_bonds_are_named():
    with pytest.raises(InputError, match="made for graphs with edge_attr"):
        make_model(packed(bonds), rings=True)(packed()[ALL])


def test_a_set_without_edges():
    graphs = PackedGraphs.build(
        torch.tensor([2, 1]), torch.tensor([0, 0]), torch.empty(2, 0), edge_attr=torch.empty(0, 1)
    )
    assert make_model(graphs, rings=True)(graphs[torch.arange(2)]).shape == (2, 2)


@pytest.mark.parametrize("edge_attr", [None, bonds, lengths])
def test_a_model_reads_them_and_its_frozen_copy_says_the_same(edge_attr):
    graphs = packed(edge_attr)
    plain, reading = make_model(graphs, rings=False), make_model(graphs, rings=True)
    tuples = torch.zeros(len(GRAPHS), 1, 2, dtype=torch.long)
    own = reading(graphs[ALL], tuples=tuples)
    prepared = reading.precomputed(graphs)
    assert plain.precomputed(graphs).rings is None
    torch.testing.assert_close(reading(prepared[ALL], tuples=tuples), own)
    torch.testing.assert_close(
        frozen(reading, present=prepared)(prepared[ALL], tuples=tuples), own, atol=1e-5, rtol=1e-4
    )
    torch.testing.assert_close(frozen(reading)(graphs[ALL], tuples=tuples), own, atol=1e-5, rtol=1e-4)


def test_only_convolutions_that_read_edges():
    with pytest.raises(InputError, match="use gine"):
        MagGNN(2, encoder=EncoderConfig(conv="gin", rings=True))
