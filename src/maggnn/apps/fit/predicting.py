"""`maggnn predict`: answers for a table of any length, in bounded memory, going on where a killed run stopped.

Worker processes turn SMILES into arrays while threads of this process answer, a chunk each. The seed of a chunk is its
number, so answers depend neither on the number of workers nor on interruptions.
"""

from __future__ import annotations

import copy
import hashlib
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from maggnn.apps.fit.featurised_chunks import Featurised, featurised_chunk, leave_with_parent
from maggnn.apps.fit.fitted import FACTS, MODEL, Facts, FittedModel, UnseenWarning
from maggnn.apps.fit.own_table import graphs_of
from maggnn.apps.fit.packing import shown
from maggnn.apps.fit.parts import Parts
from maggnn.apps.fit.row_files import (
    Chunk,
    Source,
    cell_text,
    check_writable_name,
    count_rows,
    join_parts,
    open_source,
    write_part,
)
from maggnn.data.packing import Arrays
from maggnn.errors import InputError
from maggnn.inference.engine import CACHE_MB
from maggnn.model.runtime import pick_device

ROWS = 2048
"""Rows a chunk: enough that sending and writing cost little, few enough that memory stays small."""

AHEAD = 2
"""Chunks a worker that are read before their answers are due."""

REASON = "reason"
UNSEEN = "predicted, but it holds an element, a bond or another feature that training never saw"
NOT_FINITE = "no prediction: the model's answer is not a finite number"

THREADS_A_WORKER = 2
"""Threads that answer for each worker: answering takes about twice as long as featurising."""

Answers = tuple[list[list[Any]], int]
"""The columns to add to a chunk, and how many of its rows have no prediction."""

Work = tuple[int, Chunk, Future[Answers] | None]
"""A chunk's number, its rows, and its answers; None where they are there already."""


def predict_table(
    model: Path, table: Path, out: Path, smiles: str | None = None, workers: int = 2, overwrite: bool = False
) -> dict[str, Any]:
    """Write all rows of `table` with their predictions to `out`; return what there is to say."""
    began = time.monotonic()
    check_writable_name(out)
    fitted = FittedModel.load(model)
    if fitted.facts.source != "smiles":
        raise InputError(f"{model}: was fitted to graphs, not to SMILES: use it from Python")
    source = open_source(table, smiles or fitted.facts.smiles_column)
    if next(source.chunks(1), None) is None:
        raise InputError(f"{table}: there are no rows to predict for")
    added = answer_names(fitted.facts)
    _check_names(source, added)
    parts, names = Parts(out), [*source.names, *added]
    with parts.only_here():
        if parts.begin(_identity(model, source, out), overwrite):
            with warnings.catch_warnings(), shown(source.num_rows) as on_row:
                warnings.simplefilter("ignore", UnseenWarning)  # the row says so
                rows, without = _make_parts(fitted, source, parts, out.suffix, workers, on_row)
            parts.finish(-(-rows // ROWS), lambda paths, path: join_parts(paths, path, out.suffix, names))
        else:
            rows, without = count_rows(out, out.suffix, _number_place(names), header=True)
    return {"out": str(out), "rows": rows, "without": without, "seconds": time.monotonic() - began}


def _number_place(names: Sequence[str]) -> int:
    """A column that is empty where there is no prediction: the last before the reason, which holds numbers."""
    return len(names) - 2


def answer_names(facts: Facts) -> list[str]:
    """The columns that are added: predictions, probabilities of classes, and why there is none."""
    return [*(f"predicted_{name}" for name in facts.targets), *(f"p_{name}" for name in facts.classes), REASON]


def _check_names(source: Source, added: Sequence[str]) -> None:
    twice = [name for name in added if name in source.names]
    if twice:
        raise InputError(f"{source.path}: has a column {twice[0]!r} already, which is to be added: rename it")


def _identity(model: Path, source: Source, out: Path) -> dict[str, Any]:
    """What the answers depend on."""
    return {
        "model": [_digest(model / name) for name in (MODEL, FACTS)],
        "table": _digest(source.path),
        "smiles": source.names[source.place],
        "rows_a_chunk": ROWS,
        "kind": out.suffix,
    }


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def _make_parts(
    fitted: FittedModel, source: Source, parts: Parts, kind: str, workers: int, on_row: Callable[[int], None]
) -> tuple[int, int]:
    """Write the parts that are missing; how many rows there are, and for how many of those no answer."""
    rows, without = 0, 0
    names = [*source.names, *answer_names(fitted.facts)]
    numbers = len(fitted.facts.classes) or len(fitted.facts.targets)
    labels = [None] if fitted.facts.classes else []
    types = [*source.types, *labels, *[_number_type(fitted)] * numbers, None]
    with _featurisers(workers, source.num_rows) as pool, _Answering(fitted, workers) as answering:
        try:
            for number, chunk, future in _ahead(source, parts, pool, answering, AHEAD * workers):
                if future is None:  # an earlier run made it
                    without += count_rows(parts.path(number), kind, _number_place(names))[1]
                else:
                    columns, lacking = future.result()
                    without += lacking
                    if kind == ".csv":
                        columns = [[cell_text(value) for value in column] for column in columns]
                    cells = [*chunk.columns, *columns]
                    parts.add(number, lambda path, cells=cells: write_part(path, kind, names, types, cells))
                rows += len(chunk.smiles)
                on_row(rows)
        except BrokenProcessPool as error:
            raise InputError("a worker process died (out of memory?): the same command goes on") from error
        finally:
            pool.shutdown(cancel_futures=True)
            answering.threads.shutdown(cancel_futures=True)
    return rows, without


def _featurisers(workers: int, num_rows: int) -> Executor:
    """Processes that featurise chunks; a single chunk is done here before a process would have started."""
    if num_rows <= ROWS:
        return ThreadPoolExecutor(1)
    return ProcessPoolExecutor(workers, get_context("spawn"), leave_with_parent)


class _Answering:
    """Threads that answer, each with an engine of its own and on one core: chunks do not wait for one another.

    On a GPU there is one thread, since recordings of two engines would disturb each other.
    """

    def __init__(self, fitted: FittedModel, workers: int) -> None:
        self.features, self._fitted, self._own = fitted.facts.features, fitted, threading.local()
        self._num_threads = torch.get_num_threads()
        on_gpu = pick_device("auto").type == "cuda"
        count = 1 if on_gpu else min(os.cpu_count() or 1, THREADS_A_WORKER * workers)
        self.threads = ThreadPoolExecutor(count, initializer=self._begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.shutdown()
        torch.set_num_threads(self._num_threads)

    def submit(self, chunk: Chunk, molecules: Future[Featurised], seed: int) -> Future[Answers]:
        """The answers for a chunk whose molecules are on their way."""
        return self.threads.submit(self._answer, chunk, molecules, seed)

    def _begin(self) -> None:
        torch.set_num_threads(1)
        self._own.fitted = copy.copy(self._fitted)  # which makes an engine of its own

    def _answer(self, chunk: Chunk, molecules: Future[Featurised], seed: int) -> Answers:
        return answered(self._own.fitted, chunk, molecules.result(), seed)


def _number_type(fitted: FittedModel) -> str:
    """Answers are as exact as the targets were."""
    scale = fitted.model.targets
    return "double" if scale is not None and scale.mean.dtype == torch.float64 else "number"


def _ahead(source: Source, parts: Parts, pool: Executor, answering: _Answering, most: int) -> Iterator[Work]:
    """The chunks in order, some of them on their way through the workers and the threads that answer."""
    waiting: deque[Work] = deque()
    for number, chunk in enumerate(source.chunks(ROWS)):
        future = None
        if not parts.has(number):
            usable = [smiles for smiles, reason in zip(chunk.smiles, chunk.reasons, strict=True) if not reason]
            molecules = pool.submit(featurised_chunk, usable, answering.features)
            future = answering.submit(chunk, molecules, number)
        waiting.append((number, chunk, future))
        if len(waiting) > most:
            yield waiting.popleft()
    yield from waiting


def answered(fitted: FittedModel, chunk: Chunk, molecules: Featurised, seed: int) -> Answers:
    """The columns to add to a chunk, and how many rows have no prediction."""
    found = iter(molecules.reasons)
    reasons = [reason or next(found) for reason in chunk.reasons]
    rows = [row for row, reason in enumerate(reasons) if not reason]
    facts, without = fitted.facts, len(reasons) - len(rows)
    columns: list[list[Any]] = [[None] * len(reasons) for _ in answer_names(facts)[:-1]]
    if molecules.arrays is not None:
        budget = CACHE_MB * torch.get_num_threads()  # equal parts, and so equal answers, whatever the machine has
        answers = fitted.predict(graphs_of(molecules.arrays), seed=seed, memory_mb=budget).numpy()
        finite = [bool(good) for good in np.asarray(np.isfinite(answers).all(axis=1))]
        for column, values in zip(columns, _values(answers, facts), strict=True):
            for row, value, good in zip(rows, values, finite, strict=True):
                column[row] = value if good else None
        for row, strange, good in zip(rows, _strange(molecules.arrays, facts), finite, strict=True):
            reasons[row] = NOT_FINITE if not good else UNSEEN if strange else ""
        without += finite.count(False)
    return [*columns, reasons], without


def _strange(arrays: Arrays, facts: Facts) -> np.ndarray:
    """Whether each molecule has a category that training never saw, [G]."""
    strange = np.zeros(len(arrays["num_nodes"]), dtype=bool)
    for values, seen, sizes in (("x", facts.seen_nodes, "num_nodes"), ("edge_attr", facts.seen_edges, "num_edges")):
        owner = np.repeat(np.arange(len(strange)), arrays[sizes])
        for column, known in zip(arrays[values].T, seen, strict=False):
            strange[owner[~np.isin(column, known)]] = True
    return strange


def _values(answers: np.ndarray, facts: Facts) -> list[Sequence[Any]]:
    """Columns of predictions: the likeliest class and all probabilities, or the values. float32 prints shortly."""
    columns: list[Sequence[Any]] = [list(column) for column in answers.T]
    return [[facts.classes[place] for place in answers.argmax(axis=1)], *columns] if facts.classes else columns
