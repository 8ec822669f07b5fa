"""A harder split: molecules of one Bemis-Murcko scaffold (rings and what joins them) stay in one part.

A random split has near relatives of most test molecules in training; this one asks about skeletons that are new.
"""

from __future__ import annotations

from collections.abc import Sequence

from maggnn.data.molecules.smiles import parsed
from maggnn.errors import InputError

TRAIN, WITH_VAL = 0.8, 0.9
"""Shares of the molecules that train, and train and val together, may have at most."""


def scaffold(smiles: str) -> str:
    """The scaffold's SMILES without stereo; empty for a molecule without rings, or where RDKit finds none."""
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
    from rdkit.rdBase import BlockLogs

    try:
        with BlockLogs():
            return MurckoScaffoldSmiles(mol=parsed(smiles))
    except (InputError, RuntimeError, ValueError):
        return ""


def scaffold_parts(canonical: Sequence[str]) -> list[str]:
    """A part for each molecule: whole scaffolds, the largest first, to train while there is room, then val, then test.

    Scaffolds of equal size go in the order of their first molecule, so nothing is left to chance.
    """
    groups: dict[str, list[int]] = {}
    for place, smiles in enumerate(canonical):
        groups.setdefault(scaffold(smiles), []).append(place)
    counts = {"train": 0, "val": 0, "test": 0}
    parts = [""] * len(canonical)
    for group in sorted(groups.values(), key=lambda group: (-len(group), group[0])):
        part = _part_with_room(counts, len(group), len(canonical))
        counts[part] += len(group)
        for place in group:
            parts[place] = part
    return parts


def _part_with_room(counts: dict[str, int], size: int, total: int) -> str:
    if counts["train"] + size <= TRAIN * total:
        return "train"
    return "val" if counts["train"] + counts["val"] + size <= WITH_VAL * total else "test"
