"""`maggnn data pack` and `maggnn data get` as people run them."""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

MAGGNN = Path(sys.executable).parent / "maggnn"

TABLE = """\
id,smiles,active,logP,set
1,CCO,1,0.5,train
2,OCC,0,0.25,test
3,C(,1,0.5,train
4,c1ccccc1,1,,val
5,[Na+].[Cl-],0,2.5,valid
6,C,1,1.5,train
"""


def run(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    command = [str(MAGGNN), "data", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=settings)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "mine.csv").write_text(TABLE)
    return tmp_path


PACK = ("pack", "mine.csv", "--smiles", "smiles", "--target", "logP", "--split", "set")


def test_pack_says_what_it_kept_and_what_it_left_out(folder):
    done = run(*PACK, "--workers", "2", "-o", "out/my.npz", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split() for line in lines[:8]] == [
        ["rows", "6"], ["kept", "4"], ["train", "2"], ["val", "1"], ["test", "1"], ["task", "regression"],
        ["errors", "2"], ["shared", "1"],
    ]  # fmt: skip
    assert lines[8:] == [
        "row 4: not a SMILES string (C()",
        "row 5: target 'logP' is missing (c1ccccc1)",
        "in more than one of train, val and test, such as CCO",
        "out/my.npz",
    ]
    with np.load(folder / "out" / "my.npz", allow_pickle=False) as arrays:
        assert arrays["y"].tolist() == [0.5, 0.25, 2.5, 1.5] and arrays["num_nodes"].tolist() == [3, 3, 2, 1]
        assert [arrays[part].tolist() for part in ("train", "val", "test")] == [[0, 3], [2], [1]]
        assert arrays["target_names"].tolist() == ["logP"] and str(arrays["features"]) == "ogb"
    with (folder / "out" / "my.errors.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["row", "smiles", "reason"],
            ["4", "C(", "not a SMILES string"],
            ["5", "c1ccccc1", "target 'logP' is missing"],
        ]


def test_pack_as_json_with_other_features_and_a_random_split(folder):
    (folder / "my.errors.csv").write_text("of an earlier attempt")
    (folder / "fine.csv").write_text("s,a,b\n" + "".join(f"{'C' * n},{n},{n % 2}\n" for n in range(1, 11)))
    columns = ("--smiles", "s", "--target", "a", "--target", "b")
    done = run("pack", "fine.csv", *columns, "--features", "qm9", "--seed", "3", "-o", "my.npz", "--json", cwd=folder)
    result = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0 and result["first_errors"] == [] and result["first_shared"] is None
    assert [result[name] for name in ("file", "rows", "kept", "train", "val", "test", "errors", "shared")] == [
        "my.npz", 10, 10, 8, 1, 1, 0, 0,
    ]  # fmt: skip
    assert not (folder / "my.errors.csv").exists()
    with np.load(folder / "my.npz", allow_pickle=False) as arrays:
        assert arrays["y"].tolist() == [[n, n % 2] for n in range(1, 11)] and arrays["x"].shape[1] == 7
        assert arrays["target_names"].tolist() == ["a", "b"] and str(arrays["features"]) == "qm9"


MOLHIV = {
    "raw/num-node-list": "2",
    "raw/num-edge-list": "1",
    "raw/edge": "0,1",
    "raw/node-feat": "5,0,4,5,3,0,2,0,0\n5,0,4,5,3,0,2,0,0",
    "raw/edge-feat": "0,0,0",
    "raw/graph-label": "1",
    **{f"split/scaffold/{part}": "0" for part in ("train", "valid", "test")},
}


def test_get_writes_under_the_data_root(folder):
    for name, text in MOLHIV.items():
        path = folder / "hiv" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(f"{text}\n".encode()))
    done = run("get", "molhiv", "--raw", "hiv", cwd=folder, MAGGNN_DATA=str(folder))
    assert done.returncode == 0 and done.stdout.strip() == str(folder / "molhiv.npz")
    assert (folder / "molhiv.npz").is_file()


MISTAKES = {
    "column": ([*PACK[:3], "smile", *PACK[4:], "-o", "my.npz"], ["mine.csv", "'smile'", "did you mean 'smiles'?"]),
    "all bad": ([*PACK[:5], "smiles", "-o", "my.npz"], ["none of the 6 rows", "row 2", "'CCO', not a number"]),
    "archive": (["get", "molhiv"], ["num-node-list.csv.gz", "hiv.zip"]),
}


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_get_one_line(folder, arguments, expected):
    done = run(*arguments, cwd=folder, MAGGNN_DATA=str(folder / "empty"))
    lines = done.stderr.strip().splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (2, "", 1), done
    assert lines[0].startswith("maggnn: ") and all(part in lines[0] for part in expected), lines[0]
    assert not list(folder.glob("*.npz")) and not (folder / "empty").exists()
