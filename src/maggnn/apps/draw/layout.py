"""Where the nodes of one graph lie in a picture of unit size: as chemists draw it, or by its distances alone."""

from __future__ import annotations

import numpy as np
import torch

from maggnn.apps.draw.layouts import components_apart
from maggnn.data.molecules.smiles import parsed
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs

MARGIN = 0.06
"""Free on all four sides, so that marks around the outermost nodes are whole."""

MOST_BY_DISTANCES = 80
"""Nodes up to which all pairs of distances are fitted; beyond it springs are much quicker."""

ROUNDS = 60
"""Of springs: more change nothing that can be seen."""


def positions(packed: PackedGraphs, graph: int, smiles: str | None = None) -> list[tuple[float, float]]:
    """A point in [0, 1]^2 for each node, x to the right and y downwards; equal graphs get equal points.

    Args:
        smiles: the molecule that the graph was made from, if any; atoms are in the order of its nodes.
    """
    single = packed.select(torch.tensor([graph]))[torch.tensor([0])]
    if smiles is not None:
        points = _drawn(smiles, single.total_nodes)
    elif single.total_nodes <= MOST_BY_DISTANCES:
        points = components_apart(single).positions
    else:
        points = _by_springs(single)
    return [(float(x), float(y)) for x, y in _fitted(points * np.array([1.0, -1.0]))]


def _drawn(smiles: str, num_nodes: int) -> np.ndarray:
    """RDKit's two-dimensional coordinates, [n, 2]; with hydrogens where the graph has them as nodes."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        mol = parsed(smiles.strip())
        if mol.GetNumAtoms() != num_nodes:
            mol = Chem.AddHs(mol)
        if mol.GetNumAtoms() != num_nodes:
            raise InputError(f"SMILES {smiles!r}: has {mol.GetNumAtoms()} atoms, the graph {num_nodes} nodes")
        rdDepictor.SetPreferCoordGen(False)
        rdDepictor.Compute2DCoords(mol, canonOrient=True)
    return np.array(mol.GetConformer().GetPositions())[:, :2]


def _by_springs(single: GraphBatch) -> np.ndarray:
    """Fruchterman and Reingold from nodes on a circle, in order, so that nothing is drawn: [n, 2]."""
    import networkx as nx

    plain = nx.Graph()
    plain.add_nodes_from(range(single.total_nodes))
    plain.add_edges_from(single.edge_index.T.tolist())
    places = nx.spring_layout(plain, pos=nx.circular_layout(plain), iterations=ROUNDS, seed=0, method="force")
    return np.array([places[node] for node in range(single.total_nodes)])


def _fitted(points: np.ndarray) -> np.ndarray:
    """Points [n, 2] moved into the unit square within its margin, shape kept and in the middle."""
    low, high = points.min(axis=0), points.max(axis=0)
    span = float((high - low).max())
    scale = (1 - 2 * MARGIN) / span if span > 0 else 1.0
    return 0.5 + (points - (low + high) / 2) * scale
