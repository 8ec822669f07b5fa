"""Run a paradigm: count its steps, show progress, log, checkpoint, and go on exactly where a killed run stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from maggnn.config import Config
from maggnn.data import registry
from maggnn.data.registry import Dataset
from maggnn.data.splits import Split
from maggnn.errors import InputError
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import matrix_products, pick_device
from maggnn.model.saving import save_model
from maggnn.training.callbacks import Callback
from maggnn.training.checkpoint import resume_run, save_run
from maggnn.training.paradigms import PARADIGMS, Paradigm, Scalars
from maggnn.training.progress import Log, Progress
from maggnn.training.validation import Validation


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    model: MagGNN
    dataset: Dataset
    split: Split
    seconds: dict[str, float]
    """Wall time of each phase, of all processes that worked on the run."""
    best_validation: float | None = None
    """The metric of the best look at the validation part (the loss, where there are several targets), if any."""

    def __repr__(self) -> str:
        parts = ", ".join(f"{len(ids):,} {name}" for name, ids in vars(self.split).items())
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        best = "" if self.best_validation is None else f"; best validation {self.best_validation:.4g}"
        return f"Trained({self.dataset.name!r}, {parts}; {phases}{best};\n  MagGNN({self.model.extra_repr()}))"


def train(
    config: Config,
    folder: Path | None = None,
    quiet: bool = False,
    predictor: Mapping[str, Tensor] | None = None,
    dataset: Dataset | None = None,
    callbacks: Sequence[Callback] = (),
) -> Trained:
    """Train as `config` says.

    Args:
        folder: keep checkpoints, logs and the model there, and resume from a checkpoint that is there.
        quiet: show no progress.
        predictor: weights of an f_p that is trained already; only the agent learns, in the environment it makes.
        dataset: graphs of your own instead of the set that `config.data.name` names.
        callbacks: are told of every step, every validation and the end; what one raises ends the run.
    """
    device = pick_device(config.runtime.device)
    dataset = registry.load(config.data.name) if dataset is None else dataset
    split = dataset.split(config.data.split_seed, config.data.fold)
    paradigm = PARADIGMS[config.training.paradigm](config, dataset, split, device)
    _check_parameters(paradigm.model, config, dataset)
    if predictor is not None:
        paradigm.use_predictor(predictor)
    validation = Validation(paradigm, config, dataset, split)
    position, seconds = ((0, 0), {}) if folder is None else resume_run(folder, paradigm, validation, config)
    if not quiet:
        print(f"{count_parameters(paradigm.model):,} parameters", file=sys.stderr)
    log, progress = Log(folder, position), Progress(quiet)
    try:
        with matrix_products(config.runtime.precision):
            _run_phases(paradigm, validation, position, seconds, config, folder, log, progress, callbacks)
    finally:
        log.close()
        progress.close()
    if folder is not None:
        save_model(folder / "model.safetensors", paradigm.model, config)
    trained = Trained(paradigm.model, dataset, split, seconds, validation.best_value)
    for callback in callbacks:
        callback.on_end(trained)
    return trained


def count_parameters(module: nn.Module) -> int:
    """Weights of a whole model: of predictor and agent together."""
    return sum(parameter.numel() for parameter in module.parameters())


def _check_parameters(model: MagGNN, config: Config, dataset: Dataset) -> None:
    """Whether the networks keep to the data set's budget; an untrained agent, which moves nothing, does not count."""
    has_agent = config.training.agent_steps > 0 or bool(config.agent.pretrained)
    count, most = count_parameters(model if has_agent else model.predictor), dataset.max_parameters
    if most is not None and count > most:
        raise InputError(f"the model has {count:,} parameters, {dataset.name} allows {most:,}: make it narrower")


def _run_phases(
    paradigm: Paradigm,
    validation: Validation,
    position: tuple[int, int],
    seconds: dict[str, float],
    config: Config,
    folder: Path | None,
    log: Log,
    progress: Progress,
    callbacks: Sequence[Callback],
) -> None:
    """Run what is left, adding to the `seconds` that each phase has taken so far."""
    runtime = config.runtime
    for number, phase in enumerate(paradigm.phases):
        if number < position[0]:
            continue
        first = position[1] if number == position[0] else 0
        if first >= phase.num_steps:  # killed right after this phase's last step
            validation.keep_best()
            continue
        began, before = time.monotonic(), seconds.get(phase.name, 0.0)
        phase.begin()
        if not first:
            validation.begin()
        progress.begin(phase.name, phase.num_steps, first)
        shown: dict[str, float] = {}
        looked: dict[str, float] = {}  # the newest look at the validation part
        since_log: list[Scalars] = []
        for step in range(first, phase.num_steps):
            scalars = phase.step(step)
            since_log.append(scalars)
            for callback in callbacks:
                callback.on_step(phase.name, step + 1, scalars)
            if (step + 1) % runtime.log_every == 0:
                shown = log.write(number, step, _mean(since_log)) | looked
                since_log = []
            if phase.judged_after is not None and validation.due(step + 1):
                looked = log.write(number, step, validation.look(phase.judged_after))
                for callback in callbacks:
                    callback.on_validation(step + 1, validation.best_loss)
            progress.step(step + 1, looked or shown)
            if folder is not None and (step + 1) % runtime.checkpoint_every == 0:
                seconds[phase.name] = before + time.monotonic() - began
                save_run(folder, paradigm, validation, config, (number, step + 1), seconds)
            if phase.judged_after is not None and validation.stops:
                break
        validation.keep_best()
        _finish(config)
        seconds[phase.name] = before + time.monotonic() - began
    if folder is not None:
        save_run(folder, paradigm, validation, config, (len(paradigm.phases), 0), seconds)


def _mean(scalars: list[Scalars]) -> Scalars:
    """What was logged since the last line, averaged: single steps alias with the length of a walk."""
    logged: dict[str, list[Tensor | float]] = {}
    for entry in scalars:
        for name, value in entry.items():
            logged.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in logged.items()}


def _finish(config: Config) -> None:
    """Wait for queued device work, so that a phase's time is its own."""
    if pick_device(config.runtime.device).type == "cuda":
        torch.cuda.synchronize()
