"""How the nodes and edges of a molecule are drawn: symbols of atoms and orders of bonds, read off the features."""

from __future__ import annotations

from torch import Tensor

from maggnn.data.atom_features import QM9_ELEMENTS, ZINC_TYPES

AROMATIC = 1.5
OGB_ORDERS = (1.0, 2.0, 3.0, AROMATIC)


def features_of(dataset: str) -> str:
    """The features that a data set's molecules have; empty where its graphs are none."""
    known = {"zinc": "zinc", "zinc_full": "zinc", "molhiv": "ogb"}
    return "qm9" if dataset.partition("_")[0] == "qm9" else known.get(dataset, "")


def symbols(features: str, x: Tensor | None) -> list[str] | None:
    """What is written at each node [n, F]; None for graphs that are no molecules."""
    if not features or x is None:
        return None
    return [_symbol(features, int(number)) for number in x[:, 0]]


def _symbol(features: str, number: int) -> str:
    if features == "zinc":
        return ZINC_TYPES[number].replace("H1", "H").replace(" ", "") if number < len(ZINC_TYPES) else "?"
    if features == "qm9":
        return QM9_ELEMENTS[number] if number < len(QM9_ELEMENTS) else "?"
    from rdkit.Chem import GetPeriodicTable

    return GetPeriodicTable().GetElementSymbol(number + 1) if number < 118 else "?"


def order(features: str, bond: list[int]) -> float:
    """Lines that a bond is drawn with; 1.5 has its second one dashed."""
    kind = bond[0] if bond else 0
    if features == "ogb":
        return OGB_ORDERS[kind] if kind < len(OGB_ORDERS) else 1.0
    if features == "qm9":
        return float(min(kind + 1, 3))
    return float(min(max(kind, 1), 3)) if features == "zinc" else 1.0
