"""What an atom and a bond become: the three feature sets that molecules of the benchmarks come in.

Each set is a function from an RDKit molecule to rows of small integers, one row an atom and one a bond; `FEATURE_SETS`
is the table of them. Columns and their order are those of the packed files, so that a molecule of your own can be put
before a model trained on a benchmark.
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
OGB_HYBRIDISATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
OGB_BOND = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
OGB_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS")
OGB_LAST_ELEMENT, OGB_MOST_NEIGHBOURS, OGB_MOST_CHARGE, OGB_MOST_HYDROGENS, OGB_MOST_RADICALS = 118, 10, 5, 8, 4


@dataclass(frozen=True)
class FeatureSet:
    """One way to describe molecules.

    Attributes:
        describe: atoms and bonds of a sanitised molecule, which it may change.
        node_columns, edge_columns: how many numbers an atom and a bond get.
    """

    describe: Callable[[Mol], tuple[Rows, Rows]]
    node_columns: int
    edge_columns: int


def feature_set(name: str) -> FeatureSet:
    """The feature set called `name`."""
    if name in FEATURE_SETS:
        return FEATURE_SETS[name]
    raise InputError(f"no features {name!r}{did_you_mean(name, FEATURE_SETS)}")


def _ogb(mol: Mol) -> tuple[Rows, Rows]:
    """Nine numbers an atom and three a bond, bonds in RDKit's order."""
    return [_ogb_atom(atom) for atom in mol.GetAtoms()], [_ogb_bond(bond) for bond in mol.GetBonds()]


def _ogb_atom(atom: Atom) -> tuple[int, ...]:
    return (
        _within(atom.GetAtomicNum() - 1, OGB_LAST_ELEMENT - 1),
        _chirality(atom.GetChiralTag()),
        _within(atom.GetTotalDegree(), OGB_MOST_NEIGHBOURS),
        _within(atom.GetFormalCharge() + OGB_MOST_CHARGE, 2 * OGB_MOST_CHARGE),
        _within(atom.GetTotalNumHs(), OGB_MOST_HYDROGENS),
        _within(atom.GetNumRadicalElectrons(), OGB_MOST_RADICALS),
        _hybridisation(atom.GetHybridization()),
        int(atom.GetIsAromatic()),
        int(atom.IsInRing()),
    )


def _ogb_bond(bond: Bond) -> tuple[int, ...]:
    return (
        bond.GetBeginAtomIdx(),
        bond.GetEndAtomIdx(),
        _bond_type(bond.GetBondType()),
        _stereo(bond.GetStereo()),
        int(bond.GetIsConjugated()),
    )


# RDKit's enums are slow to turn into text, so each value's number is looked up once. Values of different enums may be
# equal, hence a function each.


@cache
def _chirality(value: Any) -> int:
    return _position(str(value), OGB_CHIRALITY)


@cache
def _hybridisation(value: Any) -> int:
    return _position(str(value), OGB_HYBRIDISATION)


@cache
def _bond_type(value: Any) -> int:
    return _position(str(value), OGB_BOND)


@cache
def _stereo(value: Any) -> int:
    return _position(str(value), OGB_STEREO)


def _within(value: int, most: int) -> int:
    """The value itself if it lies in 0..most, else the number after the last."""
    return value if 0 <= value <= most else most + 1


def _position(value: str, vocabulary: tuple[str, ...]) -> int:
    return vocabulary.index(value) if value in vocabulary else len(vocabulary)


def _zinc(mol: Mol) -> tuple[Rows, Rows]:
    """The atom type alone, and the Kekulé bond: 1 single, 2 double, 3 triple."""
    atoms: Rows = [(_zinc_type(atom),) for atom in mol.GetAtoms()]
    return atoms, sorted(_kekule_bonds(mol))


def _zinc_type(atom: Atom) -> int:
    """The number of the atom's type: element, hydrogens written in brackets, charge.

    The hydrogen of an aromatic [nH] only says which Kekulé form is meant, so it does not count.
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


def _qm9(mol: Mol) -> tuple[Rows, Rows]:
    """With hydrogens: seven numbers an atom; a bond in its Kekulé form and as it is (3: aromatic)."""
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
    """Lower atom, higher atom and order 1..3 of each bond, aromatic rings alternating; changes the molecule."""
    from rdkit import Chem

    Chem.Kekulize(mol, clearAromaticFlags=True)
    return [_kekule_bond(bond) for bond in mol.GetBonds()]


def _kekule_bond(bond: Bond) -> tuple[int, int, int]:
    begin, end, kind = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), str(bond.GetBondType())
    if kind not in KEKULE_BONDS:
        raise InputError(f"bond {begin}-{end} is {kind.lower()}: only single to triple and aromatic ones have a number")
    return min(begin, end), max(begin, end), KEKULE_BONDS.index(kind) + 1


FEATURE_SETS: dict[str, FeatureSet] = {
    "ogb": FeatureSet(_ogb, node_columns=9, edge_columns=3),
    "zinc": FeatureSet(_zinc, node_columns=1, edge_columns=1),
    "qm9": FeatureSet(_qm9, node_columns=7, edge_columns=2),
}
"""Every feature set by name."""
