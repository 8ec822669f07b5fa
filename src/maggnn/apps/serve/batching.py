"""Dynamic batching: requests that arrive while a batch is being processed form the next one.

A single request is processed at once; under load batches grow by themselves up to a limit. Worker processes parse the
SMILES of one batch while a thread of this process predicts for the previous one. That thread itself parses batches of
few molecules, so these wait while it is busy, and requests that arrive in the meantime join them. This is implemented
here because the batching of serving frameworks waits for a fixed time, which would delay every single request.
"""

from __future__ import annotations

import asyncio
import os
import sys
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

import torch

from maggnn.apps.fit.featurised_chunks import Featurised, featurised_chunk
from maggnn.apps.fit.fitted import FittedModel, UnseenWarning
from maggnn.apps.fit.predicting import answers_for, read_by
from maggnn.apps.fit.row_files import Chunk
from maggnn.apps.fit.uncertainty import COVERAGE
from maggnn.data.worker_processes import worker_pool

FEW = 32
"""The largest number of molecules that are parsed in this process, because sending them to another takes longer."""

UNDER_WAY = 2
"""The number of batches in progress: one is parsed while another is predicted."""

SWITCH_S = 0.001
"""The switch interval of Python's threads: the longest time that the predicting thread delays the network thread."""

Columns = list[list[Any]]
"""The added columns of `maggnn predict`, with one entry for each molecule."""


class FullError(Exception):
    """Too many molecules are waiting."""


@dataclass
class _Request:
    smiles: list[str]
    answer: asyncio.Future[Columns]


@dataclass
class Seen:
    """Statistics of batches so far, which the metrics read."""

    batches: int = 0
    rows: int = 0
    without: int = 0
    waiting: int = 0


@dataclass
class Batcher:
    """Predicts with a model for requests from many clients.

    Args:
        fitted: the model.
        workers: the number of processes that parse SMILES.
        most_rows: the largest number of molecules of a batch. A single larger request is its own batch.
        most_waiting: the number of waiting molecules from which on requests are rejected.
        most_atoms: the largest number of atoms of a molecule.
        coverage: the coverage of prediction intervals.

    Example:
        async with Batcher(fitted) as batcher:
            columns = await batcher.answer(["CCO", "c1ccccc1"])
    """

    fitted: FittedModel
    workers: int = 1
    most_rows: int = 2048
    most_waiting: int = 65_536
    most_atoms: int = 1000
    coverage: float = COVERAGE
    seen: Seen = field(default_factory=Seen)

    async def __aenter__(self) -> Batcher:
        self._reading = read_by(self.fitted)._replace(most_atoms=self.most_atoms)
        self._waiting: deque[_Request] = deque()
        self._arrived, self._changed = asyncio.Event(), asyncio.Event()
        self._places = asyncio.Semaphore(UNDER_WAY)
        self._parsers = worker_pool(self.workers)
        # Torch gets the cores that the parsers leave: threads that wait for shared cores would halve the rate.
        threads = max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) - self.workers))
        self._thread = ThreadPoolExecutor(1, "answers", torch.set_num_threads, (threads,))
        self._running: set[asyncio.Task[None]] = set()
        self._switched = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        await self._warm_up()
        self._collector = asyncio.create_task(self._collect())
        return self

    async def __aexit__(self, *error: object) -> None:
        while self._waiting or self._running:  # all accepted requests are completed
            await asyncio.sleep(0.01)
        self._collector.cancel()
        self._parsers.shutdown(cancel_futures=True)
        self._thread.shutdown()
        sys.setswitchinterval(self._switched)

    async def answer(self, smiles: list[str]) -> Columns:
        """Return the added columns for some molecules, after a batch with them has been processed."""
        if self.seen.waiting and self.seen.waiting + len(smiles) > self.most_waiting:
            raise FullError
        request = _Request(smiles, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self.seen.waiting += len(smiles)
        self._arrived.set()
        self._changed.set()
        return await request.answer

    async def _warm_up(self) -> None:
        """Start the processes, and predict once, because the first prediction takes longer than later ones."""
        loop = asyncio.get_running_loop()
        for count in (1, FEW + 1):
            await loop.run_in_executor(self._thread, self._answered, ["CCO"] * count)
        await loop.run_in_executor(self._parsers, featurised_chunk, ["CCO"], self.fitted.facts.features)

    async def _collect(self) -> None:
        while True:
            await self._arrived.wait()
            await self._places.acquire()  # requests that arrive until then join the batch
            while self._running and sum(len(request.smiles) for request in self._waiting) <= FEW:
                self._changed.clear()
                await self._changed.wait()
            batch = self._next()
            if batch:
                task = asyncio.create_task(self._run(batch))
                self._running.add(task)
                task.add_done_callback(self._ended)
            else:
                self._places.release()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._changed.set()

    def _next(self) -> list[_Request]:
        """Return the requests of the next batch."""
        batch: list[_Request] = []
        rows = 0
        while self._waiting and (not batch or rows + len(self._waiting[0].smiles) <= self.most_rows):
            batch.append(self._waiting.popleft())
            rows += len(batch[-1].smiles)
        if not self._waiting:
            self._arrived.clear()
        return batch

    async def _run(self, batch: list[_Request]) -> None:
        smiles = [text for request in batch for text in request.smiles]
        try:
            columns = await self._columns(smiles)
            begin = 0
            for request in batch:
                end = begin + len(request.smiles)
                if not request.answer.done():
                    request.answer.set_result([column[begin:end] for column in columns])
                begin = end
            self.seen.batches += 1
            self.seen.rows += len(smiles)
            self.seen.without += sum(value is None for value in columns[-2])
        except Exception as error:  # the clients get the error, and the server continues
            for request in batch:
                if not request.answer.done():
                    request.answer.set_exception(error)
        finally:
            self.seen.waiting -= len(smiles)
            self._places.release()

    async def _columns(self, smiles: list[str]) -> Columns:
        loop = asyncio.get_running_loop()
        if len(smiles) <= FEW:
            return await loop.run_in_executor(self._thread, self._answered, smiles)
        molecules = await self._parsed(smiles)
        return await loop.run_in_executor(self._thread, self._answered, smiles, molecules)

    async def _parsed(self, smiles: list[str]) -> Featurised:
        """Parse a batch in another process. If that process has died, new ones are started, which try once more."""
        loop, parsers = asyncio.get_running_loop(), self._parsers
        try:
            return await loop.run_in_executor(parsers, featurised_chunk, smiles, *self._reading)
        except BrokenProcessPool:
            if self._parsers is parsers:  # the other batch in progress may have replaced them
                self._parsers = worker_pool(self.workers)
            return await loop.run_in_executor(self._parsers, featurised_chunk, smiles, *self._reading)

    def _answered(self, smiles: list[str], molecules: Any = None) -> Columns:
        molecules = featurised_chunk(smiles, *self._reading) if molecules is None else molecules
        with warnings.catch_warnings(action="ignore", category=UnseenWarning):  # the row mentions it
            chunk = Chunk([], smiles, [""] * len(smiles))
            return answers_for(self.fitted, chunk, molecules, 0, self.coverage).cells()
