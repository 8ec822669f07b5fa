"""The drawing data of one graph, for `maggnn explain` and `maggnn show`: positions, and atoms and bonds of molecules.

Atoms and bonds are read from the first columns of the features.
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
"""The order of a bond by its first column; ZINC's numbers begin with 1, and unknown bonds are drawn as single."""

UNKNOWN = "?"
DUMMY = "*"
"""The label of OGB's last category, which only dummy atoms have: RDKit knows no element after the others."""

ELEMENT = re.compile(r"[A-Z][a-z]?|[?*]")
"""The element at the beginning of a label."""


@dataclass(frozen=True)
class Original:
    """A graph as it was given, for drawings: a model may read it in another order and with other categories.

    Attributes:
        x, edge_attr: the given features of nodes and edges [n, F] and [E, F], in the order that the model reads.
        features: the feature set of a molecule's columns; empty for graphs that are not molecules.
        smiles: the SMILES of the graph, if any.
        rows: the given number of each node, if they were reordered; else empty.
    """

    x: Tensor | None = None
    edge_attr: Tensor | None = None
    features: str = ""
    smiles: str | None = None
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class Depicted:
    """The drawing data of a graph.

    Attributes:
        positions: the position of each node in [0, 1]^2, with y downwards.
        edges: each edge once, with the order of its bond (1 if there are no bonds).
        labels: the labels of the atoms; empty for graphs that are not molecules.
        roots: the roots of a rooted graph.
        signs: the text at each atom: empty for carbon, with hydrogens for others, as OH; if empty, the labels are used.
        numbers: the displayed number of each node: an atom's position in the SMILES; if empty, the node's id.
    """

    positions: list[tuple[float, float]]
    edges: list[tuple[int, int, float]]
    labels: list[str]
    roots: list[int]
    numbers: list[int] = field(default_factory=list)
    signs: list[str] = field(default_factory=list)

    def node_name(self, node: int) -> str:
        """Return a name such as C7, or 7 without elements; without hydrogens, whose number would be ambiguous."""
        number = self.numbers[node] if self.numbers else node
        if not self.labels:
            return str(number)
        found = ELEMENT.match(self.labels[node])
        return f"{found[0] if found else UNKNOWN}{number}"


def depicted(single: PackedGraphs, original: Original) -> Depicted:
    """Return the drawing data of the single graph of `single`, with atoms and bonds for molecules."""
    features, x, edge_attr = original.features, original.x, original.edge_attr
    smiles, rows = original.smiles, original.rows
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
        points = [points[row] for row in rows] if rows else points  # they are in the original order
    return Depicted(
        positions=points,
        edges=[(u, v, order) for (u, v), order in sorted(edges.items()) if u != v],
        labels=labels,
        roots=[] if single.roots is None else single.roots[0].tolist(),
        numbers=numbers,
        signs=_signs(labels, smiles, rows),
    )


def _signs(labels: Sequence[str], smiles: str | None, rows: Sequence[int]) -> list[str]:
    """Return the text at each atom as in chemical drawings, with hydrogens, which labels do not have."""
    mol = None if smiles is None or not labels else parsed(smiles)
    if mol is None or mol.GetNumAtoms() != len(labels):  # the graph has hydrogens as nodes
        return ["" if label == "C" else label for label in labels]
    signs = [_sign(atom) for atom in mol.GetAtoms()]
    return [signs[row] for row in rows] if rows else signs


def _sign(atom: Atom) -> str:
    """Return a text such as OH or NH3+, which is empty for a carbon with neighbours."""
    charge, hydrogens = atom.GetFormalCharge(), atom.GetTotalNumHs()
    if atom.GetSymbol() == "C" and not charge and atom.GetDegree():
        return ""
    held = "" if not hydrogens else "H" if hydrogens == 1 else f"H{hydrogens}"
    sign = "" if not charge else ("+" if charge > 0 else "-") + (str(abs(charge)) if abs(charge) > 1 else "")
    return f"{atom.GetSymbol()}{held}{sign}"


def _numbers(smiles: str, num_nodes: int) -> list[int]:
    """Return the position of each atom in the SMILES; hydrogens that are only in the graph come last."""
    written = written_numbers(smiles)
    return [*written, *range(len(written), num_nodes)]


def atom_labels(features: str, x: Tensor) -> list[str]:
    """Return the label of each atom of x [n, F]: its element, in ZINC also hydrogens and charge, as NH3+."""
    return [_label(features, int(kind)) for kind in x[:, 0]]


def _label(features: str, kind: int) -> str:
    if features == "zinc":
        return ZINC_TYPES[kind].replace("H1", "H").replace(" ", "") if kind < len(ZINC_TYPES) else UNKNOWN
    if features == "qm9":
        return QM9_ELEMENTS[kind] if kind < len(QM9_ELEMENTS) else UNKNOWN
    from rdkit.Chem import GetPeriodicTable

    return GetPeriodicTable().GetElementSymbol(kind + 1) if kind < OGB_LAST_ELEMENT else DUMMY


def bond_orders(features: str, edge_attr: Tensor) -> list[float]:
    """Return the order of each bond of edge_attr [E, F]; 1.5 is aromatic."""
    if edge_attr.is_floating_point():
        return [1.0] * len(edge_attr)
    orders = ORDERS[features]
    return [orders[kind] if kind < len(orders) else 1.0 for kind in edge_attr[:, 0].tolist()]
