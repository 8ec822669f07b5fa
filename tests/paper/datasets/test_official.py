"""Official files in their own layout, written here in small, become packed files."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from rdkit import Chem

from maggnn.data.sources import load_packed_file
from maggnn.errors import InputError
from maggnn_paper.datasets.official import get

HARTREE, KCAL = 27.211386246, 0.04336414


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """An empty data root."""
    monkeypatch.setenv("MAGGNN_DATA", str(tmp_path / "root"))
    return tmp_path / "root"


def read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


# ---- ZINC -----------------------------------------------------------------------------------------------


def zinc_path(length: int) -> dict[str, torch.Tensor]:
    """A path of atoms 0, 1, ..., whose bonds are single and triple in turn, as in ZINC's pickles."""
    bonds = torch.zeros(length, length, dtype=torch.int64)
    for atom in range(length - 1):
        bonds[atom, atom + 1] = bonds[atom + 1, atom] = 1 + 2 * (atom % 2)
    y = torch.tensor([-length / 2])
    return {"num_atom": torch.tensor(length), "atom_type": torch.arange(length), "bond_type": bonds,
            "logP_SA_cycle_normalized": y}  # fmt: skip


@pytest.fixture
def zinc(tmp_path) -> Path:
    folder = tmp_path / "zinc"
    (folder / "raw").mkdir(parents=True)
    for part, lengths, chosen in (("train", [3, 1, 4], "2,0"), ("val", [2, 5], "0,1"), ("test", [6, 3], "1,0")):
        (folder / "raw" / f"{part}.pickle").write_bytes(pickle.dumps([zinc_path(length) for length in lengths]))
        (folder / "raw" / f"{part}.index").write_text(f"{chosen}\n")
    return folder


def test_zinc_full(root, zinc):
    path = get("zinc_full", zinc)
    arrays = read(path)
    assert path == root / "zinc_full.npz"
    assert arrays["num_nodes"].tolist() == [3, 1, 4, 2, 5, 6, 3] and arrays["num_edges"].tolist() == [
        2,
        0,
        3,
        1,
        4,
        5,
        2,
    ]
    assert arrays["edge_index"][:, 2:5].tolist() == [[0, 1, 2], [1, 2, 3]]
    assert arrays["x"].shape == (24, 1) and arrays["x"][:4, 0].tolist() == [0, 1, 2, 0]
    assert arrays["edge_attr"].shape == (17, 1) and arrays["edge_attr"][2:5, 0].tolist() == [1, 3, 1]
    assert arrays["y"].dtype == np.float32 and arrays["y"].tolist() == [-1.5, -0.5, -2, -1, -2.5, -3, -1.5]
    assert [arrays[part].tolist() for part in ("train", "val", "test")] == [[0, 1, 2], [3, 4], [5, 6]]
    assert {arrays[name].dtype for name in ("num_nodes", "edge_index", "x", "edge_attr", "train")} == {np.dtype("u1")}
    graphs, _ = load_packed_file("zinc_full")
    assert len(graphs) == 7 and graphs.symmetric


def test_zinc12k_takes_the_rows_of_the_index_and_then_the_processed_files(root, zinc):
    path = get("zinc", zinc)
    arrays = read(path)
    assert arrays["num_nodes"].tolist() == [4, 3, 2, 5, 3, 6]
    path.unlink()
    for file in (zinc / "raw").iterdir():
        file.unlink()
    again = read(get("zinc", zinc))
    assert arrays.keys() == again.keys() and all(np.array_equal(arrays[name], again[name]) for name in arrays)


@pytest.mark.dataset
@pytest.mark.parametrize("name", ["zinc", "zinc_full"])
def test_zinc_arrays_are_those_of_the_packed_file(root, zinc, data_root, name):
    path = get(name, zinc)
    assert_alike(read(path), data_root / path.name)


def assert_alike(made: dict[str, np.ndarray], packed: Path) -> None:
    """Equal names, numbers of axes and columns, and kinds of number; further arrays of the packed file are its own."""
    if not packed.is_file():
        pytest.skip(f"no {packed}")
    expected = read(packed)
    assert made.keys() <= expected.keys()
    assert {"num_nodes", "num_edges", "edge_index", "x", "edge_attr", "y"} <= made.keys()
    for name, array in made.items():
        assert (array.ndim, array.dtype.kind) == (expected[name].ndim, expected[name].dtype.kind), name
        assert name == "edge_index" or array.shape[1:] == expected[name].shape[1:], name


def test_an_incomplete_raw_folder_is_not_emptied(root, zinc):
    (zinc / "raw" / "val.index").unlink()
    with pytest.raises(InputError, match=r"raw has no val\.index"):
        get("zinc", zinc)
    assert (zinc / "raw" / "train.pickle").is_file() and not root.exists()


def test_damaged_zinc_files_get_one_line(root, zinc):
    (zinc / "raw" / "test.pickle").write_bytes(b"no pickle")
    with pytest.raises(InputError, match="not the official files, or damaged") as error:
        get("zinc_full", zinc)
    assert "\n" not in str(error.value)


# ---- QM9 ------------------------------------------------------------------------------------------------

QM9_SMILES = ["C", "N#CC=O", "c1cc[nH]c1", "CF"]


@pytest.fixture
def qm9(tmp_path) -> Path:
    """Four molecules of which the second is uncharacterised, as an SDF file, a table and a list."""
    raw = tmp_path / "qm9" / "raw"
    raw.mkdir(parents=True)
    with Chem.SDWriter(str(raw / "gdb9.sdf")) as writer:
        for number, smiles in enumerate(QM9_SMILES, start=1):
            mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
            mol.AddConformer(Chem.Conformer(mol.GetNumAtoms()))
            mol.SetProp("_Name", f"gdb_{number}")
            writer.write(mol)
    rows = [
        ",".join([f"gdb_{number}", *(str(100 * number + column) for column in range(19))]) for number in range(1, 5)
    ]
    (raw / "gdb9.sdf.csv").write_text("mol_id,A,B,C,mu,...\n" + "\n".join(rows) + "\n")
    (raw / "uncharacterized.txt").write_text("heading\n" * 9 + "    2  N#CC=O\n" + "\n")
    return tmp_path / "qm9"


def test_qm9(root, qm9):
    arrays = read(get("qm9", qm9))
    assert arrays["num_nodes"].tolist() == [5, 10, 5] and arrays["num_edges"].tolist() == [4, 10, 4]
    assert arrays["gdb_index"].tolist() == [1, 3, 4]
    assert arrays["x"][:2].tolist() == [[1, 6, 0, 0, 0, 0, 4], [0, 1, 0, 0, 0, 0, 0]]
    assert arrays["x"][-4].tolist() == [4, 9, 0, 0, 0, 0, 0]
    pyrrole = arrays["edge_attr"][4:14]
    assert sorted(pyrrole[:, 0]) == [0] * 8 + [1] * 2 and np.array_equal(pyrrole[:, 0], pyrrole[:, 1])
    # mu, alpha; homo, lumo, gap; r2; zpve, U0, U, H, G; Cv; atomisation U0, U, H, G, from columns 3.. of the table
    unit = np.array([1, 1, *[HARTREE] * 3, 1, *[HARTREE] * 5, 1, *[KCAL] * 4])
    np.testing.assert_allclose(arrays["y"][1], unit * np.arange(303, 319), rtol=1e-6)


@pytest.mark.dataset
def test_qm9_arrays_are_those_of_the_packed_file(root, qm9, data_root):
    assert_alike(read(get("qm9", qm9)), data_root / "qm9.npz")


# ---- MOLHIV ---------------------------------------------------------------------------------------------

MOLHIV = {
    "raw/num-node-list": "2\n3\n1\n",
    "raw/num-edge-list": "1\n2\n0\n",
    "raw/edge": "0,1\n0,1\n1,2\n",
    "raw/node-feat": "".join(f"{5 + node},0,4,5,3,0,2,0,0\n" for node in range(6)),
    "raw/edge-feat": "0,0,0\n1,0,1\n3,0,1\n",
    "raw/graph-label": "0\n1\n0\n",
    "split/scaffold/train": "2\n",
    "split/scaffold/valid": "0\n",
    "split/scaffold/test": "1\n",
}


@pytest.fixture
def molhiv(tmp_path) -> Path:
    for name, text in MOLHIV.items():
        path = tmp_path / "hiv" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))
    return tmp_path / "hiv"


def test_molhiv(root, molhiv):
    arrays = read(get("molhiv", molhiv))
    assert arrays["num_nodes"].tolist() == [2, 3, 1] and arrays["num_edges"].tolist() == [1, 2, 0]
    assert arrays["edge_index"].tolist() == [[0, 0, 1], [1, 1, 2]]
    assert arrays["x"].shape == (6, 9) and arrays["x"][:, 0].tolist() == [5, 6, 7, 8, 9, 10]
    assert arrays["edge_attr"].tolist() == [[0, 0, 0], [1, 0, 1], [3, 0, 1]]
    assert arrays["y"].tolist() == [0, 1, 0] and {array.dtype for array in arrays.values()} == {np.dtype("u1")}
    assert [arrays[part].tolist() for part in ("train", "val", "test")] == [[2], [0], [1]]


@pytest.mark.dataset
def test_molhiv_arrays_are_those_of_the_packed_file(root, molhiv, data_root):
    assert_alike(read(get("molhiv", molhiv)), data_root / "molhiv.npz")


@pytest.mark.parametrize("name", MOLHIV)
def test_a_missing_molhiv_file_says_where_the_archive_is(root, molhiv, name):
    (molhiv / f"{name}.csv.gz").unlink()
    with pytest.raises(InputError, match=rf"{name}\.csv\.gz: download http://snap.stanford.edu/.*/hiv\.zip"):
        get("molhiv", molhiv)
    assert not root.exists()


def test_molhiv_files_that_do_not_fit_are_refused(root, molhiv):
    (molhiv / "raw" / "graph-label.csv.gz").write_bytes(gzip.compress(b"0\n1\n"))
    with pytest.raises(InputError, match="do not belong together"):
        get("molhiv", molhiv)
    (molhiv / "raw" / "graph-label.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(InputError, match=r"graph-label\.csv\.gz: damaged"):
        get("molhiv", molhiv)


def test_a_packed_file_is_not_written_over(root, molhiv):
    path = get("molhiv", molhiv)
    with pytest.raises(InputError, match="is there already"):
        get("molhiv", molhiv)
    assert path.is_file()


def test_an_unknown_set_is_named(root):
    with pytest.raises(InputError, match="did you mean 'molhiv'"):
        get("molhvi")
