"""Reads graphs from a data set's name, or from a file whose suffix determines its format.

| suffix | contents |
|---|---|
| `.g6` | graph6, one graph on each line |
| `.smi`, `.txt` | SMILES, one on each line; text after a blank is ignored |
| `.csv` | a table with a column `smiles` |
| `.edges` | one graph: a line of two node names is an edge, one name is a node without edges, `#` begins a comment |
| `.npz` | a packed file |
| `.pt` | a PyG `Data` or a list of them, read without executing code from the file |

Atoms and bonds of SMILES have OGB's features, so molecules differ by more than their structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from maggnn.data.inputs import pack_smiles
from maggnn.data.molecules.rows import RowTable, open_table
from maggnn.data.registry import load
from maggnn.data.sources import read_packed
from maggnn.errors import InputError
from maggnn.graphs.conversions import pack_graph6, pack_networkx, pack_pyg
from maggnn.graphs.packed import PackedGraphs

FEATURES = "mol"


def read_graphs(source: str) -> PackedGraphs:
    """Read the graphs of a data set or of a file."""
    path = Path(source)
    if not path.suffix:
        return load(source).graphs
    if path.suffix not in READERS:
        raise InputError(f"{source}: the suffix of the name determines the format; it may be {', '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"no file {source}")
    try:
        return READERS[path.suffix](path)
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not a text file") from error
    except OSError as error:
        raise InputError(f"{source} cannot be read ({error.strerror})") from error


def _read_graph6(path: Path) -> PackedGraphs:
    with path.open(encoding="utf-8-sig") as file:
        try:
            return pack_graph6(file)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def _read_smiles(path: Path) -> PackedGraphs:
    with path.open(encoding="utf-8-sig") as file:
        words = (line.split() for line in file)
        return _pack_molecules(path, (line[0] for line in words if line))


def _read_csv(path: Path) -> PackedGraphs:
    table = open_table(path)
    column = next((place for place, name in enumerate(table.names) if name.lower() == "smiles"), None)
    if column is None:
        raise InputError(f"{path}: has no column 'smiles'")
    return _pack_molecules(path, _column(table, column))


def _column(table: RowTable, place: int) -> Iterator[str]:
    for record in table.records():
        if record.reason:
            raise InputError(f"{table.path}: {record.reason}")
        yield record.cells[place]


def _pack_molecules(path: Path, smiles: Iterator[str]) -> PackedGraphs:
    return pack_smiles(smiles, FEATURES, lambda error: f"{path}: molecule {error.row} ({error.smiles})")


def _read_edges(path: Path) -> PackedGraphs:
    import networkx as nx

    graph = nx.Graph()
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        names = line.partition("#")[0].split()
        mark = next((mark for mark in ",;" if any(mark in name for name in names)), None)
        if mark is not None:  # "0,1" would be the name of a node without edges
            raise InputError(f"{path}: line {number} has {mark!r}: names are separated by blanks")
        if len(names) > 2:
            raise InputError(f"{path}: line {number} has {len(names)} names: two are an edge, one is a node")
        graph.add_nodes_from(names)
        if len(names) == 2:
            graph.add_edge(*names)
    if not len(graph):
        raise InputError(f"{path}: has no nodes")
    return pack_networkx([graph])


def _read_pyg(path: Path) -> PackedGraphs:
    """Read a PyG file; only tensors and PyG's own containers are allowed, so that a file cannot execute code."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            saved = torch.load(path, weights_only=True)
    except Exception as error:  # torch's reader can raise any error for a damaged file
        raise InputError(f"{path} cannot be read safely: save a PyG Data or a list of them with torch.save") from error
    graphs = saved if isinstance(saved, list | tuple) else [saved]
    if not graphs or not all(isinstance(graph, Data) for graph in graphs):
        raise InputError(f"{path} contains no PyG graphs: save a Data or a list of them with torch.save")
    try:
        return pack_pyg(graphs)
    except (AttributeError, KeyError, TypeError, RuntimeError) as error:  # a Data without some of its parts
        raise InputError(f"{path} is damaged: save a PyG Data or a list of them with torch.save") from error


READERS: dict[str, Callable[[Path], PackedGraphs]] = {
    ".g6": _read_graph6,
    ".smi": _read_smiles,
    ".txt": _read_smiles,
    ".csv": _read_csv,
    ".edges": _read_edges,
    ".npz": lambda path: read_packed(path)[0],
    ".pt": _read_pyg,
}
"""The functions that read files, by suffix."""
