"""A molecule has one answer, however its SMILES is written, and a graph has one, however its nodes are numbered.

From the estimators, `maggnn predict` and exported programs.
"""

import csv

import networkx as nx
import numpy as np
import pytest
import torch
from tests.builders import renumbered

from maggnn import MagRegressor, load_exported
from maggnn.apps.export import export_model
from maggnn.apps.fit.predicting import predict_table
from maggnn.data.inputs import packed_inputs
from maggnn.data.synthetic import expressivity
from maggnn.graphs.conversions import pack_networkx, to_pyg
from maggnn.graphs.packed import PackedGraphs

Chem = pytest.importorskip("rdkit.Chem", reason="molecules need the extra `chem` (RDKit)")

MOLECULES = [
    "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", r"F/C=C/Cl", r"F/C=C\Cl", "c1ccc2[nH]ccc2c1", "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@]12CC[C@H]3[C@@H](CC[C@H]4CC(=O)CC[C@]34C)[C@@H]1CC[C@@H]2O", "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H]1O",
    "C1CC2CCC1C2", "CCCCCC", "c1ccccc1", "C1CCCCC1", "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "CC(C)(C)C", "C1CC1C1CC1",
    "N[C@@H](Cc1ccccc1)C(=O)N[C@@H](CO)C(=O)O", "O=C1CCCN1", "c1ccc(-c2ccccc2)cc1", "CC#CC", "OCC(O)CO",
]  # fmt: skip
SPELLINGS = 6
CLOSE = 1e-5
"""Of answers for the same molecule, relative to the largest answer."""


def spelled(smiles, seed):
    return [smiles, *Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), SPELLINGS, randomSeed=seed + 1)]


@pytest.fixture(scope="module")
def fitted():
    y = [Chem.MolFromSmiles(smiles).GetNumAtoms() + smiles.count("@@") for smiles in MOLECULES]
    return MagRegressor(steps=60).fit(MOLECULES, np.array(y, dtype=float))


@pytest.fixture(scope="module")
def asked():
    return [other for seed, smiles in enumerate(MOLECULES) for other in spelled(smiles, seed)]


def apart(answers):
    """The largest difference between answers for one molecule, relative to the largest answer."""
    table = np.asarray(answers, dtype=float).reshape(len(MOLECULES), SPELLINGS + 1)
    return np.ptp(table, axis=1).max() / np.abs(table).max()


def test_estimators(fitted, asked):
    answers = fitted.predict(asked)
    assert apart(answers) < CLOSE and np.ptp(answers) > 0.1  # and molecules differ


def test_predict_and_exported_programs(fitted, asked, tmp_path):
    fitted.fitted_.save(tmp_path / "model")
    with (tmp_path / "asked.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["smiles"], *([smiles] for smiles in asked)])
    predict_table(tmp_path / "model", tmp_path / "asked.csv", tmp_path / "out.csv", "smiles", 1, False)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    column = next(name for name in rows[0] if name.startswith("predicted"))
    assert apart([float(row[column]) for row in rows]) < CLOSE
    export_model(tmp_path / "model", tmp_path / "model.pt2")
    assert apart(load_exported(tmp_path / "model.pt2", trust=True).predict(asked).numpy()) < CLOSE


# ---- graphs ---------------------------------------------------------------------------------------------

NUMBERINGS = 4


def graphs_of_all_kinds():
    """Trees, rings, random and strongly regular graphs, some of them with features."""
    plain = [nx.random_labeled_tree(12, seed=seed) for seed in range(6)]
    plain += [nx.gnp_random_graph(10, 0.35, seed=seed) for seed in range(6)]
    plain += [nx.circulant_graph(13, [1, jump]) for jump in (2, 3, 5)] + [nx.cycle_graph(9), nx.star_graph(8)]
    return pack_networkx(plain)


def regular_graphs():
    packed = expressivity.sr25()
    return PackedGraphs.build(packed.num_nodes, packed.num_edges, packed.edge_index)


def with_values(packed):
    """With float features of nodes and of edges, drawn so that many are equal."""
    x = (torch.arange(len(packed.in_degree))[:, None] % 3).float() / 2
    u, v = packed.edge_index.sort(dim=0).values
    return PackedGraphs.build(
        packed.num_nodes, packed.num_edges, packed.edge_index, x=x, edge_attr=((u + v) % 2)[:, None].float()
    )


@pytest.mark.parametrize("kind", ["plain and strongly regular", "features"])
def test_graphs(kind, tmp_path):
    sets = [with_values(graphs_of_all_kinds())] if kind == "features" else [graphs_of_all_kinds(), regular_graphs()]
    graphs = [graph for packed in sets for graph in to_pyg(packed)]
    fitted = MagRegressor(steps=40).fit(graphs, np.linspace(0, 1, len(graphs)))
    asked = [[graph for packed in sets for graph in to_pyg(renumbered(packed, seed))] for seed in range(NUMBERINGS)]
    answers = np.stack([fitted.predict(graphs) for graphs in asked])
    assert np.ptp(answers, axis=0).max() < CLOSE * np.abs(answers).max()
    fitted.fitted_.save(tmp_path / "model")
    export_model(tmp_path / "model", tmp_path / "model.pt2")
    program = load_exported(tmp_path / "model.pt2", trust=True)
    exported = np.stack([program.predict(graphs).numpy()[:, 0] for graphs in asked])
    assert np.ptp(exported, axis=0).max() < CLOSE * np.abs(exported).max()


def test_a_packed_set_of_molecules_has_the_answers_of_its_smiles(fitted):
    packed = packed_inputs(MOLECULES)[0]
    assert np.abs(fitted.predict(packed) - fitted.predict(MOLECULES)).max() < CLOSE
