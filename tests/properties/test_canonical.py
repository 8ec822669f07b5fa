"""Relabelled graphs have one canonical form and get one answer."""

import networkx
import pytest
import torch

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN

pytest.importorskip("pynauty", reason="canonical forms need the extra `canonical` (pynauty)")
from maggnn.model.agent import TIE, best_move
from maggnn.model.state import State
from maggnn.theory.canonical import answer_canonically, canonical_form

GRAPHS = [
    networkx.gnp_random_graph(12, 0.3, seed=1),
    networkx.random_regular_graph(3, 10, seed=2),
    networkx.petersen_graph(),
    networkx.star_graph(5),
    networkx.path_graph(1),
    networkx.disjoint_union(networkx.cycle_graph(3), networkx.cycle_graph(4)),
]


def packed(generator, featured):
    """The graphs with their nodes renumbered at random; features, if any, go with their nodes and edges."""
    edges, nodes, bonds = [], [], []
    for graph in GRAPHS:
        name = torch.randperm(len(graph), generator=generator)
        pairs = torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).T
        edges.append(name[pairs])
        nodes.append((torch.arange(len(graph)) % 3)[name.argsort()])
        bonds.append(pairs.sum(0) % 2)
    return PackedGraphs.build(
        torch.tensor([len(graph) for graph in GRAPHS]),
        torch.tensor([part.shape[1] for part in edges]),
        torch.cat(edges, 1),
        x=torch.cat(nodes)[:, None] if featured else None,
        edge_attr=torch.cat(bonds)[:, None] if featured else None,
        undirected_once=True,
    )


@pytest.mark.parametrize("featured", [False, True])
def test_isomorphic_graphs_have_one_form(featured):
    generator = torch.Generator().manual_seed(0)
    expected = canonical_form(packed(generator, featured))
    for _ in range(20):
        found = canonical_form(packed(generator, featured))
        assert torch.equal(found.edge_index, expected.edge_index)
        if featured:
            assert torch.equal(found.x, expected.x) and torch.equal(found.edge_attr, expected.edge_attr)


@pytest.mark.parametrize("featured", [False, True])
@pytest.mark.parametrize(("m", "k", "t"), [(1, 1, 0), (1, 2, 2), (2, 2, 3), (1, 0, 0)])
def test_numbering_changes_nothing(m, k, t, featured):
    generator, ids = torch.Generator().manual_seed(0), torch.arange(len(GRAPHS))
    graphs = packed(generator, featured)
    torch.manual_seed(0)
    model = MagGNN(
        2,
        FeatureSpec.of(graphs.x),
        FeatureSpec.of(graphs.edge_attr),
        encoder=EncoderConfig(conv="gine", num_layers=4, hidden=16, random_walk=4, rings=True),
        agent=AgentConfig(num_tuples=m, tuple_order=k, num_moves=t),
        task="regression",
    ).eval()
    expected = answer_canonically(model, graphs, ids)
    assert expected.std(dim=0).min() > 1e-4
    for _ in range(5):
        found = answer_canonically(model, packed(generator, featured), ids, batch_size=4)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def forms(edges, num_nodes, edge_attr=None):
    """The canonical forms of twenty renumberings, each as a string."""
    generator, found = torch.Generator().manual_seed(0), set()
    for _ in range(20):
        name = torch.randperm(num_nodes, generator=generator)
        sizes = torch.tensor([num_nodes]), torch.tensor([edges.shape[1]])
        form = canonical_form(PackedGraphs.build(*sizes, name[edges], edge_attr=edge_attr))
        found.add(f"{form.edge_index.tolist()} {None if form.edge_attr is None else (form.edge_attr + 0).tolist()}")
    return found


def test_parallel_edges_and_directions_count():
    parallel = torch.tensor([[0, 0, 1, 2], [1, 1, 2, 3]])
    assert len(forms(torch.cat([parallel, parallel.flip(0)], 1), 4)) == 1
    assert len(forms(parallel, 4)) == 1
    circle, there = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([[0, 1, 0], [1, 2, 2]])
    assert len(forms(circle, 3) | forms(there, 3)) == 2


def test_zero_is_zero_whatever_its_sign():
    edges, signs = (
        torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]),
        torch.tensor([0.0, -0.0, 0.0, 0.0, -0.0, 1.0]),
    )
    assert len(forms(edges, 4, signs[:, None])) == 1


def test_the_first_of_equally_good_moves_is_kept():
    graphs = packed(torch.Generator().manual_seed(0), featured=False)[torch.tensor([5, 4])]  # 7 nodes, 1 node
    state = State.start(graphs, torch.zeros(2, 1, 2, dtype=torch.long), 0)
    q_table = torch.zeros(8, 1, 2)
    q_table[3, 0, 1] = q_table[5, 0, 0] = 1.0
    q_table[4, 0, 0] = 1.0 - TIE / 2  # a tie too, and later than the first
    _, move = best_move(q_table, state, "simultaneous", ties="first")
    assert (move.node.tolist(), move.slot.tolist()) == ([[3], [0]], [[1], [0]])


def test_node_targets_are_refused():
    graphs = packed(torch.Generator().manual_seed(0), featured=False)
    with pytest.raises(InputError, match="targets of graphs"):
        canonical_form(PackedGraphs(**(vars(graphs) | {"level": "node"})))
