"""`trees.safetensors`: trees and Gaussian processes of a fitted model, and fingerprints of its training molecules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from maggnn.apps.fit.blend import READINGS
from maggnn.apps.fit.classical.cheap_baselines import COLUMNS, FOREST
from maggnn.apps.fit.classical.descriptors import BITS
from maggnn.apps.fit.classical.kernel import KERNEL, Kernels
from maggnn.apps.fit.classical.trees import Trees
from maggnn.errors import InputError
from maggnn.model.weights_file import checksum_of, load, save

if TYPE_CHECKING:
    from maggnn.apps.fit.fitted import Facts

TREES = "trees.safetensors"
KNOWN = "known"
"""The name of the tensor of fingerprints in the file of trees."""

MOST_KNOWN = 10_000
"""The largest number of training fingerprints in a folder."""


def save_trees(folder: Path, trees: Mapping[str, Trees | Kernels], known: np.ndarray | None) -> bool:
    """Write the file if there is something to write. Returns whether there was."""
    tensors = {f"{part}.{name}": array for part, own in trees.items() for name, array in own.arrays().items()}
    tensors |= {} if known is None else {KNOWN: known}
    if tensors:
        arrays = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in tensors.items()}
        save(folder / TREES, arrays, {"kind": "trees"}, with_checksum=True)
    return bool(tensors)


def load_trees(folder: Path, facts: Facts, outputs: int) -> tuple[dict[str, Trees | Kernels], np.ndarray | None]:
    """Load and check the trees and the known fingerprints of a folder."""
    parts = [name for name in facts.blend.weights if name not in READINGS]
    path = folder / TREES
    if TREES not in facts.blend.files:
        if parts:
            raise InputError(f"{folder}: has no {TREES}, which its model needs")
        return {}, None
    tensors, _ = load(path)
    check_file(path, facts)
    try:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        trees: dict[str, Trees | Kernels] = {}
        for part in parts:
            own = {
                name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")
            }
            columns = COLUMNS[part] + (0 if part == FOREST else len(facts.number_columns))
            if part == KERNEL:
                trees[part] = Kernels.checked(own, columns, facts.blend.folds, outputs)
            else:
                trees[part] = Trees.checked(own, columns, facts.blend.folds * outputs)
        known = arrays.get(KNOWN)
        if known is not None and not _are_fingerprints(known):
            raise InputError("fingerprints are damaged")
    except (InputError, TypeError) as error:  # numpy does not have all types of torch
        raise InputError(f"{path}: {error}") from error
    return trees, known if known is not None and len(known) else None


def _are_fingerprints(known: np.ndarray) -> bool:
    return known.dtype == np.uint8 and known.ndim == 2 and known.shape[1] == BITS // 8 and len(known) <= MOST_KNOWN


def check_file(path: Path, facts: Facts) -> None:
    """Raise an `InputError` if a file does not have the checksum in the facts."""
    if facts.blend.files.get(path.name) != checksum_of(path):
        raise InputError(f"{path}: its checksum differs from that in fitted.json")
