"""Many measurements side by side: each in its own process, each result kept in its own file as soon as it is there.

Started again, what lies in the folder is not measured again, so nothing measured is lost.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from maggnn.data.files import whole_file

Result = dict[str, Any]
"""What a job measured, as plain values."""


class Named(Protocol):
    """A job: anything whose name is unique to its settings."""

    @property
    def name(self) -> str: ...


SomeJob = TypeVar("SomeJob", bound=Named)


def run_all(
    jobs: Sequence[SomeJob],
    run: Callable[[SomeJob, Path], Result],
    in_words: Callable[[SomeJob, Result], str],
    folder: Path,
    workers: int,
) -> list[Result]:
    """Results of all jobs in order; those that are not in `folder` yet are run, in `workers` processes.

    Args:
        run: measures one job; a function that other processes can import.
        in_words: what the line of progress says of a result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [job for job in jobs if not (folder / f"{job.name}.json").exists()]
    began = time.monotonic()
    if workers <= 1:
        for number, job in enumerate(waiting):
            print(f"[{number + 1}/{len(waiting)}] {job.name} begins", file=sys.stderr, flush=True)
            _tell(number + 1, len(waiting), began, job, in_words(job, run_and_keep(job, run, folder)))
    else:
        # Largest first would be faster still; jobs of one reproduction are alike enough.
        with ProcessPoolExecutor(workers, get_context("spawn"), single_thread) as pool:
            futures = {pool.submit(run_and_keep, job, run, folder): job for job in waiting}
            for number, future in enumerate(as_completed(futures)):
                job = futures[future]
                _tell(number + 1, len(waiting), began, job, in_words(job, future.result()))
    return [json.loads((folder / f"{job.name}.json").read_text()) for job in jobs]


def run_and_keep(job: SomeJob, run: Callable[[SomeJob, Path], Result], folder: Path) -> Result:
    """Measure and write the result, all or nothing."""
    result = run(job, folder)
    with whole_file(folder / f"{job.name}.json") as waiting:
        waiting.write_text(json.dumps(result))
    return result


def single_thread() -> None:
    """Processes side by side already use every core."""
    torch.set_num_threads(1)


def _tell(done: int, total: int, began: float, job: Named, words: str) -> None:
    left = (time.monotonic() - began) / done * (total - done)
    print(f"[{done}/{total}, {left:.0f} s left] {job.name}  {words}", file=sys.stderr, flush=True)
