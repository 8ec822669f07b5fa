"""`maggnn predict`: predictions for a table of any length, in bounded memory; a run that was killed can be resumed.

Worker processes turn SMILES into arrays, and write the answers, while threads of this process predict, one chunk each,
so that all cores are busy whichever of the two takes longer. A GPU has a single thread; it copies arrays from pinned
memory and replays the same recordings for all chunks. The seed of a chunk is its number, so predictions depend neither
on the number of workers and threads nor on interruptions.
"""

from __future__ import annotations

import copy
import hashlib
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maggnn.apps.fit.answers.answered_rows import AnsweredRows, Layout, write_answers
from maggnn.apps.fit.answers.columns import NOT_FINITE, REASON, answer_columns, answer_names, answer_types
from maggnn.apps.fit.answers.far_rows import far_limit, far_warning
from maggnn.apps.fit.categories import are_among
from maggnn.apps.fit.classical.descriptors import Descriptors
from maggnn.apps.fit.facts import FACTS, Facts
from maggnn.apps.fit.featurised_chunks import Featurised, SmilesReading, featurised_chunk
from maggnn.apps.fit.fitted import MODEL, Answer, FittedModel, UnseenWarning
from maggnn.apps.fit.packing import row_progress
from maggnn.apps.fit.parts import Parts
from maggnn.apps.fit.row_files import (
    Chunk,
    Counted,
    Source,
    check_writable_name,
    count_rows,
    join_parts,
    open_source,
)
from maggnn.apps.fit.tables.number_columns import column_places, with_numbers
from maggnn.apps.fit.tables.predicting_graphs import predict_graphs
from maggnn.apps.fit.uncertainty import COVERAGE, check_coverage
from maggnn.apps.terminal import tell
from maggnn.data.files import check_not_input
from maggnn.data.packing import Arrays
from maggnn.data.sources import graphs_of
from maggnn.data.worker_processes import worker_pool
from maggnn.errors import InputError
from maggnn.inference.engine import CACHE_MB
from maggnn.model.runtime import pick_device

ROWS = 2048
"""The number of rows in a chunk: enough that sending and writing cost little, few enough that memory stays small."""

AHEAD = 2
"""The number of chunks that are read ahead for each worker or predicting thread."""

UNSEEN = "predicted, but it has an element, a bond or another feature that is not in the training data"

GPU_CHUNK_MB = 1000.0
"""The memory of the network's chunks on a GPU, of which a chunk of molecules is usually one."""

Work = tuple[int, int, Future[Future[Counted]] | None]
"""A chunk's number, its number of rows, and the counts of its answers, as soon as a worker has written them.

None if an earlier run wrote them.
"""


def predict_table(
    model: Path,
    table: Path,
    out: Path,
    smiles: str | None = None,
    workers: int = 2,
    overwrite: bool = False,
    coverage: float = COVERAGE,
    device: str = "auto",
) -> dict[str, Any]:
    """Write all rows of `table` with their predictions to `out`. Returns a summary as plain values.

    Args:
        table: a table of molecules or, for a model of graphs, a file of graphs.
        coverage: the coverage of prediction intervals.
        device: where networks run: auto, cpu or cuda.
    """
    began = time.monotonic()
    check_writable_name(out)
    check_not_input(out, table)
    pick_device(device)  # an error here should come before long work
    fitted = replace(FittedModel.load(model), device=device)
    check_coverage(coverage, fitted.facts.blend.spreads)
    if fitted.facts.source != "smiles":
        return predict_graphs(fitted, table, out, overwrite, coverage)
    if not fitted.facts.targets:
        raise InputError(f"{model}: names no target, so there is no column to write: use it from Python")
    source = open_source(table, smiles or fitted.facts.column_of_smiles)
    if next(source.chunks(1), None) is None:
        raise InputError(f"{table}: there are no rows to predict for")
    column_places(source, fitted.facts.number_columns)  # a missing column is reported before long work
    added = answer_names(fitted)
    check_added(table, source.names, added)
    parts, names = Parts(out), [*source.names, *added]
    with parts.lock():
        if parts.begin(_identity(model, fitted.facts, source, out, coverage), overwrite):
            with warnings.catch_warnings(), row_progress(source.num_rows) as on_row:
                warnings.simplefilter("ignore", UnseenWarning)  # the row mentions it
                counted = _make_parts(fitted, source, parts, out.suffix, workers, coverage, on_row)
            parts.finish(-(-counted.rows // ROWS), lambda paths, path: join_parts(paths, path, out.suffix, names))
        else:
            counted = count_rows(out, out.suffix, _number_place(names), header=True, limit=far_limit(fitted))
    rows, without, far = counted
    if without == rows:
        asked = f"is {source.names[source.place]!r} the column of SMILES"
        if fitted.facts.number_columns:
            asked += f", and are there numbers in {', '.join(map(repr, fitted.facts.number_columns))}"
        tell(f"{table}: no row has a prediction (column {REASON!r} says why): {asked}?")
    warning = far_warning(far, rows - without, far_limit(fitted))
    seconds = time.monotonic() - began
    return {"out": str(out), "rows": rows, "without": without, "far": far, "warning": warning, "seconds": seconds}


def load_for_smiles(model: Path) -> FittedModel:
    """Load a fitted model that reads SMILES and nothing else, for `maggnn serve` and `maggnn predict --ray`."""
    fitted = FittedModel.load(model)
    if fitted.facts.source != "smiles":
        raise InputError(f"{model}: was fitted to graphs, not to SMILES: use `maggnn predict`, without --ray")
    if fitted.facts.number_columns:
        column = fitted.facts.number_columns[0]
        raise InputError(
            f"{model}: reads column {column!r} besides molecules: use `maggnn predict`, without --ray, which reads it"
        )
    return fitted


def read_by(fitted: FittedModel) -> SmilesReading:
    """Return how a model reads molecules."""
    return SmilesReading(fitted.facts.features, fitted.known is not None, fitted.reads_numbers, fitted.facts.salts)


def _number_place(names: Sequence[str]) -> int:
    """Return the index of a numeric column that is empty without a prediction: the last before the reason."""
    return len(names) - 2


def check_added(path: Path | str, own: Sequence[str], added: Sequence[str]) -> None:
    """Raise an `InputError` if the table has a column with the name of an added one."""
    twice = [name for name in added if name in own]
    if twice:
        raise InputError(f"{path}: has a column {twice[0]!r} already, which predictions would add: rename it")


def model_digests(model: Path, facts: Facts) -> list[str]:
    """Return the digests of the files that a model's predictions depend on."""
    return [_digest(model / name) for name in (MODEL, *facts.blend.files, FACTS)]


def _identity(model: Path, facts: Facts, source: Source, out: Path, coverage: float) -> dict[str, Any]:
    """Return everything that the predictions depend on."""
    return {
        "model": model_digests(model, facts),
        "coverage": coverage,
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
    fitted: FittedModel,
    source: Source,
    parts: Parts,
    kind: str,
    workers: int,
    coverage: float,
    on_row: Callable[[int], None],
) -> Counted:
    """Write the missing parts. Returns the numbers of rows, of those without a prediction, and of those far away."""
    rows, without, far, limit = 0, 0, 0, far_limit(fitted)
    names, types = [*source.names, *answer_names(fitted)], [*source.types, *answer_types(fitted)]
    with _workers(workers, source.num_rows) as pool:
        answerers = _Answerers(fitted, source.num_rows, coverage, pool, parts, Layout(kind, names, types))
        try:
            for number, count, future in _ahead(answerers, source, AHEAD * max(workers, answerers.count)):
                if future is None:  # an earlier run made it
                    earlier = count_rows(parts.path(number), kind, _number_place(names), limit=limit)
                    without += earlier.empty
                    far += earlier.below
                else:
                    written = future.result().result()
                    without += written.empty
                    far += written.below
                rows += count
                on_row(rows)
        except BrokenProcessPool as error:
            raise InputError("a worker process died (out of memory?): run the same command again to resume") from error
        finally:
            answerers.pool.shutdown(wait=False, cancel_futures=True)
            pool.shutdown(cancel_futures=True)
            answerers.pool.shutdown()
    return Counted(rows, without, far)


class _Answerers:
    """Threads that predict, one chunk each. Each has its own copy of the model, because engines have a state.

    Threads that shared a chunk would wait for one another, which halves the rate on cores that workers use, too.
    A GPU predicts one chunk after the other, and a table of a single chunk is split over all cores.

    Args:
        workers: processes that featurise molecules and write parts.
    """

    def __init__(
        self, fitted: FittedModel, num_rows: int, coverage: float, workers: Executor, parts: Parts, layout: Layout
    ) -> None:
        cores = torch.get_num_threads()
        self.fitted, self.parts, self._coverage, self._own = fitted, parts, coverage, threading.local()
        self._workers, self._layout = workers, layout
        on_gpu = pick_device(fitted.device).type == "cuda"
        self.count = 1 if num_rows <= ROWS or on_gpu else cores
        own_cores = 1 if on_gpu else max(1, cores // self.count)  # the others are the workers'
        self.pool = ThreadPoolExecutor(self.count, initializer=self._begin, initargs=(own_cores,))

    def _begin(self, cores: int) -> None:
        torch.set_num_threads(cores)
        self._own.fitted = copy.copy(self.fitted)

    def submit(self, chunk: Chunk, number: int) -> Future[Future[Counted]]:
        """Featurise a chunk, predict for it and write it, one after the other; returns at once."""
        usable = [smiles for smiles, reason in zip(chunk.smiles, chunk.reasons, strict=True) if not reason]
        molecules = self._workers.submit(featurised_chunk, usable, *read_by(self.fitted))
        return self.pool.submit(self._write, chunk, molecules, number)

    def _write(self, chunk: Chunk, molecules: Future[Featurised], number: int) -> Future[Counted]:
        answers = answers_for(self._own.fitted, chunk, molecules.result(), number, self._coverage)
        limit = far_limit(self.fitted)
        return self._workers.submit(write_answers, self.parts, number, self._layout, chunk.columns, answers, limit)


def _workers(workers: int, num_rows: int) -> Executor:
    """Return processes for work on chunks; a single chunk is done in this process, before another could start."""
    if num_rows <= ROWS:
        return ThreadPoolExecutor(1)
    return worker_pool(workers)


def _ahead(answerers: _Answerers, source: Source, most: int) -> Iterator[Work]:
    """Yield the chunks in order; some chunks ahead are already with the workers and the predicting threads."""
    waiting: deque[Work] = deque()
    columns = answerers.fitted.facts.number_columns
    places = column_places(source, columns)
    for number, read in enumerate(source.chunks(ROWS)):
        chunk = with_numbers(read, columns, places)
        future = None if answerers.parts.has(number) else answerers.submit(chunk, number)
        waiting.append((number, len(chunk.smiles), future))
        if len(waiting) > most:
            yield waiting.popleft()
    yield from waiting


def answers_for(
    fitted: FittedModel, chunk: Chunk, molecules: Featurised, seed: int, coverage: float = COVERAGE
) -> AnsweredRows:
    """Return the answers for a chunk."""
    found = iter(molecules.reasons)
    reasons = [reason or next(found) for reason in chunk.reasons]
    rows = [row for row, reason in enumerate(reasons) if not reason]
    if molecules.arrays is None:
        none = np.zeros(0, dtype=np.int64)
        return AnsweredRows([none for _ in answer_names(fitted)[:-1]], none, none.astype(bool), reasons)
    descriptors = molecules.descriptors
    if chunk.numbers is not None and descriptors is not None:
        descriptors = descriptors.with_columns(chunk.numbers[rows])
    answer = _answer(fitted, molecules.arrays, descriptors, seed)
    finite, unseen = answer.values.isfinite().all(dim=1).numpy(), _has_unseen_category(molecules.arrays, fitted)
    for place in (unseen | ~finite).nonzero()[0].tolist():
        reasons[rows[place]] = UNSEEN if finite[place] else NOT_FINITE
    return AnsweredRows(answer_columns(answer, fitted, coverage), np.array(rows), finite, reasons)


def _answer(fitted: FittedModel, arrays: Arrays, descriptors: Descriptors | None, seed: int) -> Answer:
    """Predict for the molecules of a chunk, in parts whose size, and so whose answers, no machine changes."""
    graphs = graphs_of(arrays)
    if pick_device(fitted.device).type == "cuda":
        return fitted.answer(graphs.pinned(), descriptors, seed, GPU_CHUNK_MB)
    return fitted.answer(graphs, descriptors, seed, CACHE_MB * torch.get_num_threads())


def _has_unseen_category(arrays: Arrays, fitted: FittedModel) -> np.ndarray:
    """Return whether each molecule has a category that no network saw in training, [G]."""
    facts, unseen = fitted.facts, np.zeros(len(arrays["num_nodes"]), dtype=bool)
    if fitted.model.edge_features.empty:  # no molecule of training had a bond
        unseen |= arrays["num_edges"] > 0
    seen = [(facts.seen_nodes, facts.seen_edges), *facts.blend.seen]
    for place, (values, sizes) in enumerate((("x", "num_nodes"), ("edge_attr", "num_edges"))):
        for number, column in enumerate(arrays[values].T):
            known = [own[place][number] for own in seen if number < len(own[place])]
            strange = ~are_among(column, [category for own in known for category in own])
            if known and strange.any():
                unseen[np.repeat(np.arange(len(unseen)), arrays[sizes])[strange]] = True
    return unseen
