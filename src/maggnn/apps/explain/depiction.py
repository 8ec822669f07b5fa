"""One graph as it is drawn, by `maggnn explain` and by `maggnn show`: places, and for molecules atoms and bonds.

Atoms and bonds are read off the first columns of the features.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from maggnn.apps.draw.layouts import positions
from maggnn.data.molecules.atom_features import OGB_LAST_ELEMENT, QM9_ELEMENTS, ZINC_TYPES
from maggnn.data.molecules.smiles import parsed, written_numbers
from maggnn.graphs.packed import PackedGraphs

if TYPE_CHECKING:
    from rdkit.Chem import Atom

AROMATIC = 1.5
OGB_ORDERS = (1.0, 2.0, 3.0, AROMATIC)
ORDERS = {"mol": OGB_ORDERS, "ogb": OGB_ORDERS, "zinc": (1.0, 1.0, 2.0, 3.0), "qm9": (1.0, 2.0, 3.0)}
"""The order of a bond by its first column; ZINC's numbers begin with 1, and what is not here is drawn as single."""

UNKNOWN = "?"
ELEMENT = re.compile(r"[A-Z][a-z]?|\?")
"""How a label begins."""


@dataclass(frozen=True)
class Depicted:
    """The graph as it is drawn.

    Attributes:
        positions: of each node in [0, 1]^2, y downwards.
        edges: each once, with the order of its bond (1 where there are no bonds).
        labels: of the atoms; empty for graphs that are no molecules.
        roots: the nodes that a rooted graph is about.
        signs: what is written at each atom: nothing at carbons, hydrogens at others, as OH; empty: the labels.
        numbers: what people call each node: an atom's number in the SMILES as it was written; empty: the node's own.
    """

    positions: list[tuple[float, float]]
    edges: list[tuple[int, int, float]]
    labels: list[str]
    roots: list[int]
    numbers: list[int] = field(default_factory=list)
    signs: list[str] = field(default_factory=list)

    def node_name(self, node: int) -> str:
        """As C7, or 7 where nodes have no elements; without hydrogens, whose number would run into the node's."""
        number = self.numbers[node] if self.numbers else node
        if not self.labels:
            return str(number)
        found = ELEMENT.match(self.labels[node])
        return f"{found[0] if found else UNKNOWN}{number}"


def depicted(
    single: PackedGraphs,
    features: str,
    x: Tensor | None,
    edge_attr: Tensor | None,
    smiles: str | None = None,
    rows: Sequence[int] = (),
) -> Depicted:
    """Where everything lies in the one graph of `single`, with atoms and bonds for molecules.

    Args:
        features: the feature set of a molecule's columns; empty for other graphs.
        x, edge_attr: features [n, F] and [E, F] as they were made: the model may read others in their place, where
            training never saw a category.
        smiles: what the graph was made from, if anything.
        rows: the number that each node had when the graph was made; empty: its own.
    """
    pairs = single.edge_index.T.tolist()
    if not features or x is None or x.is_floating_point():
        labels, orders = [], [1.0] * len(pairs)
    else:
        labels = atom_labels(features, x)
        orders = [1.0] * len(pairs) if edge_attr is None else bond_orders(features, edge_attr)
    edges = {(min(pair), max(pair)): order for pair, order in zip(pairs, orders, strict=True)}
    points, numbers = positions(single, 0, smiles), list(rows)
    if smiles is not None:
        written = _numbers(smiles, len(points))
        numbers = [written[row] for row in rows] if rows else written
        points = [points[row] for row in rows] if rows else points  # they lie in the order in which it was made
    return Depicted(
        positions=points,
        edges=[(u, v, order) for (u, v), order in sorted(edges.items()) if u != v],
        labels=labels,
        roots=[] if single.roots is None else single.roots[0].tolist(),
        numbers=numbers,
        signs=_signs(labels, smiles, rows),
    )


def _signs(labels: Sequence[str], smiles: str | None, rows: Sequence[int]) -> list[str]:
    """What a chemist writes at each atom; the labels alone do not know of hydrogens."""
    mol = None if smiles is None or not labels else parsed(smiles.strip())
    if mol is None or mol.GetNumAtoms() != len(labels):  # hydrogens are atoms of their own there
        return ["" if label == "C" else label for label in labels]
    signs = [_sign(atom) for atom in mol.GetAtoms()]
    return [signs[row] for row in rows] if rows else signs


def _sign(atom: Atom) -> str:
    """As OH, NH3+ or nothing for a carbon among others."""
    charge, hydrogens = atom.GetFormalCharge(), atom.GetTotalNumHs()
    if atom.GetSymbol() == "C" and not charge and atom.GetDegree():
        return ""
    held = "" if not hydrogens else "H" if hydrogens == 1 else f"H{hydrogens}"
    sign = "" if not charge else ("+" if charge > 0 else "-") + (str(abs(charge)) if abs(charge) > 1 else "")
    return f"{atom.GetSymbol()}{held}{sign}"


def _numbers(smiles: str, num_nodes: int) -> list[int]:
    """The number of each atom in the SMILES; hydrogens that the graph has and the SMILES has not come after."""
    written = written_numbers(smiles)
    return [*written, *range(len(written), num_nodes)]


def atom_labels(features: str, x: Tensor) -> list[str]:
    """What is written at each atom of x [n, F]: its element, in ZINC also hydrogens and charge, as NH3+."""
    return [_label(features, int(kind)) for kind in x[:, 0]]


def _label(features: str, kind: int) -> str:
    if features == "zinc":
        return ZINC_TYPES[kind].replace("H1", "H").replace(" ", "") if kind < len(ZINC_TYPES) else UNKNOWN
    if features == "qm9":
        return QM9_ELEMENTS[kind] if kind < len(QM9_ELEMENTS) else UNKNOWN
    from rdkit.Chem import GetPeriodicTable

    return GetPeriodicTable().GetElementSymbol(kind + 1) if kind < OGB_LAST_ELEMENT else UNKNOWN


def bond_orders(features: str, edge_attr: Tensor) -> list[float]:
    """The order of each bond of edge_attr [E, F]; 1.5 is aromatic."""
    if edge_attr.is_floating_point():
        return [1.0] * len(edge_attr)
    orders = ORDERS[features]
    return [orders[kind] if kind < len(orders) else 1.0 for kind in edge_attr[:, 0].tolist()]
