"""What a worker of `maggnn predict` does: SMILES in, packed arrays and reasons out. It never loads torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maggnn.apps.fit.classical.descriptors import Descriptors, DescriptorTable
from maggnn.data.molecules.fragments import chosen_fragments
from maggnn.data.molecules.smiles import MOST_ATOMS, Molecule, RowError, featurise_rows
from maggnn.data.packing import Arrays, pack


@dataclass(frozen=True)
class Featurised:
    """A chunk of molecules.

    Attributes:
        arrays: those that can be used, back to back; None where there is none.
        reasons: one a SMILES; empty where it can be used.
        descriptors: the same molecules by descriptors and fingerprints; None where nobody asked for them.
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
    """Featurise and pack a few thousand SMILES, and describe them as far as that is asked for.

    Args:
        salts: which fragments are read (`maggnn.data.molecules.fragments`).
        most_atoms: of a molecule; larger ones get that as their reason.
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
    return Featurised(pack(molecules), reasons, None if table is None else table.descriptors.select(usable))


def _within(result: Molecule | RowError, most_atoms: int) -> Molecule | RowError:
    if isinstance(result, RowError) or len(result.x) <= most_atoms:
        return result
    return RowError(0, "", f"{len(result.x)} atoms: more than {most_atoms}")
