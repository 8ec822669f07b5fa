"""An agent in place of a data set's own: the rows, their costs, and what is known of super graphs."""

import pytest
import torch

from maggnn.config import AgentConfig
from maggnn.data import load
from maggnn.errors import InputError
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.pretrained import pretrained_agent
from maggnn.model.refined.copies import refine
from maggnn.model.runtime import make_generator
from maggnn.model.tuples import all_tuples
from maggnn_paper.tables import zero_shot
from maggnn_paper.tables.registry import reproduce_table
from maggnn_paper.universal.game import ValueTable

pytestmark = pytest.mark.filterwarnings("ignore:agent sr25 learned with")


def test_rows_of_a_small_predictor(tmp_path, monkeypatch):
    small = ("encoder.num_layers=2", "encoder.hidden=8", "training.starts_per_graph=2", "training.predictor_steps=3")
    monkeypatch.setitem(zero_shot.SETTINGS, "sr25", (*small, "training.agent_steps=0"))
    monkeypatch.setitem(zero_shot.TESTS, "sr25", 2)
    rows = zero_shot.reproduce(tmp_path, datasets=["sr25"], methods=["sr25"])
    assert {row.dataset for row in rows} == {"sr25>sr25"} and {row.table for row in rows} == {"transfer"}
    agent = {row.t: row for row in rows if (row.method, row.keep) == ("mag-gnn-pre", "last")}
    assert sorted(agent) == [1, 2, 3, 4]
    for moves, row in agent.items():
        assert f"against the mean of {moves + 1} random starts" in row.note
        equal = [other for other in rows if other.passes == row.passes and other.method != "mag-gnn-pre"]
        assert row.passes == moves + 1
        assert {(other.method, other.keep) for other in equal} >= {
            ("random-moves", "confident"),
            ("random-marks", f"mean of {moves + 1}"),
        }
    finest = {(row.method, row.t): row for row in rows if row.keep == "finest"}
    assert {finest["mag-gnn-pre", moves].passes - moves for moves in agent} == {1}
    assert {finest["random-moves", moves].passes for moves in agent} == {1}
    (model,) = tmp_path.glob("sr25-*/model.safetensors")
    (job,) = [zero_shot.ZeroShotJob(job, "sr25") for job in zero_shot.predictor_jobs("sr25", 1)]
    put_in = zero_shot.with_agent(model, job.predictor.config, "sr25")
    own = pretrained_agent("sr25").weights
    assert all(torch.equal(value, own[name]) for name, value in put_in.q_network.state_dict().items())
    before = model.stat().st_mtime_ns
    assert zero_shot.reproduce(tmp_path, datasets=["sr25"], methods=["sr25"]) == rows
    assert model.stat().st_mtime_ns == before


def test_the_finest_state_on_the_way_is_kept():
    """A predictor that knows the graph where colours are finest, and nowhere else, is right as soon as they were."""
    dataset = load("sr25")
    model = MagGNN(15, agent=AgentConfig(num_tuples=1, tuple_order=2, num_moves=4)).eval()
    graphs = model.precomputed(dataset.graphs)
    table = ValueTable.of(graphs[torch.arange(15)], 2).finest()  # [15, 25, 25]

    def answer(batch, tuples):
        known = table[batch.y.long().view(-1), tuples[:, 0, 0], tuples[:, 0, 1]]
        return torch.nn.functional.one_hot(batch.y.long().view(-1), 15) * known[:, None] + torch.arange(15) * 1e-3

    model.predictor.forward = answer
    assert zero_shot.at_finest(model, graphs, torch.arange(15)) == 100.0
    kept = torch.stack(
        [zero_shot.finest_kept(model, graphs[torch.arange(15)], 1.0, make_generator(i)) for i in range(9)]
    )
    assert bool((kept.diff(dim=1) >= 0).all()) and float(kept[:, 0].mean()) < 90 < 97 < float(kept[:, -1].mean())


def test_a_tuple_of_sr25_names_its_graph_where_it_is_finest_and_nowhere_else():
    """So what an agent reaches in SR25 is limited by how often it ends at a finest tuple (docs/not_reached.md)."""
    graphs = load("sr25").graphs[torch.arange(15)]
    hashes, colours = refine(graphs, all_tuples(25, 2).expand(15, -1, -1))  # [15, 625]
    finest = colours == colours.amax(dim=1, keepdim=True)
    for graph in range(15):
        others = torch.cat([hashes[:graph], hashes[graph + 1 :]])
        assert torch.equal(~torch.isin(hashes[graph], others), finest[graph])


def test_no_finest_tuple_of_a_super_graph_lies_on_opposite_blocks():
    rows = zero_shot.supergraph_rows("supergraph2", "sr25")
    shares = {(row.method, row.t): row.mean for row in rows}
    assert shares["refinement", None] == 0.0
    assert shares["mag-gnn", 0] == shares["random-moves", 0] == pytest.approx(1 / 8, abs=0.05)  # one of eight blocks
    assert len(load("supergraph2").graphs) == 12 and set(shares) >= {("mag-gnn", 4), ("random-moves", 4)}


def test_the_table_names_its_rows(tmp_path):
    with pytest.raises(InputError, match="supergraph2"):
        reproduce_table("zero_shot", tmp_path, 1, 1, rows=["supergraph9"])
