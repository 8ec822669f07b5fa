"""Packed data files: one `.npz` for each set, with concatenated graphs, in one folder, the data root.

A file contains `num_nodes` and `num_edges` (one value for each graph), `edge_index` (each undirected edge once, with
node ids local to their graph) and, if the set has them, `x`, `edge_attr`, `y` and other arrays (such as splits).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maggnn.errors import InputError, first_line
from maggnn.graphs.batch import Level, offsets_of
from maggnn.graphs.packed import PackedGraphs

DATA_ROOT_VARIABLE = "MAGGNN_DATA"
REQUIRED = ("num_nodes", "num_edges", "edge_index")
GRAPH_ARRAYS = (*REQUIRED, "x", "edge_attr", "y")


def data_root() -> Path:
    """Return the folder of packed files: the environment variable `MAGGNN_DATA`, else `~/.cache/maggnn`."""
    chosen = os.environ.get(DATA_ROOT_VARIABLE)
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "maggnn"


def load_packed_file(name: str) -> tuple[PackedGraphs, dict[str, np.ndarray]]:
    """Read `<data root>/<name>.npz`: the graphs, and the file's other arrays (splits, categories, ...).

    Integers become int64, and floats keep their type. Targets belong to graphs if there is one row for each graph,
    and to nodes if there is one row for each node.
    """
    return read_packed(data_root() / f"{name}.npz")


def read_packed(path: Path) -> tuple[PackedGraphs, dict[str, np.ndarray]]:
    """Read the graphs of one packed file, and its other arrays."""
    arrays = _read(path)
    missing = [key for key in REQUIRED if key not in arrays]
    if missing:
        raise InputError(f"{path} has no array {missing[0]!r}: it is not a packed graph file")
    graph = {key: torch.from_numpy(arrays.pop(key)) for key in GRAPH_ARRAYS if key in arrays}
    try:
        packed = PackedGraphs.build(**graph, level=_level(graph), undirected_once=True, missing_targets=False)
    except (InputError, RuntimeError, IndexError) as error:
        reason = first_line(error)
        raise InputError(f"{path} is damaged ({reason}): copy it again") from error
    if _lists_both_directions(graph["edge_index"], graph["num_edges"]):
        raise InputError(
            f"{path} lists every edge in both directions, which would double them: list each undirected edge once "
            "(and parallel edges in the same direction)"
        )
    return packed, arrays


def graphs_of(arrays: Mapping[str, np.ndarray]) -> PackedGraphs:
    """Return graphs from the arrays of `maggnn.data.packing.pack`; targets that are numbers may be missing (NaN).

    Those of `maggnn.data.ordered.in_order` are taken as they are, in their small types.

    Shapes: y is [G] for classes and [G, targets] for numbers.
    """
    if "by_source" in arrays:
        ready: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        node_offsets, edge_offsets = (offsets_of(ready.pop(name).long()) for name in ("num_nodes", "num_edges"))
        return PackedGraphs(node_offsets, edge_offsets, **ready, canonical=True)
    tensors = {name: torch.from_numpy(widened(arrays[name])) for name in GRAPH_ARRAYS if name in arrays}
    if "y" in tensors and tensors["y"].is_floating_point():
        tensors["y"] = tensors["y"].reshape(len(tensors["y"]), -1)
    return PackedGraphs.build(**tensors, level="graph", undirected_once=True, missing_targets=True)


def _lists_both_directions(edge_index: Tensor, num_edges: Tensor) -> bool:
    """Whether each edge, as in PyG, is listed as often in one direction as in the other; loops do not count.

    Args:
        edge_index: the nodes of each edge as local ids, [2, total edges].
        num_edges: the number of edges of each graph, [G].
    """
    source, target = edge_index
    sign = (target - source).sign()
    if sign.sum() != 0 or not sign.any():  # the usual case, without a sort
        return False
    size = int(edge_index.max()) + 1
    graph = torch.repeat_interleave(torch.arange(len(num_edges)), num_edges)
    pair = (graph * size + edge_index.amin(dim=0)) * size + edge_index.amax(dim=0)
    place = pair.unique(return_inverse=True)[1]
    return not bool(torch.zeros(len(place), dtype=sign.dtype).index_add_(0, place, sign).any())


def _read(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise InputError(
            f"no file {path}: copy {path.name} there, or set {DATA_ROOT_VARIABLE} to the folder that has it"
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: widened(archive[key]) for key in archive.files}
    except Exception as error:  # numpy and zipfile can raise any error for a damaged file
        # Their messages ("pickled data", "magic number") would not help a user.
        raise InputError(
            f"{path} cannot be read as a packed file: it is truncated or damaged, copy it again"
        ) from error


def widened(array: np.ndarray) -> np.ndarray:
    """Convert small integers to int64: files store the smallest type that fits, in which sums would overflow."""
    return array.astype(np.int64) if array.dtype.kind in "iub" else array


def _level(graph: dict[str, Tensor]) -> Level:
    """Whether the targets belong to graphs or to nodes."""
    y = graph.get("y")
    return "graph" if y is None or len(y) == len(graph["num_nodes"]) else "node"
