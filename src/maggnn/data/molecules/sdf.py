"""SDF files as tables: each record is a row, and RDKit reads one at a time.

    smiles          RDKit's SMILES of the record, with the stereo that its coordinates or bonds give
    name            its title
    other columns   its properties, by name, in the order in which they first occur; one named smiles or name becomes
                    "smiles (property)" or "name (property)"

A record that RDKit cannot read is a row that cannot be used.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO

from maggnn.errors import InputError

SMILES, NAME = "smiles", "name"
PROPERTY = re.compile(rb"^>[^<]*<(.+)>")
ENDS = (b"$$$$", b"M  END")
"""Lines that a whole file may end with; the second is that of a single molecule without properties."""

NOT_READ = "RDKit cannot read this record"


def sdf_rows(path: Path) -> Iterator[tuple[int, list[str], str]]:
    """Yield the names of the columns, then every record: its number, from 2, its cells, and why it cannot be used."""
    from rdkit import Chem
    from rdkit.rdBase import BlockLogs

    properties = _property_names(path)
    yield 1, [SMILES, NAME, *(_column(name) for name in properties)], ""
    with BlockLogs(), _opened(path) as file:
        for number, record in enumerate(_records(file), start=2):
            mol = next(Chem.ForwardSDMolSupplier(BytesIO(record)), None)
            if mol is None:
                yield number, [""] * (2 + len(properties)), NOT_READ
                continue
            title = mol.GetProp("_Name") if mol.HasProp("_Name") else ""
            values = [mol.GetProp(name).strip() if mol.HasProp(name) else "" for name in properties]
            yield number, [Chem.MolToSmiles(mol), title.strip(), *values], ""


def _records(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of each record.

    RDKit gets one record at a time: from a whole file, it would read a record of fewer than four lines (a compound
    whose structure is missing) together with the next one, which would be lost.
    """
    lines: list[bytes] = []
    for line in file:
        lines.append(line)
        if line.startswith(ENDS[0]):
            yield b"".join(lines)
            lines = []
    if any(line.strip() for line in lines):  # a single molecule without properties
        yield b"".join(lines)


def _property_names(path: Path) -> list[str]:
    """Return the names of all properties, in the order in which they first occur."""
    names: dict[str, None] = {}
    last = ENDS[0]
    with _opened(path) as file:
        for line in file:
            found = PROPERTY.match(line)
            if found is not None:
                names[found[1].decode("utf-8")] = None
            last = line.strip() or last
    if not last.startswith(ENDS):  # RDKit would read a value that was cut off as complete
        raise InputError(f"{path}: ends within a record: the file was cut short, or its last record lacks $$$$")
    return list(names)


def _column(name: str) -> str:
    return f"{name} (property)" if name in (SMILES, NAME) else name


@contextmanager
def _opened(path: Path) -> Iterator[gzip.GzipFile | IO[bytes]]:
    """Open a file, compressed or not; an error of reading it names the file."""
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as SDF ({error})") from error
