"""`maggnn data pack` and `data map` as people run them, and where `maggnn data get` went."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

TABLE = """\
id,smiles,active,logP,set
1,CCO,1,0.5,train
2,OCC,0,0.25,test
3,C(,1,0.5,train
4,c1ccccc1,1,,val
5,[Na+].[Cl-],0,2.5,valid
6,C,1,1.5,train
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "mine.csv").write_text(TABLE)
    return tmp_path


PACK = ("data", "pack", "mine.csv", "--smiles", "smiles", "--target", "logP", "--split", "set")


def test_pack_says_what_it_kept_and_what_it_left_out(folder, run_command):
    code, out, err = run_command("maggnn", *PACK, "--workers", "2", "-o", "out/my.npz", cwd=folder)
    assert (code, err) == (0, "mine.csv: column 'logP' is interpreted as numbers: it has 4 different values\n")
    lines = out.splitlines()
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
        assert arrays["target_names"].tolist() == ["logP"] and str(arrays["features"]) == "mol"
    with (folder / "out" / "my.errors.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["row", "smiles", "reason"],
            ["4", "C(", "not a SMILES string"],
            ["5", "c1ccccc1", "target 'logP' is missing"],
        ]


def test_pack_as_json_with_other_features_and_a_random_split(folder, call_command):
    (folder / "my.errors.csv").write_text("of an earlier attempt")
    (folder / "fine.csv").write_text("s,a,b\n" + "".join(f"{'C' * n},{n},{n % 2}\n" for n in range(1, 11)))
    columns = ("--smiles", "s", "--target", "a", "--target", "b")
    options = ("--task", "regression", "--features", "qm9", "--seed", "3", "-o", "my.npz", "--json")
    printed = call_command("maggnn", "data", "pack", "fine.csv", *columns, *options, cwd=folder).output()
    result = json.loads(printed.splitlines()[-1])
    assert result["first_errors"] == [] and result["first_shared"] is None
    assert [result[name] for name in ("file", "rows", "kept", "train", "val", "test", "errors", "shared")] == [
        "my.npz", 10, 10, 8, 1, 1, 0, 0,
    ]  # fmt: skip
    assert not (folder / "my.errors.csv").exists()
    with np.load(folder / "my.npz", allow_pickle=False) as arrays:
        assert arrays["y"].tolist() == [[n, n % 2] for n in range(1, 11)] and arrays["x"].shape[1] == 7
        assert arrays["target_names"].tolist() == ["a", "b"] and str(arrays["features"]) == "qm9"


def test_pack_replaces_a_file_only_if_told_to(folder, call_command):
    (folder / "my.npz").write_text("of an earlier run")
    line = call_command("maggnn", *PACK, "-o", "my.npz", cwd=folder).mistake()
    assert "my.npz: exists already" in line and (folder / "my.npz").read_text() == "of an earlier run"
    call_command("maggnn", *PACK, "-o", "my.npz", "--overwrite", cwd=folder).output()
    with np.load(folder / "my.npz", allow_pickle=False) as arrays:
        assert len(arrays["num_nodes"]) == 4


def test_the_list_of_errors_never_replaces_the_table(folder, call_command):
    """A table without errors would even be removed, as the list of an earlier attempt is."""
    table = folder / "mine.csv"
    table.rename(folder / "mine.errors.csv")
    options = (*PACK[:2], "mine.errors.csv", *PACK[3:], "-o", "mine.npz", "--overwrite")
    line = call_command("maggnn", *options, cwd=folder).mistake()
    assert "mine.errors.csv: is the input" in line and (folder / "mine.errors.csv").read_text() == TABLE


MISTAKES = {
    "column": ([*PACK[:4], "smile", *PACK[5:], "-o", "my.npz"], ["mine.csv", "'smile'", "did you mean 'smiles'?"]),
    "all bad": ([*PACK[:6], "smiles", "-o", "my.npz"], ["'smiles' is both the SMILES and a target"]),
    "moved": (["data", "get", "molhiv", "--raw", "hiv"], ["`maggnn-paper get`", "pip install maggnn-paper"]),
}


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_get_one_line(folder, call_command, arguments, expected):
    line = call_command("maggnn", *arguments, cwd=folder, MAGGNN_DATA=str(folder / "empty")).mistake()
    assert all(part in line for part in expected), line
    assert not list(folder.glob("*.npz")) and not (folder / "empty").exists()


def test_map_joins_packed_files_and_says_what_it_wrote(folder, call_command):
    call_command("maggnn", *PACK, "-o", "my.npz", cwd=folder).output()
    said = call_command("maggnn", "data", "map", "my.npz", "my.npz", "-o", "all.graphs", cwd=folder).output()
    assert [line.split() for line in said.splitlines()][:3] == [["graphs", "8"], ["nodes", "18"], ["edges", "16"]]
    assert said.splitlines()[-1] == "all.graphs"
    told = call_command("maggnn", "data", "map", "my.npz", "-o", "one.graphs", "--json", cwd=folder).output()
    assert json.loads(told)["graphs"] == 4
