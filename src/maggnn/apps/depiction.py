"""What the columns of a molecule's features say to a picture: the element of each node, the order of each edge."""

from __future__ import annotations

from torch import Tensor

from maggnn.data.atom_features import OGB_LAST_ELEMENT, QM9_ELEMENTS, ZINC_TYPES
from maggnn.data.benchmarks import QM9_TARGETS

FEATURES_OF_SETS = {
    "zinc": "zinc",
    "zinc_full": "zinc",
    "molhiv": "ogb",
    "qm9": "qm9",
    **{f"qm9_{target}": "qm9" for target in QM9_TARGETS},
}
"""The feature sets of the data sets of molecules."""

AROMATIC = 1.5
ORDERS = {"ogb": (1, 2, 3, AROMATIC), "zinc": (1, 1, 2, 3), "qm9": (1, 2, 3)}
"""The order of a bond by its first column; ZINC's numbers begin with 1, and what is not here is drawn as single."""


def element_letters(features: str, x: Tensor) -> list[str]:
    """The element of each atom of x [n, F], made with the feature set `features`."""
    first = x[:, 0].tolist()
    if features == "zinc":
        return [ZINC_TYPES[kind].split()[0] if kind < len(ZINC_TYPES) else "*" for kind in first]
    if features == "qm9":
        return [QM9_ELEMENTS[kind] if kind < len(QM9_ELEMENTS) else "*" for kind in first]
    from rdkit.Chem import GetPeriodicTable

    table = GetPeriodicTable()
    return [table.GetElementSymbol(number + 1) if number < OGB_LAST_ELEMENT else "*" for number in first]


def bond_orders(features: str, edge_attr: Tensor) -> list[float]:
    """The order of each bond of edge_attr [E, F]; 1.5 is aromatic."""
    orders = ORDERS[features]
    return [orders[kind] if kind < len(orders) else 1 for kind in edge_attr[:, 0].tolist()]
