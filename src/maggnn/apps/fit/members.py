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
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class _Member:
    """The training of one network.

    Attributes:
        dataset: its validation split is the member's fold.
        folder: for the checkpoints and the model; None writes nothing.
        start: the initial weights; None for random ones.
    """

    dataset: Dataset
    config: Config
    folder: Path | None
    start: Start

    @property
    def steps(self) -> int:
        return self.config.training.predictor_steps + self.config.training.agent_steps

    @property
    def is_done(self) -> bool:
        return self.folder is not None and (self.folder / MODEL).exists()  # written atomically at the end

    def load(self) -> MagGNN:
        """Return the model that an earlier process or another one trained."""
        assert self.folder is not None
        return load_model(self.folder / MODEL)[0]

    def train(self, quiet: bool, callbacks: Sequence[Callback] = (), devices: Devices = ONE) -> MagGNN:
        with warnings.catch_warnings():
            # The user did not choose the agent, so a warning about how it was trained would not help.
            warnings.filterwarnings("ignore", message="agent .* learned with")
            trained = train(
                self.config, self.folder, quiet=quiet, dataset=self.dataset, callbacks=callbacks, start=self.start,
                devices=devices,
            )  # fmt: skip
            # On the CPU it can be pickled for a machine without a GPU; an engine copies it to where its graphs are.
            return trained.model.eval().cpu()


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
    folders = [folder and member_folder(folder, number) for number in range(1, len(datasets) + 1)]
    members = list(map(_Member, datasets, configs, folders, starts or [None] * len(datasets)))
    if launch is not None:
        for member in members:
            if not member.is_done:
                launch(_train_share, member, quiet)
        return [member.load() for member in members]
    if len(members) == 1:
        return [members[0].train(quiet)]
    missing = {place: member for place, member in enumerate(members) if not member.is_done}
    steps = [member.steps for member in members]
    done = [0 if place in missing else count for place, count in enumerate(steps)]
    trained: dict[int, MagGNN] = {}
    with _step_progress(done, sum(steps), quiet) as report:
        if folder is None or workers == 1 or torch.cuda.is_available() or len(missing) < 2:
            with using_threads(1):
                trained = {
                    place: member.train(True, [_StepReporter(place, report)]) for place, member in missing.items()
                }
        else:
            _in_processes(missing, min(workers, len(missing)), report)
    return [trained[place] if place in trained else member.load() for place, member in enumerate(members)]


def _train_share(devices: Devices, member: _Member, quiet: bool) -> None:
    """Train a member on one of several devices; the first writes the model."""
    member.train(quiet or not devices.first, devices=devices)


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
def _step_progress(done: list[int], total: int, quiet: bool) -> Iterator[Report]:
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


def _in_processes(members: Mapping[int, _Member], count: int, report: Report) -> None:
    """Train members, by their places, in `count` processes."""
    context = get_context("spawn")
    queue = context.Queue()
    processes: list[BaseProcess] = []
    places = list(members)
    try:
        for first in range(count):
            own = {place: members[place] for place in places[first::count]}
            graphs = members[places[first]].dataset.graphs  # the same for all members
            bare = {place: _with_graphs(member, None) for place, member in own.items()}
            payload = pickle.dumps((graphs, bare))  # not by torch, which would share memory
            processes.append(context.Process(target=_work, args=(payload, queue), daemon=True))
            processes[-1].start()
        _follow(processes, queue, report)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _with_graphs(member: _Member, graphs: Any) -> _Member:
    return replace(member, dataset=replace(member.dataset, graphs=graphs))


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
    graphs, bare = pickle.loads(payload)
    try:
        for place, member in bare.items():
            reporter = _StepReporter(place, lambda *steps: queue.put(steps))
            _with_graphs(member, graphs).train(True, [reporter])
    except InputError as error:
        queue.put(error)
