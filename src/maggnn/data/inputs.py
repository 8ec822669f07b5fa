"""Packs Python inputs: strings (SMILES, InChI, graph6), RDKit molecules, NetworkX and PyG graphs, and packed files.

The kind of a sequence is inferred from its items. Strings are SMILES unless `inputs` is graph6. `graph_files` reads
files of other kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from maggnn.data.molecules.atom_features import DEFAULT, feature_set
from maggnn.data.molecules.smiles import Molecule, RowError, featurise_all
from maggnn.data.packing import pack
from maggnn.data.sources import read_packed
from maggnn.errors import InputError
from maggnn.graphs.conversions import pack_graph6, pack_networkx, pack_pyg
from maggnn.graphs.packed import PackedGraphs

Source = Literal["smiles", "graphs"]

STRING, MOLECULE, NETWORKX, PYG = "a string", "an RDKit molecule", "a NetworkX graph", "a PyG graph"
COLUMN = "smiles"
"""The column of SMILES in a frame with several columns, in upper or lower case."""

PACKERS: dict[str, Callable[[list[Any]], PackedGraphs]] = {
    NETWORKX: partial(pack_networkx, targets=False), PYG: partial(pack_pyg, targets=False)
}  # fmt: skip
INPUTS = ("auto", "smiles", "graph6")
ACCEPTED = (
    "SMILES, InChI or graph6 strings, RDKit molecules, NetworkX graphs, PyG graphs, PackedGraphs or the path of a "
    "packed .npz file"
)


def packed_inputs(X: Any, inputs: str = "auto", features: str = DEFAULT) -> tuple[PackedGraphs, Source]:
    """Return the graphs of X without targets, and whether they were given as SMILES.

    Args:
        X: a sequence of one kind of graph, or a whole set.
        inputs: "auto" reads strings as SMILES; "smiles" and "graph6" read strings as such and reject other inputs.
        features: the features of atoms and bonds of SMILES: "mol", "ogb", "zinc" or "qm9".
    """
    if inputs not in INPUTS:
        raise InputError(f"inputs is {inputs!r}, must be {', '.join(INPUTS)}")
    feature_set(features)
    whole = _whole_set(X)
    if whole is not None and inputs == "auto":
        return replace(whole, y=None, level="graph"), "graphs"
    if whole is not None:
        raise InputError(f"inputs is {inputs!r}, but X is a packed set: give a list of strings")
    items = _items(molecule_column(X))
    kind = _common_kind(items)
    if kind == MOLECULE:
        items, kind = [written_molecule(item) for item in items], STRING
    if kind != STRING and inputs != "auto":
        raise InputError(f"inputs is {inputs!r}, but X[0] is {kind}")
    if kind != STRING:
        return replace(PACKERS[kind](items), y=None, level="graph"), "graphs"
    if inputs == "graph6":
        return _pack_graph6(items), "graphs"
    return pack_smiles(items, features, lambda error: f"X[{error.row - 1}] ({str(error.smiles)!r})"), "smiles"


def molecule_column(X: Any) -> Any:
    """Return the column of SMILES if X is a pandas or Polars frame with several columns, else X."""
    columns = getattr(X, "columns", None)
    if columns is None or len(getattr(X, "shape", ())) != 2 or X.shape[1] == 1:
        return X
    names = [name for name in columns if str(name).lower() == COLUMN]
    if len(names) != 1:
        raise InputError(f"X has {len(columns)} columns, of which {len(names)} are named {COLUMN!r}: give one column")
    return X[names[0]]


def molecule_strings(X: Any) -> list[str]:
    """Return the SMILES of molecules that `packed_inputs` has accepted."""
    X = molecule_column(X)
    return [written_molecule(item) for item in (np.asarray(X).ravel() if len(getattr(X, "shape", ())) == 2 else X)]


def written_molecule(item: Any) -> str:
    """Return an RDKit molecule as SMILES; a string is returned as it is."""
    if isinstance(item, str):
        return str(item)
    from rdkit import Chem

    return Chem.MolToSmiles(item)


def _whole_set(X: Any) -> PackedGraphs | None:
    """Return the set if X is a packed set or the path of one; None for a sequence."""
    if isinstance(X, PackedGraphs):
        _check_some(X)
        return X
    if not isinstance(X, str | Path):
        return None
    if Path(X).suffix != ".npz":
        raise InputError(f"X is the single string {str(X)!r}: give a list of strings or the path of a .npz file")
    return read_packed(Path(X))[0]


def _items(X: Any) -> list[Any]:
    """Return the items of a sequence; a table of one column (as from pipelines) gives its column."""
    kind = _kind(X)
    if kind is not None:
        raise InputError(f"X is {kind}: give a list of graphs")
    shape = getattr(X, "shape", ())
    if len(shape) > 2 or (len(shape) == 2 and shape[1] != 1):
        raise InputError(f"X has shape {tuple(shape)}: give one graph in each row, not columns of numbers")
    try:
        items = list(np.asarray(X).ravel()) if len(shape) == 2 else list(X)
    except TypeError:
        raise InputError(f"X is of type {type(X).__name__}: give {ACCEPTED}") from None
    _check_some(items)
    return items


def _check_some(X: Sized) -> None:
    if not len(X):
        raise InputError("X is empty: give at least one graph")


def _common_kind(items: list[Any]) -> str:
    """Return the kind of all items."""
    first = None
    for index, item in enumerate(items):
        kind = _kind(item)
        if kind is None:
            raise InputError(f"X[{index}] is of type {type(item).__name__}: give {ACCEPTED}")
        first = first or kind
        if kind != first:
            raise InputError(f"X mixes kinds: X[0] is {first}, X[{index}] is {kind}")
    assert first is not None, "there is at least one item"
    return first


def _kind(item: Any) -> str | None:
    """Return the kind of an item, if it is a graph; PyG, whose import takes seconds, is tried last."""
    if isinstance(item, str):
        return STRING
    if any(base.__module__.startswith("rdkit.") for base in type(item).__mro__):
        from rdkit.Chem import Mol

        return MOLECULE if isinstance(item, Mol) else None
    import networkx as nx

    if isinstance(item, nx.Graph):
        return NETWORKX
    if not any(base.__module__.startswith("torch_geometric") for base in type(item).__mro__):
        return None
    from torch_geometric.data import Data

    return PYG if isinstance(item, Data) else None


def pack_smiles(smiles: Iterable[str], features: str, named: Callable[[RowError], str]) -> PackedGraphs:
    """Pack all SMILES; raises an error that names the first that cannot be used, since all are needed."""

    def valid() -> Iterator[Molecule]:
        for result in featurise_all(smiles, features):
            if isinstance(result, RowError):
                raise InputError(f"{named(result)}: {result.reason}")
            yield result

    arrays = {name: torch.from_numpy(array) for name, array in pack(valid()).items()}
    return PackedGraphs.build(**arrays, level="graph", undirected_once=True, missing_targets=False)


def _pack_graph6(lines: list[str]) -> PackedGraphs:
    for index, line in enumerate(lines):
        if not line.strip():  # it would be skipped, and the targets after it would be shifted
            raise InputError(f"X[{index}] is an empty string, not graph6")
    try:
        return pack_graph6(lines)
    except InputError as error:
        raise InputError(f"X as graph6, where X[0] is line 1: {error}") from error
