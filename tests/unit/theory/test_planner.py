"""What a data set asks for: classes by order, telling tuples, and the suggestion that follows from them."""

import networkx as nx
import pytest
import torch

from maggnn.data import load
from maggnn.data.synthetic.expressivity import csl, shrikhande_rook, sr25, super_graphs
from maggnn.errors import InputError
from maggnn.graphs.conversions import pack_networkx
from maggnn.theory import planner
from maggnn.theory.planner import informative_share, partitions, plan
from maggnn.theory.refinement import compare

TRIANGLES, HEXAGON, PATH = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), nx.cycle_graph(6), nx.path_graph(4)


def planned(graphs, labels=None, max_order=2):
    return plan(graphs, partitions(graphs, labels, max_order))


def test_classes_by_order():
    found = planned(sr25(), sr25().y)
    assert [(level.order, level.classes, level.together, level.confused) for level in found.levels] == [
        (0, 1, 15, 15), (1, 1, 15, 15), (2, 15, 0, 0)
    ]  # fmt: skip
    assert (found.duplicates, found.undecided) == (0, 0)


def test_common_telling_tuples_need_no_moves():
    found = planned(sr25(), sr25().y)
    assert found.tuple_order == 2 and found.num_moves == 0 and 1 < found.num_tuples <= planner.MOST_RANDOM
    assert (1 - (found.informative_share or 0)) ** found.num_tuples <= planner.MISS
    assert found.copies == found.num_tuples and found.all_copies == 625


def test_where_every_tuple_tells_one_is_enough():
    found = planned(csl(), csl().y)
    assert (found.num_tuples, found.tuple_order, found.num_moves) == (1, 1, 0)
    assert found.informative_share == 1.0 and "every tuple" in found.reason


def test_rare_telling_tuples_have_to_be_found():
    """Marks tell only on opposite blocks of a super graph: one block of eight, for either mark."""
    found = planned(super_graphs(2), super_graphs(2).y)
    assert (found.num_tuples, found.tuple_order, found.num_moves) == (1, 2, 2)
    assert found.informative_share == pytest.approx(1 / 8) and "rare" in found.reason
    assert (found.copies, found.all_copies) == (3, 64**2)


def test_graphs_of_equal_label_may_stay_together():
    found = planned(csl(), csl().y)
    assert found.levels[-1].together == 150 and found.levels[-1].confused == 0


def test_without_labels_all_but_isomorphic_graphs_are_to_be_told_apart():
    graphs = pack_networkx([HEXAGON, TRIANGLES, PATH, nx.relabel_nodes(PATH, {0: 2, 2: 0})])
    found = planned(graphs)
    assert found.tuple_order == 1 and found.undecided == 0
    assert [level.classes for level in found.levels] == [2, 3]
    assert [level.confused for level in found.levels] == [2, 0]
    assert found.duplicates == 2


def test_no_marks_are_suggested_where_none_are_needed():
    found = planned(pack_networkx([PATH, HEXAGON, nx.star_graph(3)]), torch.tensor([0, 1, 2]))
    assert (found.num_tuples, found.tuple_order, found.num_moves, found.copies) == (1, 0, 0, 1)
    assert found.informative_share is None and "without marks" in found.reason


def test_isomorphic_graphs_of_different_labels_ask_for_no_marks():
    found = planned(pack_networkx([PATH, PATH, HEXAGON]), torch.tensor([0.5, 0.7, 1.0]))
    assert (found.tuple_order, found.duplicates, found.undecided) == (0, 2, 0)
    assert "isomorphic" in found.reason


def test_too_small_an_order_is_said():
    found = planned(sr25(), sr25().y, max_order=1)
    assert found.undecided == 15 and found.tuple_order == 0 and "larger order" in found.reason


def test_targets_of_several_columns_are_labels_too():
    labels = torch.tensor([[0.0, 1.0], [0.0, 2.0]])
    assert planned(pack_networkx([HEXAGON, TRIANGLES]), labels).tuple_order == 1
    assert planned(pack_networkx([HEXAGON, TRIANGLES]), labels[:, :1]).tuple_order == 0


def test_share_of_a_pair_is_the_mean_of_both_sides():
    graphs = shrikhande_rook()
    first, second = (graphs.select(torch.tensor([index])) for index in (0, 1))
    both = [compare(*pair, 2, shares=True).share or 0.0 for pair in ((first, second), (second, first))]
    assert informative_share(graphs, partitions(graphs, graphs.y, 2), 2) == pytest.approx(sum(both) / 2)


def test_a_part_of_a_group_stands_for_it(monkeypatch):
    graphs = csl()
    found = partitions(graphs, graphs.y, 1)
    monkeypatch.setattr(planner, "CELLS_A_GROUP", 20 * 41**2)
    assert informative_share(graphs, found, 1) == 1.0


def test_graphs_that_never_were_alike_are_one_class_each():
    found = partitions(pack_networkx([nx.empty_graph(n) for n in (1, 2, 3)]), None, 3)
    assert len(found.classes) == 1 and len(found.classes[0].unique()) == 3


def test_what_cannot_be_planned():
    with pytest.raises(InputError, match="14 labels for 15 graphs"):
        partitions(sr25(), torch.arange(14), 1)
    with pytest.raises(InputError, match="no graphs"):
        partitions(sr25().select(torch.tensor([], dtype=torch.long)), None, 1)


@pytest.mark.dataset
def test_molecules_need_no_marks_to_be_told_apart(packed_data):
    zinc = load("zinc")
    found = planned(zinc.graphs, zinc.y)
    assert found.tuple_order == 0 and found.levels[0].confused == 0
    assert found.levels[0].classes == 11_994  # six molecules are there twice
