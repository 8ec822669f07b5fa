"""Runs a paradigm: counts its steps, shows progress, logs, writes checkpoints, and resumes a killed run exactly."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from maggnn.config import Config
from maggnn.data import registry
from maggnn.data.from_pyg import dataset_from_pyg
from maggnn.data.registry import Dataset
from maggnn.data.splits import Split
from maggnn.errors import DivergenceError, InputError
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.pretrained import pretrained_predictor
from maggnn.model.runtime import choose_threads, matrix_products, pick_device, using_threads
from maggnn.model.saving import MODEL, check_finite, save_model
from maggnn.training.callbacks import Callback
from maggnn.training.checkpoint import Position, only_here, resume_run, save_run
from maggnn.training.devices import ONE, Devices, launched
from maggnn.training.divergence import Watch
from maggnn.training.paradigms import PARADIGMS, Paradigm, Phase
from maggnn.training.progress import Averages, Log, Progress
from maggnn.training.validation import Validation
from maggnn.training.warm_start import initialise_from

if TYPE_CHECKING:
    from torch_geometric.data import Data
    from torch_geometric.data import Dataset as PygDataset

LAST_GOOD = "last_good.safetensors"
"""The file of a run that diverged, with the best weights before."""

SECONDS_BETWEEN_CHECKPOINTS = 30.0
"""The time between checkpoints, in addition to those by steps (`runtime.checkpoint_every`); it bounds the lost work."""

MOST_SHARE_WAITED = 20.0
"""Checkpoints by time are at least this many times as far apart as it takes to write one."""


@dataclass(frozen=True)
class Trained:
    """A finished run.

    Attributes:
        model: the trained model, with the best weights if there is a validation split.
        dataset: the data set it was trained on.
        split: the graphs of training, validation and test.
    """

    model: MagGNN
    dataset: Dataset
    split: Split
    seconds: dict[str, float]
    """The wall time of each phase, including earlier parts of a resumed run."""
    best_validation: float | None = None
    """The best metric on the validation split (the loss, if there are several targets), if any."""
    score_spread: float | None = None
    """The spread of scores over all marked copies for the same weights, which measures how much the marks matter."""

    def __repr__(self) -> str:
        parts = ", ".join(f"{len(ids):,} {name}" for name, ids in vars(self.split).items())
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        best = "" if self.best_validation is None else f"; best validation {self.best_validation:.4g}"
        return f"Trained({self.dataset.name!r}, {parts}; {phases}{best};\n  MagGNN({self.model.extra_repr()}))"


def train(
    config: Config,
    folder: Path | str | None = None,
    quiet: bool = False,
    predictor: Mapping[str, Tensor] | None = None,
    dataset: Dataset | PygDataset | Sequence[Data] | None = None,
    callbacks: Sequence[Callback] = (),
    start: Mapping[str, Tensor] | None = None,
    devices: Devices = ONE,
) -> Trained:
    """Train a model with the settings of `config`.

    Args:
        config: all settings.
        folder: where checkpoints, logs and the model are written; training resumes from a checkpoint in it.
        quiet: whether to hide progress.
        predictor: weights of a trained f_p; only the agent is trained, with this f_p as its environment.
        dataset: your own graphs instead of the set that `config.data.name` names: a `Dataset`, or a PyG dataset or
            list of `Data` (see `maggnn.data.from_pyg` for its split).
        callbacks: called after every step, every validation and at the end; an exception in one ends the run.
        start: weights of another model that initialise the predictor, as far as they fit (`warm_start`), instead of
            those that `training.initial_weights` names.
        devices: the processes of the run, of which this is one (`train_on`).

    Returns:
        The trained model with its data set and split.
    """
    folder = None if folder is None else Path(folder)
    device = devices.device or pick_device(config.runtime.device)
    if dataset is None:
        dataset = registry.load(config.data.name)
    elif not isinstance(dataset, Dataset):
        dataset = dataset_from_pyg(dataset)
    split = dataset.split(config.data.split_seed, config.data.fold)
    paradigm = PARADIGMS[config.training.paradigm](config, dataset, split, device, devices)
    _check_parameters(paradigm.model, config, dataset)
    if predictor is not None:
        paradigm.use_predictor(predictor)
    if start is None and config.training.initial_weights:
        initial = pretrained_predictor(config.training.initial_weights)
        initial.check(config, paradigm.model)
        start = initial.weights
    if start is not None:
        initialise_from(paradigm.model, start)
    validation = Validation(paradigm, config, dataset, split)
    for callback in callbacks:
        callback.on_begin(paradigm.model)
    lock = only_here(folder) if folder is not None and devices.first else contextlib.nullcontext()
    with using_threads(_threads(config, dataset, device)), lock:
        seconds = _trained(paradigm, validation, config, folder, quiet, callbacks)
    trained = Trained(paradigm.model, dataset, split, seconds, validation.best_value, validation.best_spread)
    for callback in callbacks:
        callback.on_end(trained)
    return trained


def _threads(config: Config, dataset: Dataset, device: torch.device) -> int:
    """Return the number of torch threads: that of the config, else chosen by the marked nodes of a predictor step."""
    if config.runtime.threads or device.type != "cpu":
        return config.runtime.threads or torch.get_num_threads()
    graphs = config.training.batch_size * config.training.starts_per_graph * config.agent.num_tuples
    nodes = float(dataset.graphs.num_nodes.float().mean())
    return choose_threads(graphs * nodes, config.encoder.hidden)


def train_on(count: int, nodes: int, config: Config, folder: Path, quiet: bool = False) -> dict[str, float]:
    """Train with the settings of `config` on several devices. Returns the seconds of each phase.

    Settings of batches, walkers and the replay buffer are per device.

    Args:
        count: the number of devices of this node: GPUs, or processes on a CPU.
        nodes: the number of nodes, each of which runs this; they share the file system of `folder`.
    """
    if count * nodes == 1:
        return train(config, folder, quiet).seconds
    return launched(train_one, count, nodes, config.runtime.device, config, folder, quiet)


def train_one(devices: Devices, config: Config, folder: Path, quiet: bool) -> dict[str, float]:
    """Train in one of several processes, of which the first shows progress and writes files."""
    return train(config, folder, quiet or not devices.first, devices=devices).seconds


def _trained(
    paradigm: Paradigm,
    validation: Validation,
    config: Config,
    folder: Path | None,
    quiet: bool,
    callbacks: Sequence[Callback],
) -> dict[str, float]:
    """Train to the end and write the model. Returns the seconds of each phase."""
    averages, position, seconds = Averages(), (0, 0), {}
    if folder is not None:
        position, seconds = resume_run(folder, paradigm, validation, averages, config)
    if not quiet:
        threads = torch.get_num_threads()
        print(f"{count_parameters(paradigm.model):,} parameters, {threads} thread(s)", file=sys.stderr)
        _report_unread_edges(paradigm.model, config)
    first = paradigm.devices.first
    log, progress = Log(folder if first else None, position), Progress(quiet)
    run = _Run(paradigm, validation, config, folder, log, progress, callbacks, seconds, averages)
    try:
        with matrix_products(config.runtime.precision):
            run.phases(position)
    except DivergenceError as error:
        raise _with_last_good(error, validation, config, folder) from None
    finally:
        log.close()
        progress.close()
    if folder is not None and first:
        save_model(folder / MODEL, paradigm.model, config)
    paradigm.devices.wait()
    return seconds


def count_parameters(module: nn.Module) -> int:
    """Return the number of parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def _report_unread_edges(model: MagGNN, config: Config) -> None:
    """Print a line if the data set has edge features that the convolution does not read."""
    if model.reads_declared and not model.edge_features.empty and not config.encoder.reads_edges:
        what = f"the edge features of {config.data.name} are ignored"
        print(f"{what}: encoder.conv = {config.encoder.conv} does not read them, gine does", file=sys.stderr)


def _check_parameters(model: MagGNN, config: Config, dataset: Dataset) -> None:
    """Check that the model keeps to the data set's parameter budget; an agent that is not used does not count."""
    has_agent = config.training.agent_steps > 0 or bool(config.agent.pretrained)
    count, most = count_parameters(model if has_agent else model.predictor), dataset.max_parameters
    if most is not None and count > most:
        raise InputError(f"the model has {count:,} parameters, {dataset.name} allows {most:,}: make it narrower")


def _with_last_good(
    error: DivergenceError, validation: Validation, config: Config, folder: Path | None
) -> DivergenceError:
    """Save the best weights before the error, if any, as a model, and return the error that names its file."""
    if folder is None or not validation.best or not validation.paradigm.devices.first:
        return error
    validation.keep_best()
    save_model(folder / LAST_GOOD, validation.paradigm.model, config)
    return DivergenceError(f"{error}; the best weights before are in {folder / LAST_GOOD}")


@dataclass
class _Run:
    """The loop over phases and steps, with progress, logs, validations, callbacks and checkpoints."""

    paradigm: Paradigm
    validation: Validation
    config: Config
    folder: Path | None
    log: Log
    progress: Progress
    callbacks: Sequence[Callback]
    seconds: dict[str, float]
    """The seconds that each phase has taken so far."""
    averages: Averages

    def __post_init__(self) -> None:
        self.next_checkpoint = time.monotonic() + SECONDS_BETWEEN_CHECKPOINTS

    def phases(self, position: Position) -> None:
        """Run the remaining phases."""
        for number, phase in enumerate(self.paradigm.phases):
            if number < position[0]:
                continue
            first = position[1] if number == position[0] else 0
            if first < phase.num_steps:
                self._phase(number, phase, first)
            else:  # killed right after this phase's last step
                self.validation.keep_best()
        self._checkpoint((len(self.paradigm.phases), 0))

    def _phase(self, number: int, phase: Phase, first: int) -> None:
        began, before = time.monotonic(), self.seconds.get(phase.name, 0.0)
        phase.begin()
        if not first:
            self.validation.begin()
            self.averages.clear()
        self.progress.begin(phase.name, phase.num_steps, first)
        watch = Watch(phase.name, at_once=self.paradigm.packed.device.type == "cpu")
        shown: dict[str, float] = {}
        validated: dict[str, float] = {}  # the scalars of the newest validation
        for step in range(first, phase.num_steps):
            self._step(phase, step, watch)
            if (step + 1) % self.config.runtime.log_every == 0:
                watch.check()
                shown = self.log.write(number, step, self.averages.take()) | validated
            if phase.validation_moves is not None and self.validation.due(step + 1):
                watch.check()
                validated = self.log.write(number, step, self.validation.validate(phase.validation_moves))
                for callback in self.callbacks:
                    callback.on_validation(step + 1, self.validation.best_loss)
            self.progress.step(step + 1, validated or shown)
            if self._checkpoint_due(step + 1):
                watch.check()
                self.seconds[phase.name] = before + time.monotonic() - began
                self._checkpoint((number, step + 1))
            if phase.validation_moves is not None and self.validation.stops:
                break
        watch.check()
        self.validation.keep_best()
        check_finite(self.paradigm.model.state_dict(), f"the end of phase {phase.name}")
        if self.paradigm.packed.device.type == "cuda":  # queued work counts to the time of its phase
            torch.cuda.synchronize()
        self.seconds[phase.name] = before + time.monotonic() - began

    def _step(self, phase: Phase, step: int, watch: Watch) -> None:
        scalars = phase.step(step)
        watch.add(step + 1, scalars)
        self.averages.add(scalars)
        for callback in self.callbacks:
            callback.on_step(phase.name, step + 1, scalars)

    def _checkpoint_due(self, steps_done: int) -> bool:
        by_steps = steps_done % self.config.runtime.checkpoint_every == 0
        # The clocks of several processes differ, but all of them have to write at the same step.
        by_time = self.paradigm.devices.size == 1 and time.monotonic() >= self.next_checkpoint
        return self.folder is not None and (by_steps or by_time)

    def _checkpoint(self, position: Position) -> None:
        if self.folder is None:
            return
        began = time.monotonic()
        save_run(self.folder, self.paradigm, self.validation, self.averages, self.config, position, self.seconds)
        ended = time.monotonic()
        self.next_checkpoint = ended + max(SECONDS_BETWEEN_CHECKPOINTS, MOST_SHARE_WAITED * (ended - began))
