"""An agent in place of a data set's own: the rows, their costs, and what is known of super graphs."""

import pytest
import torch

from maggnn.data import load
from maggnn.errors import InputError
from maggnn.model.pretrained import pretrained_agent
from maggnn_paper.tables import zero_shot
from maggnn_paper.tables.registry import reproduce_table

pytestmark = pytest.mark.filterwarnings("ignore:agent sr25 learned with")


def test_rows_of_a_small_predictor(tmp_path, monkeypatch):
    small = ("encoder.num_layers=2", "encoder.hidden=8", "training.starts_per_graph=2", "training.predictor_steps=3")
    monkeypatch.setitem(zero_shot.SETTINGS, "sr25", (*small, "training.agent_steps=0"))
    monkeypatch.setitem(zero_shot.TESTS, "sr25", 2)
    rows = zero_shot.reproduce(tmp_path, datasets=["sr25"], agent="sr25")
    assert {row.dataset for row in rows} == {"sr25>sr25"} and {row.table for row in rows} == {"transfer"}
    agent = {row.t: row for row in rows if row.method == "mag-gnn-pre"}
    assert sorted(agent) == [1, 2, 3, 4]
    for moves, row in agent.items():
        equal = [other for other in rows if other.passes == row.passes and other.method != "mag-gnn-pre"]
        assert row.passes == moves + 1
        assert {(other.method, other.keep) for other in equal} >= {
            ("random-moves", "confident"),
            ("random-marks", f"mean of {moves + 1}"),
        }
    (model,) = tmp_path.glob("sr25-*/model.safetensors")
    (job,) = [zero_shot.ZeroShotJob(job, "sr25") for job in zero_shot.predictor_jobs("sr25", 1)]
    put_in = zero_shot.with_agent(model, job.predictor.config, "sr25")
    own = pretrained_agent("sr25").weights
    assert all(torch.equal(value, own[name]) for name, value in put_in.q_network.state_dict().items())
    before = model.stat().st_mtime_ns
    assert zero_shot.reproduce(tmp_path, datasets=["sr25"], agent="sr25") == rows
    assert model.stat().st_mtime_ns == before


def test_no_finest_tuple_of_a_super_graph_lies_on_opposite_blocks():
    rows = zero_shot.supergraph_rows("supergraph2", "sr25")
    shares = {(row.method, row.t): row.mean for row in rows}
    assert shares["refinement", None] == 0.0
    assert shares["mag-gnn", 0] == shares["random-moves", 0] == pytest.approx(1 / 8, abs=0.05)  # one of eight blocks
    assert len(load("supergraph2").graphs) == 12 and set(shares) >= {("mag-gnn", 4), ("random-moves", 4)}


def test_the_table_names_its_rows(tmp_path):
    with pytest.raises(InputError, match="supergraph2"):
        reproduce_table("zero_shot", tmp_path, 1, 1, rows=["supergraph9"])
