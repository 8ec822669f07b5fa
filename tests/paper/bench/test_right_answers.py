"""Spellings and numberings are of the same things, and what is compared differs from one thing to the next."""

import random

import networkx as nx
import numpy as np
import pytest

from maggnn.errors import InputError
from maggnn_paper.bench import right_answers


def test_spellings_are_of_one_molecule():
    chem = pytest.importorskip("rdkit.Chem")
    table, stereo = right_answers.spelled(["C[C@H](N)C(=O)O", "CCO"])
    assert stereo == 1 and [len(row) for row in table] == [right_answers.SPELLINGS + 1] * 2
    assert [len({chem.CanonSmiles(text) for text in row}) for row in table] == [1, 1] and len(set(table[0])) > 3


def test_numberings_are_of_one_graph():
    rng = random.Random(0)
    for graph in right_answers.many_graphs(8):
        other = right_answers.renumbered(graph, rng)
        assert nx.is_isomorphic(graph, other) and list(other) == sorted(other)


def test_equal_answers_for_everything_are_no_measurement():
    assert right_answers.apart(np.array([[1.0, 1.5], [2.0, 2.0]])) == pytest.approx(0.25)
    with pytest.raises(InputError, match="the same of everything"):
        right_answers.apart(np.ones((3, 2)))


def test_figures_of_slow_tests(monkeypatch, tmp_path):
    assert right_answers._numbers(r"(\d+) kills, (\d+) equal", "fit: 20 kills, 18 equal\n") == (20, 18)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="root of the repository"):
        right_answers.bench("kills")
