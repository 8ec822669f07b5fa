"""The tables of molecules in miniature: small packed files in the official layout, real training, a few steps of it."""

import json

import numpy as np
import pytest

from maggnn.errors import InputError
from maggnn.model import pretrained
from maggnn_paper import ledger, recipes
from maggnn_paper.datasets.molecules import QM9_TARGETS
from maggnn_paper.jobs import job as jobs
from maggnn_paper.tables import ablation, baselines, cycles, molecules, moves, pretrained_agents
from maggnn_paper.tables.registry import reproduce_table


def rings(rng, count, columns, top, y, level="graph"):
    """Rings of 3 to 7 nodes with integer features, split in three."""
    sizes = rng.integers(3, 8, count)
    edges = [np.stack([np.arange(n), (np.arange(n) + 1) % n]) for n in sizes]
    total = sizes.sum()
    arrays = {"num_nodes": sizes, "num_edges": sizes, "edge_index": np.concatenate(edges, 1)}
    if columns:
        arrays["x"] = rng.integers(0, top, (total, columns[0]))
        arrays["edge_attr"] = rng.integers(0, 3, (total, columns[1]))
    arrays["y"] = y(total if level == "node" else count)
    parts = np.split(rng.permutation(count), [count // 2, 3 * count // 4])
    return arrays | dict(zip(("train", "val", "test"), parts, strict=True))


@pytest.fixture(autouse=True)
def miniature(tmp_path, monkeypatch):
    monkeypatch.setenv("MAGGNN_COMMIT", "1234567")
    monkeypatch.setenv("MAGGNN_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    sets = {
        "zinc12k": rings(rng, 24, (1, 1), 5, lambda n: rng.normal(size=n).astype(np.float32)),
        "molhiv": rings(rng, 40, (9, 3), 3, lambda n: np.arange(n) % 2),
        "qm9": rings(rng, 40, (7, 2), 4, lambda n: rng.normal(size=(n, 16)).astype(np.float32)),
        "cycle": rings(rng, 24, None, 0, lambda n: rng.integers(0, 4, (n, 4)), level="node"),
        "exp": rings(rng, 40, None, 0, lambda n: np.arange(n) % 2),
    }
    for name, arrays in sets.items():
        np.savez(tmp_path / "data" / f"{name}.npz", **arrays)
    for module in (molecules, pretrained_agents, cycles):
        monkeypatch.setattr(module, "recipe", tiny_recipe)
    monkeypatch.setattr(baselines, "baseline_recipe", tiny_baseline)
    for module in (molecules, cycles, baselines):
        monkeypatch.setattr(module, "TESTS", 3)
    monkeypatch.setattr(molecules, "STARTS", 4)
    monkeypatch.setattr(pretrained_agents, "TESTS", dict.fromkeys(pretrained_agents.RECIPES, 2))


def tiny_recipe(name):
    """The real config with the sizes of a toy."""
    config = recipes.recipe(name)
    every = 2 if config.training.validate_every else 0
    return config.replaced(
        encoder={"num_layers": 2, "hidden": 8, "random_walk": min(config.encoder.random_walk, 3)},
        replay={"capacity": 64, "warmup": 16},
        training={
            "predictor_steps": 4,
            "agent_steps": 4,
            "batch_size": 6,
            "starts_per_graph": 1,
            "agent_batch_size": 2,
            "walkers": 4,
            "validate_every": every,
        },
        runtime={"device": "cpu", "log_every": 2, "checkpoint_every": 2},
    )


def tiny_baseline(task, method):
    """The same of a baseline's config."""
    return recipes.baseline_recipe(task, method).replaced(
        encoder={"num_layers": 2, "hidden": 8},
        training={"predictor_steps": 4, "batch_size": 6, "validate_every": 0},
        runtime={"device": "cpu"},
    )


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """The three agents that travel, trained in a moment; their names mean these files here."""
    folder = tmp_path / "agents"
    rows = pretrained_agents.reproduce(tmp_path / "homes", agents=folder)
    monkeypatch.setattr(pretrained, "_path", lambda name: folder / f"{name}.safetensors")
    return rows


def test_agents_are_saved_with_their_config_and_row(agents, tmp_path):
    assert [row.dataset for row in agents] == [
        name for name in ("cycle3", "cycle6", "sr25", "zinc_rings") for _ in range(3)
    ]
    for name, first in zip(pretrained_agents.RECIPES, agents[::3], strict=True):
        path = tmp_path / "agents" / f"{name}.safetensors"
        assert path.stat().st_size < 3_000_000
        agent = pretrained.pretrained_agent(name)
        assert agent.ledger == json.loads(first.to_json()) and agent.ledger["method"] == "mag-gnn"
        assert agent.config == tiny_recipe(pretrained_agents.RECIPES[name])


@pytest.mark.parametrize(("dataset", "metric"), [("zinc", "mae"), ("molhiv", "auroc")])
def test_molecules(agents, dataset, metric, tmp_path, monkeypatch):
    def reproduce():
        return reproduce_table("molecules", tmp_path / "jobs", 2, 1, [dataset])

    rows = reproduce()
    ledger.append(rows, tmp_path / "ledger.jsonl")
    assert ledger.read(tmp_path / "ledger.jsonl") == rows and len({row.key for row in rows}) == len(rows)
    found = {(row.method, row.keep): row for row in rows}
    marked = ("random-marks", "random-moves", "mag-gnn", "mag-gnn-pre")
    controls = {("random-marks", "mean of 3"), ("central-starts", "last")}
    assert found.keys() == {("gin", None)} | controls | {(name, keep) for name in marked for keep in ("last", "mean")}
    equal_cost = {found["mag-gnn-pre", "last"].passes, found["random-marks", "mean of 3"].passes}
    assert equal_cost == {6} and found["central-starts", "last"].passes == 2
    for (method, keep), row in found.items():
        assert (row.table, row.dataset, row.metric, row.runs) == ("molecules", dataset, metric, 2)
        assert row.std is not None and row.config == f"configs/{dataset}.toml"
        assert row.tests_per_run == (1 if keep in (None, "mean") or method == "central-starts" else 3)
        assert row.t == {"gin": None, "random-marks": 0, "central-starts": 0}.get(method, 2)
        if method in ("mag-gnn", "mag-gnn-pre") and keep == "last":
            assert row.note.count("(2 run(s), no test)") == 4
            assert "the mean of 3 random starts, as many passes" in row.note and "most central nodes" in row.note

    def no_training(*args, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr(jobs, "train", no_training)
    assert reproduce() == rows


def test_transfer(agents, tmp_path):
    rows = reproduce_table("transfer", tmp_path / "jobs", 1, 1, ["zinc"])
    assert [row.dataset for row in rows if row.keep == "last"] == ["zinc", "cycle3>zinc", "cycle6>zinc", "sr25>zinc"]
    assert {row.method for row in rows} == {"mag-gnn", "mag-gnn-pre"}


@pytest.mark.parametrize(
    ("table", "dataset", "method", "settings"),
    [
        ("synthetic", "sr25", "ppgn", ["sr25.toml", "ppgn.toml"]),
        ("synthetic", "exp", "rni", ["exp.toml", "rni.toml", "exp_rni.toml"]),
        ("cycles", "cycle3", "ngnn", ["cycle.toml, hops 1", "ngnn.toml"]),
        ("cycles", "cycle6", "gsn", ["cycle.toml, hops 3", "gsn.toml"]),
        ("molecules", "zinc", "cin", ["zinc.toml", "cin.toml"]),
    ],
)
def test_baselines(table, dataset, method, settings, tmp_path):
    (row,) = reproduce_table(table, tmp_path / "jobs", 1, 1, [dataset], [method])
    files = " + ".join(f"paper/configs/baselines/{name}" for name in settings)
    assert (row.table, row.dataset, row.method, row.config) == (table, dataset, method, files)
    assert (row.runs, row.tests_per_run) == (1, 3 if method == "rni" else 1)  # only what draws has to be tested again
    assert (row.m, row.k, row.t, row.keep) == (None, None, None, None)


def test_baselines_run_on_the_molecules_that_they_have_settings_for(tmp_path):
    rows = reproduce_table("molecules", tmp_path / "jobs", None, 1, [], ["ngnn", "gine"])
    assert [(row.dataset, row.method) for row in rows] == [("zinc", "ngnn"), ("zinc", "gine")]


def test_baselines_stand_beside_other_methods(tmp_path):
    rows = reproduce_table("molecules", tmp_path / "jobs", 1, 1, ["zinc"], ["ngnn", "gin"])
    assert [row.method for row in rows] == ["gin", "ngnn"]


@pytest.mark.parametrize(("table", "datasets"), [("molecules", ["zinc", "molhiv"]), ("cycles", ["cycle3_nodes"])])
def test_baselines_without_settings_are_refused_before_anything_is_trained(table, datasets, tmp_path):
    with pytest.raises(InputError, match=f"no settings for {datasets[-1]}"):
        reproduce_table(table, tmp_path / "jobs", 1, 1, datasets, ["gin", "ngnn"])
    assert not (tmp_path / "jobs").exists()


def test_qm9(tmp_path):
    rows = reproduce_table("qm9", tmp_path / "jobs", 1, 1, ["qm9"], ["gin", "random-marks"])
    jointly = [f"qm9_{target}" for target in QM9_TARGETS if target != "r2"]
    controls = ["random-marks", "random-marks", "random-moves"]
    assert [row.method for row in rows] == [*["gin"] * 11, *controls * 11, "gin", *controls]
    assert [row.dataset for row in rows] == [*jointly, *(name for name in jointly for _ in controls), *["qm9_r2"] * 4]
    means = [row for row in rows if row.keep and row.keep.startswith("mean of ")]
    assert [row.dataset for row in means] == [*jointly, "qm9_r2"]
    assert all(row.mean and row.passes and row.passes > 1 for row in means)
    assert {row.dataset for row in rows if row.note and "alone" in row.note} == {"qm9_r2"}
    (result,) = jobs.run_jobs(molecules.method_jobs("qm9", "gin", 1), tmp_path / "jobs", 1)
    errors = dict(zip(QM9_TARGETS, result["errors"]["gin"][0][0], strict=True))
    del errors["r2"]
    assert [row.mean for row in rows[:11]] == pytest.approx(list(errors.values()), rel=1e-3)


def test_directed_rows_keep_the_names_of_their_data(monkeypatch):
    for module in (molecules, cycles):
        monkeypatch.setattr(module, "recipe", recipes.recipe)  # the shipped ones
    for dataset, name in (("qm9_directed", "qm9"), ("qm9_r2_directed", "qm9_r2"), ("zinc_directed_walks", "zinc")):
        (job,) = molecules.method_jobs(dataset, "mag-gnn-pre", 1)
        assert (job.config.data.name, job.config.encoder.marking) == (name, "directed")
        assert job.config.agent.pretrained == "rings"
    for length in (3, 4, 5, 6):
        (job,) = cycles.agent_jobs(f"cycle{length}_directed", 1)
        assert (job.recipe, job.config.data.name) == ("cycle6_directed", f"cycle{length}")
        assert (job.config.agent.num_tuples, job.config.encoder.marking) == (4, "directed")


def with_phenalene(arrays, graph):
    """Append three hexagons around one atom to the graphs, in the place of one of the test split."""
    around = [(1 + i, 1 + (i + 1) % 12) for i in range(12)]
    edges = np.array([*around, (0, 1), (0, 5), (0, 9)]).T
    more = {"num_nodes": [13], "num_edges": [15], "edge_index": edges, "y": [0.5]}
    more |= {"x": np.zeros((13, 1), int), "edge_attr": np.zeros((15, 1), int)}
    joined = {name: np.concatenate([arrays[name], values], axis=-1 if name == "edge_index" else 0)
              for name, values in more.items()}  # fmt: skip
    test = np.where(arrays["test"] == graph, len(arrays["num_nodes"]), arrays["test"])
    return arrays | joined | {"test": test, "train": np.append(arrays["train"], graph)}


def test_kept_models_are_tested_without_undetermined_targets(tmp_path):
    """Of the six test molecules, one has a target that depends on the order of its atoms."""
    path = tmp_path / "data" / "zinc12k.npz"
    arrays = dict(np.load(path))
    np.savez(path, **with_phenalene(arrays, arrays["test"][0]))
    folder = tmp_path / "jobs"
    with pytest.raises(InputError, match="has no model of random-marks"):
        reproduce_table("ring_targets", folder, 1, 1, ["zinc_directed"], ["random-marks"])
    (whole, *_) = reproduce_table("molecules", folder, 1, 1, ["zinc_directed"], ["random-marks"])
    (row,) = reproduce_table("ring_targets", folder, 1, 1, ["zinc_directed"], ["random-marks"])
    assert (row.dataset, row.method, row.marking, row.passes) == ("zinc:determined", "random-marks", "directed", 2)
    assert row.mean != whole.mean and row.train_s is None
    assert row.note is not None and row.note.startswith("5 of 6 test molecules; on the others, whose target depends")


def test_replay_beside_lookahead(monkeypatch):
    monkeypatch.setattr(molecules, "recipe", recipes.recipe)  # the shipped ones
    for dataset in molecules.DATASETS:
        training = molecules.method_config(dataset, "mag-gnn-dqn").training
        assert (training.paradigm, training.target) == ("simul", "dqn")
        assert training.agent_steps // training.sync_every == molecules.SYNCS  # the target network does learn


def test_moves_on_molecules(tmp_path, monkeypatch):
    monkeypatch.setattr(moves, "recipe", tiny_recipe)
    monkeypatch.setattr(moves, "MOLECULE_TESTS", 2)
    rows = reproduce_table("moves", tmp_path / "jobs", 2, 1, ["zinc_features"])
    assert {(row.dataset, row.metric, row.keep, row.config) for row in rows} == {
        ("zinc_features", "mae", "last", "configs/zinc_features.toml")
    }
    assert [(row.method, row.t) for row in rows] == [
        (name, t) for name in ("mag-gnn", "random-moves") for t in range(5)
    ]
    assert rows[0].mean == rows[5].mean  # no move, no difference
    assert reproduce_table("moves", tmp_path / "jobs", 2, 1, ["zinc_features"], ["mag-gnn-dqn"]) == []


def test_ablation_is_judged_on_the_validation_part(tmp_path):
    job = ablation.jobs("zinc", 1, ["no dropout"])[0]
    (result,) = jobs.run_jobs([job], tmp_path, 1)
    arrays = np.load(tmp_path / "data" / "zinc12k.npz")
    assert job.part == "val" and len(arrays["val"]) == len(arrays["test"])
    assert result["best_validation"] == pytest.approx(result["scores"]["random-moves"]["last"][0][0], rel=0.2)


def test_variants_of_the_ablation_are_valid_and_differ(monkeypatch):
    monkeypatch.setattr(molecules, "recipe", recipes.recipe)  # as they are run, not in miniature
    for dataset, variants in ablation.VARIANTS.items():
        assert len({variant.name for variant in ablation.jobs(dataset, 1)}) == len(variants)


def test_mistakes_are_named(tmp_path):
    with pytest.raises(InputError, match="no row 'exp'"):
        reproduce_table("molecules", tmp_path, None, 1, ["exp"])
    with pytest.raises(InputError, match="cannot run 'ppgn'"):
        reproduce_table("transfer", tmp_path, None, 1, [], ["ppgn"])
    with pytest.raises(InputError, match=r"zinc_full\.npz"):
        reproduce_table("molecules", tmp_path, 1, 1, ["zinc_full"], ["gin"])


@pytest.mark.parametrize("dataset", ["cycle3", "cycle5_nodes", "cycle6_neighbours", "cycle4_edges"])
def test_cycles_of_nodes_and_edges(dataset, tmp_path):
    table = "edges" if "edges" in dataset else "cycles"
    rows = reproduce_table(table, tmp_path / "jobs", 2, 1, [dataset])
    assert [(row.method, row.t) for row in rows] == [
        ("gin", None),
        ("random-marks", 0),
        ("random-moves", 2),
        ("mag-gnn", 2),
    ]
    assert {(row.table, row.dataset, row.metric, row.runs) for row in rows} == {(table, dataset, "mae", 2)}
    assert rows[-1].note.startswith("against random moves ")
    assert ("chosen on the validation part" in rows[-1].note) == (dataset == "cycle6_neighbours")


def test_credit_compares_rewards_at_one_budget(tmp_path, monkeypatch):
    rows = reproduce_table("credit", tmp_path / "jobs", 1, 1, [])
    assert [(row.table, row.dataset, row.method) for row in rows] == [
        ("cycles", f"{dataset}:one_budget", method)
        for dataset in ("cycle6", "cycle6_nodes")
        for method in ("random-marks", "random-moves", "mag-gnn")
    ]
    monkeypatch.setattr(cycles, "recipe", recipes.recipe)
    averaged, own = (jobs[0].config for jobs in cycles.credit_jobs(1).values())
    copies = [config.agent.num_tuples * config.training.batch_size for config in (averaged, own)]
    assert copies[0] == pytest.approx(copies[1], rel=0.05)
    assert averaged.training.predictor_steps == own.training.predictor_steps
    assert averaged.encoder == own.encoder
