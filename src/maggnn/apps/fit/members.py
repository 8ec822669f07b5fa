"""The members of an ensemble, trained side by side: some processes with a thread each, which tell how far they are.

A member has a folder of its own, with checkpoints and at the end its model, so that a fit that was killed trains only
what is missing. One thread each, in this process too: then no sum depends on how many workers there are.
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
"""Steps between two reports."""

Start = Mapping[str, Tensor] | None
"""Weights to begin with."""

Report = Callable[[int, int], None]
"""Is told a member's number and how many steps it has done."""


def member_folder(folder: Path, number: int) -> Path:
    """Where member `number`, counted from 1, has its checkpoints."""
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
        folder: in which each member has one of its own; None keeps nothing and trains in this process.
        workers: processes; on a GPU the members share it in turn.
        starts: weights that each member begins with; None for fresh ones.
        launch: starts the processes that learn one member together, one member after the other; None for one process.
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
    """What one of several devices does for a member; the first writes its model."""
    _member(dataset, config, folder, quiet or not devices.first, (), start, devices)


def _is_done(folder: Path, place: int) -> bool:
    return (member_folder(folder, place + 1) / MODEL).exists()  # written at the end, all or nothing


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
        # Which agent moves the marks is our choice, so how it learned is no news for whoever fits.
        warnings.filterwarnings("ignore", message="agent .* learned with")
        # On the CPU it can be pickled for a machine without a GPU; an engine copies it to where its graphs are.
        trained = train(config, folder, quiet=quiet, dataset=dataset, callbacks=callbacks, start=start, devices=devices)
        return trained.model.eval().cpu()


def _reporting(
    dataset: Dataset, config: Config, folder: Path | None, place: int, report: Report, start: Start
) -> MagGNN:
    told = _Told(place, report)
    return _member(dataset, config, folder and member_folder(folder, place + 1), True, [told], start)


class _Told(Callback):
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
    """A progress bar, or lines, over the steps of all members."""
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
    """Hand on what the processes tell until all have ended."""
    while True:
        alive = any(process.is_alive() for process in processes)  # before the queue, which may still hold their last
        try:
            told = queue.get(timeout=0.2)
        except Empty:
            if alive:
                continue
            break
        if isinstance(told, Exception):
            raise told
        report(*told)
    if any(process.exitcode for process in processes):
        raise InputError("a process that trained died (out of memory?): the same command goes on")


def _work(payload: bytes, queue: Any) -> None:
    """In a process of its own: train some members in turn."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who is asked to stop ends this process
    leave_with_parent()
    torch.set_num_threads(1)
    graphs, bare, folder = pickle.loads(payload)
    try:
        for place, dataset, config, start in bare:
            _reporting(replace(dataset, graphs=graphs), config, folder, place, lambda *told: queue.put(told), start)
    except InputError as error:
        queue.put(error)
