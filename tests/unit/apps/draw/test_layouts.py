"""Nodes lie in the unit square, atoms where chemists draw them, and always in the same places."""

import time

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn import InputError
from maggnn.apps.draw.layouts import MARGIN, MOST_BY_DISTANCES, positions
from maggnn.apps.explain.depiction import Depicted, atom_labels, bond_orders
from maggnn.data.inputs import packed_inputs
from maggnn.graphs.conversions import pack_networkx


def check_box(points):
    points = np.array(points)
    assert points.min() >= MARGIN - 1e-9 and points.max() <= 1 - MARGIN + 1e-9
    if len(points) > 1:
        assert np.ptp(points, axis=0).max() == pytest.approx(1 - 2 * MARGIN)


@given(st.integers(1, 12), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_any_graph_is_in_the_box_and_stays_where_it_is(num_nodes, seed):
    packed = pack_networkx([nx.path_graph(3), nx.gnp_random_graph(num_nodes, 0.25, seed=seed)])
    points = positions(packed, 1)
    assert len(points) == num_nodes and points == positions(packed, 1)
    check_box(points)
    assert len(set(points)) == num_nodes


@pytest.mark.parametrize("graph", [nx.path_graph(300), nx.random_regular_graph(4, 300, seed=0), nx.empty_graph(300)])
def test_large_graphs_are_quick(graph):
    packed = pack_networkx([graph])
    began = time.process_time()  # whoever else is busy
    points = positions(packed, 0)
    assert time.process_time() - began < 1.5
    assert points == positions(packed, 0)
    check_box(points)


def test_springs_keep_neighbours_near():
    num_nodes = MOST_BY_DISTANCES + 1
    points = np.array(positions(pack_networkx([nx.cycle_graph(num_nodes)]), 0))
    near = np.linalg.norm(points - np.roll(points, 1, axis=0), axis=1)
    far = np.linalg.norm(points - np.roll(points, num_nodes // 2, axis=0), axis=1)
    assert near.mean() < far.mean() / 3


@pytest.mark.parametrize("features", ["ogb", "zinc", "qm9"])
@pytest.mark.parametrize("smiles", ["CC(=O)Nc1ccc(O)cc1", "C1CC1.OCC", "[H]C(F)OC", "N#Cc1ccncc1F"])
def test_atoms_lie_in_the_order_of_the_nodes(smiles, features):
    packed, _ = packed_inputs([smiles], "smiles", features)
    points = np.array(positions(packed, 0, smiles))
    check_box(points)
    u, v = packed.edge_index.numpy()
    bonds = np.linalg.norm(points[u] - points[v], axis=1)
    assert bonds.max() < 1.6 * bonds.min()  # RDKit's bonds are all about as long: those of other atoms would not be
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1) + np.eye(len(points))
    assert apart.min() > 0.4 * bonds.min()


def test_another_molecule_is_refused():
    packed, _ = packed_inputs(["CCO"])
    with pytest.raises(InputError, match="has 8 atoms, the graph 3 nodes"):
        positions(packed, 0, "CC")
    with pytest.raises(InputError, match="not a SMILES"):
        positions(packed, 0, "C1(")


def test_elements_and_bonds():
    for features in ("mol", "ogb", "zinc"):
        packed, _ = packed_inputs(["CC(Br)C#N"], "smiles", features)
        assert sorted(atom_labels(features, packed.x)) == ["Br", "C", "C", "C", "N"]
        assert sorted(bond_orders(features, packed.edge_attr)) == [1, 1, 1, 1, 1, 1, 3, 3]
    packed, _ = packed_inputs(["C=O"], "smiles", "qm9")
    assert sorted(atom_labels("qm9", packed.x)) == ["C", "H", "H", "O"]
    assert sorted(bond_orders("qm9", packed.edge_attr)) == [1, 1, 1, 1, 2, 2]
    packed, _ = packed_inputs(["c1ccccc1"])
    assert set(bond_orders("ogb", packed.edge_attr)) == {1.5}
    packed, _ = packed_inputs(["*C"])
    assert sorted(atom_labels("ogb", packed.x)) == ["*", "C"]


def test_a_label_has_hydrogens_and_charge_a_name_has_the_element():
    packed, _ = packed_inputs(["CC[NH3+].[O-]C(Cl)=O"], "smiles", "zinc")
    assert sorted(atom_labels("zinc", packed.x)) == sorted(["C", "C", "NH3+", "O-", "C", "Cl", "O"])
    drawn = Depicted([], [], ["C", "C", "NH3+", "O-", "C", "Cl", "O", "?"], [])
    assert [drawn.node_name(node) for node in (2, 3, 5, 7)] == ["N2", "O3", "Cl5", "?7"]
    assert Depicted([], [], [], []).node_name(7) == "7"
