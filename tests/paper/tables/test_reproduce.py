"""Every table and figure, reproduced in miniature: real data, real training, a few steps of it."""

import dataclasses

import pytest
import torch

from maggnn.config import packaged_folder
from maggnn.errors import InputError
from maggnn.model import saving as checkpoint
from maggnn_paper import ledger, recipes
from maggnn_paper.figures.passes import draw_passes
from maggnn_paper.jobs import job as jobs
from maggnn_paper.report import results
from maggnn_paper.tables import demo, motivation, moves, passes, synthetic, theorem2, training_time
from maggnn_paper.tables.registry import TABLES, reproduce_table

AGENTS = {"mag-gnn", *moves.VARIANTS}


def tiny_recipe(name):
    """The real config with the sizes of a toy."""
    return recipes.recipe(name).replaced(
        encoder={"num_layers": 2, "hidden": 8},
        replay={"capacity": 50, "warmup": 20},
        training={
            "predictor_steps": 2,
            "agent_steps": 2,
            "batch_size": 6,
            "starts_per_graph": 2,
            "agent_batch_size": 4,
            "walkers": 4,
        },
        runtime={"device": "cpu"},
    )


@pytest.fixture(autouse=True)
def miniature(monkeypatch):
    monkeypatch.setenv("MAGGNN_COMMIT", "1234567")
    for module in (synthetic, moves, passes, theorem2, training_time, demo):
        monkeypatch.setattr(module, "recipe", tiny_recipe)
    for module in (synthetic, passes, training_time):
        monkeypatch.setattr(module, "TESTS", {"csl": 2, "sr25": 4})
    monkeypatch.setattr(theorem2, "TESTS", 2)
    monkeypatch.setattr(theorem2, "LONGEST_WALK", 12)


def check_rows(rows, tmp_path):
    """Keys are unique, the ledger takes them, and no agent stands without random moves beside it."""
    assert rows and len({row.key for row in rows}) == len(rows)
    ledger.append(rows, tmp_path / "ledger.jsonl")
    assert ledger.read(tmp_path / "ledger.jsonl") == rows

    def place(row):
        return (row.table, row.dataset, row.metric, row.m, row.k, row.t, row.keep)

    controls = {place(row): row for row in rows if row.method == "random-moves"}
    for row in rows:
        assert row.mean is not None and row.commit == "1234567"
        assert row.config is not None and (packaged_folder().parent / row.config).is_file()
        if row.method in AGENTS and row.metric != "ms":
            assert (controls[place(row)].runs, controls[place(row)].tests_per_run) == (row.runs, row.tests_per_run)


def repeated(monkeypatch, reproduce):
    """The same call once more, which must not train."""

    def no_training(*args, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr(jobs, "train", no_training)
    return reproduce()


@pytest.mark.parametrize(("dataset", "runs", "folds"), [("sr25", 2, 1), ("csl", 1, 10)])
def test_synthetic(dataset, runs, folds, tmp_path, monkeypatch):
    def reproduce():
        return synthetic.reproduce(tmp_path / "jobs", runs, datasets=[dataset])

    assert len(synthetic.agent_jobs(dataset, runs)) == runs * folds
    rows = reproduce()
    check_rows(rows, tmp_path)
    measured = [(row.method, row.t, row.keep) for row in rows]
    last, sure = ([(name, 4, keep) for name in ("random-moves", "mag-gnn")] for keep in ("last", "confident"))
    assert measured == [("gin", None, None), ("random-marks", 0, "last"), *last, *sure]
    assert {row.runs for row in rows} == {runs} and {row.table for row in rows} == {"synthetic"}
    (many,) = synthetic.reproduce(tmp_path / "jobs", runs, datasets=[dataset], methods=["random-marks"])
    assert (many.method, many.m, many.t) == ("random-marks", synthetic.MANY_TUPLES[dataset], 0)
    assert repeated(monkeypatch, reproduce) == rows
    only = synthetic.reproduce(tmp_path / "jobs", runs, datasets=[dataset], methods=["gin"])
    assert [row.method for row in only] == ["gin"]


def test_folds_of_a_run_are_dealt_by_its_seed():
    todo = synthetic.agent_jobs("csl", 2)
    dealt = {(job.config.runtime.seed, job.config.data.split_seed, job.config.data.fold) for job in todo}
    assert dealt == {(run, run, fold) for run in range(2) for fold in range(10)}
    for job, plain in zip(todo, synthetic.gin_jobs("csl", 2), strict=True):
        assert plain.config.data == job.config.data and plain.config.encoder == job.config.encoder
        assert plain.config.training.predictor_steps == job.config.training.predictor_steps
        assert (plain.config.agent.tuple_order, plain.config.training.agent_steps) == (0, 0)


def test_moves(tmp_path, monkeypatch):
    rows = moves.reproduce(tmp_path / "jobs", runs=2)
    check_rows(rows, tmp_path)
    for method in ("mag-gnn", "random-moves", *moves.VARIANTS):
        own = [(row.t, row.keep) for row in rows if row.method == method]
        assert own == [(t, keep) for keep in ("last", "confident") for t in range(synthetic.MAX_MOVES + 1)]
    agent = [row for row in rows if row.method in AGENTS]
    assert all((row.note is None) == (row.t == 0) for row in agent)
    assert all(row.note.startswith("against random moves ") for row in agent if row.t)
    # No move, no difference: the same starts, whoever is about to move and however its target is learned.
    assert len({row.mean for row in rows if row.t == 0}) == 1
    assert repeated(monkeypatch, lambda: moves.reproduce(tmp_path / "jobs", runs=2)) == rows


@pytest.mark.parametrize("name", moves.VARIANTS.values())
def test_variants_are_what_their_config_says(name, monkeypatch):
    """A row names its config file: apart from seed and fold that file must be what was run."""
    monkeypatch.setattr(synthetic, "recipe", recipes.recipe)
    monkeypatch.setattr(moves, "recipe", recipes.recipe)
    for run, job in enumerate(moves.variant_jobs(name, 2)):
        assert job.config == recipes.recipe(name).replaced(data={"split_seed": run}, runtime={"seed": run})
        assert job.recipe == name and job.predictor_of is not None and job.predictor_of.keep_model
        assert job.predictor_of == synthetic.agent_jobs("sr25", 2)[run]


def test_passes(tmp_path, monkeypatch):
    """Rows stand beside their controls at equal passes, and a mean of one start is the start itself."""
    monkeypatch.setattr(passes, "MOST_PASSES", 3)
    monkeypatch.setattr(passes, "MANY_TUPLES", (2,))
    rows = passes.reproduce(tmp_path / "jobs", runs=2, datasets=["sr25"])
    assert len({row.key for row in rows}) == len(rows)
    measured = [(row.passes, row.method, row.m, row.t, row.keep) for row in rows]
    first = [(1, "mag-gnn", 1, 0, "last"), (1, "random-moves", 1, 0, "confident")]
    assert measured[:2] == first and rows[0].mean == rows[1].mean
    second = [("mag-gnn", 1, 1, "last"), ("random-moves", 1, 1, "confident"), ("random-marks", 1, 0, "mean of 2")]
    assert measured[2:6] == [(2, *row) for row in (*second, ("random-marks", 2, 0, "last"))]
    assert measured[6:] == [
        (3, "mag-gnn", 1, 2, "last"), (3, "random-moves", 1, 2, "confident"), (3, "random-marks", 1, 0, "mean of 3")
    ]  # fmt: skip
    assert [row.note is not None for row in rows if row.method == "mag-gnn"] == [False, True, True]
    assert repeated(monkeypatch, lambda: passes.reproduce(tmp_path / "jobs", runs=2, datasets=["sr25"])) == rows
    one_tuple = passes.reproduce(tmp_path / "jobs", runs=2, datasets=["sr25"], methods=["mag-gnn"])
    assert [(row.key, row.mean) for row in one_tuple] == [(row.key, row.mean) for row in rows if row.m == 1]
    draw_passes(rows, tmp_path / "passes.png")
    assert (tmp_path / "passes.png").read_bytes().startswith(b"\x89PNG")
    page = results.render_pages(rows)["passes.md"]
    assert "Accuracy at equal cost" in page and "| 3 |" in page


def test_theorem2(tmp_path, monkeypatch):
    def reproduce():
        return theorem2.reproduce(tmp_path / "jobs", runs=2, sizes=[2])

    rows = reproduce()
    check_rows(rows, tmp_path)
    measured = {(row.method, row.metric, row.t) for row in rows}
    both = ("random-moves", "mag-gnn")
    expected = {(name, "accuracy", t) for name in both for t in range(theorem2.MAX_MOVES + 1)}
    assert measured == expected | {(name, "moves", None) for name in both}
    assert {row.dataset for row in rows} == {"supergraph2"} and {row.runs for row in rows} == {2}
    assert all("4n - 1 = 7" in row.note for row in rows if row.metric == "moves")
    assert repeated(monkeypatch, reproduce) == rows


def test_moves_needed_equals_a_loop_over_walks(tmp_path):
    """Random walks, followed move by move until the marks lie on opposite blocks."""
    (job,) = theorem2.jobs(2, 1)
    jobs.run_jobs([job], tmp_path, workers=1)
    model, config = checkpoint.load_model(tmp_path / job.name / "model.safetensors")
    dataset = theorem2.registry.load(config.data.name)
    ids = dataset.split(config.data.split_seed, config.data.fold).test.repeat(2)
    generator = torch.Generator().manual_seed(theorem2.TEST_SEED + config.runtime.seed)
    states = model.walk(dataset.graphs[ids], num_moves=12, epsilon=1.0, generator=generator)
    needed = []
    for graph in range(len(ids)):
        num_blocks = int(dataset.graphs.num_nodes[ids[graph]]) // theorem2.BLOCK_NODES
        assert num_blocks == 4 * 2
        for t, state in enumerate(states):
            first, second = (node // theorem2.BLOCK_NODES for node in state.tuples[graph, 0].tolist())
            if abs(first - second) == num_blocks // 2:
                needed.append(t)
                break
        else:
            needed.append(12)
    assert len(set(needed)) > 2
    measured = theorem2.moves_needed(job, "random-moves", tmp_path)
    assert float(measured) == pytest.approx(sum(needed) / len(needed))


def test_walks_that_never_get_there_cost_everyone_the_same(tmp_path, monkeypatch):
    (job,) = theorem2.jobs(2, 1)
    jobs.run_jobs([job], tmp_path, workers=1)
    monkeypatch.setattr(theorem2, "opposite", lambda state: torch.zeros(state.graphs.num_graphs, dtype=torch.bool))
    costs = {float(theorem2.moves_needed(job, method, tmp_path)) for method in ("mag-gnn", "random-moves")}
    assert costs == {12.0}


def test_motivation(tmp_path, monkeypatch):
    rows = motivation.reproduce(tmp_path / "jobs", runs=2)
    check_rows(rows, tmp_path)
    assert [(row.method, row.metric, row.t) for row in rows] == [
        ("random-marks", "accuracy", 0),
        ("random-marks", "score", 0),
    ]
    assert 0 < rows[1].mean <= 1 and "worst run" in rows[1].note
    assert repeated(monkeypatch, lambda: motivation.reproduce(tmp_path / "jobs", runs=2)) == rows
    # The table of moves shares the trainings.
    assert {row.method for row in moves.reproduce(tmp_path / "jobs", runs=2, methods=["mag-gnn"])} >= {"random-moves"}


def test_training_time(tmp_path):
    rows = training_time.reproduce(tmp_path / "jobs")
    check_rows(rows, tmp_path)
    (row,) = rows
    assert (row.table, row.metric, row.runs) == ("bench_train", "ms", 1)
    assert row.mean == pytest.approx(1000 * row.train_s, abs=1.0)
    assert "predictor" in row.note and "agent" in row.note and "accuracy after 4 moves" in row.note


def test_demo(tmp_path, monkeypatch):
    scores = {"super graphs": {"GIN": 50.0, "MAG-GNN, t = 2": 100.0}}
    monkeypatch.setattr(demo, "run_demo", lambda folder: {"accuracy": scores, "seconds": 1.5})
    monkeypatch.setattr(demo, "TESTS", 2)
    time, *rows = reproduce_table("demo", tmp_path / "jobs", 2, 1, ["time", "demo_supergraph1"])
    assert (time.table, time.dataset, time.mean) == ("bench_train", "demo", 1500.0)
    assert "super graphs: GIN 50.0, MAG-GNN, t = 2 100.0" in time.note
    check_rows(rows, tmp_path)
    assert {(row.table, row.dataset, row.runs, row.tests_per_run) for row in rows} == {("demo", "supergraph1", 2, 2)}
    assert [(row.method, row.t) for row in rows] == [
        (name, t) for t in range(3) for name in ("random-moves", "mag-gnn")
    ]
    assert all(row.note.startswith("least of 2 runs: ") for row in rows)


def test_tables_by_name(tmp_path):
    assert {row.dataset for row in reproduce_table("theorem2", tmp_path, 1, 1, ["supergraph2"])} == {"supergraph2"}
    for table, rows, message in (
        ("sinthetic", [], "did you mean 'synthetic'"),
        ("synthetic", ["sr26"], "no row 'sr26': there are exp, csl, sr25"),
        ("moves", ["csl"], "no row 'csl': there are sr25, zinc_features"),
        ("motivation", ["sr25"], "a single row"),
    ):
        with pytest.raises(InputError, match=message):
            reproduce_table(table, tmp_path, 1, 1, rows)
    papers = {"synthetic", "moves", "theorem2", "motivation", "cycles", "molecules", "qm9", "transfer"}
    assert TABLES.keys() >= papers | {"edges", "ablation", "agents", "training_time", "demo"}


def test_rows_are_plain_facts(tmp_path):
    for row in training_time.reproduce(tmp_path):
        assert dataclasses.asdict(row)["config"] == "configs/sr25.toml"
