"""What `FittedModel.predict` is asked about: molecules or graphs as Python has them, as the model reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maggnn.apps.fit.descriptors import Described, described
from maggnn.data.inputs import molecule_column, packed_inputs, written_molecule
from maggnn.data.molecules.fragments import chosen_fragments
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs

if TYPE_CHECKING:
    from maggnn.apps.fit.fitted import FittedModel


def read_given(fitted: FittedModel, X: Any) -> tuple[PackedGraphs, Described | None]:
    """The graphs of X, and their descriptors where a part of the model reads them.

    Args:
        X: of a model of molecules: SMILES or InChI strings, or RDKit molecules; of a model of graphs: NetworkX graphs,
            PyG graphs or graph6 strings.
    """
    facts = fitted.facts
    if isinstance(X, str):
        raise InputError(f"give a list of molecules or graphs, such as [{X[:40]!r}]")
    if facts.source == "graphs":
        strings = len(X) > 0 and all(isinstance(item, str) for item in X)
        return packed_inputs(X, "graph6" if strings else "auto")[0], None
    X = molecule_column(X)
    molecules = [written_molecule(item) if not isinstance(item, str) else item for item in X]
    smiles = list(chosen_fragments(molecules, facts.salts))
    packed, _ = packed_inputs(smiles, "smiles", facts.features)
    reads = bool(fitted.trees) or fitted.known is not None
    return packed, described(smiles) if reads else None
