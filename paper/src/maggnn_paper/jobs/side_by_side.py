"""Many measurements side by side: each in its own process, each result kept in its own file as soon as it is there.

The processes are those of this machine or, within `on_ray`, tasks of a Ray cluster. Started again, what lies in the
folder is not measured again, so nothing measured is lost.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from maggnn.apps.scale.cluster import Resources, connected
from maggnn.data.files import whole_file
from maggnn.data.worker_processes import leave_with_parent
from maggnn.errors import require

Result = dict[str, Any]
"""What a job measured, as plain values."""


class Named(Protocol):
    """A job: anything whose name is unique to its settings."""

    @property
    def name(self) -> str: ...


SomeJob = TypeVar("SomeJob", bound=Named)

_CLUSTER: ContextVar[Resources | None] = ContextVar("cluster", default=None)
"""What the Ray has that jobs run on; None where they run on this machine."""


@contextmanager
def on_ray(address: str) -> Iterator[None]:
    """Meanwhile `run_all` runs jobs as tasks of Ray, each on a CPU, and on a GPU where the cluster has some.

    Args:
        address: as `maggnn.apps.scale.cluster.connected` reads it. The nodes need the package, and a file system in
            common where jobs keep checkpoints.
    """
    require("ray")
    with connected(address) as resources:
        before = _CLUSTER.set(resources)
        try:
            yield
        finally:
            _CLUSTER.reset(before)


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
    cluster = _CLUSTER.get()
    if cluster is not None:
        for number, (job, result) in enumerate(_on_cluster(waiting, run, folder.absolute(), cluster)):
            _keep(job, result, folder)
            _tell(number + 1, len(waiting), began, job, in_words(job, result))
    elif workers <= 1:
        for number, job in enumerate(waiting):
            print(f"[{number + 1}/{len(waiting)}] {job.name} begins", file=sys.stderr, flush=True)
            _tell(number + 1, len(waiting), began, job, in_words(job, run_and_keep(job, run, folder)))
    else:
        # Largest first would be faster still; jobs of one reproduction are alike enough.
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin_worker) as pool:
            futures = {pool.submit(run_and_keep, job, run, folder): job for job in waiting}
            for number, future in enumerate(as_completed(futures)):
                job = futures[future]
                _tell(number + 1, len(waiting), began, job, in_words(job, future.result()))
    return [json.loads((folder / f"{job.name}.json").read_text()) for job in jobs]


def run_and_keep(job: SomeJob, run: Callable[[SomeJob, Path], Result], folder: Path) -> Result:
    """Measure and write the result, all or nothing."""
    result = run(job, folder)
    _keep(job, result, folder)
    return result


def _keep(job: Named, result: Result, folder: Path) -> None:
    with whole_file(folder / f"{job.name}.json") as waiting:
        waiting.write_text(json.dumps(result))


def _on_cluster(
    jobs: Sequence[SomeJob], run: Callable[[SomeJob, Path], Result], folder: Path, cluster: Resources
) -> Iterator[tuple[SomeJob, Result]]:
    """Jobs with their results, as they come; what was lost with a node runs again."""
    import ray
    from ray.exceptions import RayTaskError

    task = ray.remote(num_cpus=1, num_gpus=1 if cluster.gpus else 0, max_calls=1, max_retries=3)(_measured)
    running = {task.remote(run, job, folder): job for job in jobs}
    while running:
        done, _ = ray.wait(list(running), num_returns=1)
        job = running.pop(done[0])
        try:
            yield job, ray.get(done[0])
        except RayTaskError as error:
            raise error.as_instanceof_cause() from None


def _measured(run: Callable[[SomeJob, Path], Result], job: SomeJob, folder: Path) -> Result:
    single_thread()
    return run(job, folder)


def single_thread() -> None:
    """Processes side by side already use every core."""
    torch.set_num_threads(1)


def _begin_worker() -> None:
    """Prepare a process that measures jobs; it ends with the command that started it."""
    single_thread()
    leave_with_parent()


def _tell(done: int, total: int, began: float, job: Named, words: str) -> None:
    left = (time.monotonic() - began) / done * (total - done)
    print(f"[{done}/{total}, {left:.0f} s left] {job.name}  {words}", file=sys.stderr, flush=True)
