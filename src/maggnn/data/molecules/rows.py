"""Reads the rows of tables (.csv, .csv.gz, .parquet, .sdf, .sdf.gz), with the same rules for all commands.

    text        UTF-8, with or without a byte order mark; cells are separated by commas
    header      the first row; no two columns have the same name
    a row       has as many cells as the header; one that has more or fewer is left out and reported with its line
    quotes      a cell that begins with a quote ends with one; a quote that is never closed is an error with its line
    a cell      has at most 1,000,000 characters
    empty lines are not rows

Lines are counted from 1, the header; a row whose cells span several lines has the number of its first line. Rows of a
Parquet file are numbered as if they were lines of such a table, and their cells become text. So are the records of an
SDF file, whose columns are the SMILES that RDKit writes for them, their titles, and their properties (`sdf`).
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from maggnn.errors import InputError, did_you_mean, first_line

TABLES = (".csv", ".csv.gz", ".parquet", ".sdf", ".sdf.gz")
"""The suffixes of tables with a header."""

ROWS_AT_ONCE = 4096
MOST_CHARACTERS = 1_000_000
"""The largest number of characters of a cell: far more than a molecule needs, and few enough to find open quotes."""


class Record(NamedTuple):
    """A row: the line that it begins on, its cells, and why it cannot be used (empty if it can)."""

    line: int
    cells: list[str]
    reason: str


@dataclass(frozen=True)
class RowTable:
    """A table whose header has been read; rows are read on demand."""

    path: Path
    names: list[str]

    def place(self, name: str) -> int:
        """Return the index of a column."""
        return column_place(self.path, self.names, name)

    def records(self) -> Iterator[Record]:
        """Yield all rows in order."""
        rows = _reader(self.path)
        next(rows, None)
        for line, cells, reason in rows:
            yield record_of(line, cells, len(self.names), reason)

    def count(self) -> int:
        """Return the number of rows, after reading all of them and checking the file."""
        return sum(1 for _ in self.records())


def record_of(line: int, cells: list[str], width: int, reason: str = "") -> Record:
    """Return a row; it cannot be used if it is not as wide as the header, or if a reader gave a reason."""
    if len(cells) != width and not reason:
        reason = f"line {line} has {len(cells)} cells where the header has {width}"
    return Record(line, cells, reason)


def open_table(path: Path) -> RowTable:
    """Open the table at `path` and check its header."""
    check_ending(path, TABLES)
    _, names, _ = next(_reader(path), (1, [], ""))
    if not names:
        raise InputError(f"{path}: the table has no header")
    check_names(path, names)
    return RowTable(path, names)


def count_lines(path: Path) -> int:
    """Count the lines of a file, to show progress; 0 if it cannot be opened."""
    try:
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return 0


def check_ending(path: Path, known: Sequence[str]) -> None:
    """Check that a file exists and has a known suffix."""
    if ending(path) not in known:
        raise InputError(f"{path}: cannot read {ending(path) or 'a file without an ending'}, only {', '.join(known)}")
    if not path.exists():
        raise InputError(f"{path}: no such file")


def ending(path: Path) -> str:
    """Return the suffix of a file's name in lower case; for a compressed file, with the suffix before."""
    name = path.name.lower()
    inner = Path(name.removesuffix(".gz")).suffix
    return f"{inner}.gz" if name.endswith(".gz") else inner


def check_names(path: Path | str, names: Sequence[str]) -> None:
    """Check that no two columns have the same name, except for columns without a name."""
    for name, count in Counter(names).items():
        if name and count > 1:
            raise InputError(f"{path}: {count} columns are named {name!r}: give each a different name")


def column_place(path: Path | str, header: Sequence[str], name: str) -> int:
    """Return the index of a column in a header."""
    if name in header:
        return list(header).index(name)
    other = next((mark for mark in ";\t|" if len(header) == 1 and mark in header[0]), None)
    if other is not None:
        raise InputError(f"{path}: no column {name!r}: columns seem to be separated by {other!r}, commas are needed")
    raise InputError(f"{path}: no column {name!r}{did_you_mean(name, header)}")


def parquet_tools(path: Path | str) -> tuple[Any, Any]:
    """Import PyArrow and its Parquet module, which are an extra."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(f"{path}: Parquet needs pyarrow: pip install 'maggnn[parquet]'") from error
    return pyarrow, parquet


@contextmanager
def parquet_file(source: Any, shown: Path | str) -> Iterator[Any]:
    """Open a Parquet file, whose path is `shown` in the message of any error while it is read.

    Args:
        source: its path, or a stream of its bytes.
    """
    arrow, parquet = parquet_tools(shown)
    try:
        with parquet.ParquetFile(source) as file:
            yield file
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"{shown}: cannot be read as Parquet ({first_line(error)})") from error


Row = tuple[int, list[str], str]
"""A line, its cells, and why they cannot be used."""


def _reader(path: Path) -> Iterator[Row]:
    """Yield the names of the columns, then every row as text."""
    if ending(path).startswith(".sdf"):
        from maggnn.data.molecules.sdf import sdf_rows  # needs RDKit

        return sdf_rows(path)
    return _parquet_rows(path) if ending(path) == ".parquet" else _csv_rows(path)


def _parquet_rows(path: Path) -> Iterator[Row]:
    with parquet_file(path, path) as file:
        yield 1, list(file.schema_arrow.names), ""
        line = 1
        for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
            for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                line += 1
                yield line, ["" if cell is None else str(cell) for cell in cells], ""


def opened(path: Path) -> TextIO:
    """Open a text file in UTF-8, compressed or not."""
    open_file = gzip.open if ending(path).endswith(".gz") else open
    return open_file(path, "rt", newline="", encoding="utf-8-sig")  # pyright: ignore[reportReturnType]


def _csv_rows(path: Path) -> Iterator[Row]:
    """Yield every row, including the header, with the line that it begins on."""
    try:
        with opened(path) as file:
            yield from csv_rows(file, path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as a CSV table in UTF-8 ({error})") from error


def csv_rows(lines: Iterable[str], path: Path | str, begins: int = 1) -> Iterator[Row]:
    """Yield every row of some lines of a CSV table, with the line that it begins on.

    Args:
        lines: the lines with their line ends, as from a file that was opened with `newline=""`.
        path: the path of the table, for messages.
        begins: the number of the first of the lines.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MOST_CHARACTERS))
    before = begins
    try:
        reader = csv.reader(lines, strict=True)
        for cells in reader:
            if cells:
                yield begins, cells, ""
            begins = before + reader.line_num
    except csv.Error as error:
        raise InputError(f"{path}: line {begins}: {_in_words(error)}") from error


def _in_words(error: csv.Error) -> str:
    """Describe what is wrong with a row that could not be read."""
    text = str(error)
    if "unexpected end" in text:
        return "a quote opens in this row and is never closed"
    if "field larger" in text:
        return f"a cell of more than {MOST_CHARACTERS:,} characters, or a quote opens in this row and is never closed"
    if "expected after" in text:
        return "text follows a closing quote: the quote before is never closed, or one within a cell is not doubled"
    return f"cannot be read as CSV ({text})"
