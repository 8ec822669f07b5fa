"""`estimator.json`: the parameters and learned attributes of a saved estimator, in the folder of its model.

A folder of `maggnn fit` has no such file; an estimator that is loaded from it gets the equivalent parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.data.files import whole_file
from maggnn.errors import InputError

FILE = "estimator.json"
MOST_BYTES = 2**20
DTYPES = re.compile(r"object|[<>=|]?[biufU][0-9]{1,3}")
PLAIN = (str, int, float, bool, type(None))


def write_estimator(folder: Path, kind: str, params: Mapping[str, Any], learned: Mapping[str, Any]) -> None:
    """Write parameters and learned attributes atomically."""
    unwritable = [name for name, value in params.items() if not isinstance(value, PLAIN)]
    if unwritable:
        name = unwritable[0]
        raise InputError(f"{name} is {params[name]!r}, which cannot be written to a file: give a plain value")
    with whole_file(folder / FILE) as waiting:
        waiting.write_text(json.dumps({"kind": kind, "params": dict(params), **learned}, indent=1), encoding="utf-8")


def read_estimator(folder: Path, kind: str, names: list[str]) -> dict[str, Any] | None:
    """Read and check what `write_estimator` wrote; returns None if there is no such file.

    Args:
        kind: the class of the estimator that reads it.
        names: the names of its parameters.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES} bytes")
        found = json.loads(path.read_text(encoding="utf-8"))
        params = found["params"]
        plain = isinstance(params, dict) and all(isinstance(value, PLAIN) for value in params.values())
        if not plain or not set(params) <= set(names) or not isinstance(found["seed"], int):
            raise ValueError("its values are not those of an estimator")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: damaged ({error})") from error
    if found["kind"] != kind:
        raise InputError(f"{folder}: contains a {found['kind']}: load it with that class, not with {kind}")
    return found


def plain_labels(classes: np.ndarray) -> dict[str, Any]:
    """Return labels and their type as plain values, for a file."""
    labels = classes.tolist()
    if not all(isinstance(label, PLAIN) for label in labels):
        raise InputError(f"the label {labels[0]!r} cannot be written to a file: use strings or numbers")
    return {"labels": labels, "dtype": "object" if classes.dtype.kind == "O" else classes.dtype.str}


def labels_from(found: Any, folder: Path) -> np.ndarray:
    """Return the labels that `plain_labels` wrote."""
    try:
        if not all(isinstance(label, PLAIN) for label in found["labels"]):
            raise ValueError("labels are not plain values")
        if not DTYPES.fullmatch(found["dtype"]):  # an untrusted type could allocate gigabytes
            raise ValueError("the type of labels is unknown")
        return np.array(found["labels"], dtype=np.dtype(found["dtype"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / FILE}: damaged ({error})") from error
