"""Molecules as the arrays of a set in canonical order (`PackedGraphs`), made by numpy alone in worker processes.

Only molecules are read: no bond joins an atom to itself, and no two bonds join the same atoms.

Shapes: G molecules, N atoms, E bonds, F columns.
"""

from __future__ import annotations

import numpy as np

from maggnn.data.packing import Arrays
from maggnn.graphs.canonical_search import nodes_in_order
from maggnn.graphs.hashes import category_hashes
from maggnn.graphs.stable_colours import SideBySide

TYPES = (np.uint8, np.int16, np.int32, np.int64)
"""The integer types for which torch has all operations."""


def in_order(arrays: Arrays) -> Arrays:
    """Return packed molecules (`maggnn.data.packing.pack`) in canonical order, with every bond in both directions.

    Returns:
        The fields of a `PackedGraphs` with numbers of nodes and edges in place of offsets, in small types. They equal
        those that `graphs_of` and `in_canonical_order` make.
    """
    sizes, num_bonds = arrays["num_nodes"].astype(np.int64), arrays["num_edges"].astype(np.int64)
    first, num_edges, bonds = sizes.cumsum() - sizes, 2 * num_bonds, arrays["edge_index"]
    ends = bonds + np.repeat(first, num_bonds)
    rows = _canonical_rows(SideBySide(sizes, num_edges, *_incoming(ends, arrays["edge_attr"], sizes)), arrays["x"])
    place = np.empty_like(rows)  # each atom's new number in its molecule
    place[rows] = np.arange(len(rows)) - np.repeat(first, sizes)
    source, target, bond = _directed(place.take(ends) + np.repeat(first, num_bonds))
    order = _sorted(source, target)
    owner = np.repeat(np.arange(len(sizes)), num_edges)
    edge_first = num_edges.cumsum() - num_edges
    source, target = source.take(order), target.take(order)
    degree = np.bincount(target, minlength=len(rows))
    found = {
        "num_nodes": sizes,
        "num_edges": num_edges,
        "edge_index": np.stack([source, target]) - first.take(owner),
        "in_degree": degree,
        "out_degree": degree,
        "by_source": _sorted(target, source) - edge_first.take(owner),
        "x": arrays["x"].take(rows, axis=0),
        "edge_attr": arrays["edge_attr"].take(bond.take(order), axis=0),
    }
    return {name: array.astype(smallest_type(array), copy=False) for name, array in found.items()}


def smallest_type(array: np.ndarray) -> np.dtype:
    """Return the smallest of TYPES for an array's integers; floats keep their type."""
    if array.dtype.kind == "f":
        return array.dtype
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    return np.dtype(next(kind for kind in TYPES if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max))


def _canonical_rows(graphs: SideBySide, x: np.ndarray) -> np.ndarray:
    """Return the atoms in canonical order, [N]."""
    hashes = category_hashes(x)
    assert hashes is not None or not len(x)
    return nodes_in_order(graphs, np.zeros(0, dtype=np.int64) if hashes is None else hashes, None)


def _incoming(
    ends: np.ndarray, edge_attr: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return source and hash of each directed edge, sorted by its target, and the number of edges of each atom.

    Args:
        ends: the two atoms of each bond, numbered through all molecules, [2, E].
    """
    source, target, bond = _directed(ends)
    order = np.argsort(_short(target), kind="stable")
    kind = category_hashes(edge_attr)
    hashes = None if kind is None else kind.take(bond.take(order))
    return source.take(order), hashes, np.bincount(target, minlength=int(sizes.sum()))


def _directed(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return source, target and bond of each directed edge, [2 E] each, from the two atoms of each bond [2, E]."""
    bond = np.arange(ends.shape[1])
    return ends.reshape(-1), ends[::-1].reshape(-1), np.concatenate([bond, bond])


def _sorted(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the order of edges by (target, source)."""
    return np.lexsort((_short(source), _short(target)))


def _short(atoms: np.ndarray) -> np.ndarray:
    """Return numbers of atoms in 16 bits if they fit, which numpy sorts by counting."""
    return atoms.astype(np.uint16) if atoms.max(initial=0) < 1 << 16 else atoms
