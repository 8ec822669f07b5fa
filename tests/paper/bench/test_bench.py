"""The benches run and write what they say; how long things take is not asserted here."""

import time

import pytest
import torch

from maggnn.data.sources import data_root
from maggnn.errors import InputError
from maggnn.inference.frozen import frozen
from maggnn.model.named_encoders import BASELINES
from maggnn_paper.baselines.copies import edge_copies
from maggnn_paper.bench import floor, inference, markings, scaling, train
from maggnn_paper.bench.baselines import baseline_model, largest_chunk, time_baseline
from maggnn_paper.bench.pyg_models import PygGNN, PygI2GNN, copies_for_pyg
from maggnn_paper.bench.scaling import Axis, exponent, regular_graphs
from maggnn_paper.bench.tables import run_bench
from maggnn_paper.bench.timing import median_ms, peak_mb, side_by_side
from maggnn_paper.bench.workloads import HOPS, load_workload

CPU = torch.device("cpu")


def needs(*names):
    missing = [name for name in names if not (data_root() / f"{name}.npz").is_file()]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not under the data root {data_root()}")


def quiet(line):
    pass


@needs("zinc_full", "cycle")
def test_inference_rows():
    rows = inference.bench(["cycle"], CPU, limit=20, repeats=1, tell=quiet)
    assert [(row.table, row.method) for row in rows] == [
        ("bench_inference", "pyg-gin+loader"),
        ("bench_inference", "pyg-gin+resident"),
        ("bench_inference", "mpnn"),
        ("bench_inference", "mag-gnn"),
        ("bench_floor", "floor"),
    ]
    agent = rows[3]
    assert (agent.dataset, agent.m, agent.k, agent.t) == ("cycle", 2, 3, 2)
    assert all(row.mean > 0 for row in rows) and "x floor" in agent.note


@needs("zinc_full")
def test_every_marking_is_timed_beside_the_binary_one():
    rows = markings.bench(CPU, limit=20, repeats=1, tell=quiet)
    assert [row.marking for row in rows] == ["binary", "distance", "directed", "colours"]
    assert all(row.mean > 0 and (row.m, row.k, row.t) == (2, 2, 2) for row in rows)
    assert "1.00 x binary" in rows[0].note and "x binary" in rows[2].note


@needs("zinc_full")
def test_rates_from_packed_graphs():
    rows = run_bench("packed", "cpu", 40, 1000.0, tell=quiet)
    assert [row.dataset for row in rows] == ["predict-packed", "predict-packed-ready"]
    assert all(row.mean > 0 and "40 of ZINC-FULL" in row.note for row in rows)


@needs("zinc12k")
def test_floor_rows():
    rows = floor.bench(CPU, repeats=1, limit=8, tell=quiet)
    assert [row.method for row in rows] == ["mag-gnn", "floor"]
    assert "x the bare matrix products" in rows[0].note


@needs("zinc12k")
def test_train_rows():
    rows = train.bench(CPU, [4], repeats=1, tell=quiet)
    assert [row.dataset for row in rows] == ["zinc-predictor-b4", "zinc-agent-b4", "zinc-simul-b4"]


def test_scaling_rows():
    axes = [Axis("graphs", (1, 2, 3), nodes=6), Axis("num_moves", (0, 1, 2), graphs=2, nodes=6)]
    rows = scaling.bench(CPU, repeats=1, axes=axes, tell=quiet)
    assert [row.metric for row in rows] == ["ms"] * 3 + ["exponent_graphs"] + ["ms"] * 3 + ["exponent_t"]


def test_an_exponent_is_the_slope_of_logarithms():
    sizes = [1.0, 2.0, 5.0, 9.0]
    assert exponent(sizes, [3 * size**1.5 for size in sizes]) == pytest.approx(1.5)


def test_regular_graphs_have_one_degree():
    packed = regular_graphs(3, 20)
    assert packed.in_degree.tolist() == [scaling.DEGREE] * 60 and packed.symmetric


def test_times_are_medians_of_all_functions_in_turn():
    calls = []
    times = side_by_side({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, CPU, repeats=3, warm_up=1)
    assert calls == ["a", "b"] + ["a", "b"] * 3 and set(times) == {"a", "b"}
    assert 2 <= median_ms(lambda: time.sleep(0.002), CPU, repeats=3) < 1000
    assert peak_mb(lambda: None, CPU) is None


@needs("zinc_full", "cycle")
@pytest.mark.parametrize("name", ["zinc_full", "cycle"])
def test_the_pyg_gnn_answers_for_the_same_graphs(name):
    from torch_geometric.data import Batch

    from maggnn.graphs.conversions import to_pyg

    workload = load_workload(name, CPU, limit=5)
    answers = PygGNN(workload).eval()(Batch.from_data_list(to_pyg(workload.graphs)))
    rows = 5 if workload.level == "graph" else len(workload.graphs.in_degree)
    assert answers.shape == (rows, workload.num_outputs)


@needs("zinc_full", "cycle")
@pytest.mark.parametrize("name", ["zinc_full", "cycle"])
def test_pyg_s_i2gnn_reads_the_copies_that_ours_reads(name, monkeypatch):
    from torch_geometric.data import Batch

    monkeypatch.setattr("maggnn_paper.bench.pyg_models.GRAPHS_AT_ONCE", 2)
    workload = load_workload(name, CPU, limit=5)
    batch = Batch.from_data_list(copies_for_pyg(workload))
    graphs = workload.graphs[torch.arange(5)]
    copies = edge_copies(graphs, HOPS)
    assert batch.edge_index.equal(copies.graphs.edge_index) and batch.copy_of_row.equal(copies.copy)
    assert batch.root_rows.equal(copies.root_rows) and batch.v.equal(copies.roots[:, 0])
    assert batch.graph_of_node.equal(copies.base.node_graph) and batch.x[:, -2:].equal(copies.distance)
    rows = 5 if workload.level == "graph" else len(workload.graphs.in_degree)
    assert PygI2GNN(workload).eval()(batch).shape == (rows, workload.num_outputs)


@needs("cycle")
def test_i2gnn_is_timed_with_pyg_s_layers_as_well(monkeypatch):
    monkeypatch.setattr("maggnn_paper.bench.baselines.CHUNK_ON_CPU", 8)
    rows = inference.bench(["cycle"], CPU, limit=12, repeats=1, tell=quiet, methods=["i2gnn"])
    assert [row.method for row in rows[-3:]] == ["i2gnn", "pyg-i2gnn+loader", "pyg-i2gnn+resident"]
    for row in rows[-2:]:
        assert row.mean > 0 and row.note is not None and "batches of 8" in row.note and "x mag-gnn" in row.note


@pytest.mark.parametrize(("name", "limit", "message"), [("flor", None, "floor"), ("scaling", 3, "--limit")])
def test_mistakes_are_named(name, limit, message):
    with pytest.raises(InputError, match=message):
        run_bench(name, "cpu", limit, 1000.0)


@needs("cycle")
def test_baselines_are_timed_beside(monkeypatch):
    monkeypatch.setattr("maggnn_paper.bench.baselines.CHUNK_ON_CPU", 8)
    rows = inference.bench(["cycle"], CPU, limit=12, repeats=1, tell=quiet, methods=["ngnn", "ppgn"])
    assert [row.method for row in rows[-2:]] == ["ngnn", "ppgn"]
    for row in rows[-2:]:
        assert row.mean > 0 and row.note is not None and "x mag-gnn" in row.note and "chunks of 8" in row.note


@needs("cycle")
@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_can_be_timed(name):
    time = time_baseline(load_workload("cycle", CPU, 4), name, 1000.0, lambda: None, repeats=1)
    assert time.ms > 0 and time.from_graphs_ms > 0 and time.chunk == 4 and time.params > 10_000


@needs("cycle")
def test_a_baseline_is_timed_as_it_is_trained():
    workload = load_workload("cycle", CPU, 4)
    drawn = {name: baseline_model(workload, name).predictor.encoder.baseline.copies for name in ("rni", "dropgnn")}
    assert drawn == {"rni": 1, "dropgnn": 10}
    trained = sum(parameter.numel() for parameter in baseline_model(workload, "gine").parameters())
    assert time_baseline(workload, "gine", 1000.0, lambda: None, repeats=1).params == trained
    answering = frozen(baseline_model(workload, "gine"))
    assert sum(parameter.numel() for parameter in answering.parameters()) > trained  # its tables are not counted


@pytest.mark.parametrize(
    ("count", "room", "chunk"), [(5000, 9000, 5000), (5000, 4500, 4096), (5000, 4095, 2048), (100, 3, 8), (5, 3, 5)]
)
def test_a_chunk_is_all_that_fits(count, room, chunk):
    assert largest_chunk(count, lambda size: size <= room) == chunk


def test_wrong_baselines_are_named():
    with pytest.raises(InputError, match="did you mean 'ngnn'"):
        run_bench("inference", "cpu", 1, 1000.0, methods=["ngn"])
    with pytest.raises(InputError, match="leave --methods out"):
        run_bench("floor", "cpu", 1, 1000.0, methods=["ngnn"])
