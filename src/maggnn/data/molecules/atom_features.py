"""Features of atoms and bonds: the feature sets of the benchmarks, and `mol` for users' molecules.

Each set is a function from an RDKit molecule to rows of small integers, one row for each atom and each bond;
`FEATURE_SETS` is the table of them. Columns and their order are those of the packed files, so that a model trained on a
benchmark can read your own molecules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from maggnn.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol

Rows = list[tuple[int, ...]]
"""Atoms: one row of categories each. Bonds: the two atoms, then the categories."""

ZINC_TYPES = (
    "C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +", "N -", "S -", "I", "P",
    "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +", "C H1 -", "P H1 +",
)  # fmt: skip
"""ZINC's atom types in the order of their numbers (the first 24 as in graphdeeplearning/benchmarking-gnns)."""

QM9_ELEMENTS = ("H", "C", "N", "O", "F")
KEKULE_BONDS = ("SINGLE", "DOUBLE", "TRIPLE")

# OGB's vocabularies (snap-stanford/ogb, features.py). What is not listed gets the number after the last: OGB's "misc",
# and for the stereo of a bond its STEREOANY.
OGB_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
TETRAHEDRAL = (1, 2)
"""The places of the tags of tetrahedral centres in `OGB_CHIRALITY`."""

OGB_HYBRIDISATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
OGB_BOND = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
OGB_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS")
OGB_LAST_ELEMENT, OGB_MOST_NEIGHBOURS, OGB_MOST_CHARGE, OGB_MOST_HYDROGENS, OGB_MOST_RADICALS = 118, 10, 5, 8, 4

# Categories by RDKit's numbers.
ELEMENT = {number: number - 1 for number in range(1, OGB_LAST_ELEMENT + 1)}
NEIGHBOURS = {count: count for count in range(OGB_MOST_NEIGHBOURS + 1)}
CHARGE = {charge: charge + OGB_MOST_CHARGE for charge in range(-OGB_MOST_CHARGE, OGB_MOST_CHARGE + 1)}
HYDROGENS = {count: count for count in range(OGB_MOST_HYDROGENS + 1)}
RADICALS = {count: count for count in range(OGB_MOST_RADICALS + 1)}

_ORDER = {1.0: 0, 2.0: 1, 3.0: 2, 1.5: 3}
"""Indices in `OGB_BOND` by the order of a bond."""

CIP = {"R": 1, "S": 2}
"""Labels of Cahn, Ingold and Prelog."""

DEFAULT = "mol"
"""The feature set of users' molecules."""


@dataclass(frozen=True)
class FeatureSet:
    """A set of features of atoms and bonds.

    Attributes:
        describe: a function of a sanitised molecule, which it may change, and its SMILES; returns atoms and bonds.
        node_columns, edge_columns: the numbers of columns of atoms and bonds.
    """

    describe: Callable[[Mol, str], tuple[Rows, Rows]]
    node_columns: int
    edge_columns: int


def feature_set(name: str) -> FeatureSet:
    """Return the feature set with the given name."""
    if name in FEATURE_SETS:
        return FEATURE_SETS[name]
    raise InputError(f"no features {name!r}{did_you_mean(name, FEATURE_SETS)}")


# Reading an enum of RDKit takes longer than all other columns of an atom together. A SMILES without @ has no chiral
# atom, and one without / and \\ no bond with a configuration, so these are not read then.


def _ogb(mol: Mol, smiles: str) -> tuple[Rows, Rows]:
    """Nine numbers for each atom and three for each bond, bonds in RDKit's order.

    The chiral tag of an atom depends on the order in which its neighbours are written.
    """
    return _ogb_atoms(mol, smiles, chiral_tag), _ogb_bonds(mol, smiles)


def _mol(mol: Mol, smiles: str) -> tuple[Rows, Rows]:
    """OGB's columns with the CIP label (R or S) instead of the chiral tag, which depends on how a SMILES is written."""
    return _ogb_atoms(mol, smiles, cip_label), _ogb_bonds(mol, smiles)


def _ogb_atoms(mol: Mol, smiles: str, chirality: Callable[[Atom], int]) -> Rows:
    atoms = map(mol.GetAtomWithIdx, range(mol.GetNumAtoms()))  # twice as fast as GetAtoms
    if "@" in smiles:
        return [_ogb_atom(atom, chirality(atom)) for atom in atoms]
    return [_ogb_atom(atom, 0) for atom in atoms]


def chiral_tag(atom: Atom) -> int:
    """Return the index of an atom's chiral tag in `OGB_CHIRALITY`."""
    return _chirality(atom.GetChiralTag())


def cip_label(atom: Atom) -> int:
    """Return 0 without stereochemistry, 1 for R, 2 for S, and 3 if RDKit has no label.

    R and S are of tetrahedra. RDKit also labels other centres, such as square-planar platinum, by the order in which
    their neighbours are written.
    """
    tag = _chirality(atom.GetChiralTag())
    if not tag:
        return 0
    return CIP.get(atom.GetProp("_CIPCode"), 3) if tag in TETRAHEDRAL and atom.HasProp("_CIPCode") else 3


def _ogb_atom(atom: Atom, chirality: int) -> tuple[int, ...]:
    """Return the columns of an atom, by dictionaries for speed: a million molecules have 200 million such numbers."""
    return (
        ELEMENT.get(atom.GetAtomicNum(), OGB_LAST_ELEMENT),
        chirality,
        NEIGHBOURS.get(atom.GetTotalDegree(), OGB_MOST_NEIGHBOURS + 1),
        CHARGE.get(atom.GetFormalCharge(), 2 * OGB_MOST_CHARGE + 1),
        HYDROGENS.get(atom.GetTotalNumHs(), OGB_MOST_HYDROGENS + 1),
        RADICALS.get(atom.GetNumRadicalElectrons(), OGB_MOST_RADICALS + 1),
        hybridisation_category(atom.GetHybridization()),
        1 if atom.GetIsAromatic() else 0,
        1 if atom.IsInRing() else 0,
    )


def _ogb_bonds(mol: Mol, smiles: str) -> Rows:
    bonds = map(mol.GetBondWithIdx, range(mol.GetNumBonds()))
    order = _order_by_type if "->" in smiles or "<-" in smiles else _order
    if "/" in smiles or "\\" in smiles:
        return [_ogb_bond(bond, order(bond), stereo_category(bond.GetStereo())) for bond in bonds]
    return [_ogb_bond(bond, order(bond), 0) for bond in bonds]


def _order(bond: Bond) -> int:
    """Return the kind of a bond that is not dative; dative bonds have the order of single bonds."""
    return _ORDER.get(bond.GetBondTypeAsDouble(), len(OGB_BOND))


def _order_by_type(bond: Bond) -> int:
    return _bond_type(bond.GetBondType())


def _ogb_bond(bond: Bond, order: int, stereo: int) -> tuple[int, ...]:
    return (
        bond.GetBeginAtomIdx(),
        bond.GetEndAtomIdx(),
        order,
        stereo,
        1 if bond.GetIsConjugated() else 0,
    )


# Converting RDKit's enums to text is slow, so the number of each value is cached. Values of different enums may be
# equal, so there is a separate function for each enum.


@cache
def _chirality(value: Any) -> int:
    return _position(str(value), OGB_CHIRALITY)


@cache
def hybridisation_category(value: Any) -> int:
    """Return the category of an atom's hybridisation, a value of RDKit's enum."""
    return _position(str(value), OGB_HYBRIDISATION)


@cache
def _bond_type(value: Any) -> int:
    return _position(str(value), OGB_BOND)


@cache
def stereo_category(value: Any) -> int:
    """Return the category of a bond's stereochemistry, a value of RDKit's enum."""
    return _position(str(value), OGB_STEREO)


def _position(value: str, vocabulary: tuple[str, ...]) -> int:
    return vocabulary.index(value) if value in vocabulary else len(vocabulary)


def _zinc(mol: Mol, _: str) -> tuple[Rows, Rows]:
    """Only the atom type, and the Kekulé bond: 1 single, 2 double, 3 triple."""
    atoms: Rows = [(_zinc_type(atom),) for atom in mol.GetAtoms()]
    return atoms, sorted(_kekule_bonds(mol))


def _zinc_type(atom: Atom) -> int:
    """Return the number of the atom's type: element, hydrogens written in brackets, charge.

    The hydrogen of an aromatic [nH] only selects the Kekulé form, so it does not count.
    """
    element, charge, hydrogens = atom.GetSymbol(), atom.GetFormalCharge(), atom.GetNumExplicitHs()
    if element == "N" and charge == 0 and atom.GetIsAromatic():
        hydrogens = 0
    parts = [element, f"H{hydrogens}" if hydrogens else "", _sign(charge)]
    name = " ".join(part for part in parts if part)
    if name not in ZINC_TYPES:
        raise InputError(f"atom {atom.GetIdx()} ({name}) is not among ZINC's 28 types: use the features ogb")
    return ZINC_TYPES.index(name)


def _sign(charge: int) -> str:
    return {0: "", 1: "+", -1: "-"}.get(charge, f"{charge:+d}")


def _qm9(mol: Mol, _: str) -> tuple[Rows, Rows]:
    """With hydrogens: seven numbers for each atom; each bond in its Kekulé form and as it is (3: aromatic)."""
    from rdkit import Chem

    mol = Chem.AddHs(mol)
    atoms = [_qm9_atom(atom) for atom in mol.GetAtoms()]
    aromatic = [bond.GetIsAromatic() for bond in mol.GetBonds()]
    bonds: Rows = [
        (begin, end, order - 1, 3 if is_aromatic else order - 1)
        for (begin, end, order), is_aromatic in zip(_kekule_bonds(mol), aromatic, strict=True)
    ]
    return atoms, sorted(bonds)


def _qm9_atom(atom: Atom) -> tuple[int, ...]:
    element, hybridisation = atom.GetSymbol(), str(atom.GetHybridization())
    if element not in QM9_ELEMENTS:
        raise InputError(f"atom {atom.GetIdx()} ({element}) is not one of QM9's {', '.join(QM9_ELEMENTS)}")
    return (
        QM9_ELEMENTS.index(element),
        atom.GetAtomicNum(),
        int(atom.GetIsAromatic()),
        *(int(hybridisation == name) for name in ("SP", "SP2", "SP3")),
        atom.GetTotalNumHs(includeNeighbors=True),
    )


def _kekule_bonds(mol: Mol) -> list[tuple[int, int, int]]:
    """Return lower atom, higher atom and Kekulé order 1..3 of each bond; changes the molecule."""
    from rdkit import Chem

    Chem.Kekulize(mol, clearAromaticFlags=True)
    return [_kekule_bond(bond) for bond in mol.GetBonds()]


def _kekule_bond(bond: Bond) -> tuple[int, int, int]:
    begin, end, kind = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), str(bond.GetBondType())
    if kind not in KEKULE_BONDS:
        raise InputError(
            f"bond {begin}-{end} is {kind.lower()}: only single to triple and aromatic bonds are supported"
        )
    return min(begin, end), max(begin, end), KEKULE_BONDS.index(kind) + 1


FEATURE_SETS: dict[str, FeatureSet] = {
    "mol": FeatureSet(_mol, node_columns=9, edge_columns=3),
    "ogb": FeatureSet(_ogb, node_columns=9, edge_columns=3),
    "zinc": FeatureSet(_zinc, node_columns=1, edge_columns=1),
    "qm9": FeatureSet(_qm9, node_columns=7, edge_columns=2),
}
"""Every feature set by name."""
