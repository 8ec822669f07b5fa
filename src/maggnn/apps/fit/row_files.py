"""Tables of molecules, read and written in chunks of rows: CSV, lists of SMILES (.smi), Parquet and SDF.

All columns of the input are kept; predictions follow after them.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, StringIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from maggnn.data.molecules.rows import (
    Record,
    check_ending,
    check_names,
    column_place,
    count_lines,
    ending,
    open_table,
    parquet_file,
    parquet_tools,
)
from maggnn.errors import InputError

READABLE = (".csv", ".csv.gz", ".smi", ".parquet", ".sdf", ".sdf.gz")
WRITABLE = (".csv", ".parquet")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The characters with which a spreadsheet formula can begin."""

HARMLESS = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|[-+]+", re.IGNORECASE)
"""Numbers and bare signs, which begin like a formula but are not formulas."""

LONGEST_CELL = 2**31 - 1
"""The largest limit that `csv` takes on every system."""


@dataclass(frozen=True)
class Chunk:
    """A chunk of rows.

    Attributes:
        columns: the cells, column by column.
        smiles: the molecules to predict for.
        reasons: why each row cannot be used; empty if the table gives no reason.
        numbers: additional numeric columns that the model reads, [rows, columns]; None if there are none.
    """

    columns: list[list[Any]]
    smiles: list[str]
    reasons: list[str]
    numbers: np.ndarray | None = None


@dataclass(frozen=True)
class Source:
    """A table to read.

    Attributes:
        names: the names of its columns.
        types: Parquet types of the columns; None for text.
        place: the index of the column of SMILES.
        num_rows: the number of rows, possibly an estimate.
    """

    path: Path
    names: list[str]
    types: list[Any]
    place: int
    num_rows: int

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Yield all rows in order, `size` at a time."""
        readers = {".smi": _read_smi, ".parquet": _read_parquet}
        return readers.get(ending(self.path), _read_text)(self, size)


def open_source(path: Path, smiles: str) -> Source:
    """Open the table at `path`. A .smi file has no header; its first column is the SMILES and the rest a name."""
    check_ending(path, READABLE)
    if ending(path) == ".smi":
        return Source(path, ["smiles", "name"], [None, None], 0, count_lines(path))
    if ending(path) == ".parquet":
        return _open_parquet(path, smiles)
    table = open_table(path)
    place = table.place(smiles)
    # All rows are read once before the first prediction, so that a mistake in the last row is found at the start.
    return Source(path, table.names, [None] * len(table.names), place, table.count())


def check_writable_name(path: Path) -> None:
    """Raise an `InputError` for unknown file formats, or if the extra for Parquet is missing."""
    if path.suffix not in WRITABLE:
        raise InputError(
            f"{path}: cannot write {path.suffix or 'a file without an ending'}, only {', '.join(WRITABLE)}"
        )
    if path.suffix == ".parquet":
        parquet_tools(path)


def write_part(
    path: Path, kind: str, names: Sequence[str], types: Sequence[Any], columns: Sequence[Sequence[Any]]
) -> None:
    """Write rows to one file: CSV without a header, or Parquet."""
    if kind == ".parquet":
        _, parquet = parquet_tools(path)
        parquet.write_table(arrow_table(names, types, columns), path)
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        _write_rows(file, zip(*columns, strict=True))


def arrow_table(names: Sequence[str], types: Sequence[Any], columns: Sequence[Sequence[Any]]) -> Any:
    """Return rows as an Arrow table; a type is one of Arrow's, None for text, "number" or "double"."""
    import pyarrow

    arrays = [
        pyarrow.array(column, type=_arrow_type(pyarrow, kind)) for column, kind in zip(columns, types, strict=True)
    ]
    return pyarrow.Table.from_arrays(arrays, names=list(names))


def arrow_stream(table: Any) -> bytes:
    """Serialise an Arrow table as a stream."""
    import pyarrow

    stream = BytesIO()
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def cell_text(value: Any) -> Any:
    """Return text for a CSV cell; an apostrophe is put before text that a spreadsheet would read as a formula.

    This is for text that maggnn or a model adds. Cells of the user's table are never changed, and neither are numbers
    nor the signs + and - alone, which are the classes of many tables.

    Example:
        >>> cell_text("=1+1"), cell_text("-1.5"), cell_text("toxic"), cell_text("+")
        ("'=1+1", '-1.5', 'toxic', '+')
    """
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    return value if HARMLESS.fullmatch(value) else f"'{value}"


def join_parts(parts: Sequence[Path], path: Path, kind: str, names: Sequence[str]) -> None:
    """Join all parts into one file, with one part at a time in memory."""
    if kind == ".parquet":
        _, parquet = parquet_tools(path)
        with parquet.ParquetWriter(path, parquet.read_schema(parts[0])) as writer:
            for part in parts:
                writer.write_table(parquet.read_table(part))
        return
    with path.open("wb") as file:
        file.write(_csv_line(names))
        for part in parts:
            file.write(part.read_bytes())


class Counted(NamedTuple):
    """Counts of rows: all, those with an empty cell in a column, and those with a number below a limit there."""

    rows: int
    empty: int
    below: int


def count_rows(path: Path, kind: str, place: int, header: bool = False, limit: float = -math.inf) -> Counted:
    """Count the rows of a part or (with its header) a whole file, and those with certain cells in a numeric column.

    Args:
        place: the index of the column.
        limit: the number below which cells are counted.
    """
    if kind == ".parquet":
        _, parquet = parquet_tools(path)
        column = parquet.read_table(path, columns=[parquet.read_schema(path).names[place]]).column(0)
        return Counted(len(column), column.null_count, sum(value < limit for value in column.drop_null().to_pylist()))
    rows, empty, below = 0, 0, 0
    with path.open(newline="", encoding="utf-8") as file, _cells_of_any_length():
        for cells in islice(csv.reader(file), int(header), None):
            rows += 1
            empty += not cells[place]
            below += bool(cells[place]) and float(cells[place]) < limit
    return Counted(rows, empty, below)


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lift the limit of the module `csv`, which holds for input, while a file is read that this package has written."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _csv_line(cells: Sequence[str]) -> bytes:
    text = StringIO()
    _write_rows(text, [cells])
    return text.getvalue().encode()


def _write_rows(file: TextIO, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows of CSV. Before 3.13, Python does not quote a bare carriage return, at which readers end the row."""
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for cells in rows:
        bare = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        (quoted if bare else plain).writerow(cells)


def text_chunks(records: Iterator[Record], width: int, place: int, size: int) -> Iterator[Chunk]:
    """Yield rows of text in chunks; rows that are too short or too long get `width` cells.

    Args:
        place: the index of the column of SMILES.
    """
    while block := list(islice(records, size)):
        rows = [_of_width(record.cells, width) for record in block]
        columns = [list(column) for column in zip(*rows, strict=True)]
        yield Chunk(columns, columns[place], [record.reason for record in block])


def _of_width(cells: list[str], width: int) -> list[str]:
    return cells if len(cells) == width else (cells + [""] * width)[:width]


def smi_chunks(lines: Iterator[str], size: int) -> Iterator[Chunk]:
    """Yield the rows of a .smi file in chunks: a SMILES and a name on each line."""
    words = (line.split(maxsplit=1) for line in lines)
    while block := list(islice(words, size)):
        smiles = [parts[0] for parts in block]
        names = [parts[1].strip() if len(parts) > 1 else "" for parts in block]
        yield Chunk([smiles, names], smiles, [""] * len(block))


def arrow_chunk(batch: Any, place: int) -> Chunk:
    """Return the rows of an Arrow table or batch as a chunk."""
    columns = [column.to_pylist() for column in batch.columns]
    smiles = ["" if value is None else value for value in columns[place]]
    return Chunk(columns, smiles, [""] * len(smiles))


def _read_text(source: Source, size: int) -> Iterator[Chunk]:
    return text_chunks(open_table(source.path).records(), len(source.names), source.place, size)


def _read_smi(source: Source, size: int) -> Iterator[Chunk]:
    try:
        with source.path.open(encoding="utf-8-sig") as file:
            yield from smi_chunks((line for line in file if line.strip()), size)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{source.path}: cannot be read as lines of UTF-8 ({error})") from error


def _read_parquet(source: Source, size: int) -> Iterator[Chunk]:
    with parquet_file(source.path, source.path) as file:
        for batch in file.iter_batches(batch_size=size):
            yield arrow_chunk(batch, source.place)


def _open_parquet(path: Path, smiles: str) -> Source:
    with parquet_file(path, path) as file:
        return Source(path, *parquet_columns(file.schema_arrow, path, smiles), file.metadata.num_rows)


def parquet_columns(schema: Any, path: Path | str, smiles: str) -> tuple[list[str], list[Any], int]:
    """Return the names and types of the columns of a Parquet file, and the index of the column of SMILES."""
    from pyarrow import types

    check_names(path, schema.names)
    place = column_place(path, schema.names, smiles)
    kind = schema.types[place]
    # Text in any encoding; pandas, for example, writes categories with a dictionary.
    plain = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(plain) or types.is_large_string(plain) or str(plain) == "string_view"):
        raise InputError(f"{path}: column {smiles!r} has type {kind}, not text")
    return list(schema.names), list(schema.types), place


def _arrow_type(arrow: Any, kind: Any) -> Any:
    """Return a Parquet type: that of the input, or the one for a name."""
    named = {None: arrow.string(), "number": arrow.float32(), "double": arrow.float64(), "int64": arrow.int64()}
    return named.get(kind, kind)
