"""Packed files are read whole, and missing or damaged ones are named in one line."""

from pathlib import Path

import numpy as np
import pytest
import torch

from maggnn.data.sources import data_root as chosen_root
from maggnn.data.sources import load_packed_file
from maggnn.errors import InputError

TWO_GRAPHS = {
    "num_nodes": np.array([3, 2], dtype=np.uint8),
    "num_edges": np.array([2, 1], dtype=np.uint8),
    "edge_index": np.array([[0, 1, 0], [1, 2, 1]], dtype=np.uint8),
}


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MAGGNN_DATA", str(tmp_path))
    return tmp_path


def test_root_is_the_variable_or_the_cache(root, monkeypatch):
    assert chosen_root() == root
    monkeypatch.delenv("MAGGNN_DATA")
    assert chosen_root() == Path.home() / ".cache" / "maggnn"


def test_arrays_are_widened_mirrored_and_extras_returned(root):
    x = np.array([[250]] * 5, dtype=np.uint8)
    arrays = TWO_GRAPHS | {"x": x, "y": np.array([0.5, 1.5], dtype=np.float32)}
    np.savez_compressed(root / "two.npz", **arrays, train=np.array([1], dtype=np.uint16))
    packed, extra = load_packed_file("two")
    assert packed.num_edges.tolist() == [4, 2]
    assert packed.symmetric
    assert (packed.x.dtype, packed.y.dtype, packed.level) == (torch.int64, torch.float32, "graph")
    assert set(extra) == {"train"}
    assert extra["train"].dtype == np.int64


def test_targets_of_nodes_are_recognised(root):
    np.savez_compressed(root / "nodes.npz", **TWO_GRAPHS, y=np.zeros((5, 4), dtype=np.uint8))
    packed, _ = load_packed_file("nodes")
    assert packed.level == "node"
    assert packed[torch.tensor([1])].y.shape == (2, 4)


def test_missing_file_says_where_and_what_to_do(root):
    with pytest.raises(InputError, match=r"no file .*absent\.npz.*MAGGNN_DATA"):
        load_packed_file("absent")


@pytest.mark.parametrize("keep", [0, 10, 200, -40])
def test_truncated_file_is_named(root, keep):
    path = root / "cut.npz"
    np.savez_compressed(path, **TWO_GRAPHS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"cut\.npz cannot be read") as error:
        load_packed_file("cut")
    assert "\n" not in str(error.value)


def test_flipped_bytes_and_foreign_files_are_named(root):
    path = root / "odd.npz"
    np.savez_compressed(path, **TWO_GRAPHS)
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="cannot be read"):
        load_packed_file("odd")
    path.write_bytes(b"not an archive at all" * 20)
    with pytest.raises(InputError, match="cannot be read"):
        load_packed_file("odd")
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match="cannot be read"):
        load_packed_file("odd")


def test_inconsistent_arrays_are_named(root):
    np.savez(root / "part.npz", num_nodes=TWO_GRAPHS["num_nodes"])
    with pytest.raises(InputError, match="has no array 'num_edges'"):
        load_packed_file("part")
    np.savez(root / "wrong.npz", **(TWO_GRAPHS | {"num_nodes": np.array([2, 2])}))
    with pytest.raises(InputError, match=r"wrong\.npz is damaged \(graph 0 has 2 nodes"):
        load_packed_file("wrong")


def test_edges_in_both_directions_are_refused(root):
    """As PyG has them: the reverses are added here, so every edge would be two."""
    both = {"num_edges": np.array([4, 3]), "edge_index": np.array([[0, 1, 1, 2, 0, 1, 1], [1, 0, 2, 1, 1, 0, 1]])}
    np.savez(root / "both.npz", **(TWO_GRAPHS | both))
    with pytest.raises(InputError, match=r"both\.npz lists every edge in both directions"):
        load_packed_file("both")
    mixed = {"num_edges": np.array([2, 3]), "edge_index": np.array([[0, 2, 0, 1, 0], [1, 1, 1, 0, 1]])}
    np.savez(root / "mixed.npz", **(TWO_GRAPHS | mixed))  # directions vary, and three edges are parallel
    packed, _ = load_packed_file("mixed")
    assert packed.num_edges.tolist() == [4, 6]


@pytest.mark.dataset
@pytest.mark.parametrize(("name", "graphs", "level"), [("cycle", 5000, "node"), ("zinc12k", 12000, "graph")])
def test_published_files_load(packed_data, name, graphs, level):
    packed, extra = load_packed_file(name)
    assert (len(packed), packed.level, packed.symmetric) == (graphs, level, True)
    parts = np.concatenate([extra["train"], extra["val"], extra["test"]])
    assert sorted(parts.tolist()) == list(range(graphs))
