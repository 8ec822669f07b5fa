"""A table of molecules: what is kept, what is left out and why, and how it is split."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from maggnn.data.molecules.smiles import RowError
from maggnn.data.molecules.table import read_table
from maggnn.data.packing import DuplicateWarning
from maggnn.errors import InputError

ALKANES = ["C" * length for length in range(1, 31)]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def alkanes(tmp_path) -> Path:
    rows = "".join(f"{smiles},{number / 2}\n" for number, smiles in enumerate(ALKANES))
    return write(tmp_path / "alkanes.csv", "smiles,logP\n" + rows)


def test_a_table_becomes_arrays(alkanes):
    packed = read_table(alkanes, "smiles", ["logP"])
    arrays = packed.arrays
    assert (packed.num_rows, packed.errors, packed.shared) == (30, [], [])
    assert arrays["num_nodes"].tolist() == list(range(1, 31))
    assert arrays["y"].dtype == np.float32 and arrays["y"].tolist() == [number / 2 for number in range(30)]
    assert arrays["target_names"].tolist() == ["logP"] and arrays["features"].item() == "mol"
    assert arrays["target_names"].dtype.kind == arrays["features"].dtype.kind == "U"


def test_the_random_split_is_80_10_10_and_follows_the_seed(alkanes):
    first, again, other = (read_table(alkanes, "smiles", ["logP"], seed=seed).arrays for seed in (1, 1, 2))
    parts = [first[part].tolist() for part in ("train", "val", "test")]
    assert [len(part) for part in parts] == [24, 3, 3]
    assert sorted(chain(*parts)) == list(range(30)) and all(part == sorted(part) for part in parts)
    assert all(np.array_equal(first[part], again[part]) for part in ("train", "val", "test"))
    assert not np.array_equal(first["test"], other["test"])


def test_a_split_column_and_several_targets(tmp_path):
    text = "id,mol,a,b,set\n1,C,1,0,train\n2,CC,0,1,Valid\n3,CCC,3,1,test\n4,N,4,0,val\n5,O,5,0,elsewhere\n"
    packed = read_table(write(tmp_path / "t.csv", text), "mol", ["b", "a"], split_column="set", task="regression")
    assert [packed.arrays[part].tolist() for part in ("train", "val", "test")] == [[0], [1, 3], [2]]
    assert packed.arrays["y"].dtype == np.float32 and packed.arrays["y"].tolist() == [[0, 1], [1, 0], [1, 3], [0, 4]]
    assert packed.errors == [RowError(6, "O", "split 'elsewhere' is none of train, val, valid, test")]


@pytest.mark.parametrize(
    ("column", "regression", "classes"),
    [
        (["0", "1", "0"], False, True),
        (["0", "1", "0"], True, False),
        (["1", "2", "1"], False, False),  # no class 0: they are numbers
        (["3", "3", "3"], False, False),
        (["0", "1.5", "1"], False, False),
    ],
)
def test_what_is_taken_for_classes(tmp_path, column, regression, classes):
    text = "smiles,y\n" + "".join(f"{'C' * (i + 1)},{value}\n" for i, value in enumerate(column))
    packed = read_table(write(tmp_path / "t.csv", text), "smiles", ["y"], task="regression" if regression else "auto")
    assert packed.arrays["y"].dtype == (np.uint8 if classes else np.float32)
    assert packed.arrays["y"].tolist() == [float(value) for value in column]


BAD_ROWS = """\
smiles,y
CC,1.5
C(,1

,2
CCC,
CCC,high
CCC,NaN
CCC,inf
CCC,1e300
CCC
"CCO",-2
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_rows_are_left_out_with_their_line_and_reason(tmp_path, workers):
    done = []
    packed = read_table(write(tmp_path / "t.csv", BAD_ROWS), "smiles", ["y"], workers=workers, on_row=done.append,
                        task="regression")  # fmt: skip
    assert packed.num_rows == 10 and packed.arrays["y"].tolist() == [1.5, -2.0]
    assert packed.errors == [
        RowError(3, "C(", "not a SMILES string"),
        RowError(5, "", "no atoms: the SMILES is empty"),
        RowError(6, "CCC", "target 'y' is missing"),
        RowError(7, "CCC", "target 'y' is 'high', not a number"),
        RowError(8, "CCC", "target 'y' is missing (NaN)"),
        RowError(9, "CCC", "target 'y' is 'inf', not a number"),
        RowError(10, "CCC", "target 'y' is '1e300', but the largest possible value is 1e+30"),
        RowError(11, "CCC", "line 11 has 1 cells where the header has 2"),
    ]
    assert done[-1] == 10


def test_duplicates_across_parts_warn(tmp_path):
    text = "smiles,y,set\nOCC,1.5,train\nCCO,1,test\nC(O)C,2,val\nC,1,train\nC,1,train\n"
    with pytest.warns(DuplicateWarning, match="1 molecules .* such as CCO"):
        packed = read_table(write(tmp_path / "t.csv", text), "smiles", ["y"], split_column="set")
    assert packed.shared == ["CCO"] and len(packed.arrays["y"]) == 5


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfsmiles,y\r\nC,1\r\n")
    assert read_table(tmp_path / "t.csv", "smiles", ["y"]).arrays["num_nodes"].tolist() == [1]


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"smiles,y\nC,1\n", ("smile", ["y"]), "no column 'smile': did you mean 'smiles'"),
        (b"smiles,y\nC,1\n", ("smiles", ["y", "yy"]), "no column 'yy': did you mean 'y'"),
        (b"smiles,y\nC,1\n", ("smiles", []), "at least one target"),
        (b"smiles,y\nC,1\n", ("smiles", ["y"], "obg"), "did you mean 'ogb'"),
        (b"", ("smiles", ["y"]), "no header"),
        (b"smiles,y\n", ("smiles", ["y"]), "no rows below the header"),
        (b"smiles,y\nC,\nC(,1\n", ("smiles", ["y"]), "none of the 2 rows can be used; row 2: target 'y' is missing"),
        (b"smiles,y\n\xff\xfe,1\n", ("smiles", ["y"]), "cannot be read as a CSV table in UTF-8"),
    ],
)  # fmt: skip
def test_mistakes_get_one_line(tmp_path, content, arguments, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        read_table(tmp_path / "t.csv", *arguments)
    assert "\n" not in str(error.value)
    if "obg" not in arguments:
        assert "t.csv" in str(error.value)


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.csv"):
        read_table(tmp_path / "absent.csv", "smiles", ["y"])
