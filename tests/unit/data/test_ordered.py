"""Worker processes order molecules with numpy alone, and as `in_canonical_order` does."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from maggnn.data.molecules.smiles import featurise_rows
from maggnn.data.ordered import in_order
from maggnn.data.packing import pack
from maggnn.data.sources import graphs_of
from maggnn.graphs.canonical_order import in_canonical_order

pytest.importorskip("rdkit")

SMILES = [
    "C", "CCO", "OCC", "[Na+].[Cl-]", "c1ccccc1", "CC(C)(C)C", "C12C3C4C1C5C2C3C45", "F[C@H](Cl)Br", "C/C=C/C", "C#N",
    "CC(=O)Oc1ccccc1C(=O)O", "C1CC2CCC1CC2", "[2H]OC", "c1ccc2ccccc2c1.O", "C" * 300,
]  # fmt: skip
FIELDS = ("node_offsets", "edge_offsets", "edge_index", "in_degree", "out_degree", "by_source", "x", "edge_attr")


@pytest.mark.parametrize("features", ["mol", "zinc"])
@pytest.mark.parametrize("smiles", [SMILES, ["C"], ["C", "O"], SMILES[::-1]])
def test_equal_to_the_order_of_packed_graphs(smiles, features):
    chosen = [text for text in smiles if features == "mol" or text.isalpha()]
    packed = pack(featurise_rows(chosen, features))
    expected, found = in_canonical_order(graphs_of(packed)), graphs_of(in_order(packed))
    for name in FIELDS:
        assert torch.equal(getattr(found, name).long(), getattr(expected, name).long()), name
    assert found.canonical and in_canonical_order(found) is found


def test_more_atoms_than_16_bits_can_number():
    packed = pack(featurise_rows(["CCO" * 60] * 400, "mol"))
    assert packed["num_nodes"].astype(np.int64).sum() > 1 << 16
    expected, found = in_canonical_order(graphs_of(packed)), graphs_of(in_order(packed))
    assert torch.equal(found.edge_index.long(), expected.edge_index) and torch.equal(found.x.long(), expected.x)


def test_small_types_are_gathered_as_int64():
    found = graphs_of(in_order(pack(featurise_rows(SMILES, "mol"))))
    assert (found.x.dtype, found.edge_index.dtype) == (torch.uint8, torch.int16)  # a chain of 300 atoms
    batch, expected = (graphs[torch.tensor([4, 1])] for graphs in (found, found.select(torch.arange(len(SMILES)))))
    assert batch.x.dtype == batch.edge_index.dtype == batch.edge_attr.dtype == torch.long
    assert torch.equal(batch.x, expected.x) and torch.equal(batch.edge_index, expected.edge_index)


def test_workers_import_no_torch():
    modules = "maggnn.apps.fit.featurised_chunks, maggnn.apps.fit.answers.answered_rows"
    program = f"import sys, {modules}; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
