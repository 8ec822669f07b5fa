"""The rows of a CSV table: what is accepted, and which line is named where something is wrong."""

from pathlib import Path

import pytest

from maggnn.data.molecules.rows import MOST_CHARACTERS, open_table
from maggnn.errors import InputError


def table(tmp_path: Path, text: str) -> Path:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    return tmp_path / "t.csv"


def test_rows_know_the_line_that_they_begin_on(tmp_path):
    text = '\ufeffsmiles,note\r\n\r\nC,"two\r\nlines"\r\n"C""C",\r\n'
    found = open_table(table(tmp_path, text))
    assert found.names == ["smiles", "note"] and found.count() == 2
    assert [tuple(record) for record in found.records()] == [
        (3, ["C", "two\r\nlines"], ""), (5, ['C"C', ""], ""),
    ]  # fmt: skip


def test_ragged_rows_are_named_with_their_line(tmp_path):
    found = open_table(table(tmp_path, "smiles,y\nC,1\nCC\nCCC,1,2\n"))
    assert [record.reason for record in found.records()] == [
        "", "line 3 has 1 cells where the header has 2", "line 4 has 3 cells where the header has 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('C,1\n"CC,2\nCCC,3\n', "line 3: a quote opens in this row and is never closed"),
        ('C,1\n"CC,2\n"CCC",3\n', "line 3: text follows a closing quote"),
        ('C,1\n"CC"O,2\n', "line 3: text follows a closing quote"),
        (f"C,1\n{'C' * (MOST_CHARACTERS + 1)},1\n", "line 3: a cell of more than 1,000,000 characters"),
    ],
)
def test_what_cannot_be_split_into_cells_is_refused_with_its_line(tmp_path, rows, message):
    path = table(tmp_path, "smiles,y\n" + rows)
    with pytest.raises(InputError, match=message) as error:
        open_table(path).count()
    assert "\n" not in str(error.value) and len(str(error.value)) < 300 and "t.csv" in str(error.value)


def test_a_long_cell_is_read(tmp_path):
    (record,) = open_table(table(tmp_path, f"smiles,y\n{'C' * 200_000},1\n")).records()
    assert len(record.cells[0]) == 200_000 and not record.reason


def test_columns_of_one_name_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"t\.csv: 2 columns are named 'y'"):
        open_table(table(tmp_path, "smiles,y,y\nC,1,2\n"))
    assert open_table(table(tmp_path, "smiles,y,,\nC,1,,\n")).names == ["smiles", "y", "", ""]
