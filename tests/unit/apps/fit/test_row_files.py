"""Rows that are written are the rows that are read, and are counted as they were written."""

import csv

import pytest

from maggnn.apps.fit.row_files import count_rows, join_parts, open_source, write_part

NAMES = ["smiles", "a\rb", "predicted_y", "reason"]
COLUMNS = [["CCO", "C(", "CC"], ["x\ry", 'q"', "two\nlines"], [1.5, None, 2.5], ["", "not a SMILES string", ""]]


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_parts_and_the_whole_are_counted(tmp_path, kind):
    if kind == ".parquet":
        pytest.importorskip("pyarrow")
    parts = [tmp_path / name for name in ("first", "second")]
    for part in parts:
        write_part(part, kind, NAMES, [None, None, "number", None], COLUMNS)
        assert count_rows(part, kind, 2) == (3, 1, 0)
        assert count_rows(part, kind, 2, limit=2.5) == (3, 1, 1)
    join_parts(parts, tmp_path / "whole", kind, NAMES)
    assert count_rows(tmp_path / "whole", kind, 2, header=True, limit=3.0) == (6, 2, 4)


def test_cells_of_any_length_are_counted(tmp_path):
    """Cells of a Parquet table or a list of SMILES may be longer than those that `csv` reads."""
    before = csv.field_size_limit()
    write_part(tmp_path / "part", ".csv", ["note", "y"], [None, None], [["x" * 2_000_000, "b"], [0.5, 2.0]])
    assert count_rows(tmp_path / "part", ".csv", 1, limit=1.0) == (2, 0, 1)
    assert csv.field_size_limit() == before


def test_a_carriage_return_in_a_cell_ends_no_row(tmp_path):
    write_part(tmp_path / "part", ".csv", NAMES, [None] * 4, COLUMNS)
    join_parts([tmp_path / "part"], tmp_path / "whole.csv", ".csv", NAMES)
    with (tmp_path / "whole.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == NAMES and [row[1] for row in rows] == COLUMNS[1]
    assert b'C(,"q""",,not a SMILES string\n' in (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize("layout", ["string", "large_string", "dictionary"])
def test_text_of_any_parquet_layout(tmp_path, layout):
    """As `maggnn fit` and `maggnn evaluate` read it."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    made = arrow.array(["CCO", None, "C"], arrow.large_string() if layout == "large_string" else arrow.string())
    column = made.dictionary_encode() if layout == "dictionary" else made
    parquet.write_table(arrow.table({"smiles": column}), tmp_path / "asked.parquet")
    source = open_source(tmp_path / "asked.parquet", "smiles")
    (chunk,) = source.chunks(10)
    assert chunk.smiles == ["CCO", "", "C"]
    write_part(tmp_path / "part", ".parquet", source.names, source.types, chunk.columns)
    assert parquet.read_table(tmp_path / "part").column(0).to_pylist() == ["CCO", None, "C"]
