"""The two stages of screening, each an actor of Ray Data that is given one shard at a time.

    Reader      on a CPU: rows of the shard, and their molecules as packed arrays
    Answerer    on a GPU or a CPU: answers, the shard's file, and a line about it

What flows between them is one row a shard: its rows in a pickle, which both ends make themselves. A mistake becomes
the text of a row instead of an exception, which Ray would wrap in traces of its own.
"""

from __future__ import annotations

import errno
import io
import json
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from maggnn.apps.fit.featurised_chunks import Featurised, featurised_chunk
from maggnn.apps.fit.row_files import Chunk
from maggnn.apps.scale.selection import Selection
from maggnn.apps.scale.shards import Columns, Shard, chunks_of
from maggnn.apps.scale.storage import Place
from maggnn.errors import InputError

MARK = b"maggnn"
"""Under this key the metadata of a shard's Parquet file says what it was made of."""

MOST_REASONS = 20
OTHERS = "other reasons"


@dataclass(frozen=True)
class Job:
    """A shard to be answered.

    Attributes:
        number: among all shards of all tables.
        out: the file of its answers.
        identity: what that file depends on; a file with another identity is replaced.
    """

    shard: Shard
    number: int
    out: Place
    identity: str


@dataclass(frozen=True)
class Counts:
    """What became of rows: `rows` is the sum of `predicted` and of all reasons.

    Attributes:
        kept: rows that were written.
        reasons: why rows have no prediction, and how many of them each.
        found: shards that an earlier run had made.
    """

    rows: int = 0
    predicted: int = 0
    kept: int = 0
    shards: int = 0
    found: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = asdict(self), asdict(other)
        summed = {name: mine[name] + theirs[name] for name in mine if name != "reasons"}
        return Counts(**summed, reasons=few(Counter(self.reasons) + Counter(other.reasons)))


def few(reasons: Counter[str]) -> dict[str, int]:
    """The commonest reasons, and all others together."""
    ranked = sorted(reasons.items(), key=lambda entry: (entry[0] == OTHERS, -entry[1], entry[0]))
    rest = sum(count for _, count in ranked[MOST_REASONS:])
    return dict(ranked[:MOST_REASONS]) | ({OTHERS: rest + dict(ranked[:MOST_REASONS]).get(OTHERS, 0)} if rest else {})


class Reader:
    """Reads shards and featurises their molecules.

    Args:
        read_by: how the model reads SMILES (`maggnn.apps.fit.predicting.read_by`).
    """

    def __init__(self, columns: Columns, read_by: tuple[str, bool, bool, str]) -> None:
        self.columns, self.read_by = columns, read_by

    def __call__(self, batch: Any) -> Any:
        return _row(lambda: self._read(pickle.loads(_cell(batch, "job"))))

    def _read(self, job: Job) -> dict[str, bytes]:
        if _written(job) is not None:  # the next stage says what there is
            return {"job": pickle.dumps(job), "rows": b""}
        work: list[tuple[Chunk, Featurised]] = []
        for chunk in chunks_of(self.columns, job.shard):
            usable = [text for text, reason in zip(chunk.smiles, chunk.reasons, strict=True) if not reason]
            work.append((chunk, featurised_chunk(usable, *self.read_by)))
        return {"job": pickle.dumps(job), "rows": pickle.dumps(work, protocol=5)}


class Answerer:
    """Answers shards with a model and writes them.

    Args:
        fitted: the model; it comes with the actor, so that machines need no copy of its folder.
        coverage: of the intervals of numbers.
        threads: of torch, on a CPU.
    """

    def __init__(self, fitted: Any, columns: Columns, coverage: float, selection: Selection, threads: int) -> None:
        import torch

        from maggnn.apps.fit.predicting import answer_names, answer_types

        torch.set_num_threads(threads)
        self.fitted, self.coverage, self.selection = fitted, coverage, selection
        self.names = [*columns.names, *answer_names(fitted)]
        self.types = [*columns.types, *answer_types(fitted)]

    def __call__(self, batch: Any) -> Any:
        return _row(
            lambda: self._answer(pickle.loads(_cell(batch, "job")), _cell(batch, "rows")), _cell(batch, "error")
        )

    def _answer(self, job: Job, rows: Any) -> dict[str, bytes]:
        written = _written(job)  # also where a task is repeated whose process died after writing
        if written is None:
            counts, table = self._made(job, pickle.loads(rows))
        else:
            counts, table = written, _table_of(job.out) if self.selection.top is not None else None
        best = b"" if self.selection.top is None else self.selection.candidates(table, job.number)
        return {"counts": json.dumps(asdict(counts)).encode(), "best": best}

    def _made(self, job: Job, work: list[tuple[Chunk, Featurised]]) -> tuple[Counts, Any]:
        import pyarrow

        from maggnn.apps.fit.fitted import UnseenWarning
        from maggnn.apps.fit.predicting import answered
        from maggnn.apps.fit.row_files import arrow_table

        tables, reasons, rows = [], Counter[str](), 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenWarning)  # the row says so
            for number, (chunk, molecules) in enumerate(work, start=job.shard.first):
                columns, _ = answered(self.fitted, chunk, molecules, number, self.coverage)
                rows += len(chunk.smiles)
                # Where there is no prediction the last number is missing; a reason beside a prediction is a remark.
                reasons.update(
                    _kind(reason) for value, reason in zip(columns[-2], columns[-1], strict=True) if value is None
                )
                tables.append(self.selection.kept(arrow_table(self.names, self.types, [*chunk.columns, *columns])))
        table = self.selection.kept(pyarrow.concat_tables(tables))
        counts = Counts(rows, rows - reasons.total(), table.num_rows, 1, 0, few(reasons))
        job.out.write(_file_of(table, job.identity, counts))
        return counts, table


def merged_shards(batch: Any, selection: Selection) -> Any:
    """The best rows of several shards, and the sum of their counts."""

    def merge() -> dict[str, bytes]:
        counts = sum((Counts(**json.loads(value)) for value in batch.column("counts").to_pylist()), Counts())
        best = selection.merged(batch.column("best").to_pylist())
        return {"counts": json.dumps(asdict(counts)).encode(), "best": best}

    errors = [value for value in batch.column("error").to_pylist() if value]
    return _row(merge, errors[0] if errors else b"")


FIELDS = ("job", "rows", "counts", "best", "error")


def _row(made: Callable[[], dict[str, bytes]], earlier: Any = b"") -> Any:
    """A row of what a stage made, or of the mistake that it or an earlier stage met."""
    import pyarrow

    values: dict[str, Any] = {"error": bytes(earlier)}
    if not values["error"]:
        try:
            values = made()
        except InputError as error:
            values = {"error": str(error).encode()}
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            values = {"error": f"{where}{error.strerror or errno.errorcode.get(error.errno or 0, error)}".encode()}
    binary = pyarrow.large_binary()
    return pyarrow.table({name: pyarrow.array([values.get(name, b"")], binary) for name in FIELDS})


def _cell(batch: Any, name: str) -> Any:
    """The bytes of a batch's only row, without a copy."""
    return batch.column(name)[0].as_buffer() if name in batch.column_names else b""


def _kind(reason: str) -> str:
    """A reason without its numbers, so that equal mistakes are counted together."""
    return re.sub(r"\d+", "N", reason)


def _file_of(table: Any, identity: str, counts: Counts) -> bytes:
    """A shard's Parquet file, which says itself what it was made of."""
    from pyarrow import parquet

    mark = json.dumps({"identity": identity, "counts": asdict(counts)}).encode()
    stream = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({MARK: mark}), stream)
    return stream.getvalue()


def _written(job: Job) -> Counts | None:
    """What became of a shard's rows, if its file is there and made of the same table by the same model."""
    import pyarrow
    from pyarrow import parquet

    if job.out.kind() != "file":
        return None
    try:
        with job.out.open() as stream:
            mark = json.loads((parquet.read_schema(stream).metadata or {}).get(MARK, b"{}"))
        if mark.get("identity") != job.identity:
            return None
        return Counts(**{**mark["counts"], "found": 1})
    except (OSError, ValueError, TypeError, KeyError, pyarrow.ArrowException):
        return None  # damaged: it is made anew


def _table_of(place: Place) -> Any:
    from pyarrow import parquet

    with place.open() as stream:
        return parquet.read_table(stream).replace_schema_metadata(None)
