"""Relabelled graphs have one canonical form and get one answer."""

import networkx
import pytest
import torch

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.errors import InputError
from maggnn.features import FeatureSpec
from maggnn.graphs import PackedGraphs
from maggnn.model import MagGNN

pytest.importorskip("pynauty", reason="canonical forms need the extra `canonical` (pynauty)")
from maggnn.canonical import answer_canonically, canonical_form

torch.set_num_threads(1)
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


def test_node_targets_are_refused():
    graphs = packed(torch.Generator().manual_seed(0), featured=False)
    with pytest.raises(InputError, match="targets of graphs"):
        canonical_form(PackedGraphs(**(vars(graphs) | {"level": "node"})))
