"""Shards of a table hold exactly the rows that `maggnn predict` reads, in the same chunks and with the same reasons."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.apps.fit.row_files import Chunk, open_source
from maggnn.apps.scale import shards
from maggnn.apps.scale.shards import Plan, chunks_of, plan_table
from maggnn.apps.scale.storage import place_of, tables_of
from maggnn.errors import InputError

ROWS = 3


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(shards, "ROWS", ROWS)


def read(plan: Plan) -> list[Chunk]:
    """All chunks, of shards that are read in any order."""
    order = random.Random(0).sample(plan.shards, len(plan.shards))
    found = {shard.number: chunks_of(plan.columns, shard) for shard in order}
    return [chunk for shard in plan.shards for chunk in found[shard.number]]


def assert_same(path: Path, chunks: int = 2) -> Plan:
    """As `maggnn predict` reads the table."""
    source, plan = open_source(path, "smiles"), plan_table(place_of(str(path)), "smiles", chunks)
    assert (plan.columns.names, plan.columns.types, plan.columns.place) == (source.names, source.types, source.place)
    expected = list(source.chunks(ROWS))
    assert read(plan) == expected
    assert [shard.first for shard in plan.shards] == [number * chunks for number in range(len(plan.shards))]
    assert len(plan.shards) == -(-len(expected) // chunks)
    return plan


CELLS = st.text(st.sampled_from('aé☃ ,"\n\rC\ufeff'), max_size=5)


def quoted(cells: list[str], end: str) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + end


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=20),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.booleans(),
    chunks=st.integers(1, 3),
)
def test_csv_of_any_text(tmp_path_factory, rows, end, mark, chunks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "ROWS", ROWS)
        path = tmp_path_factory.mktemp("csv") / "a.csv"
        text = quoted(["id", "smiles"], end) + "".join(quoted(cells, end) for cells in rows) + end
        path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.encode())
        assert_same(path, chunks)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lists_of_smiles(tmp_path, mark):
    path = tmp_path / "a.smi"
    path.write_bytes(f"{mark}CC one\n\n  \nCCO\tä b \r\nC\n{'N x' * 3}\nO\nCl\n".encode())
    assert_same(path)


@pytest.mark.parametrize("group", [1, 4, 6, 100])
def test_row_groups_of_parquet(tmp_path, group):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"n": list(range(20)), "smiles": ["C" * (1 + n % 4) if n % 5 else None for n in range(20)]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=group)
    plan = assert_same(tmp_path / "a.parquet")
    assert [shard.rows for shard in plan.shards] == [6, 6, 6, 2]


def test_categories_of_pandas_are_text(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"smiles": arrow.array(["CCO", "C", "CCO", None]).dictionary_encode()})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert assert_same(tmp_path / "a.parquet").rows == 4


def test_a_uri_is_the_same_place(tmp_path):
    (tmp_path / "a.smi").write_text("CC\nCO\n")
    plan = plan_table(place_of((tmp_path / "a.smi").as_uri()), "smiles")
    assert read(plan) == read(plan_table(place_of(str(tmp_path / "a.smi")), "smiles"))


def test_a_table_that_changes_while_it_is_read_is_told(tmp_path):
    path = tmp_path / "a.smi"
    path.write_text("CC\n" * 10)
    plan = plan_table(place_of(str(path)), "smiles", chunks=1)
    path.write_text("CC\n" * 7)
    with pytest.raises(InputError, match="changed while it was read"):
        read(plan)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "the folder has no table"),
        ({"a.csv": "smiles\nC\n", "b.smi": "C\n"}, "different formats"),
        ({"_hidden.csv": "smiles\nC\n", "note.txt": ""}, "the folder has no table"),
    ],
)
def test_folders_that_hold_no_tables_of_one_kind(tmp_path, files, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=words):
        tables_of(place_of(str(tmp_path)), (".csv", ".smi"))


def test_a_place_that_nothing_opens():
    with pytest.raises(InputError, match="cannot be opened"):
        place_of("nowhere://x/y")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", b"", "no header"),
        ("a.csv", b"id,smile\n1,C\n", "did you mean 'smile'"),
        ("a.csv", b'smiles\nC\n"C\n', "line 3: a quote opens in this row and is never closed"),
        ("a.csv", b"smiles\n\xff\n", "in UTF-8"),
        ("a.smi", b"\xff\n", "in UTF-8"),
        ("a.parquet", b"PAR1", "as Parquet"),
    ],
)
def test_damage_is_found_while_planning(tmp_path, name, text, words):
    (tmp_path / name).write_bytes(text)
    with pytest.raises(InputError, match=words):
        plan_table(place_of(str(tmp_path / name)), "smiles")
