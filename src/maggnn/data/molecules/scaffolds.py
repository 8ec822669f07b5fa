"""Scaffold split: molecules with the same Bemis-Murcko scaffold (rings and their linkers) stay in one part.

In a random split, most test molecules have similar molecules in training; in this one, test scaffolds are new.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maggnn.data.molecules.smiles import parsed
from maggnn.errors import InputError

SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}
"""The shares of molecules, as nearly as whole scaffolds allow."""

LARGE = 0.5
"""A scaffold with more than this share of a held-out part goes to train, since it would dominate the part."""


def scaffold(smiles: str) -> str:
    """Return the scaffold's SMILES without stereo; empty for a molecule without rings, or if RDKit finds none."""
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
    from rdkit.rdBase import BlockLogs

    try:
        with BlockLogs():
            return MurckoScaffoldSmiles(mol=parsed(smiles))
    except (InputError, RuntimeError, ValueError):
        return ""


def group_parts(names: Sequence[str], classes: np.ndarray | None = None, seed: int = 0) -> list[str]:
    """Assign whole groups to parts: large ones to train, the others so that every part gets its share.

    Groups are shuffled and then assigned from the largest to the smallest, each to the part in which its molecules and
    classes are missing most. So the result depends neither on the order of the rows nor on the order of classes.

    Args:
        names: the group of each molecule.
        classes: the class or another stratum of each molecule, of which every part gets its share, [G]; or None.
        seed: the seed of the shuffle; equal seeds give equal parts.

    Returns:
        The part of each molecule.
    """
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(name, []).append(place)
    members = [groups[name] for name in sorted(groups)]  # independent of the order of the rows
    order = np.random.default_rng(seed).permutation(len(members))
    members = sorted(
        (members[place] for place in order), key=len, reverse=True
    )  # stable, so that groups of equal size stay shuffled
    brings = _counts(members, classes)  # [groups, columns]
    part_names = list(SHARES)
    parts = [""] * len(names)
    for group, part in zip(members, _assign_parts(brings), strict=True):
        for place in group:
            parts[place] = part_names[part]
    return parts


def _counts(members: Sequence[Sequence[int]], classes: np.ndarray | None) -> np.ndarray:
    """Count the molecules of each class in each scaffold, [groups, classes]; numbers are one class."""
    numbers = np.zeros(sum(map(len, members)), dtype=int)
    if classes is not None:
        numbers = np.unique(classes, return_inverse=True)[1].reshape(-1)
    width = int(numbers.max()) + 1
    return np.stack([np.bincount(numbers[list(group)], minlength=width) for group in members])


def _assign_parts(brings: np.ndarray) -> list[int]:
    """Return the part of each scaffold, given their molecules `brings` [groups, classes], the largest first."""
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
    """Return how much worse (or, below zero, better) each part becomes with a scaffold's molecules, [parts].

    The measure is the squared relative deviation from the wanted numbers, summed over classes and the total.
    """
    has, wanted = (np.column_stack([values, values.sum(axis=1)]) for values in (has, wanted))
    more = np.append(group, group.sum())
    return (more * (2 * (has - wanted) + more) / wanted).sum(axis=1)
