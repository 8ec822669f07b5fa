"""Molecules become the graphs of the packed benchmarks, and what cannot be used is reported, not fatal."""

import itertools
import lzma
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

from maggnn.data.molecules import smiles as molecules
from maggnn.data.molecules.atom_features import FEATURE_SETS, ZINC_TYPES
from maggnn.data.molecules.smiles import (
    Molecule,
    RowError,
    canonical_smiles,
    featurise,
    featurise_all,
    parsed,
    written_numbers,
)
from maggnn.errors import InputError

PACKED = {"zinc12k": "zinc", "zinc_full": "zinc", "qm9": "qm9", "molhiv": "ogb"}


def different_from_packed(root: Path, name: str, count: int | None) -> list[int]:
    """Which of `count` molecules, spread over the whole set, have not the graph and features of the packed file."""
    file, smiles_file = root / f"{name}.npz", root / f"{name}_smiles.txt.xz"
    if not file.is_file() or not smiles_file.is_file():
        pytest.skip(f"{root} has not both {file.name} and {smiles_file.name}")
    smiles = lzma.decompress(smiles_file.read_bytes()).decode().splitlines()
    with np.load(file) as archive:
        packed = {key: archive[key] for key in ("num_nodes", "num_edges", "edge_index", "x", "edge_attr")}
    first_node = np.concatenate([[0], np.cumsum(packed["num_nodes"], dtype=np.int64)])
    first_edge = np.concatenate([[0], np.cumsum(packed["num_edges"], dtype=np.int64)])
    ids = np.linspace(0, len(smiles) - 1, count or len(smiles)).astype(int)
    different = []
    for i in ids:
        made = featurise(smiles[i], PACKED[name], "written")
        nodes, edges = slice(*first_node[i : i + 2]), slice(*first_edge[i : i + 2])
        is_equal = isinstance(made, Molecule) and (
            np.array_equal(made.x, packed["x"][nodes])
            and np.array_equal(made.edge_index, packed["edge_index"][:, edges])
            and np.array_equal(made.edge_attr, packed["edge_attr"][edges])
        )
        if not is_equal:
            different.append(int(i))
    return different


@pytest.mark.dataset
@pytest.mark.parametrize("name", PACKED)
def test_features_equal_the_packed_ones(packed_data, name):
    assert different_from_packed(packed_data, name, 400) == []


@pytest.mark.dataset
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"), [("zinc12k", None), ("zinc_full", 10_000), ("qm9", 10_000), ("molhiv", None)]
)
def test_features_equal_the_packed_ones_at_length(packed_data, name, count):
    assert different_from_packed(packed_data, name, count) == []


def test_ogb_columns_of_acetate():
    made = featurise("CC(=O)[O-]", "ogb", "written")
    # element - 1, chirality, degree, charge + 5, hydrogens, radicals, hybridisation, aromatic, in a ring
    assert made.x.tolist() == [
        [5, 0, 4, 5, 3, 0, 2, 0, 0],
        [5, 0, 3, 5, 0, 0, 1, 0, 0],
        [7, 0, 1, 5, 0, 0, 1, 0, 0],
        [7, 0, 1, 4, 0, 0, 1, 0, 0],
    ]
    assert made.edge_index.tolist() == [[0, 1, 1], [1, 2, 3]]
    assert made.edge_attr.tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 1]]


def test_ogb_knows_chirality_stereo_and_what_is_in_no_list():
    assert featurise("C[C@H](N)O", "ogb", "written").x[1, 1] != featurise("C[C@@H](N)O", "ogb", "written").x[1, 1]
    assert featurise(r"C/C=C\C", "ogb", "written").edge_attr[1].tolist() == [1, 1, 0]
    assert featurise("C/C=C/C", "ogb", "written").edge_attr[1].tolist() == [1, 2, 0]
    assert featurise("*C", "ogb", "written").x[0, 0] == 118
    assert featurise("C$C", "ogb", "written").edge_attr[0, 0] == 4


def test_zinc_types_count_only_hydrogens_in_brackets():
    names = [ZINC_TYPES[number] for number in featurise("C[C@H](O)c1c[nH]c([NH2+]C)n1", "zinc", "written").x[:, 0]]
    assert names == ["C", "C H1", "O", "C", "C", "N", "C", "N H2 +", "C", "N"]


def test_zinc_bonds_are_kekule():
    orders = featurise("c1ccccc1C#N", "zinc", "written").edge_attr[:, 0]
    assert sorted(orders) == [1, 1, 1, 1, 2, 2, 2, 3]


def test_qm9_has_hydrogens_and_both_kinds_of_bond():
    made = featurise("c1cc[nH]c1", "qm9", "written")
    heavy, hydrogens = made.x[:5], made.x[5:]
    assert heavy.tolist() == [[1, 6, 1, 0, 1, 0, 1]] * 3 + [[2, 7, 1, 0, 1, 0, 1]] + [[1, 6, 1, 0, 1, 0, 1]]
    assert hydrogens.tolist() == [[0, 1, 0, 0, 0, 0, 0]] * 5
    ring = (made.edge_index < 5).all(0)
    assert made.edge_attr[ring, 1].tolist() == [3] * 5 and sorted(made.edge_attr[ring, 0]) == [0, 0, 0, 1, 1]
    assert not made.edge_attr[~ring].any()


@pytest.mark.parametrize("features", FEATURE_SETS)
def test_single_atoms_are_graphs_without_edges(features):
    made = featurise("F" if features != "qm9" else "[F-]", features)
    assert len(made.x) == 1 and made.edge_index.shape == (2, 0)
    assert made.edge_attr.shape == (0, FEATURE_SETS[features].edge_columns)


def test_all_fragments_of_a_salt_are_kept():
    made = featurise("CC(=O)[O-].[Na+]", "ogb", "written")
    assert made.x[:, 0].tolist() == [5, 5, 7, 7, 10] and made.edge_index.max() == 3


def test_extended_smiles_are_read():
    assert featurise("CCO |$a;b;c$|", "ogb").canonical == featurise("CCO", "ogb").canonical


@pytest.mark.parametrize(
    ("smiles", "same"),
    [
        ("[H]/N=C(C)C", "CC(C)=N"),
        (r"[H]/N=C(N)\N", "NC(N)=N"),
        ("[H]/C=C/C", "C=CC"),
        (r"[H]/[NH+]=C(\N)/C=C/C", "C/C=C/C(N)=[NH2+]"),
        ("[H:3]/N=C(C)C", "CC(C)=N"),
        ("[H]/C(F)=C/C", r"C/C=C\F"),
    ],
)
def test_hydrogens_beside_a_double_bond_without_stereo_are_no_atoms(smiles, same):
    assert canonical_smiles(smiles) == canonical_smiles(same)
    assert len(featurise(smiles, "mol").x) == len(featurise(same, "mol").x)


def test_hydrogens_that_tell_stereo_are_kept():
    assert canonical_smiles("[H]/N=C/C") != canonical_smiles(r"[H]/N=C\C")
    assert canonical_smiles("[2H]/C=C/C") != canonical_smiles("C=CC")
    assert [len(featurise(smiles, "mol").x) for smiles in ("[H][H]", "[H+]", "[2H]O")] == [2, 1, 2]


def test_equal_molecules_have_equal_canonical_smiles():
    assert (
        featurise("OCC", "ogb").canonical == featurise("C(C)O", "zinc").canonical == featurise("CCO\n", "qm9").canonical
    )


BROKEN = {
    "": "empty",
    "   ": "empty",
    "C(": "not a SMILES",
    "hello": "not a SMILES",
    "C\ud800": "not a SMILES",
    "CC\u041e": "not a SMILES string: it contains the character .*u041e",
    "\x00CCO": "not a SMILES string: it contains the character .*x00",
    "CCO |\ud800|": "not a SMILES",
    "CCO |c:1| CCN": "text follows the SMILES after a blank",
    "CCO ethanol": "text follows the SMILES after a blank .'ethanol'.",
    "CCO\nCCN": "text follows the SMILES after a blank .'CCN'.",
    "CC(C)(C)(C)C": "valence for atom # 1 C, 5",
    "c1cccc1": "kekulize",
}


@pytest.mark.parametrize(("smiles", "reason"), BROKEN.items())
def test_broken_smiles_get_one_line_and_no_noise(smiles, reason, capfd):
    with pytest.raises(InputError, match=reason) as error:
        featurise(smiles, "ogb")
    assert "\n" not in str(error.value) and repr(smiles) in str(error.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("smiles", "features", "reason"),
    [
        ("C[Si](C)(C)C", "zinc", r"atom 1 \(Si\) is not among ZINC's 28 types"),
        ("[Fe+2]", "zinc", r"\(Fe \+2\)"),
        ("[CH3]C", "zinc", r"\(C H3\)"),
        ("CS", "qm9", r"atom 1 \(S\) is not one of QM9's"),
        ("C$C", "zinc", "bond 0-1 is quadruple"),
        ("C", "obg", "no features 'obg': did you mean 'ogb'"),
    ],
)
def test_what_a_feature_set_does_not_know_is_named(smiles, features, reason):
    with pytest.raises(InputError, match=reason):
        featurise(smiles, features)


def test_odd_valence_is_accepted_of_metals_and_boron_alone():
    complex_of_aluminium = "O=C1O[Al]23(OC1=O)(OC(=O)C(=O)O2)OC(=O)C(=O)O3"
    assert 12 in featurise(complex_of_aluminium, "ogb").x[:, 0]
    with pytest.raises(InputError, match="valence"):
        featurise(f"{complex_of_aluminium}.CN(C)(C)C", "ogb")


def test_a_stream_keeps_its_order_and_puts_errors_in_place():
    lengths = [1 + number % 17 for number in range(600)]
    lines = ["C" * length for length in lengths]
    lines[300], lines[512] = "nonsense", ""
    alone, together = (list(featurise_all(lines, "ogb", workers)) for workers in (1, 2))
    for results in (alone, together):
        found = [len(made.x) if isinstance(made, Molecule) else "error" for made in results]
        assert found == [*lengths[:300], "error", *lengths[301:512], "error", *lengths[513:]]
    assert [result for result in alone if isinstance(result, RowError)] == [
        RowError(301, "nonsense", "not a SMILES string"),
        RowError(513, "", "no atoms: the SMILES is empty"),
    ]
    assert [alone[300], alone[512]] == [together[300], together[512]]
    np.testing.assert_array_equal(alone[598].x, together[598].x)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stream_is_read_only_a_little_ahead(workers):
    drawn = 0

    def endless():
        nonlocal drawn
        while True:
            drawn += 1
            yield "CCO"

    results = featurise_all(endless(), "ogb", workers)
    assert drawn == 0
    taken = len(list(islice(results, 700)))
    ahead = molecules.CHUNK * (1 if workers == 1 else molecules.CHUNKS_AHEAD * workers + 1)
    assert taken <= drawn <= taken + ahead
    results.close()


def test_a_stream_needs_known_features_and_a_worker():
    with pytest.raises(InputError, match="did you mean 'qm9'"):
        featurise_all([], "qm8")
    with pytest.raises(InputError, match="at least one"):
        featurise_all([], "ogb", workers=0)


SPELLED = [
    "CC(=O)Oc1ccccc1C(=O)O", "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", r"F/C=C/Cl", r"F/C=C\Cl", "c1ccc2[nH]ccc2c1",
    "C[C@]12CC[C@H]3[C@@H](CC[C@H]4CC(=O)CC[C@]34C)[C@@H]1CC[C@@H]2O", "[Na+].CC(=O)[O-]", "C1CC2CCC1C2", "[13CH3]C",
    "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H]1O", "N[C@@H](Cc1ccccc1)C(=O)N[C@@H](CO)C(=O)O", "C[S@](=O)c1ccccc1",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
]  # fmt: skip


UNKNOWN = [
    ("zinc", "[Na+].CC(=O)[O-]"), ("zinc", "[13CH3]C"),
    ("qm9", r"F/C=C/Cl"), ("qm9", r"F/C=C\Cl"), ("qm9", "[Na+].CC(=O)[O-]"), ("qm9", "C[S@](=O)c1ccccc1"),
]  # fmt: skip
"""Molecules with an atom for which a vocabulary has no row."""


@pytest.mark.parametrize(("features", "smiles"), UNKNOWN)
def test_an_atom_without_a_row_is_refused(smiles, features):
    with pytest.raises(InputError, match=r"atom \d"):
        featurise(smiles, features)


@pytest.mark.parametrize(
    ("features", "smiles"),
    [case for case in itertools.product(["mol", "zinc", "qm9"], SPELLED) if case not in UNKNOWN],
)
def test_a_molecule_has_one_graph_however_it_is_written(smiles, features):
    from rdkit import Chem

    made = featurise(smiles, features)
    mol = Chem.MolFromSmiles(smiles)
    for seed in range(20):
        (spelled,) = Chem.MolToRandomSmilesVect(mol, 1, randomSeed=seed + 1)
        again = featurise(spelled, features)
        assert np.array_equal(made.x, again.x) and bonds_of(made) == bonds_of(again), spelled


def bonds_of(molecule):
    rows = zip(np.sort(molecule.edge_index.T, axis=1).tolist(), molecule.edge_attr.tolist(), strict=True)
    return sorted((*ends, *kind) for ends, kind in rows)


def test_mirror_images_differ_and_have_cip_labels():
    right, left = (featurise(smiles, "mol") for smiles in ("C[C@H](N)O", "C[C@@H](N)O"))
    assert {right.x[:, 1].max(), left.x[:, 1].max()} == {1, 2}
    assert featurise("CC(N)O", "mol").x[:, 1].max() == 0


@pytest.mark.parametrize("smiles", ["F[Pt@SP1](Cl)(Br)I", "F[As@TB1](Cl)(Br)(N)O", "F[Co@OH12](Cl)(Br)(I)(N)O"])
def test_centres_that_are_no_tetrahedra_have_one_category_however_they_are_written(smiles):
    """RDKit calls square-planar platinum R or S by the order in which its neighbours are written."""
    written = {Chem.MolToSmiles(Chem.MolFromSmiles(smiles), doRandom=True) for _ in range(40)}
    found = {tuple(sorted(map(tuple, featurise(text, "mol").x.tolist()))) for text in written}
    assert len(written) > 10 and len(found) == 1


@pytest.mark.parametrize("smiles", ["OCC", "C(C)O", "[O-]C(=O)c1ccccc1", "F"])
def test_atoms_keep_the_numbers_they_are_written_with(smiles):
    ordered, written = parsed(smiles), parsed(smiles, "written")
    numbers = written_numbers(smiles)
    assert sorted(numbers) == list(range(written.GetNumAtoms()))
    for node, number in enumerate(numbers):
        assert ordered.GetAtomWithIdx(node).GetSymbol() == written.GetAtomWithIdx(number).GetSymbol()
