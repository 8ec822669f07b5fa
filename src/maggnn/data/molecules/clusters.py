"""Clusters of similar molecules, for a split whose test molecules are unlike those of training.

RDKit's Butina clustering: a molecule and all molecules within a distance become a cluster, the largest cluster first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maggnn.data.molecules.smiles import parsed
from maggnn.errors import InputError

CUTOFF = 0.4
"""The largest Tanimoto distance of Morgan fingerprints (radius 2) from the centre of a cluster."""

RADIUS, BITS = 2, 2048
MOST_MOLECULES = 10_000
"""The largest number of molecules: all pairs are compared, which takes memory and minutes."""


def clusters(canonical: Sequence[str]) -> list[str]:
    """Return the cluster of each molecule, named by the SMILES at its centre.

    The order of the rows does not matter: molecules are clustered in the order of their SMILES.

    Example:
        >>> found = clusters(["CCCCCCO", "CCCCCCCO", "c1ccccc1C"])
        >>> found[0] == found[1], found[0] == found[2]
        (True, False)
    """
    from rdkit.DataStructs import BulkTanimotoSimilarity
    from rdkit.ML.Cluster import Butina

    different = sorted(set(canonical))
    if len(different) > MOST_MOLECULES:
        raise InputError(
            f"--split cluster compares all pairs, for which {len(different)} molecules are too many (at most "
            f"{MOST_MOLECULES}): give --split scaffold"
        )
    prints = _fingerprints(different)
    distances = np.empty(len(prints) * (len(prints) - 1) // 2, dtype=np.float32)
    for row in range(1, len(prints)):
        first = row * (row - 1) // 2
        distances[first : first + row] = 1.0 - np.array(BulkTanimotoSimilarity(prints[row], prints[:row]))
    found = Butina.ClusterData(distances, len(prints), CUTOFF, isDistData=True, reordering=True)
    name = {different[member]: different[group[0]] for group in found for member in group}
    return [name[smiles] for smiles in canonical]


def _fingerprints(smiles: Sequence[str]) -> list:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from rdkit.rdBase import BlockLogs

    generator = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    with BlockLogs():
        return [generator.GetFingerprint(parsed(text)) for text in smiles]
