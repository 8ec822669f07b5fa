"""The features "mol" and "ogb" of many molecules at once: the rows of `atom_features`, made column by column.

The columns come from RDKit's binary form (`binary_form`) through small tables. Chirality and the configuration of
double bonds, which few atoms and bonds have, are asked for one by one. The definition is `atom_features`: a molecule
that cannot be read in this way is left to it, and so are all if `agrees` finds that this RDKit writes another layout.

Shapes: n atoms and E bonds of a molecule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maggnn.data.molecules.atom_features import (
    CHARGE,
    ELEMENT,
    HYDROGENS,
    NEIGHBOURS,
    OGB_BOND,
    OGB_LAST_ELEMENT,
    OGB_MOST_CHARGE,
    OGB_MOST_HYDROGENS,
    OGB_MOST_NEIGHBOURS,
    OGB_MOST_RADICALS,
    RADICALS,
    chiral_tag,
    cip_label,
    feature_set,
    hybridisation_category,
    stereo_category,
)
from maggnn.data.molecules.binary_form import BinaryMolecules, read_binary

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Mol

CHIRALITY: dict[str, Callable[[Atom], int]] = {"mol": cip_label, "ogb": chiral_tag}
"""The feature sets that can be made in bulk, which differ in the column of chirality."""

READ_TYPES = (*OGB_BOND, "QUADRUPLE")
"""Types of bonds whose category does not depend on how the SMILES writes them; RDKit has many others, all rare."""

UNKNOWN = 255
"""The category of all other types."""

PROBES = (
    "C[N+](C)(C)CC([O-])=O", "c1ccc2[nH]ccc2c1", "C[C@H](N)C(=O)O", "C/C=C/C=C\\C", "[13CH3][CH2]", "C#CS(=O)(=O)[O-]",
    "FP(F)(F)(F)F", "FS(F)(F)(F)(F)F", "C1CC2CC12", "[2H]OB(O)c1ccncc1", "N->[Pt]", "[Fe].[Na+]", "[Re]$[Re]",
)  # fmt: skip
"""Molecules that between them hold everything that is read from the binary form."""


class Described(NamedTuple):
    """A molecule's rows.

    Shapes:
        x: [n, 9], uint8; edge_index: [2, E], int32; edge_attr: [E, 3], uint8.
    """

    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray


def described_in_bulk(mols: Sequence[Mol], smiles: Sequence[str], features: str) -> list[Described | None]:
    """The rows of each sanitised molecule; None where `atom_features` has to describe it.

    Args:
        smiles: what each molecule was read from.
        features: the name of a feature set.
    """
    if features not in CHIRALITY or not mols or not agrees(features):
        return [None] * len(mols)
    return _described(mols, smiles, features)


@cache
def agrees(features: str) -> bool:
    """Whether molecules that hold everything come out as `atom_features` describes them, with this RDKit."""
    from rdkit import Chem
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        mols = [Chem.MolFromSmiles(smiles) for smiles in PROBES]
    try:
        found = _described(mols, PROBES, features)
    except (IndexError, ValueError):  # bytes that mean something else
        return False
    read = [index for index, described in enumerate(found) if described is not None]
    return bool(read) and all(_is_equal(found[index], mols[index], PROBES[index], features) for index in read)


def _is_equal(described: Described | None, mol: Mol, smiles: str, features: str) -> bool:
    atoms, bonds = feature_set(features).describe(mol, smiles)
    assert described is not None
    rows = np.concatenate([described.edge_index.T, described.edge_attr], axis=1)
    return described.x.tolist() == [list(row) for row in atoms] and rows.tolist() == [list(row) for row in bonds]


def _described(mols: Sequence[Mol], smiles: Sequence[str], features: str) -> list[Described | None]:
    readable, found = read_binary([mol.ToBinary(0) for mol in mols])
    read = readable.nonzero()[0].tolist()
    own_mols, own_smiles = [mols[index] for index in read], [smiles[index] for index in read]
    x = _atom_columns(found, own_mols, own_smiles, CHIRALITY[features])
    edge_index, edge_attr = found.bond_atoms.astype(np.int32), _bond_columns(found, own_mols, own_smiles)
    described: list[Described | None] = [None] * len(mols)
    atom = bond = 0
    for index, atoms, bonds in zip(read, found.num_atoms.tolist(), found.num_bonds.tolist(), strict=True):
        own = slice(bond, bond + bonds)
        described[index] = Described(x[atom : atom + atoms], edge_index[:, own], edge_attr[own])
        atom, bond = atom + atoms, bond + bonds
    strange = _owners(found.num_bonds)[edge_attr[:, 0] == UNKNOWN]
    for index in set(strange.tolist()):
        described[read[index]] = None
    return described


def _atom_columns(
    found: BinaryMolecules, mols: Sequence[Mol], smiles: Sequence[str], chirality: Callable[[Atom], int]
) -> np.ndarray:
    """The nine columns of all atoms."""
    first = np.cumsum(found.num_atoms) - found.num_atoms
    ends = found.bond_atoms + np.repeat(first, found.num_bonds)
    neighbours = np.bincount(ends.ravel(), minlength=len(found.element)) + found.hydrogens
    chiral = np.zeros(len(found.element), dtype=np.uint8)
    for atom, owner in _in_written(found.chiral_tag != 0, found.num_atoms, smiles, "@"):
        chiral[atom] = chirality(mols[owner].GetAtomWithIdx(atom - int(first[owner])))
    columns = (
        _table(ELEMENT, OGB_LAST_ELEMENT)[found.element],
        chiral,
        _table(NEIGHBOURS, OGB_MOST_NEIGHBOURS + 1)[neighbours.clip(max=255)],
        _table(CHARGE, 2 * OGB_MOST_CHARGE + 1)[found.charge],  # a negative number counts from the end
        _table(HYDROGENS, OGB_MOST_HYDROGENS + 1)[found.hydrogens.clip(max=255)],
        _table(RADICALS, OGB_MOST_RADICALS + 1)[found.radicals],
        _hybridisations()[found.hybridisation],
        found.aromatic,
        found.in_ring,
    )
    return np.stack(columns, axis=1).astype(np.uint8)


def _bond_columns(found: BinaryMolecules, mols: Sequence[Mol], smiles: Sequence[str]) -> np.ndarray:
    """The three columns of all bonds; the first is `UNKNOWN` where the type is not one of `READ_TYPES`."""
    first = np.cumsum(found.num_bonds) - found.num_bonds
    stereo = np.zeros(len(found.bond_type), dtype=np.uint8)
    for bond, owner in _in_written(found.has_stereo, found.num_bonds, smiles, "/", "\\"):
        stereo[bond] = stereo_category(mols[owner].GetBondWithIdx(bond - int(first[owner])).GetStereo())
    return np.stack([_types()[found.bond_type], stereo, found.conjugated], axis=1).astype(np.uint8)


def _in_written(which: np.ndarray, counts: np.ndarray, smiles: Sequence[str], *signs: str) -> list[tuple[int, int]]:
    """The places where `which` holds, with their molecule, if its SMILES has one of the signs of stereochemistry."""
    places = which.nonzero()[0]
    owners = _owners(counts)[places]
    pairs = zip(places.tolist(), owners.tolist(), strict=True)
    return [(place, owner) for place, owner in pairs if any(sign in smiles[owner] for sign in signs)]


def _owners(counts: np.ndarray) -> np.ndarray:
    """The molecule of each atom or bond, where each molecule has so many."""
    return np.repeat(np.arange(len(counts)), counts)


def _table(categories: Mapping[int, int], other: int) -> np.ndarray:
    """Categories by a byte, [256]; negative numbers stand at the end, as Python counts."""
    table = np.full(256, other, dtype=np.uint8)
    for number, category in categories.items():
        table[number] = category
    return table


@cache
def _hybridisations() -> np.ndarray:
    """Categories by the number of RDKit's enum, [256]."""
    from rdkit.Chem import HybridizationType

    values = HybridizationType.values.items()
    return _table({number: hybridisation_category(value) for number, value in values}, UNKNOWN)


@cache
def _types() -> np.ndarray:
    """Categories of bonds by the number of RDKit's enum, [256]."""
    from rdkit.Chem import BondType

    names = {number: str(value) for number, value in BondType.values.items()}
    return _table({number: READ_TYPES.index(name) for number, name in names.items() if name in READ_TYPES}, UNKNOWN)
