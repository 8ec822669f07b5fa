"""Finds folders with runs, and their progress; it reads only names, times and headers, so that it is fast."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open

from maggnn.apps.fit.facts import FACTS
from maggnn.apps.show.card import has_card
from maggnn.errors import InputError
from maggnn.model.saving import MODEL
from maggnn.model.weights_file import check_header_size
from maggnn.training.checkpoint import FILE as CHECKPOINT
from maggnn.training.progress import LOG

DEEPEST = 3
"""The depth of nested folders that are searched."""

MOST_RUNS = 500
"""The largest number of runs on the page, the first by name; the command says so if there are as many."""

QUIET_S = 120.0
"""After this many seconds without a change, a log is considered finished."""

SLACK_S = 5.0
"""The tolerance in seconds for times of files, since files of a copied folder have similar times in any order."""

LONGEST_WORD = 200
"""The largest number of characters of a setting on the page."""

Stage = Literal["training", "finished", "stopped"]


@dataclass(frozen=True)
class Run:
    """A folder with a model, a log, or both.

    Attributes:
        name: the path below the folder that is shown, by which the page identifies a run.
    """

    name: str
    folder: Path

    @property
    def fitted(self) -> bool:
        return _is_there(self.folder / FACTS)

    @property
    def model_version(self) -> int:
        """A number that changes when the model is written again; 0 if there is none."""
        return _written(self.folder / MODEL)

    def stage(self) -> Stage:
        """Return the stage of the run; a model that is newer than the log means that it has finished."""
        logged, saved = _written(self.folder / LOG), self.model_version
        if logged > saved + 1e9 * SLACK_S and time.time() - logged / 1e9 < QUIET_S:
            return "training"
        return "finished" if saved else "stopped"

    def facts(self) -> dict[str, Any]:
        """Return the facts about the run that the page shows."""
        config = _config(self.folder)
        agent, training = config.get("agent", {}), config.get("training", {})
        return {
            "name": self.name,
            "kind": "fit" if self.fitted else "train",
            "stage": self.stage(),
            "model": self.model_version,
            "logged": _is_there(self.folder / LOG),
            "card": self.fitted and has_card(self.folder),
            "data": config.get("data", {}).get("name", ""),
            "paradigm": training.get("paradigm", ""),
            "steps": _steps(training),
            "m": agent.get("num_tuples"),
            "k": agent.get("tuple_order"),
            "t": agent.get("num_moves"),
        }


def find_runs(root: Path) -> dict[str, Run]:
    """Return the runs in `root` or below it, by name."""
    if not root.exists():
        raise InputError(f"{root}: no such folder")
    if not root.is_dir():
        raise InputError(f"{root} is a file: give the run folder that contains it")
    found: dict[str, Run] = {}
    for folder in _folders(root, DEEPEST):
        if any(_is_there(folder / name) for name in (MODEL, FACTS, LOG)):
            name = as_utf8(_own_name(root) if folder == root else folder.relative_to(root).as_posix())
            found[name] = Run(name, folder)
        if len(found) == MOST_RUNS:
            break
    if not found:
        raise InputError(f"{root}: contains no run; `maggnn train` and `maggnn fit` make one")
    return found


def as_utf8(text: str) -> str:
    """Escape surrogates, which stand for bytes of a name that are not UTF-8, and which the JSON of a log may have."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _own_name(root: Path) -> str:
    """Return the name of a run in `root` itself; a dot if a folder below has the same name."""
    name = root.resolve().name
    return name if name and not (root / name).exists() else "."


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folder and those below it, sorted by name; links are not followed, since they may lead outside."""
    yield folder
    if not depth:
        return
    try:
        below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:  # a folder without read permission
        return
    for path in below:
        if not path.name.startswith("."):
            yield from _folders(path, depth - 1)


def _is_there(path: Path) -> bool:
    """Whether a path is a plain file; False if its folder may not be read, which must not hide all other runs."""
    try:
        return path.is_file()
    except OSError:
        return False


def _written(path: Path) -> int:
    """Return when a file was written; 0 if there is none, or a folder, pipe or device has its name."""
    try:
        return path.stat().st_mtime_ns if _is_there(path) else 0
    except OSError:
        return 0


def _steps(training: dict[str, Any]) -> list[int]:
    """Return the number of steps of each phase of the log."""
    if not training:
        return []
    phases = [training.get("predictor_steps", 0)]
    return [*phases, training.get("agent_steps", 0)] if training.get("paradigm") == "ord" else phases


def _config(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the settings in the header of a model or a checkpoint; empty if neither can be read."""
    for name in (MODEL, CHECKPOINT):
        try:
            check_header_size(folder / name)
            with safe_open(folder / name, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["facts"])
            return _plain_sections(facts["config"])
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, RecursionError, MemoryError):
            continue
    return {}


def _plain_sections(config: Any) -> dict[str, dict[str, Any]]:
    """Return the settings that the page can show: text and numbers of limited size."""
    sections = config.items() if isinstance(config, dict) else ()
    return {
        section: {key: value for key, value in entries.items() if _is_plain(value)}
        for section, entries in sections
        if isinstance(entries, dict)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_WORD
    return isinstance(value, int) and abs(value) < 2**53
