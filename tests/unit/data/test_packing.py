"""Packed files: the smallest types, whole or not at all, and duplicates between parts noticed."""

import numpy as np
import pytest
import torch

from maggnn.data.molecules.smiles import featurise
from maggnn.data.packing import DuplicateWarning, pack, save_packed, shared_between_parts, smallest
from maggnn.data.sources import load_packed_file
from maggnn.errors import InputError

SMILES = ["CCO", "[Na+]", "c1ccccc1", "C" * 300]


def test_packed_molecules_are_read_back(tmp_path, monkeypatch):
    made = [featurise(smiles, "ogb") for smiles in SMILES]
    arrays = pack(iter(made), np.array([0.5, 1.0, 2.0, -3.0]))
    assert {name: array.dtype for name, array in arrays.items()} == {
        "num_nodes": np.uint16, "num_edges": np.uint16, "edge_index": np.uint16,
        "x": np.uint8, "edge_attr": np.uint8, "y": np.float32,
    }  # fmt: skip
    save_packed(tmp_path / "new" / "four.npz", arrays)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["four.npz"]
    monkeypatch.setenv("MAGGNN_DATA", str(tmp_path / "new"))
    graphs, extra = load_packed_file("four")
    assert graphs.num_nodes.tolist() == [3, 1, 6, 300] and graphs.num_edges.tolist() == [4, 0, 12, 598]
    assert graphs.symmetric and extra == {} and torch.equal(graphs.y, torch.tensor([0.5, 1.0, 2.0, -3.0]))
    benzene = graphs[torch.tensor([2])]
    assert torch.equal(benzene.x, torch.from_numpy(made[2].x).long())


def test_blocks_do_not_show(monkeypatch):
    made = [featurise("C" * length, "zinc") for length in range(1, 10)]
    whole = pack(made)
    monkeypatch.setattr("maggnn.data.packing.BLOCK", 2)
    in_blocks = pack(made)
    assert whole.keys() == in_blocks.keys() and "y" not in whole
    for name, array in whole.items():
        np.testing.assert_array_equal(array, in_blocks[name])


def test_smallest_types():
    cases = {"a": [0, 255], "b": [0, 256], "c": [-1, 127], "d": [-1, 200], "e": [0, 70_000], "f": [0.5], "g": ["x"]}
    found = smallest({name: np.array(values) for name, values in cases.items()})
    dtypes = [np.uint8, np.uint16, np.int8, np.int16, np.uint32, np.float32, np.dtype("<U1")]
    assert [array.dtype for array in found.values()] == dtypes
    assert all(array.tolist() == values for array, values in zip(found.values(), cases.values(), strict=True))
    assert smallest({"none": np.array([], dtype=np.int64)})["none"].dtype == np.uint8


def test_mistakes_are_named(tmp_path):
    with pytest.raises(InputError, match="no molecule"):
        pack([])
    with pytest.raises(InputError, match="2 targets for 1 molecules"):
        pack([featurise("C", "zinc")], np.zeros(2))
    with pytest.raises(InputError, match=r"four\.txt: .*\.npz"):
        save_packed(tmp_path / "four.txt", {})
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save_packed(tmp_path / "file" / "four.npz", {})


def test_molecules_in_several_parts_warn_with_their_number_and_the_first():
    canonical = ["CCO", "C", "CCO", "C", "N", "N", "C"]
    parts = ["train", "train", "test", "val", "train", "train", "test"]
    with pytest.warns(DuplicateWarning, match="2 molecules .* such as CCO"):
        assert shared_between_parts(canonical, parts) == ["CCO", "C"]


@pytest.mark.filterwarnings("error")
def test_duplicates_within_a_part_are_fine():
    assert shared_between_parts(["CCO", "CCO", "C"], ["train", "train", "test"]) == []
