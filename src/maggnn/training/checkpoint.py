"""Checkpoints: the state of a run, from which a later process resumes exactly.

    checkpoint.safetensors            the newest checkpoint
    checkpoint.previous.safetensors   the previous one, read if the newest is damaged

They do not replace the model of the run, `model.safetensors`, which is written when training has ended.
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
"""The current phase, and its next step."""


def only_here(folder: Path) -> AbstractContextManager[None]:
    """Create the folder if necessary, and lock it against a second run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot make the run folder ({error})") from None
    return locked(folder / LOCK, f"{folder}: another run is using this folder")


def save_run(
    folder: Path,
    paradigm: Paradigm,
    validation: Validation,
    averages: Averages,
    config: Config,
    position: Position,
    seconds: dict[str, float],
) -> None:
    """Write the state of a run, whose weights have to be finite, and keep the previous one.

    On several devices all processes call this, and the first writes the states of all processes.

    Args:
        seconds: the wall time of each phase so far.
    """
    path = folder / FILE
    check_finite(paradigm.model.state_dict(), f"step {position[1]}, so {path} is not written")
    facts = {
        "config": configs.to_dict(config),
        "data": paradigm.data_digest,
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
    """Link the newest checkpoint as the previous one before it is replaced, so that there always is a newest one."""
    newest, previous = folder / FILE, folder / PREVIOUS
    if not newest.exists():
        return
    linked = folder / f".{PREVIOUS}"
    try:
        linked.unlink(missing_ok=True)
        linked.hardlink_to(newest)
        linked.replace(previous)
    except OSError:  # on a file system without links, there is only the previous one for a moment
        newest.replace(previous)


def resume_run(
    folder: Path, paradigm: Paradigm, validation: Validation, averages: Averages, config: Config
) -> tuple[Position, dict[str, float]]:
    """Load the folder's checkpoint if there is one. Returns the position to resume from and the seconds so far."""
    devices = paradigm.devices
    if not devices.first:
        devices.wait()  # until the first process has replaced a damaged checkpoint
    found = _newest(folder)
    if devices.first:
        devices.wait()
    if found is None:
        return (0, 0), {}
    tensors, facts = found
    if (
        configs.from_dict(facts["config"], origin=str(folder / FILE)) != config
    ):  # settings that the file lacks have their defaults
        raise InputError(f"{folder} contains a run with other settings; choose another folder or remove it")
    if facts.get("data", paradigm.data_digest) != paradigm.data_digest:  # the first checkpoints did not name their data
        raise InputError(
            f"{folder} contains a run on other graphs, targets or splits; choose another folder or remove it"
        )
    begun = facts.get("devices", 1)
    if begun != devices.size:
        raise InputError(
            f"{folder} contains a run on {begun} devices, which cannot be resumed on {devices.size}: "
            f"give --devices {begun}, or choose another folder"
        )
    own = weights_file.with_prefix(tensors, f"rank{devices.rank}/")
    paradigm.load(tensors | own, facts["counters"])
    validation.load(tensors, facts["validation"])
    averages.load(tensors, facts.get("averages", {}))
    phase, step = facts["position"]
    return (phase, step), facts["seconds"]


def _newest(folder: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the newest checkpoint that can be read; None if there is none at all."""
    path, previous = folder / FILE, folder / PREVIOUS
    if not path.exists() and not previous.exists():
        return None
    try:
        if path.exists():
            return weights_file.load(path)
    except DamagedError as error:
        if not previous.exists():
            raise
        print(f"{error}: resuming from the previous checkpoint", file=sys.stderr)
    found = weights_file.load(previous)
    try:
        previous.replace(path)  # the damaged one must not become the previous one at the next write
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    return found
