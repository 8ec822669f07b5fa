"""The features "mol" and "ogb" of many molecules at once: the rows of `atom_features`, computed column by column.

The columns come from RDKit's binary form (`binary_form`) through small tables. Chirality and the configuration of
double bonds, which few atoms and bonds have, are read one by one. All this is taken from a molecule when it has been
parsed (`BulkInput`), so that molecules need not be kept: freeing thousands of them together takes a third of the time
of parsing them. `atom_features` defines the features: a molecule that cannot be read in this way is passed to it, and
so are all if `matches_atom_features` finds that this version of RDKit writes another layout.

Shapes: n atoms and E bonds of a molecule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

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
"""The feature sets that can be computed in bulk, which differ in the column of chirality."""

READ_TYPES = (*OGB_BOND, "QUADRUPLE")
"""Types of bonds whose category does not depend on the notation of the SMILES; RDKit has many others, all rare."""

UNKNOWN = 255
"""The category of all other types."""

PROBES = (
    "C[N+](C)(C)CC([O-])=O", "c1ccc2[nH]ccc2c1", "C[C@H](N)C(=O)O", "C/C=C/C=C\\C", "[13CH3][CH2]", "C#CS(=O)(=O)[O-]",
    "FP(F)(F)(F)F", "FS(F)(F)(F)(F)F", "C1CC2CC12", "[2H]OB(O)c1ccncc1", "N->[Pt]", "[Fe].[Na+]", "[Re]$[Re]",
)  # fmt: skip
"""Molecules that together contain everything that is read from the binary form."""


class FeatureRows(NamedTuple):
    """The feature rows of a molecule.

    Shapes:
        x: [n, 9], uint8; edge_index: [2, E], int32; edge_attr: [E, 3], uint8.
    """

    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray


class BulkInput(NamedTuple):
    """The data of a molecule from which its features are computed.

    Attributes:
        form: RDKit's binary form.
        chiral: the numbers of atoms with a chiral tag, and their categories.
        stereo: the numbers of bonds with a configuration, and their categories.
    """

    form: bytes
    chiral: list[tuple[int, int]]
    stereo: list[tuple[int, int]]


def bulk_input(mol: Mol, smiles: str, features: str) -> BulkInput:
    """Return the data of a sanitised molecule that `features_in_bulk` needs.

    Args:
        smiles: the SMILES of the molecule; stereochemistry is read only if it has signs of it.
        features: the name of a feature set that can be computed in bulk.
    """
    chiral: list[tuple[int, int]] = []
    stereo: list[tuple[int, int]] = []
    if "@" in smiles:
        category = CHIRALITY[features]
        atoms = [atom for (atom,) in mol.GetSubstructMatches(*_with_chiral_tag())]
        chiral = [(atom, category(mol.GetAtomWithIdx(atom))) for atom in atoms]
    if "/" in smiles or "\\" in smiles:
        bonds = map(mol.GetBondWithIdx, range(mol.GetNumBonds()))
        stereo = [(bond, stereo_category(configured.GetStereo())) for bond, configured in enumerate(bonds)]
    return BulkInput(mol.ToBinary(0), chiral, stereo)


@cache
def _with_chiral_tag() -> tuple[Any, Any]:
    """Return a substructure query for chiral atoms; a loop over the atoms in Python takes ten times as long."""
    from rdkit import Chem
    from rdkit.Chem.rdqueries import HasChiralTagQueryAtom

    pattern, how = Chem.RWMol(Chem.MolFromSmarts("*")), Chem.SubstructMatchParameters()
    pattern.ReplaceAtom(0, HasChiralTagQueryAtom())
    how.uniquify = False
    return pattern.GetMol(), how


def in_bulk(features: str) -> bool:
    """Whether the features can be computed for many molecules at once."""
    return features in CHIRALITY and matches_atom_features(features)


def features_in_bulk(inputs: Sequence[BulkInput]) -> list[FeatureRows | None]:
    """Return the feature rows of each molecule; None if `atom_features` has to compute them."""
    readable, found = read_binary([one.form for one in inputs])
    read = readable.nonzero()[0].tolist()
    own = [inputs[index] for index in read]
    x = _atom_columns(found, _category_column([one.chiral for one in own], found.num_atoms))
    edge_index = found.bond_atoms.astype(np.int32)
    edge_attr = _bond_columns(found, _category_column([one.stereo for one in own], found.num_bonds))
    rows: list[FeatureRows | None] = [None] * len(inputs)
    atom = bond = 0
    for index, atoms, bonds in zip(read, found.num_atoms.tolist(), found.num_bonds.tolist(), strict=True):
        span = slice(bond, bond + bonds)
        rows[index] = FeatureRows(x[atom : atom + atoms], edge_index[:, span], edge_attr[span])
        atom, bond = atom + atoms, bond + bonds
    strange = np.repeat(np.arange(len(read)), found.num_bonds)[edge_attr[:, 0] == UNKNOWN]
    for index in set(strange.tolist()):
        rows[read[index]] = None
    return rows


def _category_column(categories: Sequence[list[tuple[int, int]]], counts: np.ndarray) -> np.ndarray:
    """Return a column for all atoms or bonds with the categories of some of them; 0 for the others."""
    column = np.zeros(counts.sum(), dtype=np.uint8)
    for first, own in zip((counts.cumsum() - counts).tolist(), categories, strict=True):
        for number, category in own:
            column[first + number] = category
    return column


@cache
def matches_atom_features(features: str) -> bool:
    """Whether test molecules with all properties get the features of `atom_features` with this version of RDKit."""
    from rdkit import Chem
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        mols = [Chem.MolFromSmiles(smiles) for smiles in PROBES]
    try:
        found = features_in_bulk([bulk_input(mol, text, features) for mol, text in zip(mols, PROBES, strict=True)])
    except (IndexError, ValueError):  # bytes of another layout
        return False
    read = [index for index, rows in enumerate(found) if rows is not None]
    return bool(read) and all(_is_equal(found[index], mols[index], PROBES[index], features) for index in read)


def _is_equal(made: FeatureRows | None, mol: Mol, smiles: str, features: str) -> bool:
    atoms, bonds = feature_set(features).describe(mol, smiles)
    assert made is not None
    rows = np.concatenate([made.edge_index.T, made.edge_attr], axis=1)
    return made.x.tolist() == [list(row) for row in atoms] and rows.tolist() == [list(row) for row in bonds]


def _atom_columns(found: BinaryMolecules, chiral: np.ndarray) -> np.ndarray:
    """Return the nine columns of all atoms."""
    first = np.cumsum(found.num_atoms) - found.num_atoms
    ends = found.bond_atoms + np.repeat(first, found.num_bonds)
    neighbours = np.bincount(ends.ravel(), minlength=len(found.element)) + found.hydrogens
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


def _bond_columns(found: BinaryMolecules, stereo: np.ndarray) -> np.ndarray:
    """Return the three columns of all bonds; the first is `UNKNOWN` if the type is not one of `READ_TYPES`."""
    return np.stack([_types()[found.bond_type], stereo, found.conjugated], axis=1).astype(np.uint8)


def _table(categories: Mapping[int, int], other: int) -> np.ndarray:
    """Return a table of categories by byte, [256]; negative numbers are at the end, as in Python's indexing."""
    table = np.full(256, other, dtype=np.uint8)
    for number, category in categories.items():
        table[number] = category
    return table


@cache
def _hybridisations() -> np.ndarray:
    """Return categories by the number of RDKit's enum, [256]."""
    from rdkit.Chem import HybridizationType

    values = HybridizationType.values.items()
    return _table({number: hybridisation_category(value) for number, value in values}, UNKNOWN)


@cache
def _types() -> np.ndarray:
    """Return categories of bonds by the number of RDKit's enum, [256]."""
    from rdkit.Chem import BondType

    names = {number: str(value) for number, value in BondType.values.items()}
    return _table({number: READ_TYPES.index(name) for number, name in names.items() if name in READ_TYPES}, UNKNOWN)
