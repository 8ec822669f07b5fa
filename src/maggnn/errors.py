"""Errors that a user can correct, each with a message of one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec


class InputError(ValueError):
    """A user's mistake. The message is one line: what is wrong, where, and what to do. Commands exit with code 2."""


class DivergenceError(InputError):
    """Training diverged: a loss or a weight is not a finite number. `diverged` creates this error."""


class UntrainedAgentWarning(UserWarning):
    """A model predicts after moves of an untrained agent."""


class DamagedError(InputError):
    """A file is truncated or otherwise damaged."""


def diverged(what: str) -> DivergenceError:
    """Return the error for training that diverged, with advice on what to do."""
    return DivergenceError(f"training diverged: {what}; lower training.learning_rate")


EXTRAS = {
    "rdkit": "chem",
    "sklearn": "sklearn",
    "matplotlib": "plots",
    "fastapi": "show",
    "uvicorn": "show",
    "h11": "show",
    "starlette": "show",
    "optuna": "tune",
    "pyarrow": "parquet",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "onnxruntime": "onnx",
    "pynauty": "canonical",
    "ray": "ray",
    "prometheus_client": "serve",
    "lightning": "lightning",
    "lightning_fabric": "devices",
}
"""Maps a module to the optional dependency (extra) that installs it."""


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Return one line that says what to install for a missing module, or None if no extra of maggnn installs it."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    return f"this needs {module}, which is not installed: pip install 'maggnn[{extra}]'" if extra else None


def require(*modules: str) -> None:
    """Raise an `InputError` before long work if a module that is needed at its end is not installed."""
    for module in modules:
        if find_spec(module) is None:
            raise InputError(str(missing_extra(ModuleNotFoundError(module, name=module))))


def first_line(error: object) -> str:
    """Return the first line of an error's text, or the name of its type if it has no text.

    Example:
        >>> first_line(ValueError("too long")), first_line(MemoryError())
        ('too long', 'MemoryError')
    """
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the most similar of `choices`, and all if they are few.

    Example:
        >>> did_you_mean("zinq", ["zinc", "qm9"])
        ": did you mean 'zinc'? There are zinc, qm9"
    """
    known = [str(choice) for choice in choices]
    if not known:
        return ""
    in_small_letters = {choice.lower(): choice for choice in reversed(known)}
    nearest = difflib.get_close_matches(str(name)[:100].lower(), in_small_letters, n=1, cutoff=0.0)
    guess = f": did you mean {in_small_letters[nearest[0]]!r}?" if nearest else ":"
    return f"{guess} There are {', '.join(known)}" if len(known) <= MOST_LISTED else guess


MOST_LISTED = 25
"""The largest number of names that a message lists; beyond it, only the most similar name is given."""
