"""The two stages of screening, each an actor of Ray Data that processes one shard at a time.

    Reader      on a CPU: reads the rows of the shard, and featurises their molecules as packed arrays
    Answerer    on a GPU or a CPU: predicts, and writes the shard's file and its counts

Each shard is passed between them as one row, which contains a pickle that only the two stages write and read. An error
becomes the text of a row instead of an exception, which Ray would wrap in its own traces.
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

from maggnn.apps.fit.featurised_chunks import Featurised, SmilesReading, featurised_chunk
from maggnn.apps.fit.row_files import Chunk
from maggnn.apps.scale.selection import Selection
from maggnn.apps.scale.shards import Columns, Shard, chunks_of
from maggnn.apps.scale.storage import Place
from maggnn.errors import InputError

MARK = b"maggnn"
"""The key in the metadata of a shard's Parquet file that identifies its inputs."""

MOST_REASONS = 20
OTHERS = "other reasons"


@dataclass(frozen=True)
class Job:
    """A shard to be predicted.

    Attributes:
        number: its number among all shards of all tables.
        out: its output file.
        identity: a digest of everything that the file depends on; a file with another identity is replaced.
    """

    shard: Shard
    number: int
    out: Place
    identity: str


@dataclass(frozen=True)
class Counts:
    """Counts of rows: `rows` is the sum of `predicted` and of all reasons.

    Attributes:
        kept: the number of rows that were written.
        reasons: the reasons for missing predictions, and the number of rows of each.
        found: the number of shards that an earlier run had made.
        far: the number of predicted rows that are far from training.
    """

    rows: int = 0
    predicted: int = 0
    kept: int = 0
    shards: int = 0
    found: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    far: int = 0

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = asdict(self), asdict(other)
        summed = {name: mine[name] + theirs[name] for name in mine if name != "reasons"}
        return Counts(**summed, reasons=most_frequent(Counter(self.reasons) + Counter(other.reasons)))


def most_frequent(reasons: Counter[str]) -> dict[str, int]:
    """Return the most frequent reasons, and all others together."""
    ranked = sorted(reasons.items(), key=lambda entry: (entry[0] == OTHERS, -entry[1], entry[0]))
    rest = sum(count for _, count in ranked[MOST_REASONS:])
    return dict(ranked[:MOST_REASONS]) | ({OTHERS: rest + dict(ranked[:MOST_REASONS]).get(OTHERS, 0)} if rest else {})


class Reader:
    """Reads shards and featurises their molecules.

    Args:
        reading: how the model reads molecules.
    """

    def __init__(self, columns: Columns, reading: SmilesReading) -> None:
        self.columns, self.reading = columns, reading

    def __call__(self, batch: Any) -> Any:
        return _row(lambda: self._read(pickle.loads(_cell(batch, "job"))))

    def _read(self, job: Job) -> dict[str, bytes]:
        if _written(job) is not None:  # the next stage reports the counts of the existing file
            return {"job": pickle.dumps(job), "rows": b""}
        work: list[tuple[Chunk, Featurised]] = []
        for chunk in chunks_of(self.columns, job.shard):
            usable = [text for text, reason in zip(chunk.smiles, chunk.reasons, strict=True) if not reason]
            work.append((chunk, featurised_chunk(usable, *self.reading)))
        return {"job": pickle.dumps(job), "rows": pickle.dumps(work, protocol=5)}


class Answerer:
    """Predicts for shards with a model and writes them.

    Args:
        fitted: the model, which is sent with the actor, so that machines need no copy of its folder.
        coverage: the coverage of prediction intervals.
        threads: the number of torch threads on a CPU.
    """

    def __init__(self, fitted: Any, columns: Columns, coverage: float, selection: Selection, threads: int) -> None:
        import torch

        from maggnn.apps.fit.answers.columns import answer_names, answer_types

        torch.set_num_threads(threads)
        self.fitted, self.coverage, self.selection = fitted, coverage, selection
        self.names = [*columns.names, *answer_names(fitted)]
        self.types = [*columns.types, *answer_types(fitted)]

    def __call__(self, batch: Any) -> Any:
        return _row(
            lambda: self._answer(pickle.loads(_cell(batch, "job")), _cell(batch, "rows")), _cell(batch, "error")
        )

    def _answer(self, job: Job, rows: Any) -> dict[str, bytes]:
        written = _written(job)  # also if a task is repeated because its process died after writing
        if written is None:
            counts, table = self._made(job, pickle.loads(rows))
        else:
            counts, table = written, _table_of(job.out) if self.selection.top is not None else None
        best = b"" if self.selection.top is None else self.selection.candidates(table, job.number)
        return {"counts": json.dumps(asdict(counts)).encode(), "best": best}

    def _made(self, job: Job, work: list[tuple[Chunk, Featurised]]) -> tuple[Counts, Any]:
        import pyarrow

        from maggnn.apps.fit.answers.far_rows import far_limit
        from maggnn.apps.fit.fitted import UnseenWarning
        from maggnn.apps.fit.predicting import answers_for
        from maggnn.apps.fit.row_files import arrow_table

        tables, reasons, rows, far, limit = [], Counter[str](), 0, 0, far_limit(self.fitted)
        with warnings.catch_warnings(action="ignore", category=UnseenWarning):  # the row mentions it
            for number, (chunk, molecules) in enumerate(work, start=job.shard.first):
                answers = answers_for(self.fitted, chunk, molecules, number, self.coverage)
                columns = answers.cells()
                rows += len(chunk.smiles)
                far += answers.below(limit)
                # Without a prediction, the last number is missing; a reason next to a prediction is a remark.
                reasons.update(
                    _kind(reason) for value, reason in zip(columns[-2], columns[-1], strict=True) if value is None
                )
                tables.append(self.selection.kept(arrow_table(self.names, self.types, [*chunk.columns, *columns])))
        table = self.selection.kept(pyarrow.concat_tables(tables))
        counts = Counts(rows, rows - reasons.total(), table.num_rows, 1, 0, most_frequent(reasons), far)
        job.out.write(_file_of(table, job.identity, counts))
        return counts, table


def merged_shards(batch: Any, selection: Selection) -> Any:
    """Merge the best rows of several shards, and add their counts."""

    def merge() -> dict[str, bytes]:
        counts = sum((Counts(**json.loads(value)) for value in batch.column("counts").to_pylist()), Counts())
        best = selection.merged(batch.column("best").to_pylist())
        return {"counts": json.dumps(asdict(counts)).encode(), "best": best}

    errors = [value for value in batch.column("error").to_pylist() if value]
    return _row(merge, errors[0] if errors else b"")


FIELDS = ("job", "rows", "counts", "best", "error")


def _row(made: Callable[[], dict[str, bytes]], earlier: Any = b"") -> Any:
    """Return a row with the result of a stage, or with the error that it or an earlier stage raised."""
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
    """Return the bytes of a batch's only row, without a copy."""
    return batch.column(name)[0].as_buffer() if name in batch.column_names else b""


def _kind(reason: str) -> str:
    """Return a reason without its numbers, so that equal errors are counted together."""
    return re.sub(r"\d+", "N", reason)


def _file_of(table: Any, identity: str, counts: Counts) -> bytes:
    """Return a shard's Parquet file, with metadata that identify its inputs."""
    mark = json.dumps({"identity": identity, "counts": asdict(counts)}).encode()
    return parquet_bytes(table.replace_schema_metadata({MARK: mark}))


def parquet_bytes(table: Any) -> bytes:
    """Return an Arrow table as the bytes of a Parquet file."""
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()


def _written(job: Job) -> Counts | None:
    """Return the counts of a shard if its file exists and was made from the same table by the same model."""
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
        return None  # a damaged file is made again


def _table_of(place: Place) -> Any:
    from pyarrow import parquet

    with place.open() as stream:
        return parquet.read_table(stream).replace_schema_metadata(None)
