"""Requests and responses: JSON or Arrow streams, with the columns that `maggnn predict` adds."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maggnn.apps.fit.row_files import arrow_stream, arrow_table
from maggnn.apps.show.web import what_is_wrong
from maggnn.data.molecules.smiles import MOST_CHARACTERS
from maggnn.errors import InputError, did_you_mean, first_line

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"

HEADER, DICTIONARY_DATA, COMPRESSION = 2, 1, 3
"""The numbers of fields in Arrow's tables Message, DictionaryBatch and RecordBatch (format/Message.fbs)."""


class Request(BaseModel):
    """A request for some molecules, as JSON: `{"smiles": ["CCO", "c1ccccc1"]}`; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")
    smiles: list[Annotated[str, Field(max_length=MOST_CHARACTERS)]]


def read_request(body: bytes, kind: str, column: str, most_rows: int) -> list[str]:
    """Return the SMILES of a request.

    Args:
        kind: its content type.
        column: the name of the model's column of SMILES, which an Arrow stream may use instead of "smiles".
        most_rows: the largest number of molecules of a request.
    """
    smiles = _from_arrow(body, column, most_rows) if kind == ARROW else _from_json(body)
    if not 1 <= len(smiles) <= most_rows:
        raise InputError(f"{len(smiles)} molecules: a request must have 1 to {most_rows}")
    return smiles


def write_answer(names: Sequence[str], types: Sequence[str | None], columns: list[list[Any]], kind: str) -> bytes:
    """Return the added columns, in the format of the request."""
    if kind == ARROW:
        return arrow_stream(arrow_table(names, types, columns))
    plain = {name: [_plain(value) for value in column] for name, column in zip(names, columns, strict=True)}
    return json.dumps(plain, allow_nan=False).encode()


def _from_json(body: bytes) -> list[str]:
    try:
        return Request.model_validate_json(body).smiles
    except ValidationError as error:
        found: dict[str, Any] = {**error.errors()[0]}
        raise InputError(what_is_wrong({**found, "loc": ("body", *found["loc"])})) from error


def _from_arrow(body: bytes, column: str, most_rows: int) -> list[str]:
    import pyarrow

    smiles: list[str] = []
    try:
        _refuse_compressed(body)
        with pyarrow.ipc.open_stream(body) as reader:
            name = next((name for name in (column, "smiles") if name in reader.schema.names), None)
            if name is None:
                raise InputError(f"no column {column!r}{did_you_mean(column, reader.schema.names)}")
            if reader.schema.names.count(name) > 1:
                raise InputError(f"column {name!r} occurs more than once")
            for batch in reader:
                # Arrow's lengths are not trusted: their sum is checked before any column becomes a list.
                if len(smiles) + batch.num_rows > most_rows:
                    raise InputError(f"a request must have 1 to {most_rows} molecules, this one has more")
                batch.validate(full=True)
                values = batch.column(name)
                if not (pyarrow.types.is_string(values.type) or pyarrow.types.is_large_string(values.type)):
                    raise InputError(f"column {name!r} has type {values.type}, not text")
                smiles += ["" if value is None else value for value in values.to_pylist()]
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"the request is not an Arrow stream: {first_line(error)}") from error
    return smiles


def _refuse_compressed(body: bytes) -> None:
    """Raise an `InputError` for compressed batches: some kilobytes can expand to gigabytes, and Arrow has no limit."""
    import pyarrow

    for message in pyarrow.ipc.MessageReader.open_stream(body):  # which verifies the offsets that are followed here
        if message.type == "schema":
            continue
        metadata = message.metadata.to_pybytes()
        root = _target(metadata, 0)
        batch = _target(metadata, _place(metadata, root, HEADER))
        if message.type == "dictionary":
            batch = _target(metadata, _place(metadata, batch, DICTIONARY_DATA))
        if _place(metadata, batch, COMPRESSION):
            raise InputError("the batches of the Arrow stream are compressed: send them without compression")


def _place(metadata: bytes, table: int, number: int) -> int:
    """Return the position of a field of a FlatBuffers table; 0 if the table does not have it."""
    (back,) = struct.unpack_from("<i", metadata, table)
    (size,) = struct.unpack_from("<H", metadata, table - back)
    if size <= 4 + 2 * number:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, table - back + 4 + 2 * number)
    return table + offset if offset else 0


def _target(metadata: bytes, place: int) -> int:
    """Return the position of the table that an offset at `place` leads to."""
    return place + struct.unpack_from("<I", metadata, place)[0]


def _plain(value: Any) -> Any:
    """Convert a numpy number to the shortest one that is equal in its precision, as `maggnn predict` writes it."""
    return float(str(value)) if isinstance(value, np.floating) else value
