"""Features made in bulk are those made atom by atom, and what cannot be read in bulk is left alone."""

from __future__ import annotations

import csv
import lzma

import numpy as np
import pytest

from maggnn.data.molecules.atom_features import feature_set
from maggnn.data.molecules.binary_form import read_binary
from maggnn.data.molecules.bulk_features import CHIRALITY, PROBES, bulk_input, features_in_bulk, matches_atom_features
from maggnn.data.molecules.smiles import Molecule, featurise_all, featurise_rows, parsed
from maggnn.data.sources import data_root
from maggnn.errors import InputError

READ = [
    *(smiles for smiles in PROBES if ">" not in smiles), "C", "[H][H]", "[He]", "[Og]", "[C-7]", "[Ti+6]", "[O][O]",
    "C" * 255, "C[C@H]1CC[C@@H](C)CC1", "C[S@](=O)CC", "N[Pt@SP1](F)(Cl)Br", "F[S@OH1](Cl)(Br)(I)(C)N", "F/C=C/F",
    r"F/C=C\F", "CC=CC", "[CH3:1]C", "C/C(F)=C(/Cl)[C@H](Br)I", "[Na+].[Cl-].O", "C1CCCCCCCCCCCCCCC1", "C1CC2CCC1C2",
    "c1ccc2ccccc2c1", "[nH]1cccc1", "O=C1C=CC1", "[2H]C([2H])([2H])Cl", "[CH2]C[CH]", "OC1C(F)C1Cl |o1:1|",
    "[B-](F)(F)(F)F", "O=S(=O)(O)c1ccccc1", "I(Cl)(Cl)Cl",
]  # fmt: skip
"""With every element of the layout, stereochemistry, charges, radicals, isotopes and salts."""

LEFT_ALONE = ["*C", "[*:1]C", "N->[Pt]", "C" * 256, "C~C"]
"""Dummy atoms, bonds whose category depends on the SMILES, too many atoms, queries."""


def by_atoms(mol, smiles, features):
    chosen = feature_set(features)
    atoms, bonds = chosen.describe(mol, smiles)
    table = np.array(bonds, dtype=np.int32).reshape(len(bonds), 2 + chosen.edge_columns)
    return np.array(atoms, dtype=np.uint8), table[:, :2].T, table[:, 2:].astype(np.uint8)


def compare(smiles, features, order):
    """Compare all molecules; the number of those that were read in bulk."""
    mols = []
    for one in smiles:
        try:
            mols.append((parsed(one, order), one))
        except InputError:
            continue
    found = features_in_bulk([bulk_input(mol, one, features) for mol, one in mols])
    for (mol, one), rows in zip(mols, found, strict=True):
        if rows is not None:
            for made, expected in zip(rows, by_atoms(mol, one, features), strict=True):
                assert made.dtype == expected.dtype and np.array_equal(made, expected), one
    return sum(rows is not None for rows in found)


@pytest.mark.parametrize("order", ["written", "canonical"])
@pytest.mark.parametrize("features", CHIRALITY)
def test_equal_to_the_features_atom_by_atom(features, order):
    assert matches_atom_features(features)
    assert compare(READ, features, order) == len(READ)
    assert compare(LEFT_ALONE, features, order) == 0


def test_a_mixed_chunk_keeps_its_order_and_its_reasons():
    lines = ["CCO", "nonsense", "[CH3:1]C", "", "c1ccccc1", "C(C)(C)(C)(C)C", "N->[Pt]"]
    for results in (featurise_rows(lines, "mol"), list(featurise_all(lines, "mol"))):
        assert [isinstance(result, Molecule) for result in results] == [True, False, True, False, True, False, True]
        assert [len(result.x) for result in results if isinstance(result, Molecule)] == [3, 2, 6, 2]
        reasons = [result.reason for result in results if not isinstance(result, Molecule)]
        assert "not a SMILES" in reasons[0] and "empty" in reasons[1] and "valence" in reasons[2]
        assert [result.row for result in results if not isinstance(result, Molecule)] == [2, 4, 6]


@pytest.mark.parametrize("place", [8, 20, 24, 31, 32, 33])
def test_bytes_that_are_not_as_they_should_be_are_noticed(place):
    form = bytearray(parsed("OC(=O)c1ccccc1", "written").ToBinary(0))
    form[place] ^= 0x95  # of the version, the numbers of atoms and bonds, and the first atom
    good = parsed("CCO", "written").ToBinary(0)
    readable, found = read_binary([good, bytes(form), good])
    assert readable.tolist() == [True, False, True]
    assert found.element.tolist() == [6, 6, 8, 6, 6, 8] and found.num_bonds.tolist() == [2, 2]


def test_nothing_to_read():
    readable, found = read_binary([])
    assert len(readable) == 0 and found.bond_atoms.shape == (2, 0)
    assert features_in_bulk([]) == [] and featurise_rows([], "mol") == []


@pytest.mark.slow
@pytest.mark.dataset
@pytest.mark.parametrize("features", CHIRALITY)
def test_equal_on_tables_of_molecules(features):
    smiles = []
    for path in sorted((data_root() / "practice").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            smiles += [row["smiles"] for row in csv.DictReader(file)]
    for name in ("zinc_full", "qm9", "molhiv"):
        with lzma.open(data_root() / f"{name}_smiles.txt.xz", "rt", encoding="utf-8") as file:
            lines = file.read().split()
        smiles += lines[:: max(1, len(lines) // 7000)]
    for first in range(0, len(smiles), 1000):
        chunk = smiles[first : first + 1000]
        assert compare(chunk, features, "canonical") > 0.9 * len(chunk)
