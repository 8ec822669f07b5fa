"""A harder split: molecules of one Bemis-Murcko scaffold (rings and what joins them) stay in one part.

A random split has near relatives of most test molecules in training; this one asks about skeletons that are new.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maggnn.data.molecules.smiles import parsed
from maggnn.errors import InputError

SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}
"""Of the molecules, as nearly as whole scaffolds allow."""

LARGE = 0.5
"""Of a held-out part: a scaffold with more molecules than that would make most of it, and goes to train."""


def scaffold(smiles: str) -> str:
    """The scaffold's SMILES without stereo; empty for a molecule without rings, or where RDKit finds none."""
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
    from rdkit.rdBase import BlockLogs

    try:
        with BlockLogs():
            return MurckoScaffoldSmiles(mol=parsed(smiles))
    except (InputError, RuntimeError, ValueError):
        return ""


def group_parts(names: Sequence[str], classes: np.ndarray | None = None, seed: int = 0) -> list[str]:
    """A part for each molecule: whole groups, large ones to train, the rest so that every part is as it should be.

    Groups are shuffled, then dealt from the largest to the smallest, each to the part that lacks most of what it
    brings: molecules, and of each class its share. So neither the order of the rows nor a class decides.

    Args:
        names: the group of each molecule.
        classes: of each molecule, or another stratum of which every part gets its share, [G]; None for one of all.
        seed: of the shuffle; equal seeds give equal parts.
    """
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(name, []).append(place)
    members = [groups[name] for name in sorted(groups)]  # not in the order of the rows
    order = np.random.default_rng(seed).permutation(len(members))
    members = sorted((members[place] for place in order), key=len, reverse=True)  # stable: equal ones stay shuffled
    brings = _counts(members, classes)  # [groups, columns]
    part_names = list(SHARES)
    parts = [""] * len(names)
    for group, part in zip(members, _dealt(brings), strict=True):
        for place in group:
            parts[place] = part_names[part]
    return parts


def _counts(members: Sequence[Sequence[int]], classes: np.ndarray | None) -> np.ndarray:
    """How many molecules of each class each scaffold has, [groups, classes]; numbers are one class."""
    numbers = np.zeros(sum(map(len, members)), dtype=int)
    if classes is not None:
        numbers = np.unique(classes, return_inverse=True)[1].reshape(-1)
    width = int(numbers.max()) + 1
    return np.stack([np.bincount(numbers[list(group)], minlength=width) for group in members])


def _dealt(brings: np.ndarray) -> list[int]:
    """The part of each scaffold, of which `brings` [groups, classes] molecules, the largest first."""
    shares = np.array(list(SHARES.values()))
    wanted = shares[:, None] * brings.sum(axis=0)  # [parts, classes]
    has, dealt = np.zeros_like(wanted), []
    for group in brings:
        large = group.sum() > LARGE * shares[1:].min() * brings.sum()
        fits = has[0].sum() + group.sum() <= shares[0] * brings.sum() + 1e-9
        part = 0 if large and fits else int(dealing_cost(group, has, wanted).argmin())
        has[part] += group
        dealt.append(part)
    return dealt


def dealing_cost(group: np.ndarray, has: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How much worse (or, below zero, better) each part becomes with a scaffold's molecules, [parts].

    The measure is the squared distance from what is wanted, in units of what is wanted, over classes and in all.
    """
    has, wanted = (np.column_stack([values, values.sum(axis=1)]) for values in (has, wanted))
    more = np.append(group, group.sum())
    return (more * (2 * (has - wanted) + more) / wanted).sum(axis=1)
