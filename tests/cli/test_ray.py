"""`maggnn predict --ray` on a real local Ray: the values of plain predict, faults, restarts, mistakes in one line."""

import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs Ray: pip install 'maggnn[ray]'")
pytest.importorskip("psutil")

from pyarrow import concat_tables, parquet

from actors_of_ray import actors
from maggnn import config as configs
from maggnn.apps.fit.fitting import fit_table
from maggnn.apps.fit.predicting import ROWS, predict_table
from maggnn.apps.scale.screening import screen
from maggnn.apps.scale.selection import Selection
from maggnn.config import Config

SMALL = Config().replaced(
    encoder={"conv": "gine", "num_layers": 1, "hidden": 8, "random_walk": 2},
    agent={"num_tuples": 1, "tuple_order": 2, "num_moves": 1, "start": "central"},
    training={"predictor_steps": 8, "agent_steps": 0, "batch_size": 8, "validate_every": 4},
)
FILES, ROWS_A_FILE = 8, 700
LONGEST_S = 150.0


def molecule(rng: random.Random) -> str:
    return "".join(rng.choice("CCCO") for _ in range(rng.randint(3, 8))) + rng.choice(["", "", "c1ccccc1"])


def rows(count: int, seed: int) -> Iterator[str]:
    """Rows of a table, some of which cannot be used or run over two lines."""
    rng = random.Random(seed)
    odd = {100: "{},C(,bad", 250: "{},CC", 390: '{},CCO,"two\nlines"', 480: "{},,", 555: "{},[U],unseen"}
    for number in range(count):
        yield odd.get(number % 600, "{},%s,é" % molecule(rng)).format(number)  # noqa: UP031 (braces stay)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a table of several shards, and a folder of tables."""
    folder = tmp_path_factory.mktemp("ray")
    rng = random.Random(0)
    mine = [f"{smiles},{smiles.count('O')}.5" for smiles in (molecule(rng) for _ in range(60))]
    (folder / "mine.csv").write_text("\n".join(["smiles,y", *mine]) + "\n")
    (folder / "small.toml").write_text(configs.to_toml(SMALL))
    fit_table(folder / "mine.csv", "smiles", ["y"], folder / "model", "auto", "random", 0, 8, 1, False,
              folder / "small.toml", 1)  # fmt: skip
    (folder / "tables").mkdir()
    for number in range(FILES):
        count = ROWS_A_FILE if number else 2 * ROWS + 77  # the first has several chunks
        text = "\n".join(["id,smiles,note", *rows(count, 10 + number)]) + "\n"
        (folder / "tables" / f"t{number}.csv").write_text(text)
    return folder


def shards(out: Path) -> dict[str, bytes]:
    """All files of a run that outlast it."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def finished(out: Path) -> list[Path]:
    """The shards that are complete; while one is being written, its name begins with a dot."""
    return list((out / "shards").glob("[!.]*.parquet"))


def joined(out: Path) -> Any:
    return concat_tables([parquet.read_table(path) for path in sorted((out / "shards").iterdir())]) \
        .replace_schema_metadata(None)  # fmt: skip


@pytest.fixture(scope="module")
def screened(folder: Path, cluster: str) -> Path:
    """The folder of tables, where nothing goes wrong."""
    screen(folder / "model", str(folder / "tables"), str(folder / "screened"), cluster, workers=1)
    return folder / "screened"


@pytest.fixture(scope="module")
def expected(screened: Path) -> dict[str, bytes]:
    return without_name(shards(screened))


def without_name(found: dict[str, bytes]) -> dict[str, bytes]:
    """But for the name of the folder."""
    summary = json.loads(found.pop("summary.json"))
    del summary["out"]
    return found | {"summary": json.dumps(summary).encode()}


@pytest.fixture(scope="module")
def plain(folder: Path) -> Any:
    """What `maggnn predict` without Ray says of each table."""
    return concat_tables([plain_answers(folder, folder / "tables" / f"t{number}.csv") for number in range(FILES)])


def plain_answers(folder: Path, table: Path) -> Any:
    out = folder / f"{table.stem}.parquet"
    predict_table(folder / "model", table, out, workers=1)
    return parquet.read_table(out)


def test_values_are_those_of_plain_predict_and_counts_add_up(screened, plain):
    assert joined(screened).equals(plain)
    summary = json.loads((screened / "summary.json").read_text())
    assert summary["rows"] == plain.num_rows == summary["kept"] and summary["shards"] == FILES
    assert summary["without"] == plain.column("predicted_y").null_count == sum(summary["reasons"].values()) > 0
    assert summary["predicted"] + summary["without"] == summary["rows"]
    ragged = sum("cells where" in (reason or "") for reason in plain.column("reason").to_pylist())
    assert summary["reasons"]["line N has N cells where the header has N"] == ragged > 0


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("faults", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_workers_that_are_killed_lose_and_double_nothing(folder, cluster, plain, tmp_path, faults):
    """With a selection: the best rows of all shards are those of sorting all rows at once."""
    selection = Selection("predicted_y", top=50, below=float(plain.column("predicted_y")[7].as_py()))
    usable = [row for row in plain.to_pylist() if row["predicted_y"] is not None]
    usable = [row for row in usable if row["predicted_y"] < selection.below]
    expected = sorted(usable, key=lambda row: -row["predicted_y"])[:50]  # stable: equal ones in their order
    rng, killed, ends = random.Random(faults), 0, threading.Event()

    def kill() -> None:
        nonlocal killed
        while killed < faults and not ends.wait(rng.uniform(0.1, 0.6)):
            found = actors("MapWorker")
            if found:
                os.kill(rng.choice(found).pid, signal.SIGKILL)
                killed += 1

    while killed < faults:  # a run may end before all of them are dead
        out = tmp_path / f"out{killed}"
        ends.clear()
        killer = threading.Thread(target=kill)
        killer.start()
        result = screen(folder / "model", str(folder / "tables"), str(out), cluster, workers=1, selection=selection)
        ends.set()
        killer.join()
        assert parquet.read_table(out / "top.parquet").to_pylist() == expected
        assert result["kept"] == len(expected) == 50 and result["rows"] == plain.num_rows
        assert max(parquet.read_metadata(path).num_rows for path in (out / "shards").iterdir()) <= 50


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_driver_that_is_killed_goes_on(folder, cluster, expected, start_command, tmp_path, kills):
    command = ["predict", "model", "tables", "-o", tmp_path / "out", "--workers", 1, "--ray", cluster]
    for number in range(kills):
        with start_command("maggnn", *command, cwd=folder) as process:
            end = time.monotonic() + LONGEST_S
            while process.poll() is None and time.monotonic() < end:
                if len(finished(tmp_path / "out")) > min(number, FILES - 2):
                    process.kill()
                time.sleep(0.01)
            process.kill()
    result = screen(folder / "model", str(folder / "tables"), str(tmp_path / "out"), cluster, workers=1)
    assert result["found"] >= 1 and without_name(shards(tmp_path / "out")) == expected


@pytest.mark.slow
def test_shards_of_one_table_are_recognised_and_damaged_ones_made_again(folder, cluster, tmp_path):
    (tmp_path / "long.csv").write_text("\n".join(["id,smiles,note", *rows(4 * ROWS + 77, 1)]) + "\n")
    out = tmp_path / "out"
    again = partial(screen, folder / "model", str(tmp_path / "long.csv"), str(out), cluster, chunks=1)
    again()
    before = shards(out)
    assert joined(out).equals(plain_answers(folder, tmp_path / "long.csv"))
    (out / "shards" / "long.csv-000001.parquet").unlink()
    cut = out / "shards" / "long.csv-000003.parquet"
    cut.write_bytes(cut.read_bytes()[:-20])
    (out / "shards" / "gone.csv-000000.parquet").write_bytes(b"of a table that is no longer there")
    assert again()["found"] == 3 and shards(out) == before


@pytest.mark.slow
def test_a_shard_that_cannot_be_written_ends_in_one_line(folder, cluster, expected, call_command, tmp_path):
    (tmp_path / "out" / "shards" / "t3.csv-000000.parquet").mkdir(parents=True)
    (tmp_path / "out" / "run.json").write_bytes(expected["run.json"])
    ended = call_command("maggnn", "predict", "model", "tables", "-o", tmp_path / "out", "--ray", cluster, cwd=folder)
    assert ended.code == 2 and "t3.csv-000000.parquet: cannot be written" in ended.err.splitlines()[-1]
    assert not (tmp_path / "out" / "summary.json").exists()
    (tmp_path / "out" / "shards" / "t3.csv-000000.parquet").rmdir()
    screen(folder / "model", str(folder / "tables"), str(tmp_path / "out"), cluster)
    assert without_name(shards(tmp_path / "out")) == expected


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_node_that_goes_takes_nothing_with_it(folder, expected, run_command, tmp_path):
    """In a process of its own, which simulates a cluster of two nodes and takes one away while shards are answered."""
    done = run_command("python", "-c", NODE_REMOVED, str(folder), str(tmp_path / "out"), "1", cwd=tmp_path)
    assert done.code == 0, done.err
    assert without_name(shards(tmp_path / "out")) == expected


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_that_loses_most_of_its_nodes_ends_in_one_line(folder, expected, run_command, cluster, tmp_path):
    """Three of four nodes go: no wait without end, exit code 2, and the finished shards are used by the next run."""
    done = run_command("python", "-c", NODE_REMOVED, str(folder), str(tmp_path / "out"), "3", cwd=tmp_path)
    assert done.code == 2 and "the cluster has lost nodes: 1 CPUs" in done.err, done.err
    result = screen(folder / "model", str(folder / "tables"), str(tmp_path / "out"), cluster, workers=1)
    assert result["found"] >= 1 and without_name(shards(tmp_path / "out")) == expected


NODE_REMOVED = """
import os, sys, threading, time
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
from pathlib import Path
from ray.cluster_utils import Cluster
from maggnn.apps.scale import cluster as clusters
from maggnn.apps.scale.screening import screen
from maggnn.errors import InputError

folder, out, gone = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
clusters.while_it_fits.__defaults__ = (None, 5.0, 0.5)  # not a minute
limits = {"num_cpus": 1, "object_store_memory": 100_000_000}
cluster = Cluster(initialize_head=True, head_node_args={**limits, "include_dashboard": False})
others = [cluster.add_node(**limits) for _ in range(gone)]
cluster.wait_for_nodes()

def remove():
    while len(list((out / "shards").glob("*.parquet"))) < 2:
        time.sleep(0.01)
    for other in others:
        cluster.remove_node(other, allow_graceful=False)

threading.Thread(target=remove, daemon=True).start()
try:
    result = screen(folder / "model", str(folder / "tables"), str(out), cluster.address)
    assert result["shards"] == 8
except InputError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
finally:
    cluster.shutdown()
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_study_on_ray_goes_on_and_leaves_what_a_plain_one_does(folder, cluster, tmp_path):
    """Two trials, then two more: the first is the config to start from, and the best is of a whole trial."""
    from maggnn.apps.tune.problem import table_problem
    from maggnn.apps.tune.study import tune

    problem = table_problem(folder / "mine.csv", "smiles", ["y"], "regression", "random", 0, 16, 1)
    said: list[str] = []
    assert sum(tune(problem, tmp_path / "study", 2, tell=said.append, ray=cluster)["trials"].values()) == 2
    result = tune(problem, tmp_path / "study", 4, tell=said.append, ray=cluster)
    assert sum(result["trials"].values()) == 4 and result["trials"]["complete"] >= 1 and not result["trials"]["fail"]
    assert result["start"] is not None and result["best"] <= result["start"]
    assert configs.load(tmp_path / "study" / "best.toml").training.predictor_steps == 16
    assert len((tmp_path / "study" / "trials.csv").read_text().splitlines()) == 5
    assert sum("mae" in line or "pruned" in line for line in said) == 4
    plain = tune(problem, tmp_path / "study", 5)  # a plain study goes on with the same trials
    assert sum(plain["trials"].values()) == 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_jobs_of_a_reproduction_run_on_ray_and_are_kept(cluster, tmp_path, monkeypatch):
    from maggnn_paper.jobs.job import Job, run_jobs
    from maggnn_paper.jobs.side_by_side import on_ray

    monkeypatch.setenv("MAGGNN_COMMIT", "1234567")
    config = SMALL.replaced(
        data={"name": "csl8"}, encoder={"conv": "gin"}, agent={"start": "random"}, runtime={"device": "cpu"}
    )
    jobs = [Job("csl8", config.replaced(runtime={"seed": seed}), max_moves=1, tests=2) for seed in range(3)]
    with on_ray(cluster):
        found = run_jobs(jobs, tmp_path / "ray", workers=1)
    expected = run_jobs(jobs, tmp_path / "plain", workers=1)
    assert [result["scores"] for result in found] == [result["scores"] for result in expected]
    assert sorted(path.name for path in (tmp_path / "ray").glob("*.json")) == sorted(f"{job.name}.json" for job in jobs)


MISTAKES = {
    "address": (["--ray", "127.0.0.1:1"], "--ray 127.0.0.1:1: Ray does not respond there"),
    "no address": (["--ray", "nonsense"], "not an address"),
    "gpus": (["--ray", "--gpus", "99"], "--gpus 99: the cluster has 0"),
    "by": (["--ray", "--top", "5", "--by", "predicted"], "did you mean 'predicted_y'"),
    "top": (["--ray", "--top", "5"], "--top needs --by"),
    "no ray": (["--top", "5", "--by", "predicted_y"], "needs --ray"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_of_a_command_in_one_line(folder, cluster, call_command, tmp_path, case):
    options, words = MISTAKES[case]
    command = ["predict", "model", "tables", "-o", tmp_path / "out", *options]
    assert words in call_command("maggnn", *command, cwd=folder).mistake()
    assert not list(tmp_path.iterdir())


TABLES = {
    "missing column in shard 7": ("t7.csv", "id,smile,note\n1,C,x\n", "t7.csv: no column 'smiles'"),
    "another column": ("t7.csv", "id,smiles,remark\n1,C,x\n", "t7.csv: no column 'note', which t0.csv has"),
    "one more column": ("t7.csv", "id,smiles,note,more\n1,C,x,y\n", "'more' that t0.csv lacks"),
    "another order": ("t7.csv", "smiles,id,note\nC,1,x\n", "another order than t0.csv"),
    "an open quote": ("t7.csv", 'id,smiles,note\n1,"C,x\n', "t7.csv: line 2: a quote opens"),
    "another kind": ("t7.smi", "C\n", "different formats"),
    "a name that is added": (None, "", "has a column 'predicted_y' already"),
}


@pytest.mark.parametrize("case", TABLES)
def test_mistakes_of_tables_in_one_line(folder, cluster, call_command, tmp_path, case):
    name, text, words = TABLES[case]
    (tmp_path / "in").mkdir()
    for number in range(7):
        (tmp_path / "in" / f"t{number}.csv").write_text("id,smiles,note\n1,CCO,x\n")
    if name is None:
        (tmp_path / "in" / "t0.csv").write_text("smiles,predicted_y\nCCO,1\n")
    else:
        (tmp_path / "in" / name).write_text(text)
    command = ["predict", folder / "model", "in", "-o", "out", "--ray", cluster]
    assert words in call_command("maggnn", *command, cwd=tmp_path).mistake()
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_models_and_folders_that_cannot_be_used(folder, cluster, call_command, tmp_path, screened):
    call = partial(call_command, "maggnn", cwd=tmp_path)
    table = folder / "tables"
    assert "no such model folder" in call("predict", "none", table, "-o", "out", "--ray").mistake()
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "model.safetensors").symlink_to(folder / "model" / "model.safetensors")
    (tmp_path / "closed" / "fitted.json").mkdir()
    assert "fitted.json" in call("predict", "closed", table, "-o", "out", "--ray").mistake()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    assert "other files" in call("predict", folder / "model", table, "-o", "full", "--ray").mistake()
    other = call("predict", folder / "model", table, "-o", screened, "--coverage", "0.8", "--ray")
    assert "contains another run" in other.mistake()
    (tmp_path / "file").touch()
    assert "is a file" in call("predict", folder / "model", table, "-o", "file", "--ray").mistake()


@pytest.mark.skipif(os.name != "posix", reason="needs the permissions of a Unix system")
@pytest.mark.parametrize("closed", ["model.safetensors", "."])
def test_a_model_without_permission(folder, call_command, closed):
    """A weights file or a folder that may not be read; root, who may read everything, asks as nobody."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(folder / "model", Path(name) / "model")
        Path(name).chmod(0o777)
        (Path(name) / "model" / closed).chmod(0)
        try:
            os.seteuid(user or 65534)
            command = ["predict", "model", "tables.csv", "-o", "out", "--ray"]
            said = call_command("maggnn", *command, cwd=Path(name)).mistake()
        finally:
            os.seteuid(user)
        (Path(name) / "model" / closed).chmod(0o755)
        assert "model" in said and "ermission" in said and not (Path(name) / "out").exists()
