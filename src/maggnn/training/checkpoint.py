"""The state of a run in its folder: everything that a later process needs to go on as if nothing had happened.

It lies in a file of its own beside the model, which it does not replace: `model.safetensors` is written when training
has ended.
"""

from __future__ import annotations

from pathlib import Path

from maggnn import config as configs
from maggnn.config import Config
from maggnn.errors import InputError
from maggnn.model import saving
from maggnn.training.paradigms import Paradigm
from maggnn.training.validation import Validation

FILE = "checkpoint.safetensors"

Position = tuple[int, int]
"""The phase that is running, and its next step."""


def save_run(
    folder: Path,
    paradigm: Paradigm,
    validation: Validation,
    config: Config,
    position: Position,
    seconds: dict[str, float],
) -> None:
    """Write the state of a run.

    Args:
        seconds: wall time of each phase so far.
    """
    facts = {
        "config": configs.to_dict(config),
        "position": position,
        "counters": paradigm.counters(),
        "validation": validation.facts(),
        "seconds": seconds,
    }
    saving.save(folder / FILE, paradigm.tensors() | validation.tensors(), facts)


def resume_run(
    folder: Path, paradigm: Paradigm, validation: Validation, config: Config
) -> tuple[Position, dict[str, float]]:
    """Load the folder's checkpoint if there is one: where to go on, and the seconds spent so far."""
    path = folder / FILE
    if not path.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot make the run folder ({error})") from None
        return (0, 0), {}
    tensors, facts = saving.load(path)
    if configs.from_dict(facts["config"], origin=str(path)) != config:  # a setting newer than the run has its default
        raise InputError(f"{folder} holds a run with other settings; choose another folder or remove it")
    paradigm.load(tensors, facts["counters"])
    validation.load(tensors, facts["validation"])
    phase, step = facts["position"]
    return (phase, step), facts["seconds"]
