"""The ledger: what a row may say, appending by several writers, crashes, and which row counts."""

import dataclasses
import json
import math
import multiprocessing
import subprocess

import pytest

from builders import make_row
from maggnn.errors import InputError
from maggnn_paper import ledger
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.published import PUBLISHED

DESIGN_FIELDS = [
    *("table", "dataset", "method", "metric", "mean", "std", "runs", "tests_per_run", "m", "k", "t", "keep"),
    *(
        "marking",
        "inputs",
        "passes",
        "params",
        "train_s",
        "infer_ms",
        "peak_mb",
        "hardware",
        "torch",
        "commit",
        "config",
        "note",
    ),
]


def append_many(path, count):
    for number in range(count):
        ledger.append(make_row(t=number, note="x" * 200), path)


def test_fields_are_the_contract():
    assert [field.name for field in dataclasses.fields(LedgerRow)] == DESIGN_FIELDS


def test_round_trip(tmp_path):
    path = tmp_path / "results" / "ledger.jsonl"
    rows = [make_row(), make_row(mean=None, note="diverged: µ"), make_row(std=0.5, train_s=12, params=1000)]
    ledger.append(rows[0], path)
    ledger.append(rows[1:], path)
    assert ledger.read(path) == rows
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [list(json.loads(line)) for line in lines] == [DESIGN_FIELDS] * 3


def test_missing_file_and_no_rows(tmp_path):
    ledger.append([], tmp_path / "none.jsonl")
    assert ledger.read(tmp_path / "none.jsonl") == []
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"table": "sinthetic"}, "'synthetic'"),
        ({"method": "maggnn"}, "'mag-gnn'"),
        ({"metric": "acuracy"}, "'accuracy'"),
        ({"metric": "exponent_"}, "metric"),
        ({"method": "mpnn"}, "method"),
        ({"dataset": "SR25"}, "lower case"),
        ({"dataset": ""}, "dataset"),
        ({"mean": math.nan}, "mean is nan"),
        ({"std": math.inf}, "std is inf"),
        ({"mean": "99"}, "mean must be float or None"),
        ({"m": 1.5}, "m must be int or None"),
        ({"runs": True}, "runs must be int"),
        ({"runs": 0}, "start at 1"),
        ({"note": 3}, "note must be str or None"),
    ],
)
def test_bad_values_are_named(changes, names):
    with pytest.raises(InputError, match=names) as caught:
        make_row(**changes)
    assert "\n" not in str(caught.value)


def test_bench_methods_and_exponents():
    assert make_row(table="bench_inference", method="mpnn", metric="ms").method == "mpnn"
    assert make_row(table="bench_scaling", metric="exponent_nodes").metric == "exponent_nodes"


def test_a_crashed_line_costs_only_itself(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.append(make_row(t=1), path)
    whole = make_row(t=2, note="é").to_json().encode()
    with path.open("ab") as file:
        file.write(whole[: len(whole) - 3])  # cut inside the last string
    ledger.append(make_row(t=3), path)
    with pytest.warns(UserWarning, match="line 2"):
        rows = ledger.read(path)
    assert [row.t for row in rows] == [1, 3]


def test_wrong_complete_lines_stop_with_their_place(tmp_path):
    path = tmp_path / "ledger.jsonl"
    values = json.loads(make_row().to_json())
    for changed, message in (
        (values | {"acuracy": 1}, "line 1: unknown field 'acuracy'"),
        ({k: v for k, v in values.items() if k != "hardware"}, "line 1: missing hardware"),
        (values | {"table": "nothing"}, "line 1: ledger row: unknown table"),
        ([1, 2], "line 1: a ledger row is a JSON object"),
    ):
        path.write_text(json.dumps(changed) + "\n")
        with pytest.raises(InputError, match=message):
            ledger.read(path)


def test_two_writers_lose_nothing(tmp_path):
    path = tmp_path / "ledger.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=append_many, args=(path, 25)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    rows = ledger.read(path)
    assert sorted(row.t or 0 for row in rows) == sorted([*range(25), *range(25)])


def test_newest_row_of_a_key_counts():
    rows = [make_row(mean=1.0), make_row(mean=2.0, t=3), make_row(mean=0.5, commit="def", config="other")]
    assert [row.mean for row in ledger.newest(rows)] == [0.5, 2.0]
    for name, value in (("hardware", "gpu"), ("keep", "confident"), ("k", 3), ("m", 2), ("dataset", "exp")):
        assert len(ledger.newest([make_row(), make_row(**{name: value})])) == 2


def test_hardware_and_versions_are_filled_in(monkeypatch):
    monkeypatch.setenv("MAGGNN_COMMIT", "1234567")
    row = LedgerRow(table="synthetic", dataset="exp", method="gin", metric="accuracy", mean=50.0)
    assert row.commit == "1234567"
    assert row.hardware
    assert row.torch[0].isdigit()


def test_commit_name(tmp_path, monkeypatch):
    monkeypatch.delenv("MAGGNN_COMMIT", raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert ledger.commit_name(tmp_path) == "unknown"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "code.py").write_text("1\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "--no-verify", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    clean = ledger.commit_name(tmp_path)
    assert len(clean) >= 7
    assert "+" not in clean
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "ledger.jsonl").write_text("{}\n")
    assert ledger.commit_name(tmp_path) == clean
    (tmp_path / "code.py").write_text("2\n")
    assert ledger.commit_name(tmp_path) == f"{clean}+dirty"


def test_published_figures_use_the_ledgers_words():
    for table, dataset, method, metric in PUBLISHED:
        make_row(table=table, dataset=dataset, method=method, metric=metric)
    assert PUBLISHED["synthetic", "sr25", "random-marks", "accuracy"].value == 93.8
    assert PUBLISHED["molecules", "zinc", "mag-gnn-pre", "mae"].std == 0.009
    assert PUBLISHED["qm9", "qm9_cv", "i2gnn", "mae"].value == 0.073


def test_rows_from_before_markings_can_still_be_read(tmp_path):
    values = json.loads(make_row(m=2, k=2, t=2).to_json())
    old = {name: value for name, value in values.items() if name not in ledger.LATER_FIELDS}
    path = tmp_path / "ledger.jsonl"
    path.write_text(json.dumps(old) + "\n", encoding="utf-8")
    (row,) = ledger.read(path)
    assert row.marking is None
    newer = make_row(m=2, k=2, t=2, marking="binary", mean=1.0)
    other = make_row(m=2, k=2, t=2, marking="distance")
    assert ledger.newest([row, newer, other]) == [newer, other]
