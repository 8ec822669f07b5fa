"""What a person sees and what is kept while a run goes on: a progress bar, TensorBoard scalars, `metrics.jsonl`.

Rich and TensorBoard are used where they are installed; without them a plain line every few seconds and the JSON lines
remain, so that training needs nothing but torch.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maggnn.data.files import whole_file
from maggnn.errors import InputError

SECONDS_BETWEEN_LINES = 10.0

LOG = "metrics.jsonl"


class Progress:
    """A bar on a terminal, a line every ten seconds elsewhere, nothing when `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self.bar = None if quiet or not sys.stderr.isatty() else _rich_bar()
        self.quiet = quiet
        self.last_line = time.monotonic()
        self.task_id: Any = None
        self.phase, self.total, self.began, self.first = "", 0, time.monotonic(), 0

    def begin(self, phase: str, total: int, first: int) -> None:
        self.phase, self.total, self.first, self.began = phase, total, first, time.monotonic()
        if self.bar is not None:
            self.bar.start()
            self.task_id = self.bar.add_task(phase, total=total, completed=first, metric="")

    def step(self, done: int, scalars: Mapping[str, float]) -> None:
        """`scalars` are the newest logged values; the first of them is shown."""
        if self.bar is not None:
            self.bar.update(self.task_id, completed=done, metric=_first_metric(scalars))
        elif not self.quiet and time.monotonic() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            rate = (done - self.first) / max(self.last_line - self.began, 1e-9)
            left = (self.total - done) / max(rate, 1e-9)
            metric = _first_metric(scalars)
            print(
                f"{self.phase} {done}/{self.total}  {rate:.0f}/s  {left:.0f} s left  {metric}",
                file=sys.stderr,
            )

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def _first_metric(scalars: Mapping[str, float]) -> str:
    return next((f"{name.split('/')[-1]} {value:.4f}" for name, value in scalars.items()), "")


def _rich_bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    return Bar(
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[metric]}"),
        console=Console(stderr=True),
    )


class Averages:
    """What steps say between two lines of the log, averaged: single steps alias with the length of a walk."""

    def __init__(self) -> None:
        self.values: dict[str, list[Tensor | float]] = {}

    def add(self, scalars: Mapping[str, Tensor | float]) -> None:
        for name, value in scalars.items():
            self.values.setdefault(name, []).append(value)

    def take(self) -> dict[str, Tensor | float]:
        """The means, to begin anew."""
        means = {name: sum(values) / len(values) for name, values in self.values.items()}
        self.clear()
        return means

    def clear(self) -> None:
        self.values = {}

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint that lies between two lines: what came as tensors."""
        held = {name: values for name, values in self.values.items() if isinstance(values[0], Tensor)}
        return {f"{GROUP}{name}": torch.stack([torch.as_tensor(value) for value in held[name]]) for name in held}

    def facts(self) -> dict[str, list[float]]:
        """The same of what came as numbers; names in the order of the log."""
        values = self.values.items()
        return {name: [v for v in held if not isinstance(v, Tensor)] for name, held in values}

    def load(self, tensors: Mapping[str, Tensor], facts: Mapping[str, list[float]]) -> None:
        """The inverse of `tensors` and `facts`."""
        self.values = {name: list(numbers or tensors[f"{GROUP}{name}"]) for name, numbers in facts.items()}


GROUP = "averages/"
"""Before the names of their tensors in a checkpoint."""


class Log:
    """Scalars of a run: appended to `metrics.jsonl` and, where installed, written for TensorBoard."""

    def __init__(self, folder: Path | None, position: tuple[int, int]) -> None:
        self.file = self.path = None
        self.board: Any = None
        if folder is not None:
            self.path = folder / LOG
            _forget_after(self.path, position)
            self.file = self.path.open("a", encoding="utf-8")
            self.board = _tensorboard(folder)

    def write(self, phase: int, step: int, scalars: Mapping[str, Tensor | float]) -> dict[str, float]:
        """Log and return plain numbers (reading a tensor waits for the device)."""
        values = {name: float(value) for name, value in scalars.items()}
        try:
            self._keep(phase, step, values)
        except OSError as error:  # a full disk
            reason = error.strerror or error
            raise InputError(
                f"{self.path}: cannot be written ({reason}); the same command goes on from the last checkpoint"
            ) from error
        return values

    def _keep(self, phase: int, step: int, values: Mapping[str, float]) -> None:
        if self.file is not None:
            self.file.write(json.dumps({"phase": phase, "step": step, **values}) + "\n")
            self.file.flush()
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(name, value, step)

    def close(self) -> None:
        """What could not be written has been said."""
        for part in (self.file, self.board):
            if part is not None:
                with contextlib.suppress(OSError):
                    part.close()


def read_log(folder: Path) -> list[dict[str, float]]:
    """The logged scalars of a run, oldest first."""
    path = folder / LOG
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _forget_after(path: Path, position: tuple[int, int]) -> None:
    """Drop lines that a killed run logged after its last checkpoint: the resumed run will log them again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # the line the kill cut short
        if (entry["phase"], entry["step"]) < position:
            kept.append(line + "\n")
    with whole_file(path) as waiting:
        waiting.write_text("".join(kept), encoding="utf-8")


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"))
