"""Shards: consecutive rows of a table that are read, predicted and written together, on any machine and in any order.

A table is divided after every `CHUNKS` chunks of `maggnn predict`, so a row is predicted together with the same other
rows as there, and its prediction is identical to the last bit. Planning reads a table once: it finds errors before
anything is written, the start of each shard, and the digest by which shards of an earlier run are recognised.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from maggnn.apps.fit.predicting import ROWS
from maggnn.apps.fit.row_files import Chunk, arrow_chunk, parquet_columns, smi_chunks, text_chunks
from maggnn.apps.scale.storage import Place
from maggnn.data.molecules.rows import check_names, column_place, csv_rows, parquet_file, record_of
from maggnn.errors import InputError

ENDINGS = (".csv", ".smi", ".parquet")
"""The suffixes of tables that can be divided; a compressed file can only be read from its beginning."""

CHUNKS = 16
"""The number of chunks in a shard: few enough that losing one costs seconds, enough for a moderate number of files."""


@dataclass(frozen=True)
class Shard:
    """Some rows of a table.

    Attributes:
        table: the file.
        number: its number among the shards of that file.
        first: the number of its first chunk in the file.
        rows: the number of rows.
        offset: the position of its text in bytes; 0 for Parquet.
        line: the number of its first line; 0 for Parquet.
    """

    table: Place
    number: int
    first: int
    rows: int
    offset: int = 0
    line: int = 0

    @property
    def name(self) -> str:
        """The name of its output file; names are in the order of the tables."""
        return f"{self.table.name}-{self.number:06d}.parquet"


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    Attributes:
        types: their Arrow types; None for text.
        place: the index of the column of SMILES.
    """

    names: list[str]
    types: list[Any]
    place: int


@dataclass(frozen=True)
class Plan:
    """The columns, shards and digest (of the bytes) of a table, which are known before its rows are predicted."""

    table: Place
    digest: str
    columns: Columns
    shards: list[Shard]

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)


class _Lines:
    """Lines of a text in UTF-8, with their line ends, that count the bytes read so far."""

    def __init__(self, stream: Any, offset: int, begins: int) -> None:
        # A byte order mark can only be at the beginning of a file.
        self._text = io.TextIOWrapper(stream, "utf-8" if offset else "utf-8-sig", newline="")
        self.offset, self.line = offset, begins

    def __iter__(self) -> Iterator[str]:
        for line in self._text:
            self.offset += len(line) if line.isascii() else len(line.encode())
            self.line += 1
            yield line


def plan_table(table: Place, smiles: str, chunks: int = CHUNKS) -> Plan:
    """Read a table once and divide it.

    Args:
        smiles: the column of SMILES.
        chunks: the number of chunks of `maggnn predict` in a shard.
    """
    with table.open() as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {".csv": _plan_csv, ".smi": _plan_smi, ".parquet": _plan_parquet}[table.suffix](
        table, digest, smiles, chunks * ROWS
    )


def chunks_of(columns: Columns, shard: Shard) -> list[Chunk]:
    """Return the rows of a shard, in the chunks of `maggnn predict`."""
    readers: dict[str, Callable[[Columns, Shard], Iterator[Chunk]]] = {
        ".csv": _csv_chunks, ".smi": _smi_chunks, ".parquet": _parquet_chunks,
    }  # fmt: skip
    found = list(readers[shard.table.suffix](columns, shard))
    if sum(len(chunk.smiles) for chunk in found) != shard.rows:
        raise InputError(f"{shard.table.shown}: changed while it was read: start again")
    return found


def _plan_csv(table: Place, digest: str, smiles: str, size: int) -> Plan:
    with _decoding(table, "a CSV table"), table.open() as stream:
        mark = _mark_length(table)
        lines = _Lines(stream, 0, 1)
        rows = csv_rows(lines, table.shown)
        _, names, _ = next(rows, (1, [], ""))
        if not names:
            raise InputError(f"{table.shown}: the table has no header")
        check_names(table.shown, names)
        columns = Columns(names, [None] * len(names), column_place(table.shown, names, smiles))
        return Plan(table, digest, columns, _divided(table, lines, rows, size, mark))


def _plan_smi(table: Place, digest: str, smiles: str, size: int) -> Plan:
    with _decoding(table, "lines"), table.open() as stream:
        lines = _Lines(stream, 0, 1)
        rows = (line for line in lines if line.strip())
        shards = _divided(table, lines, rows, size, _mark_length(table))
        return Plan(table, digest, Columns(["smiles", "name"], [None, None], 0), shards)


def _divided(table: Place, lines: _Lines, rows: Iterable[Any], size: int, mark: int) -> list[Shard]:
    """Divide rows into shards of `size` rows each; lines are read lazily, so offsets are those after a row."""
    shards: list[Shard] = []
    stream = iter(rows)
    while True:
        offset, line = lines.offset, lines.line
        found = sum(1 for _ in islice(stream, size))
        if not found:
            return shards
        # The number of decoded bytes does not include the byte order mark.
        at = offset + mark if offset else 0
        shards.append(Shard(table, len(shards), len(shards) * size // ROWS, found, at, line))


def _plan_parquet(table: Place, digest: str, smiles: str, size: int) -> Plan:
    with table.open() as stream, parquet_file(stream, table.shown) as file:
        columns, rows = Columns(*parquet_columns(file.schema_arrow, table.shown, smiles)), file.metadata.num_rows
    shards = [
        Shard(table, number, begin // ROWS, min(size, rows - begin))
        for number, begin in enumerate(range(0, rows, size))
    ]
    return Plan(table, digest, columns, shards)


def _csv_chunks(columns: Columns, shard: Shard) -> Iterator[Chunk]:
    width = len(columns.names)
    with _decoding(shard.table, "a CSV table"), shard.table.open(shard.offset) as stream:
        lines = _Lines(stream, shard.offset, shard.line)
        rows = islice(csv_rows(lines, shard.table.shown, shard.line), shard.rows)
        yield from text_chunks((record_of(line, cells, width) for line, cells, _ in rows), width, columns.place, ROWS)


def _smi_chunks(columns: Columns, shard: Shard) -> Iterator[Chunk]:
    with _decoding(shard.table, "lines"), shard.table.open(shard.offset) as stream:
        lines = (line for line in _Lines(stream, shard.offset, shard.line) if line.strip())
        yield from smi_chunks(islice(lines, shard.rows), ROWS)


def _parquet_chunks(columns: Columns, shard: Shard) -> Iterator[Chunk]:
    begin, end = shard.first * ROWS, shard.first * ROWS + shard.rows
    with shard.table.open() as stream, parquet_file(stream, shard.table.shown) as file:
        at, groups, skipped = 0, [], 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if at + size <= begin:
                skipped += size
            elif at < end:
                groups.append(group)
            at += size
        rows = file.read_row_groups(groups).slice(begin - skipped, shard.rows)
        for place in range(0, rows.num_rows, ROWS):
            yield arrow_chunk(rows.slice(place, ROWS), columns.place)


def _mark_length(table: Place) -> int:
    with table.open() as stream:
        return 3 if stream.read(3) == b"\xef\xbb\xbf" else 0


@contextlib.contextmanager
def _decoding(table: Place, what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{table.shown}: cannot be read as {what} in UTF-8 ({error})") from error
