"""What `maggnn predict` does with the arrays of its workers on a GPU is what it does on a CPU."""

import numpy as np
import pytest
import torch

from maggnn.apps.fit.classical.similarity import Fingerprints
from maggnn.data.molecules.smiles import featurise_rows
from maggnn.data.ordered import in_order
from maggnn.data.packing import pack
from maggnn.data.sources import graphs_of

FIELDS = ("edge_index", "in_degree", "out_degree", "by_source", "x", "edge_attr")


def test_similarities_are_equal_to_the_last_bit(device):
    bits = np.random.default_rng(0).integers(0, 256, (300, 256), dtype=np.uint8) & 17
    found = [Fingerprints(bits[:100], where).nearest(bits) for where in ("cpu", device)]
    assert np.array_equal(*found) and (found[0][:100] == 1).all()


def test_graphs_in_pinned_memory_arrive_as_int64(device):
    pytest.importorskip("rdkit")
    if not torch.cuda.is_available():
        pytest.skip("without a GPU there is no pinned memory")
    packed = graphs_of(in_order(pack(featurise_rows(["CCO", "C", "c1ccccc1"], "mol"))))
    pinned = packed.pinned()
    assert pinned.x.is_pinned() and pinned.canonical
    moved = pinned.to(device)
    for name in FIELDS:
        assert getattr(moved, name).dtype == torch.long
        assert torch.equal(getattr(moved, name).cpu(), getattr(packed, name).long()), name
