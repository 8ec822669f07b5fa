"""Data sets that are larger than memory: a folder of flat arrays that are mapped into memory instead of read.

    something.graphs/set.json         names, types and shapes of the arrays; written last, so it marks a complete folder
    something.graphs/edge_index.bin   and so on: the tensors of `PackedGraphs`, in the smallest types that fit

The operating system reads the pages that a batch needs and drops them when memory is short. Sizes of graphs, targets
and the split are read into memory, a few bytes for each graph. `write_mapped` makes such a folder from packed files,
one after the other, so that it needs memory for one of them at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from maggnn.data.files import locked, whole_file
from maggnn.data.ordered import smallest_type
from maggnn.data.sources import read_packed, widened
from maggnn.data.splits import PARTS
from maggnn.errors import InputError, first_line
from maggnn.graphs.batch import offsets_of
from maggnn.graphs.packed import PackedGraphs

ENDING, FACTS = ".graphs", "set.json"
ROWS = {"edge_index": 1, "in_degree": 0, "out_degree": 0, "by_source": 0, "x": 0, "edge_attr": 0}
"""The arrays that stay on disk, and their axis of nodes or edges, which comes first on disk."""

READ = ("num_nodes", "num_edges", "y", *PARTS)
"""The arrays that are read into memory."""


def read_mapped(folder: Path) -> tuple[PackedGraphs, dict[str, np.ndarray]]:
    """Return the memory-mapped graphs of a folder that `write_mapped` made, and its other arrays."""
    if not (folder / FACTS).is_file():
        raise InputError(f"{folder}: is not a set of `maggnn data map`, or writing it was interrupted: make it again")
    try:
        facts = json.loads((folder / FACTS).read_text())
        arrays = {name: _mapped(folder / f"{name}.bin", *facts["arrays"][name]) for name in facts["arrays"]}
        read = {name: widened(np.array(arrays.pop(name))) for name in READ if name in arrays}
        graphs = {name: torch.from_numpy(array) for name, array in arrays.items()}
        graphs["edge_index"] = graphs["edge_index"].T
        offsets = [offsets_of(torch.from_numpy(read.pop(name)).long()) for name in ("num_nodes", "num_edges")]
        y = torch.from_numpy(read.pop("y")) if "y" in read else None
        level = facts["level"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: is damaged ({first_line(error)}): make it again") from error
    names = {name: np.array(facts[name]) for name in ("target_names", "class_names") if name in facts}
    return PackedGraphs(*offsets, **graphs, y=y, level=level, folder=folder), {**read, **names}


def write_mapped(sources: Sequence[Path], folder: Path) -> dict[str, int]:
    """Write the graphs of packed files, one file after the other, as one set that can be mapped into memory.

    All files are read and checked before anything is written.

    Args:
        sources: .npz files with the same columns; their splits are joined part by part.
        folder: a name that ends in .graphs.

    Returns:
        The numbers of graphs, nodes, directed edges and bytes.
    """
    if folder.suffix != ENDING:
        raise InputError(f"{folder}: the name of a mapped set must end in {ENDING}")
    if (folder / FACTS).exists() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder}: exists already: choose another name")
    types, facts = _common(sources)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f".{folder.name}.lock", f"{folder}: another process is writing it"):
        shapes = _write_arrays(sources, folder, types)
        facts |= {"arrays": {name: (np.dtype(types[name]).name, shape) for name, shape in shapes.items()}}
        with whole_file(folder / FACTS) as waiting:
            waiting.write_text(json.dumps(facts))
    size = sum(path.stat().st_size for path in folder.iterdir())
    graphs, nodes, edges = (shapes[name][0] for name in ("num_nodes", "in_degree", "by_source"))
    return {"graphs": graphs, "nodes": nodes, "edges": edges, "bytes": size}


def _parts(sources: Sequence[Path]) -> Iterator[tuple[Path, dict[str, np.ndarray], dict[str, Any]]]:
    """Yield the arrays of each file in their types on disk (with graph ids of that file), and its other values."""
    for path in sources:
        graphs, extra = read_packed(path)
        arrays = {name: np.moveaxis(getattr(graphs, name).numpy(), axis, 0)
                  for name, axis in ROWS.items() if getattr(graphs, name) is not None}  # fmt: skip
        arrays |= {"num_nodes": graphs.num_nodes.numpy(), "num_edges": graphs.num_edges.numpy()}
        arrays |= {} if graphs.y is None else {"y": graphs.y.numpy()}
        arrays |= {part: extra[part] for part in PARTS if part in extra}
        names = {name: extra[name].tolist() for name in ("target_names", "class_names") if name in extra}
        yield path, arrays, {"level": graphs.level, **names}


def _common(sources: Sequence[Path]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the types of all arrays and the other values of the set; raises an error if files do not match."""
    types: dict[str, Any] = {}
    first: tuple[Path, dict[str, tuple[int, ...]], dict[str, Any]] | None = None
    for path, arrays, facts in _parts(sources):
        shapes = {name: array.shape[1:] for name, array in arrays.items()}
        first = first or (path, shapes, facts)
        if (shapes, facts) != first[1:]:
            raise InputError(f"{path}: its arrays, columns or names differ from those of {first[0]}")
        for name, array in arrays.items():
            found = np.int64 if name in PARTS else smallest_type(array)
            types[name] = np.result_type(found, types.get(name, found))
    if first is None:
        raise InputError("no packed file is given")
    return types, first[2]


def _write_arrays(sources: Sequence[Path], folder: Path, types: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    with ExitStack() as stack:
        files: dict[str, IO[bytes]] = {
            name: stack.enter_context((folder / f"{name}.bin").open("wb")) for name in types
        }  # fmt: skip
        for _, arrays, _ in _parts(sources):
            before = shapes.get("num_nodes", (0,))[0]
            for name, array in arrays.items():
                shifted = array + before if name in PARTS else array
                files[name].write(np.ascontiguousarray(shifted, dtype=types[name]).tobytes())
                shapes[name] = (shapes.get(name, (0,))[0] + len(array), *array.shape[1:])
    return shapes


def _mapped(path: Path, kind: str, shape: Sequence[int]) -> np.ndarray:
    """Map an array of a file into memory; an empty array cannot be mapped and is created."""
    if path.stat().st_size != np.dtype(kind).itemsize * int(np.prod(shape)):
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes, not those of {tuple(shape)}")
    if not np.prod(shape):
        return np.zeros(shape, kind)
    # Private and writable, since torch warns about read-only arrays; nothing writes to them.
    return np.memmap(path, kind, "c", shape=tuple(shape))
