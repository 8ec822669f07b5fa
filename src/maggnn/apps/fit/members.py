"""The members of an ensemble, trained in parallel by processes with one thread each, which report their progress.

Each member has its own folder, with checkpoints and at the end its model, so that a fit that was killed trains only
what is missing. Every process uses one thread, so that no floating-point sum depends on the number of workers.
"""

from __future__ import annotations

import pickle
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty
from typing import Any

import torch
from torch import Tensor

from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.data.worker_processes import leave_with_parent
from maggnn.errors import InputError
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import using_threads
from maggnn.model.saving import load_model
from maggnn.training.callbacks import Callback
from maggnn.training.devices import ONE, Devices, Launch
from maggnn.training.progress import Progress
from maggnn.training.run import train

MODEL = "model.safetensors"
EVERY = 10
"""The number of steps between two progress reports."""

Start = Mapping[str, Tensor] | None
"""Initial weights of a network; None for random ones."""

Report = Callable[[int, int], None]
"""A callback that gets a member's number and the number of steps it has done."""


def member_folder(folder: Path, number: int) -> Path:
    """Return the folder for the checkpoints of member `number`, counted from 1."""
    return folder / f"member-{number}"


def train_members(
    datasets: Sequence[Dataset],
    configs: Sequence[Config],
    folder: Path | None,
    workers: int,
    quiet: bool,
    starts: Sequence[Start] | None = None,
    launch: Launch | None = None,
) -> list[MagGNN]:
    """Train a model on each data set, whose validation split is the member's fold.

    Args:
        folder: in which each member gets its own folder; None writes nothing and trains in this process.
        workers: the number of processes; on a GPU, members are trained one after the other.
        starts: the initial weights of each member; None for random ones.
        launch: starts the processes that train one member together, one member after the other; None for one process.
    """
    starts = [None] * len(datasets) if starts is None else starts
    if launch is not None:
        return _on_devices(datasets, configs, folder, launch, quiet, starts)
    if len(datasets) == 1:
        return [_member(datasets[0], configs[0], folder and member_folder(folder, 1), quiet, (), starts[0])]
    numbers = [place for place in range(len(datasets)) if folder is None or not _is_done(folder, place)]
    steps = [config.training.predictor_steps + config.training.agent_steps for config in configs]
    done = [0 if place in numbers else count for place, count in enumerate(steps)]
    with _shown(done, sum(steps), quiet) as report:
        if folder is None or workers == 1 or torch.cuda.is_available() or len(numbers) < 2:
            with using_threads(1):
                trained = {n: _reporting(datasets[n], configs[n], folder, n, report, starts[n]) for n in numbers}
        else:
            trained = {}
            _in_processes(datasets, configs, folder, numbers, min(workers, len(numbers)), report, starts)
    return [trained[n] if n in trained else _loaded(folder, n) for n in range(len(datasets))]


def _on_devices(
    datasets: Sequence[Dataset],
    configs: Sequence[Config],
    folder: Path | None,
    launch: Launch,
    quiet: bool,
    starts: Sequence[Start],
) -> list[MagGNN]:
    """Train one member after the other, each on all devices."""
    assert folder is not None
    for place, (dataset, config, start) in enumerate(zip(datasets, configs, starts, strict=True)):
        if not _is_done(folder, place):
            own = member_folder(folder, place + 1)
            launch(_share, dataset, config, own, quiet, start)
    return [_loaded(folder, place) for place in range(len(datasets))]


def _share(devices: Devices, dataset: Dataset, config: Config, folder: Path, quiet: bool, start: Start) -> None:
    """Train a member on one of several devices; the first writes the model."""
    _member(dataset, config, folder, quiet or not devices.first, (), start, devices)


def _is_done(folder: Path, place: int) -> bool:
    return (member_folder(folder, place + 1) / MODEL).exists()  # written atomically at the end


def _loaded(folder: Path | None, place: int) -> MagGNN:
    assert folder is not None
    return load_model(member_folder(folder, place + 1) / MODEL)[0]


def _member(
    dataset: Dataset,
    config: Config,
    folder: Path | None,
    quiet: bool,
    callbacks: Sequence[Callback],
    start: Start,
    devices: Devices = ONE,
) -> MagGNN:
    with warnings.catch_warnings():
        # The user did not choose the agent, so a warning about how it was trained would not help.
        warnings.filterwarnings("ignore", message="agent .* learned with")
        # On the CPU it can be pickled for a machine without a GPU; an engine copies it to where its graphs are.
        trained = train(config, folder, quiet=quiet, dataset=dataset, callbacks=callbacks, start=start, devices=devices)
        return trained.model.eval().cpu()


def _reporting(
    dataset: Dataset, config: Config, folder: Path | None, place: int, report: Report, start: Start
) -> MagGNN:
    reporter = _StepReporter(place, report)
    return _member(dataset, config, folder and member_folder(folder, place + 1), True, [reporter], start)


class _StepReporter(Callback):
    """Reports the steps of one member."""

    def __init__(self, place: int, report: Report) -> None:
        self.place, self.report = place, report
        self.phase, self.step, self.before = "", 0, 0

    def on_step(self, phase: str, step: int, scalars: Any) -> None:
        if phase != self.phase:
            self.phase, self.before = phase, self.before + self.step
        self.step = step
        if step % EVERY == 0:
            self.report(self.place, self.before + step)


@contextmanager
def _shown(done: list[int], total: int, quiet: bool) -> Iterator[Report]:
    """Show a progress bar, or lines without a terminal, for the steps of all members."""
    progress = Progress(quiet)
    progress.begin(f"{len(done)} networks", total, sum(done))

    def report(place: int, steps: int) -> None:
        done[place] = steps
        progress.step(sum(done), {})

    try:
        yield report
    finally:
        progress.close()


def _in_processes(
    datasets: Sequence[Dataset],
    configs: Sequence[Config],
    folder: Path,
    numbers: list[int],
    count: int,
    report: Report,
    starts: Sequence[Start],
) -> None:
    """Train the members `numbers` in `count` processes."""
    context = get_context("spawn")
    queue = context.Queue()
    processes: list[BaseProcess] = []
    try:
        for first in range(count):
            own = numbers[first::count]
            graphs = datasets[0].graphs
            bare = [(n, replace(datasets[n], graphs=None), configs[n], starts[n]) for n in own]  # pyright: ignore[reportArgumentType]
            payload = pickle.dumps((graphs, bare, folder))  # not by torch, which would share memory
            processes.append(context.Process(target=_work, args=(payload, queue), daemon=True))
            processes[-1].start()
        _follow(processes, queue, report)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _follow(processes: Sequence[BaseProcess], queue: Any, report: Report) -> None:
    """Forward the reports of the processes until all have ended."""
    while True:
        alive = any(
            process.is_alive() for process in processes
        )  # checked before the queue, which may still contain their last reports
        try:
            received = queue.get(timeout=0.2)
        except Empty:
            if alive:
                continue
            break
        if isinstance(received, Exception):
            raise received
        report(*received)
    if any(process.exitcode for process in processes):
        raise InputError("a training process died (out of memory?): run the same command again to resume")


def _work(payload: bytes, queue: Any) -> None:
    """Train some members one after the other, in a separate process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C and ends this one
    leave_with_parent()
    torch.set_num_threads(1)
    graphs, bare, folder = pickle.loads(payload)
    try:
        for place, dataset, config, start in bare:
            _reporting(replace(dataset, graphs=graphs), config, folder, place, lambda *steps: queue.put(steps), start)
    except InputError as error:
        queue.put(error)
