"""What a user did wrong, in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec


class InputError(ValueError):
    """A user's mistake: one line that says what was wrong, where, and what to do. The command line exits with 2."""


class DivergenceError(InputError):
    """Training came apart: a loss, or what was learned from it, is no finite number (`diverged` makes one)."""


class UntrainedAgentWarning(UserWarning):
    """A model answers after moves of an agent that has learned nothing."""


class DamagedError(InputError):
    """A file is cut short or otherwise not as it was written."""


def diverged(what: str) -> DivergenceError:
    """The error for training that came apart, with what to do."""
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
"""Module -> the optional dependency that brings it."""


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """What to install for a module that could not be imported, in one line; None where it is none of ours."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    return f"this needs {module}, which is not installed: pip install 'maggnn[{extra}]'" if extra else None


def require(*modules: str) -> None:
    """Refuse before long work where a module that is needed at its end is not installed."""
    for module in modules:
        if find_spec(module) is None:
            raise InputError(str(missing_extra(ModuleNotFoundError(module, name=module))))


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest of `choices`, and all of them where they are few.

    Example:
        >>> did_you_mean("zinq", ["zinc", "qm9"])
        ": did you mean 'zinc'? There are zinc, qm9"
    """
    known = [str(choice) for choice in choices]
    if not known:
        return ""
    nearest = difflib.get_close_matches(str(name)[:100], known, n=1, cutoff=0.0)
    guess = f": did you mean {nearest[0]!r}?" if nearest else ":"
    return f"{guess} There are {', '.join(known)}" if len(known) <= MOST_LISTED else guess


MOST_LISTED = 25
"""Names that a message lists; of more, only the nearest is named."""
