"""`maggnn train --ray` and `maggnn fit --ray`: the training loop in worker processes of Ray Train's `TorchTrainer`.

Ray Train places one worker for each device on the nodes of the cluster and connects them to a process group of torch
(NCCL on GPUs, gloo on CPUs). The rest is as without Ray (`maggnn.training.devices`): the same steps, log and
checkpoints in the run folder, which must be on a file system that all nodes share. Ray keeps no checkpoints of its own.
If a worker or its node dies, all workers are started again, and the run resumes from its last checkpoint.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from maggnn.apps.scale.cluster import Resources, connected, while_it_fits
from maggnn.apps.terminal import tell
from maggnn.config import Config
from maggnn.errors import InputError, require
from maggnn.training.devices import Devices, Launch, Work, launcher
from maggnn.training.run import train_one

MOST_RESTARTS = 3
"""How often all workers are started again, after one of them died, before the command ends."""

RAY_TRAIN = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # paths are those of the command
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # it would print progress a second time
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # one more process, for clusters that announce the end of a node
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon the end of a run is noticed
    "RAY_TRAIN_METRICS_ENABLED": "0",
}


def train_on_ray(count: int, address: str, config: Config, folder: Path) -> dict[str, float]:
    """Train a model in workers of Ray. Returns the seconds of each phase.

    Args:
        count: the number of workers, each with its own batches on one GPU, or on one CPU if there are no GPUs.
        address: the address of Ray, in a form that `connected` accepts.
        config: the settings of the run.
        folder: the folder of the run, on a file system that all nodes share.
    """
    with ray_workers(count, address, config.runtime.device) as launch:
        return launch(train_one, config, folder, False)


@contextlib.contextmanager
def launched_by(address: str | None, count: int, device: str) -> Iterator[Launch | None]:
    """Yield the function that starts the processes of a training, on Ray if `address` is given, or None for one."""
    if address is None:
        yield launcher(count, device)
        return
    with ray_workers(count, address, device) as launch:
        yield launch


@contextlib.contextmanager
def ray_workers(count: int, address: str, device: str) -> Iterator[Launch]:
    """Connect to Ray. Yields a function that calls another one in `count` workers and returns the first one's result.

    Args:
        count: the number of workers.
        address: the address of Ray, in a form that `connected` accepts.
        device: as `runtime.device`; "auto" uses GPUs if the cluster has any.
    """
    require("ray", "pyarrow")
    os.environ.update({name: value for name, value in RAY_TRAIN.items() if name not in os.environ})
    with connected(address) as resources:
        claimed = _claimed(count, device, resources)
        _say_busy(claimed)
        yield partial(_launched, claimed)


def _claimed(count: int, device: str, resources: Resources) -> Resources:
    """Return what the workers claim, one GPU or one CPU each; more than the cluster has is refused."""
    if device.partition(":")[0] not in ("auto", "cpu", "cuda"):
        raise InputError(f"runtime.device is {device!r}, must be auto, cpu or cuda")
    on_gpus = device.startswith("cuda") or (device == "auto" and resources.gpus >= 1)
    there = int(resources.gpus if on_gpus else resources.cpus)
    if count > there:
        raise InputError(f"--devices {count}: the cluster has {there} {'GPUs' if on_gpus else 'CPUs'}")
    return Resources(0, count) if on_gpus else Resources(count, 0)


def _say_busy(claimed: Resources) -> None:
    import ray

    free = ray.available_resources()
    if free.get("CPU", 0.0) < claimed.cpus or free.get("GPU", 0.0) < claimed.gpus:
        tell("waiting for other work on the cluster to end")


def _launched(claimed: Resources, work: Work[Any], *arguments: Any) -> Any:
    """Call `work(Devices, *arguments)` in the workers, again if one of them died. Returns the first one's result."""
    from ray.train import WorkerGroupError

    for restart in range(MOST_RESTARTS + 1):
        try:
            return _once(claimed, work, arguments)
        except WorkerGroupError as error:
            _raise_mistake(error)
            if restart == MOST_RESTARTS:
                raise InputError(
                    f"workers died {MOST_RESTARTS + 1} times; the same command resumes from the last checkpoint"
                ) from error
            tell("a worker died: all workers are started again, from the last checkpoint")
    raise AssertionError


def _once(claimed: Resources, work: Work[Any], arguments: tuple[Any, ...]) -> Any:
    # Ray warns about its next version.
    with tempfile.TemporaryDirectory() as storage, _printed_here() as lines, warnings.catch_warnings(action="ignore"):
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer

        for name in ("ray.train", "ray.data"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        count, on_gpus = int(claimed.cpus + claimed.gpus), claimed.gpus > 0
        trainer = TorchTrainer(
            _in_worker,
            train_loop_config={"call": pickle.dumps((work, arguments)), "folder": str(Path.cwd()), "lines": lines},
            scaling_config=ScalingConfig(num_workers=count, use_gpu=on_gpus),
            run_config=RunConfig(storage_path=storage, failure_config=FailureConfig(max_failures=0)),
        )
        # `while_it_fits` calls it in a thread: in the main thread Ray would handle Ctrl-C itself.
        (result,) = while_it_fits((trainer.fit() for _ in range(1)), claimed)
    return result.return_value


def _raise_mistake(error: Any) -> None:
    """Raise an error that the function itself raised in a worker; return if workers died."""
    # Some versions of Ray wrap the exception together with the worker's traceback.
    causes = [getattr(failure, "_base_exc", failure) for failure in error.worker_failures.values()]
    for cause in causes:
        if isinstance(cause, InputError | OSError):
            raise cause from None
    if not all(map(_is_loss, causes)):
        raise error


def _is_loss(cause: BaseException) -> bool:
    """Whether a worker died, which is an error of Ray's own, or lost its connection to one that died."""
    of_ray = type(cause).__module__.partition(".")[0] == "ray"
    return of_ray or isinstance(cause, torch.distributed.DistError) or "gloo/transport" in str(cause)


def _in_worker(given: dict[str, Any]) -> Any:
    """Call the function in a worker of Ray Train, which has set up the process group."""
    from ray import train
    from ray.train.torch import get_device

    try:
        os.chdir(given["folder"])
    except OSError as error:
        raise InputError(f"{given['folder']}: a node of the cluster cannot use it ({error.strerror})") from None
    context = train.get_context()
    device = get_device()
    assert isinstance(device, torch.device)  # a list where a worker has several GPUs
    work, arguments = pickle.loads(given["call"])
    with contextlib.redirect_stderr(_Lines(given["lines"])):
        return work(Devices(context.get_world_rank(), context.get_world_size(), device), *arguments)


class _Lines(io.TextIOBase):
    """Sends the lines that a worker writes to standard error to the command."""

    def __init__(self, queue: Any) -> None:
        self.queue, self.begun = queue, ""

    def write(self, text: str) -> int:
        *lines, self.begun = (self.begun + text).split("\n")
        for line in lines:
            with contextlib.suppress(Exception):  # training does not end because nobody listens
                self.queue.put_nowait(line)
        return len(text)


@contextlib.contextmanager
def _printed_here() -> Iterator[Any]:
    """Yield a queue whose lines are printed to standard error while the block runs."""
    from ray.util.queue import Empty, Queue

    lines, ended = Queue(actor_options={"num_cpus": 0}), threading.Event()

    def show() -> None:
        while True:
            try:
                print(lines.get(timeout=0.5), file=sys.stderr, flush=True)
            except Empty:
                if ended.is_set():
                    return
            except Exception:  # the node that held the queue is gone
                return

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        ended.set()
        thread.join()
        lines.shutdown(force=True)
