"""The work of a worker process of `maggnn predict`: it turns SMILES into ordered arrays, and never imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from maggnn.apps.fit.classical.descriptors import Descriptors, DescriptorTable
from maggnn.data.molecules.fragments import chosen_fragments
from maggnn.data.molecules.smiles import MOST_ATOMS, Molecule, RowError, featurise_rows
from maggnn.data.ordered import in_order
from maggnn.data.packing import Arrays, pack


class SmilesReading(NamedTuple):
    """How a model reads molecules: the arguments of `featurised_chunk` besides the SMILES, which processes get."""

    features: str
    with_fingerprints: bool
    with_descriptors: bool
    salts: str
    most_atoms: int = MOST_ATOMS


@dataclass(frozen=True)
class Featurised:
    """A featurised chunk of molecules.

    Attributes:
        arrays: the usable molecules as arrays in canonical order (`in_order`); None if there are none.
        reasons: for each SMILES, why it cannot be used; empty if it can.
        descriptors: descriptors and fingerprints of the same molecules; None if they were not requested.
    """

    arrays: Arrays | None
    reasons: list[str]
    descriptors: Descriptors | None = None


def featurised_chunk(
    smiles: Sequence[str],
    features: str,
    with_fingerprints: bool = False,
    with_descriptors: bool = False,
    salts: str = "keep",
    most_atoms: int = MOST_ATOMS,
) -> Featurised:
    """Featurise and pack a few thousand SMILES, and compute the requested descriptors.

    Args:
        salts: which fragments are read (`maggnn.data.molecules.fragments`).
        most_atoms: the largest number of atoms of a molecule; larger ones are rejected.
    """
    smiles = list(chosen_fragments(smiles, salts))
    table = DescriptorTable(len(smiles), with_descriptors) if with_fingerprints or with_descriptors else None
    on_mol = None if table is None else lambda row, mol: table.add(row - 1, mol)
    results = [_within(result, most_atoms) for result in featurise_rows(smiles, features, on_mol)]
    molecules = [result for result in results if isinstance(result, Molecule)]
    reasons = ["" if isinstance(result, Molecule) else result.reason for result in results]
    if not molecules:
        return Featurised(None, reasons)
    usable = [row for row, reason in enumerate(reasons) if not reason]
    return Featurised(in_order(pack(molecules)), reasons, None if table is None else table.descriptors.select(usable))


def _within(result: Molecule | RowError, most_atoms: int) -> Molecule | RowError:
    if isinstance(result, RowError) or len(result.x) <= most_atoms:
        return result
    return RowError(0, "", f"{len(result.x)} atoms: more than {most_atoms}")
