"""Writes packed files, whose layout is described in `sources`.

Shapes: G graphs, F columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from maggnn.data.files import whole_file
from maggnn.data.molecules.smiles import Molecule
from maggnn.errors import InputError

Arrays = dict[str, np.ndarray]
"""The arrays of a packed file, by name."""

BLOCK = 4096
"""The number of molecules that are joined at a time: a few long arrays take much less memory than many short ones."""


class DuplicateWarning(UserWarning):
    """The same molecule is in more than one of train, val and test."""


def pack(molecules: Iterable[Molecule], y: np.ndarray | None = None) -> Arrays:
    """Concatenate molecules to arrays of the smallest types that fit.

    Args:
        molecules: the molecules, which are read one by one and joined in blocks, so that long streams are possible.
        y: one target or row of targets for each molecule.

    Returns:
        The arrays of a packed file.
    """
    stream, blocks = iter(molecules), []
    while block := list(islice(stream, BLOCK)):
        blocks.append(_joined(block))
    if not blocks:
        raise InputError("no molecule to pack")
    joined = concatenated(blocks)
    if y is not None and len(y) != len(joined["num_nodes"]):
        raise InputError(f"{len(y)} targets for {len(joined['num_nodes'])} molecules: give one for each molecule")
    return smallest(joined if y is None else joined | {"y": y})


def concatenated(parts: Sequence[Arrays]) -> Arrays:
    """Concatenate packed graphs; `edge_index` is [2, E], and all other arrays have one row for each item."""
    return {
        name: np.concatenate([part[name] for part in parts], axis=1 if name == "edge_index" else 0) for name in parts[0]
    }


def smallest(arrays: Arrays) -> Arrays:
    """Convert arrays to the types of packed files: the smallest integers that fit, and float32."""
    return {name: _smallest(array) for name, array in arrays.items()}


def check_name(path: Path) -> None:
    """Raise an `InputError` for a name that numpy would change; to be called before long work."""
    if path.suffix != ".npz":
        raise InputError(f"{path}: the name of a packed file must end in .npz")


def save_packed(path: Path, arrays: Arrays) -> None:
    """Write a packed file atomically.

    Args:
        path: the .npz file.
        arrays: sizes, edges, features, targets and split, by name.
    """
    check_name(path)
    with whole_file(path) as waiting, waiting.open("wb") as file:
        np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]


def shared_between_parts(canonical: Sequence[str], parts: Sequence[str]) -> list[str]:
    """Return molecules in more than one part, in order of first appearance, and warn about them.

    Args:
        canonical: canonical SMILES of each molecule.
        parts: "train", "val" or "test" for each.
    """
    seen: dict[str, str] = {}
    shared: dict[str, None] = {}
    for smiles, part in zip(canonical, parts, strict=True):
        if seen.setdefault(smiles, part) != part:
            shared[smiles] = None
    if shared:
        first = next(iter(shared))
        warnings.warn(
            f"{len(shared)} molecules are in more than one of train, val and test, such as {first}",
            DuplicateWarning,
            stacklevel=2,
        )
    return list(shared)


def _joined(block: Sequence[Molecule]) -> Arrays:
    """Concatenate a few molecules."""
    return {
        "num_nodes": np.array([len(molecule.x) for molecule in block]),
        "num_edges": np.array([len(molecule.edge_attr) for molecule in block]),
        "edge_index": np.concatenate([molecule.edge_index for molecule in block], axis=1),
        "x": np.concatenate([molecule.x for molecule in block]),
        "edge_attr": np.concatenate([molecule.edge_attr for molecule in block]),
    }


def _smallest(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    if array.dtype.kind not in "iu":
        return array
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    return array.astype(np.min_scalar_type(high if low >= 0 else min(low, -high - 1)))
