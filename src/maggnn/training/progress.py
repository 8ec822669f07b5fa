"""Progress and logs of a run: a progress bar, TensorBoard scalars and `metrics.jsonl`.

Rich and TensorBoard are used if they are installed; without them there are plain lines every few seconds and the JSON
lines, so that training needs only torch.
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
        """Show progress; `scalars` are the newest logged values, of which the first is shown."""
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
    """Averages of scalars between two lines of the log, since values vary with the position of a step in its walk."""

    def __init__(self) -> None:
        self.values: dict[str, list[Tensor | float]] = {}

    def add(self, scalars: Mapping[str, Tensor | float]) -> None:
        for name, value in scalars.items():
            self.values.setdefault(name, []).append(value)

    def take(self) -> dict[str, Tensor | float]:
        """Return the means and start again."""
        means = {name: sum(values) / len(values) for name, values in self.values.items()}
        self.clear()
        return means

    def clear(self) -> None:
        self.values = {}

    def tensors(self) -> dict[str, Tensor]:
        """Return the values so far that are tensors, stacked, for a checkpoint between two lines of the log."""
        held = {name: values for name, values in self.values.items() if isinstance(values[0], Tensor)}
        return {f"{GROUP}{name}": torch.stack([torch.as_tensor(value) for value in held[name]]) for name in held}

    def facts(self) -> dict[str, list[float]]:
        """Return the values so far that are plain numbers, with all names in the order of the log."""
        values = self.values.items()
        return {name: [v for v in held if not isinstance(v, Tensor)] for name, held in values}

    def load(self, tensors: Mapping[str, Tensor], facts: Mapping[str, list[float]]) -> None:
        """Load what `tensors` and `facts` returned."""
        self.values = {name: list(numbers or tensors[f"{GROUP}{name}"]) for name, numbers in facts.items()}


GROUP = "averages/"
"""The prefix of the names of their tensors in a checkpoint."""


class Log:
    """The log of a run's scalars: `metrics.jsonl` and, if it is installed, TensorBoard."""

    def __init__(self, folder: Path | None, position: tuple[int, int]) -> None:
        self.file = self.path = None
        self.board: Any = None
        if folder is not None:
            self.path = folder / LOG
            _truncate_log(self.path, position)
            self.file = self.path.open("a", encoding="utf-8")
            self.board = _tensorboard(folder)

    def write(self, phase: int, step: int, scalars: Mapping[str, Tensor | float]) -> dict[str, float]:
        """Log scalars and return them as plain numbers (reading a tensor synchronises the device)."""
        values = {name: float(value) for name, value in scalars.items()}
        try:
            self._keep(phase, step, values)
        except OSError as error:  # such as a full disk
            reason = error.strerror or error
            raise InputError(
                f"{self.path}: cannot be written ({reason}); the same command resumes from the last checkpoint"
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
        """Close the files; an error of writing has been reported before."""
        for part in (self.file, self.board):
            if part is not None:
                with contextlib.suppress(OSError):
                    part.close()


def read_log(folder: Path) -> list[dict[str, float]]:
    """Return the logged scalars of a run, oldest first."""
    path = folder / LOG
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _truncate_log(path: Path, position: tuple[int, int]) -> None:
    """Remove lines that a killed run logged after its last checkpoint, since the resumed run logs them again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # a line that was cut when the run was killed
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
