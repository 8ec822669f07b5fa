"""Reads atoms and bonds of many molecules at once from RDKit's binary form (`Mol.ToBinary`).

One call returns a whole molecule; reading the properties of atoms through RDKit takes ten calls for each atom, and more
time than parsing the SMILES. The layout is that of RDKit's MolPickler, with numbers in little-endian order:

    header      20 bytes with the version; the numbers of atoms and of bonds, 4 bytes each; a byte of flags; a tag
    an atom     element, flags, 4 bytes with bits for the properties that follow, a byte for each (4 for an isotope)
    a tag       BEGIN_BONDS
    a bond      its two atoms, flags, then type, direction and stereochemistry if the flags say so
    a tag       BEGIN_RINGS
    rings       their number in 4 bytes; the size and the atoms of each
    a tag       END_RINGS

Only what the features need is read. A molecule with anything else (atom maps, queries, labelled dummy atoms, more than
255 atoms), or without a tag at its expected position, counts as not readable and is read through RDKit atom by atom.

Shapes: M molecules, A atoms and E bonds of all of them, molecule by molecule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

HEADER, VERSION, NUM_ATOMS, NUM_BONDS = 30, 8, 20, 24
"""The size of the header in bytes, and the positions of its three numbers."""

KNOWN_VERSION = 16
"""The first number of the format's version."""

BEGIN_BONDS, BEGIN_RINGS, END_RINGS = (11,), (66, 68), (23,)
"""Tags. The rings of a renumbered molecule have a different tag."""

MOST_ATOMS, MOST_BONDS = 255, 1024
"""Up to this number of atoms, they are numbered in one byte; more bonds are considered a misread header."""

CHARGE, _, HYBRIDISATION, EXPLICIT_HYDROGENS, _, IMPLICIT_VALENCE, RADICALS = range(1, 8)
"""The bits of an atom's first byte of properties, each of which says that a property follows, in this order."""

SP3 = 4
"""The hybridisation of an atom for which none is stored."""

ATOM_AROMATIC, ATOM_NO_IMPLICIT, ATOM_UNREAD = 1 << 6, 1 << 5, 0b10011111
BOND_CONJUGATED, BOND_TYPE, BOND_DIRECTION, BOND_STEREO, BOND_UNREAD = 1 << 5, 1 << 3, 1 << 2, 1 << 1, 0b10010001
"""Flags of atoms and bonds; `UNREAD` are those of properties that are not read here."""

SINGLE = 1
"""The type of a bond for which none is stored."""

_ATOM_SIZE = np.array([6 + properties.bit_count() for properties in range(256)])
_BOND_SIZE = np.array([3 + (flags & (BOND_TYPE | BOND_DIRECTION)).bit_count() for flags in range(256)])


@dataclass(frozen=True)
class BinaryMolecules:
    """The contents of the binary forms of molecules, in RDKit's own numbers.

    Shapes:
        num_atoms, num_bonds: [M];
        element, charge, hybridisation, hydrogens, radicals, aromatic, in_ring: [A];
        bond_atoms: [2, E], numbered within a molecule; bond_type, conjugated: [E].
    """

    num_atoms: np.ndarray
    num_bonds: np.ndarray
    element: np.ndarray
    charge: np.ndarray
    hybridisation: np.ndarray
    hydrogens: np.ndarray
    radicals: np.ndarray
    aromatic: np.ndarray
    in_ring: np.ndarray
    bond_atoms: np.ndarray
    bond_type: np.ndarray
    conjugated: np.ndarray


def read_binary(forms: Sequence[bytes]) -> tuple[np.ndarray, BinaryMolecules]:
    """Read binary forms of sanitised molecules. Returns which can be read, [forms] of bool, and their contents.

    Args:
        forms: binary forms without properties, from `Mol.ToBinary(0)`.
    """
    layout = _Layout(forms)
    readable = layout.readable
    if not readable.all():
        layout = _Layout([form for form, good in zip(forms, readable, strict=True) if good])
    return readable, _molecules(layout)


def _molecules(layout: _Layout) -> BinaryMolecules:
    byte, atom, bond = layout.byte, layout.atom, layout.bond
    atom_flags, bond_flags = byte(atom + 1), byte(bond + 2)
    hydrogens = np.where(atom_flags & ATOM_NO_IMPLICIT, 0, layout.property(IMPLICIT_VALENCE))
    return BinaryMolecules(
        num_atoms=layout.num_atoms,
        num_bonds=layout.num_bonds,
        element=byte(atom),
        charge=layout.property(CHARGE).view(np.int8),
        hybridisation=layout.property(HYBRIDISATION, usual=SP3),
        hydrogens=hydrogens + layout.property(EXPLICIT_HYDROGENS).astype(np.int64),
        radicals=layout.property(RADICALS),
        aromatic=(atom_flags & ATOM_AROMATIC) != 0,
        in_ring=layout.in_ring,
        bond_atoms=np.stack([byte(bond), byte(bond + 1)]),
        bond_type=np.where(bond_flags & BOND_TYPE, byte(bond + 3), SINGLE),
        conjugated=(bond_flags & BOND_CONJUGATED) != 0,
    )


class _Layout:
    """The positions of atoms and bonds in some binary forms, and which forms are fully understood.

    Attributes:
        num_atoms, num_bonds: the numbers of atoms and bonds of each form, [M].
        atom, bond: the position of the first byte of each, [A] and [E].
        in_ring: whether an atom is in a ring, [A].
        readable: whether a form is understood, [M].
    """

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._bytes = np.frombuffer(b"".join([*forms, b"\0"]), dtype=np.uint8)
        sizes = np.array([len(form) for form in forms], dtype=np.int64)
        first = np.cumsum(sizes) - sizes
        self.readable = self._number(first + VERSION) == KNOWN_VERSION
        self.num_atoms = self._count(first + NUM_ATOMS, MOST_ATOMS)
        self.num_bonds = self._count(first + NUM_BONDS, MOST_BONDS)
        self.atom, end = _walk(first + HEADER, self.num_atoms, self._atom_size)
        self.bond, end = _walk(self._after(BEGIN_BONDS, end), self.num_bonds, self._bond_size)
        end = self._after(BEGIN_RINGS, end)
        num_rings = self._count(end, MOST_BONDS)
        ring, end = _walk(end + 4, num_rings, lambda place: 1 + self.byte(place).astype(np.int64))
        self.readable &= self._after(END_RINGS, end) <= first + sizes
        self._exclude_unread()
        self.in_ring = self._members(ring, num_rings)

    def byte(self, places: np.ndarray) -> np.ndarray:
        """Return the bytes at some positions; the last byte for positions past the end, from misread forms."""
        return self._bytes.take(places, mode="clip")

    def property(self, which: int, usual: int = 0) -> np.ndarray:
        """Return a property of each atom, [A]; its position depends on which earlier properties the atom has."""
        stored = self.byte(self.atom + 2)
        before = _ATOM_SIZE[stored & ((1 << which) - 1)]
        return np.where(stored & (1 << which), self.byte(self.atom + before), np.uint8(usual))

    def _number(self, places: np.ndarray) -> np.ndarray:
        """Return numbers of four bytes."""
        four = self.byte(places[:, None] + np.arange(4))
        return np.ascontiguousarray(four).view("<u4")[:, 0].astype(np.int64)

    def _count(self, places: np.ndarray, most: int) -> np.ndarray:
        """Return the numbers of items that follow; 0 for a form that is not understood."""
        count = self._number(places)
        self.readable &= count <= most
        return np.where(self.readable, count, 0)

    def _after(self, tags: tuple[int, ...], places: np.ndarray) -> np.ndarray:
        """Return the positions after one of the tags, which must be present."""
        self.readable &= np.isin(self.byte(places), tags)
        return places + 1

    def _atom_size(self, places: np.ndarray) -> np.ndarray:
        has_isotope = self.byte(places + 3) & 1
        return _ATOM_SIZE[self.byte(places + 2)] + 4 * has_isotope

    def _bond_size(self, places: np.ndarray) -> np.ndarray:
        """Return the sizes of bonds; stereochemistry is a byte, the number of atoms that it refers to, and these."""
        flags = self.byte(places + 2)
        size, has_stereo = _BOND_SIZE[flags], (flags & BOND_STEREO) != 0
        return size + has_stereo * (2 + self.byte(places + size + 1).astype(np.int64)) if has_stereo.any() else size

    def _exclude_unread(self) -> None:
        """Mark forms with properties that are not read here as not understood."""
        atom, bond = self.atom, self.bond
        rest = (self.byte(atom + 1) & ATOM_UNREAD) | (self.byte(atom + 2) & 1) | (self.byte(atom + 3) & ~np.uint8(1))
        unread = rest | self.byte(atom + 4) | self.byte(atom + 5)
        form = np.arange(len(self.readable))
        self.readable[np.repeat(form, self.num_atoms)[unread != 0]] = False
        owner = np.repeat(form, self.num_bonds)
        outside = np.maximum(self.byte(bond), self.byte(bond + 1)) >= self.num_atoms[owner]
        self.readable[owner[outside | ((self.byte(bond + 2) & BOND_UNREAD) != 0)]] = False

    def _members(self, ring: np.ndarray, num_rings: np.ndarray) -> np.ndarray:
        """Return which atoms are in one of the rings that begin at `ring`, [A]."""
        size = self.byte(ring).astype(np.int64)
        owner = np.repeat(np.repeat(np.arange(len(num_rings)), num_rings), size)
        atom = self.byte(np.repeat(ring + 1 - (size.cumsum() - size), size) + np.arange(size.sum()))
        good = atom < self.num_atoms[owner]  # true for all atoms of a form that is understood
        first = np.cumsum(self.num_atoms) - self.num_atoms
        in_ring = np.zeros(self.num_atoms.sum(), dtype=bool)
        in_ring[first[owner[good]] + atom[good]] = True
        return in_ring


def _walk(
    first: np.ndarray, count: np.ndarray, size: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of consecutive items of variable size, step by step in all forms at once.

    Args:
        first, count: the position of each form's first item, and the number of items, [M].
        size: returns the sizes in bytes of the items at some positions.

    Returns:
        The positions of all items, form by form, [sum of count], and the position after the last item, [M].
    """
    steps = int(count.max(initial=0))
    places, place = np.empty((len(first), steps), dtype=np.int64), first
    for step in range(steps):
        places[:, step] = place
        place = np.where(step < count, place + size(place), place)
    return places[np.arange(steps) < count[:, None]], place
