"""The `maggnn-paper` command as people run it: figures of a run, rows into a ledger, and how it fails."""

import gzip
import json
from pathlib import Path

import pytest

from maggnn_paper.tables import theorem1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, small_runs) -> Path:
    """A folder with a finished run of `maggnn train`."""
    folder = tmp_path_factory.mktemp("paper")
    small_runs.trained(folder / "runs" / "tiny")
    return folder


def test_help_names_the_commands(tmp_path, run_command):
    text = run_command("maggnn-paper", "--help", cwd=tmp_path).output()
    for command in ("reproduce", "bench", "figure", "get", "report"):
        assert f"\n  {command} " in text


def test_commands_of_the_reproduction_are_not_those_of_users(tmp_path, call_command):
    for command in ("reproduce", "bench", "figure", "report"):
        assert f"No such command '{command}'" in call_command("maggnn", command, cwd=tmp_path).mistake()


@pytest.mark.parametrize("what", ["trajectory", "moves", "scores", "reward"])
def test_figures(folder, call_command, what):
    printed = call_command("maggnn-paper", "figure", what, "runs/tiny", "-o", f"{what}.png", cwd=folder).output()
    assert printed.strip() == f"{what}.png"
    assert (folder / f"{what}.png").read_bytes().startswith(b"\x89PNG")


def test_rows_go_into_the_ledger(tmp_path, call_command, monkeypatch):
    monkeypatch.setattr(theorem1, "PAIRS", 3)
    command = ("reproduce", "theorem1", "--row", "regular3_n8", "--json")
    rows = json.loads(call_command("maggnn-paper", *command, cwd=tmp_path, MAGGNN_COMMIT="1234567").output())
    lines = (tmp_path / "results" / "ledger.jsonl").read_text().splitlines()
    assert rows and [json.loads(line) for line in lines] == rows


MOLHIV = {
    "raw/num-node-list": "2",
    "raw/num-edge-list": "1",
    "raw/edge": "0,1",
    "raw/node-feat": "5,0,4,5,3,0,2,0,0\n5,0,4,5,3,0,2,0,0",
    "raw/edge-feat": "0,0,0",
    "raw/graph-label": "1",
    **{f"split/scaffold/{part}": "0" for part in ("train", "valid", "test")},
}


def test_get_writes_under_the_data_root(tmp_path, call_command):
    for name, text in MOLHIV.items():
        path = tmp_path / "hiv" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(f"{text}\n".encode()))
    command = ("maggnn-paper", "get", "molhiv", "--raw", "hiv")
    printed = call_command(*command, cwd=tmp_path, MAGGNN_DATA=str(tmp_path)).output()
    assert printed.strip() == str(tmp_path / "molhiv.npz")
    assert (tmp_path / "molhiv.npz").is_file()


MISTAKES = {
    "unknown table": (["reproduce", "syntetic"], ["'syntetic'", "did you mean 'synthetic'?"]),
    "unknown row": (["reproduce", "synthetic", "--row", "zinc"], ["'zinc'", "exp, csl, sr25"]),
    "unknown bench": (["bench", "inferense"], ["'inferense'", "did you mean 'inference'?"]),
    "unknown figure": (["figure", "move", "runs/tiny"], ["'move'", "did you mean 'moves'?"]),
    "graph out of range": (["figure", "trajectory", "runs/tiny", "--graph", "2"], ["--graph 2", "graphs 0 to 1"]),
    "no rewards": (["figure", "reward", "."], ["no logged rewards"]),
    "absent archive": (["get", "molhiv", "--raw", "nowhere"], ["num-node-list.csv.gz", "hiv.zip"]),
}


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_get_one_line(folder, call_command, arguments, expected):
    empty = str(folder / "empty")
    line = call_command("maggnn-paper", *arguments, cwd=folder, MAGGNN_DATA=empty).mistake("maggnn-paper")
    assert all(part in line for part in expected), line


def test_report_outside_a_checkout_is_refused(call_command, tmp_path):
    message = call_command("maggnn-paper", "report", cwd=tmp_path).mistake("maggnn-paper")
    assert "is no checkout of maggnn" in message and list(tmp_path.iterdir()) == []
