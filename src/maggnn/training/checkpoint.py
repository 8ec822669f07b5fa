"""The state of a run in its folder: everything that a later process needs to go on as if nothing had happened.

    checkpoint.safetensors            the newest
    checkpoint.previous.safetensors   the one before, read where the newest is damaged

They lie beside the model, which they do not replace: `model.safetensors` is written when training has ended.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from maggnn import config as configs
from maggnn.config import Config
from maggnn.data.files import locked
from maggnn.errors import DamagedError, InputError
from maggnn.model import weights_file
from maggnn.model.saving import check_finite
from maggnn.training.paradigms import Paradigm
from maggnn.training.progress import Averages
from maggnn.training.validation import Validation

FILE, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
LOCK = "run.lock"

Position = tuple[int, int]
"""The phase that is running, and its next step."""


def only_here(folder: Path) -> AbstractContextManager[None]:
    """Make the folder if need be, and keep a second run out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot make the run folder ({error})") from None
    return locked(folder / LOCK, f"{folder}: another run is at work there")


def save_run(
    folder: Path,
    paradigm: Paradigm,
    validation: Validation,
    averages: Averages,
    config: Config,
    position: Position,
    seconds: dict[str, float],
) -> None:
    """Write the state of a run, whose weights have to be finite, and keep the one before.

    On several devices all processes call this, and the first writes what is of one of them alone for all.

    Args:
        seconds: wall time of each phase so far.
    """
    path = folder / FILE
    check_finite(paradigm.model.state_dict(), f"step {position[1]}, so {path} is not written")
    facts = {
        "config": configs.to_dict(config),
        "position": position,
        "counters": paradigm.counters(),
        "validation": validation.facts(),
        "averages": averages.facts(),
        "seconds": seconds,
        "devices": paradigm.devices.size,
    }
    tensors = paradigm.tensors() | validation.tensors() | averages.tensors()
    if paradigm.devices.size > 1:
        others = paradigm.devices.gathered(paradigm.own_tensors())[1:]
        for rank, own in enumerate(others, start=1):
            tensors |= {f"rank{rank}/{name}": value for name, value in own.items()}
    if not paradigm.devices.first:
        return
    weights_file.save(path, tensors, facts, before_rename=lambda: _keep_previous(folder))


def _keep_previous(folder: Path) -> None:
    """The newest becomes the one before as well, now that another is complete: at no moment is there no newest one."""
    newest, previous = folder / FILE, folder / PREVIOUS
    if not newest.exists():
        return
    linked = folder / f".{PREVIOUS}"
    try:
        linked.unlink(missing_ok=True)
        linked.hardlink_to(newest)
        linked.replace(previous)
    except OSError:  # a file system without links: for a moment there is only the one before
        newest.replace(previous)


def resume_run(
    folder: Path, paradigm: Paradigm, validation: Validation, averages: Averages, config: Config
) -> tuple[Position, dict[str, float]]:
    """Load the folder's checkpoint if there is one: where to go on, and the seconds spent so far."""
    devices = paradigm.devices
    if not devices.first:
        devices.wait()  # until the first process has put a damaged checkpoint aside
    found = _newest(folder)
    if devices.first:
        devices.wait()
    if found is None:
        return (0, 0), {}
    tensors, facts = found
    if configs.from_dict(facts["config"], origin=str(folder / FILE)) != config:  # a newer setting has its default
        raise InputError(f"{folder} holds a run with other settings; choose another folder or remove it")
    begun = facts.get("devices", 1)
    if begun != devices.size:
        raise InputError(
            f"{folder} holds a run on {begun} devices, each with its own generators and walkers: it cannot go on with "
            f"{devices.size}: give --devices {begun}, or choose another folder"
        )
    start = f"rank{devices.rank}/"
    own = {name[len(start) :]: value for name, value in tensors.items() if name.startswith(start)}
    paradigm.load(tensors | own, facts["counters"])
    validation.load(tensors, facts["validation"])
    averages.load(tensors, facts.get("averages", {}))
    phase, step = facts["position"]
    return (phase, step), facts["seconds"]


def _newest(folder: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The newest checkpoint that can be read; None where there is none at all."""
    path, previous = folder / FILE, folder / PREVIOUS
    if not path.exists() and not previous.exists():
        return None
    try:
        if path.exists():
            return weights_file.load(path)
    except DamagedError as error:
        if not previous.exists():
            raise
        print(f"{error}: going on from the one before", file=sys.stderr)
    found = weights_file.load(previous)
    try:
        previous.replace(path)  # the damaged one must not take its place when the next is written
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    return found
