"""The official BREC test of baselines: what each must and must not tell apart, and its rows."""

import pytest
import torch

from builders import hexagon_and_triangles
from maggnn.data import registry
from maggnn.data.sources import data_root
from maggnn.model.runtime import make_generator
from maggnn_paper.brec import baseline_test, reproduce
from maggnn_paper.brec.baseline_test import BaselineSettings, answers, baseline_rpc, graphs_of
from maggnn_paper.brec.pairs import Pairs
from maggnn_paper.brec.reproduce import BrecJob
from maggnn_paper.brec.rpc import LOSS_TO_STOP, RELABELLINGS, unreliable
from maggnn_paper.tables.registry import reproduce_table

ONE = torch.tensor([0])


def hexagon_pair() -> Pairs:
    return Pairs.of(hexagon_and_triangles(), ONE)


def small(method: str) -> BaselineSettings:
    return BaselineSettings(method, hidden=16, num_layers=3, largest_ring=4)


@pytest.mark.parametrize(("method", "tells"), [("gine", False), ("ngnn", True), ("ppgn", True), ("gsn", True)])
def test_hexagon_and_triangles(method, tells):
    tested = baseline_rpc(hexagon_pair(), small(method), seed=0)
    assert tested.distinguished(method).tolist() == [tells]
    assert not unreliable(tested.control[method]).any()


@pytest.mark.parametrize(("method", "tells"), [("ngnn", False), ("ppgn", False), ("i2gnn", True)])
def test_shrikhande_and_rook(method, tells):
    tested = baseline_rpc(Pairs.of(registry.load("shrikhande_rook").graphs, ONE), small(method), seed=0)
    assert tested.distinguished(method).tolist() == [tells]


def test_graphs_of_a_pair():
    pair = hexagon_pair()
    batch = graphs_of(pair, [1, 0])
    assert batch.num_nodes.tolist() == [6, 6] and batch.edge_index.shape == (2, 24)
    assert bool((batch.edge_index[1, 1:] >= batch.edge_index[1, :-1]).all())
    first = batch.node_graph[batch.edge_index[0]] == 0
    near = batch.edge_index[:, first]
    assert bool((near[0] // 3 == near[1] // 3).all())  # the triangles


@pytest.mark.parametrize("method", ["ngnn", "i2gnn", "ppgn", "1-2-3-gnn"])
def test_a_few_graphs_at_a_time_have_the_same_answers(method, monkeypatch):
    pair = hexagon_pair().relabelled(RELABELLINGS, make_generator(0))
    predictor = baseline_test._predictor(small(method)).double().eval()
    sizes = []
    predictor.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].num_graphs))
    with torch.no_grad():
        at_once = answers(predictor, pair)
        monkeypatch.setattr(baseline_test, "PAIRS_AT_ONCE", 5 * 6**2)
        few = answers(predictor, pair)
        monkeypatch.setattr(baseline_test, "PAIRS_AT_ONCE", 1)
        alone = answers(predictor, pair)
    count = 2 * RELABELLINGS
    assert at_once.shape[0] == count and sizes == [count, *[5] * (count // 5), count % 5, *[1] * count]
    for found in (few, alone):
        torch.testing.assert_close(found, at_once)


NEEDS_BREC = pytest.mark.skipif(
    not (data_root() / "brec.npz").is_file(), reason=f"brec not under the data root {data_root()}"
)


@NEEDS_BREC
@pytest.mark.parametrize("method", ["ngnn", "ppgn"])
@pytest.mark.parametrize("pair", [253, 254])
def test_what_was_learned_outlasts_training(method, pair):
    """These pairs were told apart in training and, with norms that lagged behind, no longer in the test."""
    graphs = Pairs.of(registry.load("brec").graphs, torch.tensor([pair]))
    tested = baseline_rpc(graphs, BaselineSettings(method), seed=0)
    assert float(tested.loss) < LOSS_TO_STOP and tested.distinguished(method).tolist() == [True]
    assert not unreliable(tested.control[method]).any()


@NEEDS_BREC
def test_rows(tmp_path, monkeypatch):
    def few_jobs(test: str, method: str, categories: list[str], runs: int) -> list[BrecJob]:
        return [BrecJob(test, categories[0], (0, 1), small(method), seed) for seed in range(runs)]

    monkeypatch.setattr(reproduce, "make_jobs", few_jobs)
    rows = reproduce_table("brec", tmp_path, 2, 1, ["basic"], ["ngnn"])
    assert [(row.table, row.dataset, row.method, row.mean, row.runs) for row in rows] == [
        ("brec_rpc", "basic", "ngnn", 2.0, 2)
    ]
    assert (rows[0].m, rows[0].k, rows[0].t, rows[0].keep) == (None, None, None, None)
    assert "ngnn 3 x 16" in (rows[0].config or "") and "with its agent" not in (rows[0].note or "")
