"""The inputs of `FittedModel.predict`: converts molecules or graphs of Python to the form that the model reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maggnn.apps.fit.classical.descriptors import Descriptors, descriptors_of
from maggnn.apps.fit.tables.number_columns import cell_of, number_value
from maggnn.data.inputs import molecule_column, packed_inputs, written_molecule
from maggnn.data.molecules.fragments import chosen_fragments
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs

if TYPE_CHECKING:
    from maggnn.apps.fit.fitted import FittedModel


def read_inputs(fitted: FittedModel, X: Any) -> tuple[PackedGraphs, Descriptors | None]:
    """Return the graphs of X, and their descriptors if a part of the model reads them.

    Args:
        X: for a model of molecules, SMILES or InChI strings, or RDKit molecules; for a model of graphs, NetworkX
            graphs, PyG graphs or graph6 strings.
    """
    facts = fitted.facts
    if isinstance(X, str):
        raise InputError(f"give a list of molecules or graphs, such as [{X[:40]!r}]")
    if facts.source == "graphs":
        strings = len(X) > 0 and all(isinstance(item, str) for item in X)
        return packed_inputs(X, "graph6" if strings else "auto")[0], None
    more = _number_columns(X, facts.number_columns)
    X = molecule_column(X)
    molecules = [written_molecule(item) if not isinstance(item, str) else item for item in X]
    smiles = list(chosen_fragments(molecules, facts.salts))
    packed, _ = packed_inputs(smiles, "smiles", facts.features)
    return packed, descriptors_of(smiles).with_columns(more) if fitted.reads_molecules else None


def check_no_graph_attr(packed: PackedGraphs) -> None:
    """Reject features of whole graphs, which a model that is fitted to graphs does not read."""
    if packed.graph_attr is not None:
        raise InputError(
            "these graphs have graph_attr, which estimators do not read: leave it out, or train with maggnn.train"
        )


def _number_columns(X: Any, names: tuple[str, ...]) -> np.ndarray | None:
    """Return the columns of a frame that the model reads besides molecules, [rows, columns]."""
    if not names:
        return None
    missing = [name for name in names if name not in getattr(X, "columns", ())]
    if missing:
        raise InputError(f"the model reads column {missing[0]!r} of a table: give a frame that has it")
    columns = [[number_value(name, cell_of(value)) for value in X[name].to_numpy().tolist()] for name in names]
    return np.array(columns, dtype=np.float32).T
