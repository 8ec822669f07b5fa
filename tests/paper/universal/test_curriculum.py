"""The curriculum is fresh, the same with any number of processes, and keeps test graphs out."""

from itertools import islice

import numpy as np
import pytest

from maggnn.data import registry
from maggnn.data.synthetic import expressivity
from maggnn_paper.universal import classical, curriculum
from maggnn_paper.universal.curriculum import CurriculumSettings, batches_of, stream
from maggnn_paper.universal.exclusion import REPRESENTATIVES, allowed, bare, hashes_of, one_mark_hashes, unpacked
from maggnn_paper.universal.families import generated

SMALL = CurriculumSettings(most_nodes=30, batch_nodes=200, graphs=40)
SR25 = hashes_of(unpacked(expressivity.sr25()))


def test_batches_hold_graphs_of_similar_size():
    batches = batches_of(0, 0, SMALL, SR25)
    sizes = [[len(graph) for graph in batch] for batch in batches]
    assert all(8 <= size <= 30 for batch in sizes for size in batch)
    assert all(sum(batch) <= 200 for batch in sizes)
    spread = [max(batch) - min(batch) for batch in sizes]
    assert sum(spread) <= 30, "sorted by size, batches hardly overlap"


def test_draws_are_fresh_and_repeatable():
    first, again, other = (batches_of(0, number, SMALL, SR25) for number in (0, 0, 1))
    assert all(np.array_equal(a, b) for x, y in zip(first, again, strict=True) for a, b in zip(x, y, strict=True))
    hashes = [one_mark_hashes([graph for batch in drawn for graph in batch]) for drawn in (first, other)]
    assert len(np.intersect1d(*hashes)) < 0.4 * len(hashes[0]), "only classical graphs and small circulants repeat"


@pytest.mark.slow
def test_processes_draw_the_same():
    alone = list(islice(stream(3, SMALL, SR25), 6))
    beside = list(islice(stream(3, SMALL, SR25, workers=2), 6))
    assert all(np.array_equal(a, b) for x, y in zip(alone, beside, strict=True) for a, b in zip(x, y, strict=True))


def test_relabelled_test_graphs_their_kin_and_complements_stay_out():
    random = np.random.default_rng(0)
    graph = unpacked(expressivity.sr25())[3]
    order = random.permutation(25)
    relabelled = graph[np.ix_(order, order)]
    paley = classical.paley(25)  # one of the family
    graphs = [relabelled, classical.complement(relabelled), paley, classical.paley(13), classical.rook(5)]
    assert allowed(graphs, SR25).tolist() == [False, False, False, True, True]


@pytest.mark.parametrize(
    "name",
    [
        "sr25",
        "sr28",
        "sr36",
        pytest.param("sr35", marks=pytest.mark.slow),
        pytest.param("sr40", marks=pytest.mark.slow),
    ],
)
def test_one_graph_stands_for_its_strongly_regular_family(name):
    family = unpacked(bare(registry.load(name).graphs))
    assert (one_mark_hashes(family) == one_mark_hashes([REPRESENTATIVES[name]()])).all()


def test_published_and_own_test_graphs_stay_out_of_the_curriculum():
    """Of the real data: no draw has a test graph, and classical graphs that tests contain are known by name."""
    try:
        brec = registry.load("brec")
    except Exception as error:
        pytest.skip(f"BREC is not here: {error}")
    forbidden = curriculum.forbidden_hashes()
    ours = [graph for graphs in generated().values() for graph in graphs]
    assert not allowed(ours, forbidden).any()
    assert not allowed(unpacked(bare(brec.graphs.select(brec.graphs.num_nodes.argsort()[:200]))), forbidden).any()
    _, out = curriculum.usable(curriculum.strongly_regular() | curriculum.distance_regular(), forbidden)
    assert {"Paley 25", "Paley 29", "triangular T(8)", "Sp(4, 3)", "Sp(6, 2)", "Shrikhande", "folded 6-cube"} <= set(
        out
    )
    drawn = [graph for batch in batches_of(5, 0, SMALL, forbidden) for graph in batch]
    assert allowed(drawn, forbidden).all()
