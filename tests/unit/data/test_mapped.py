"""Sets that are mapped into memory: the same batches and the same training as from packed files that are read."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

from maggnn.config import Config
from maggnn.data import registry
from maggnn.data.mapped import read_mapped, write_mapped
from maggnn.data.packing import save_packed, smallest
from maggnn.errors import InputError
from maggnn.graphs.rings import with_rings
from maggnn.graphs.structure import with_structure
from maggnn.training.run import train

LEARNS = Config().replaced(
    encoder={"conv": "gine", "num_layers": 1, "hidden": 8, "random_walk": 3, "rings": True},
    agent={"num_tuples": 1, "tuple_order": 1, "num_moves": 0, "start": "central"},
    training={"predictor_steps": 6, "agent_steps": 0, "batch_size": 8, "validate_every": 3},
)


def packed_file(path: Path, graphs: int, seed: int, **others: np.ndarray) -> Path:
    """Random trees with a ring closed in some, with atoms, bonds, targets and a split."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 12, graphs)
    # A tree, and one more edge, which closes a ring unless it is there already.
    edges = [np.stack([np.arange(1, size), rng.integers(0, np.arange(1, size))]) for size in sizes]
    edges = [np.concatenate([own, [[size - 1], [0]]], axis=1) for own, size in zip(edges, sizes, strict=True)]
    edges = [np.unique(own, axis=1) for own in edges]
    counts = np.array([own.shape[1] for own in edges])
    order = rng.permutation(graphs)
    arrays = {
        "num_nodes": sizes, "num_edges": counts, "edge_index": np.concatenate(edges, axis=1),
        "x": rng.integers(0, 5, (sizes.sum(), 1)), "edge_attr": rng.integers(0, 3, (counts.sum(), 1)),
        "y": rng.normal(size=graphs), "train": order[8:], "val": order[:4], "test": order[4:8],
    }  # fmt: skip
    save_packed(path, smallest(arrays | others))
    return path


def test_graphs_and_splits_are_those_of_the_files(tmp_path):
    files = [packed_file(tmp_path / f"{seed}.npz", 40 + seed, seed) for seed in range(3)]
    found = write_mapped(files, tmp_path / "all.graphs")
    extra, graphs = read_mapped(tmp_path / "all.graphs")[1], registry.load(str(tmp_path / "all.graphs")).graphs
    assert found["graphs"] == len(graphs) == 123 and graphs.edge_index.dtype == torch.uint8 and graphs.symmetric
    first = 0
    for file in files:
        own = registry.load(str(file))
        ids = torch.arange(len(own.graphs))
        batch, expected = graphs[first + ids], own.graphs[ids]
        for field in fields(expected):
            found, value = getattr(batch, field.name), getattr(expected, field.name)
            assert torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value, field.name
        split = own.split(0, 0)
        for part in ("train", "val", "test"):
            inside = extra[part][(extra[part] >= first) & (extra[part] < first + len(ids))]
            assert sorted(inside - first) == getattr(split, part).tolist()
        first += len(ids)


def test_classes_are_whole_numbers_of_the_usual_type(tmp_path):
    file = packed_file(tmp_path / "one.npz", 30, 5, y=np.arange(30) % 3)
    write_mapped([file, file], tmp_path / "two.graphs")
    dataset = registry.load(str(tmp_path / "two.graphs"))
    assert (dataset.task, dataset.num_outputs) == ("classification", 3)
    y = dataset.graphs[torch.tensor([1, 31])].y
    assert y is not None and torch.equal(y, torch.tensor([1, 1]))


def test_what_is_worked_out_of_a_set_is_the_same(tmp_path):
    file = packed_file(tmp_path / "one.npz", 50, 1)
    write_mapped([file], tmp_path / "one.graphs")
    mapped, read = (registry.load(str(tmp_path / f"one{ending}")).graphs for ending in (".graphs", ".npz"))
    found, expected = (with_rings(with_structure(graphs, 4)) for graphs in (mapped, read))
    assert found.rings is not None and found.rings.dtype == torch.uint8 and expected.rings is not None
    assert expected.rings.any() and torch.equal(found.rings.long(), expected.rings)
    assert found.structure is not None and expected.structure is not None
    torch.testing.assert_close(found.structure, expected.structure)
    assert sorted(path.name for path in (tmp_path / "one.graphs").iterdir())[-1] == "y.bin"  # nothing is left behind


def test_training_is_the_same(tmp_path):
    file = packed_file(tmp_path / "one.npz", 60, 2)
    write_mapped([file], tmp_path / "one.graphs")
    weights = [
        train(LEARNS.replaced(data={"name": str(tmp_path / f"one{ending}")}), quiet=True).model.state_dict()
        for ending in (".npz", ".graphs")
    ]
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, msg=name)


def test_mistakes_are_named_before_anything_is_written(tmp_path):
    file = packed_file(tmp_path / "one.npz", 20, 3)
    other = packed_file(tmp_path / "two.npz", 20, 4, y=np.zeros((20, 2)))
    with pytest.raises(InputError, match=r"two\.npz: its arrays, columns or names differ from those of .*one\.npz"):
        write_mapped([file, other], tmp_path / "both.graphs")
    with pytest.raises(InputError, match=r"both: the name of a mapped set must end in \.graphs"):
        write_mapped([file], tmp_path / "both")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.npz", "two.npz"]
    with pytest.raises(InputError, match=r"none\.graphs: is not a set of `maggnn data map`"):
        registry.load(str(tmp_path / "none.graphs"))
    write_mapped([file], tmp_path / "one.graphs")
    with pytest.raises(InputError, match="exists already"):
        write_mapped([file], tmp_path / "one.graphs")
    bonds = tmp_path / "one.graphs" / "edge_attr.bin"
    bonds.write_bytes(bonds.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"is damaged \(edge_attr\.bin has"):
        registry.load(str(tmp_path / "one.graphs"))


def test_a_batch_reads_its_own_graphs_only(tmp_path):
    """No operation allocates as much memory as the edges of the whole set take."""
    folder = tmp_path / "all.graphs"
    write_mapped([packed_file(tmp_path / "one.npz", 3_000, 0)], folder)
    graphs = read_mapped(folder)[0]
    ids = torch.tensor([5, 77])
    assert graphs[ids].num_graphs == 2
    with torch.profiler.profile(profile_memory=True) as profile:
        graphs.gather(ids, graphs.size_of(ids))
    most = max(event.self_cpu_memory_usage for event in profile.events())
    assert 0 < most < graphs.edge_index.nbytes / 4
