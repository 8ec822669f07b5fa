"""Loads an exported program with its description, and converts graphs of any kind to its input tensors.

Example:
    from maggnn import load_exported

    model = load_exported("model.pt2", trust=True)  # your own file; see below
    answers = model.predict(["CCO", "c1ccccc1"])  # [graphs, outputs]

Loading a .pt2 file can execute code that it contains: torch unpickles its example inputs and weights without limits and
evaluates the text of its symbolic sizes, and a compiled program is a shared library. So it requires `trust=True`. An
ONNX file is only data and needs no trust: it is the format for sharing models.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maggnn.data.inputs import molecule_strings, packed_inputs
from maggnn.data.molecules.fragments import SALTS, chosen_fragments
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.canonical_order import in_canonical_order
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.export.search import SeenCategories
from maggnn.model.features import MOST_CATEGORIES
from maggnn.model.runtime import make_generator
from maggnn.model.starts import STARTS
from maggnn.model.tuples import sample_tuples

SUFFIXES = {"torch": ".pt2", "aoti": ".pt2", "onnx": ".onnx"}
DESCRIPTION = "maggnn.json"
"""The name of the description of inputs and outputs in a program's file."""

INPUTS = ("edge_index", "node_graph", "num_nodes", "x", "edge_attr", "tuples", "roots", "graph_attr")
DTYPES = {"float32": torch.float32, "int64": torch.int64}
MOST_COLUMNS = 100_000
"""The largest number of columns of an input tensor."""

GRAPHS_AT_ONCE = 64
"""The number of graphs in a batch: few enough for the caches, which is several times faster than hundreds."""

Run = Callable[[dict[str, Tensor]], Tensor]
"""A function from tensors by name to answers."""


@dataclass(frozen=True)
class ExportedModel:
    """An exported program with its description.

    Attributes:
        description: the JSON of its file: `inputs`, `output`, `search`, `source`, `features`, `targets`, `classes`,
            `salts` (which fragments of SMILES are read) and `seen` (the categories that occur in training).
        run: a function from tensors, by the names of `inputs`, to answers.
    """

    description: dict[str, Any]
    run: Run

    def predict(self, graphs: Any, seed: int = 0, inputs: str = "auto") -> Tensor:
        """Predict for graphs.

        Args:
            graphs: SMILES (if the model was fitted to SMILES), graph6, PackedGraphs, NetworkX or PyG graphs.
            seed: the seed of the starting tuples, if they are random.
            inputs: "auto" reads strings as SMILES; "smiles" and "graph6" read strings as such and reject other inputs.

        Returns:
            Probabilities of the classes, or values in the targets' own units, [graphs (or nodes), outputs].
        """
        packed = self._packed(graphs, inputs)
        if self.description["output"]["shape"][0] == "graphs":  # answers for nodes keep the order of the nodes
            packed = in_canonical_order(self._as_seen(packed))
        generator = make_generator(seed)
        chunks = torch.arange(len(packed)).split(GRAPHS_AT_ONCE)
        return torch.cat([self.run(program_inputs(self.description, packed[ids], generator)) for ids in chunks])

    def _packed(self, graphs: Any, inputs: str) -> PackedGraphs:
        """Pack the graphs; since many strings are valid as SMILES and as graph6, models of graphs reject SMILES."""
        graphs = list(graphs) if isinstance(graphs, Iterator) else graphs  # they may be read twice
        features, salts = self.description["features"] or "ogb", self.description.get("salts", "keep")
        packed, came_as = packed_inputs(graphs, inputs, features)
        if came_as == "smiles" and self.description["source"] != "smiles":
            raise InputError("the model was fitted to graphs, not to SMILES: for graph6 strings, set inputs='graph6'")
        if came_as == "smiles" and salts != "keep":
            packed, _ = packed_inputs(list(chosen_fragments(molecule_strings(graphs), salts)), "smiles", features)
        return packed

    def _as_seen(self, packed: PackedGraphs) -> PackedGraphs:
        """With every category one that training saw, which the canonical order goes by; the program does the same."""
        changed: dict[str, Any] = {}
        for name, values in (("x", packed.x), ("edge_attr", packed.edge_attr)):
            seen, entry = self.description.get("seen", {}).get(name), self.description["inputs"].get(name, {})
            columns = entry.get("categories", ())
            if seen and values is not None and not values.is_floating_point() and values.shape[1] == len(columns):
                changed[name] = SeenCategories(columns, seen)(values)
        return replace(packed, **changed)


def load_exported(path: str | Path, trust: bool = False) -> ExportedModel:
    """Read a program that `maggnn export` wrote.

    Args:
        path: the .pt2 or .onnx file.
        trust: whether the file may execute code, which every .pt2 can. Set it only for files that you exported or whose
            author you trust. An .onnx file is only data and needs no trust.

    Returns:
        The program, ready to predict.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; `maggnn export` writes one")
    kind = _kind(path)
    if kind != "onnx" and not trust:
        raise InputError(
            f"{path}: loading a .pt2 can execute code that it contains: set trust=True if you trust its author, "
            "or exchange .onnx files (--format onnx), which are only data"
        )
    run, description = open_exported(path, kind)
    return ExportedModel(description, run)


def _kind(path: Path) -> str:
    if path.suffix == SUFFIXES["onnx"]:
        return "onnx"
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: truncated, damaged or no exported program ({error})") from error
    return "aoti" if any("/aotinductor/" in name for name in names) else "torch"


def open_exported(path: Path, kind: str) -> tuple[Run, dict[str, Any]]:
    """Load the program of a file. Returns a function that runs it, and its description."""
    try:
        run, text = {"torch": _open_torch, "aoti": _open_aoti, "onnx": _open_onnx}[kind](path)
    except InputError:
        raise
    except Exception as error:  # each format raises different errors
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: truncated, damaged or no exported program ({reason})") from error
    if not text:
        raise InputError(f"{path}: is a program, but not one that `maggnn export` wrote")
    return run, _description(path, text)


def _description(path: Path, text: str) -> dict[str, Any]:
    """Parse the JSON of a file, and check the entries that are read here and their types."""
    try:
        found = json.loads(text)
        inputs, search = found["inputs"], found["search"]
        if not all(isinstance(found[name], str) for name in ("source", "features")):
            raise ValueError("source and features must be text")
        if found["output"]["shape"][0] not in ("graphs", "nodes"):
            raise ValueError("output must have a row for each graph or each node")
        if not isinstance(search["start"], str):
            raise ValueError("search.start must be text")
        if "tuples" in inputs and search["start"] not in ("random", *STARTS):
            raise ValueError("search.start")
        for name, entry in inputs.items():
            if name not in INPUTS or entry["dtype"] not in DTYPES or not all(map(_is_size, entry["shape"])):
                raise ValueError(f"input {name}")
        if "tuples" in inputs and len(inputs["tuples"]["shape"]) != 3:
            raise ValueError("tuples have three dimensions")
        if found.get("salts", "keep") not in SALTS:
            raise ValueError("salts")
        for name, seen in found.get("seen", {}).items():
            _check_seen(seen, inputs.get(name, {}).get("categories", ()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: has no valid description of its inputs ({reason})") from error
    return found


def _check_seen(seen: Any, categories: Any) -> None:
    """Check the categories of training: for each column, numbers of some of its categories."""
    known = [isinstance(column, list) and bool(column) for column in seen]
    if seen and (not all(known) or len(known) != len(categories)):
        raise ValueError("seen")
    for column, count in zip(seen, categories, strict=False):
        if count > MOST_CATEGORIES or not all(isinstance(place, int) and 0 <= place < count for place in column):
            raise ValueError("seen")


def _is_size(size: object) -> bool:
    """Whether a size is a name, or a number within the limits."""
    return isinstance(size, str) or (isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= MOST_COLUMNS)


def _open_torch(path: Path) -> tuple[Run, str]:
    extra = {DESCRIPTION: ""}
    module = torch.export.load(path, extra_files=extra).module()
    return torch.no_grad()(lambda inputs: module(**inputs)), extra[DESCRIPTION]


def _open_aoti(path: Path) -> tuple[Run, str]:
    compiled = torch._inductor.aoti_load_package(str(path))
    return lambda inputs: compiled(**inputs), compiled.get_metadata().get(DESCRIPTION, "")


def _open_onnx(path: Path) -> tuple[Run, str]:
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(f"{path}: needs onnxruntime: pip install 'maggnn[onnx]'") from None
    # The bytes are passed instead of the path, because a file could refer to weights in other files.
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])

    def run(inputs: dict[str, Tensor]) -> Tensor:
        return torch.from_numpy(session.run(None, {name: value.numpy() for name, value in inputs.items()})[0])

    return run, session.get_modelmeta().custom_metadata_map.get(DESCRIPTION, "")


def program_inputs(
    description: dict[str, Any], graphs: GraphBatch, generator: torch.Generator | None = None
) -> dict[str, Tensor]:
    """Return a batch as the input tensors of a program, by name."""
    inputs: dict[str, dict[str, Any]] = description["inputs"]
    made = {"edge_index": graphs.edge_index, "node_graph": graphs.node_graph, "num_nodes": graphs.num_nodes}
    for name, values, rows in (
        ("x", graphs.x, graphs.total_nodes),
        ("edge_attr", graphs.edge_attr, graphs.edge_index.shape[1]),
        ("roots", graphs.roots, graphs.num_graphs),
        ("graph_attr", graphs.graph_attr, graphs.num_graphs),
    ):
        if name in inputs:
            made[name] = _checked(name, values, rows, inputs[name])
    if "tuples" in inputs:
        _, m, k = inputs["tuples"]["shape"]
        start = description["search"]["start"]
        drawn = start == "random"
        made["tuples"] = sample_tuples(graphs, m, k, generator) if drawn else STARTS[start](graphs, m, k)
    return {name: made[name].contiguous() for name in inputs}


def _checked(name: str, values: Tensor | None, rows: int, entry: dict[str, Any]) -> Tensor:
    dtype, columns = DTYPES[entry["dtype"]], entry["shape"][1]
    if values is None and not rows:  # graphs without edges may have no features of edges
        return torch.empty(0, columns, dtype=dtype)
    if values is None or values.shape[1] != columns or values.is_floating_point() != dtype.is_floating_point:
        found = "none" if values is None else f"{values.shape[1]} of {str(values.dtype).removeprefix('torch.')}"
        wanted = f"{columns} columns of {entry['dtype']}"
        raise InputError(f"the program takes {wanted} as {name}, these graphs have {found}")
    return values.to(dtype)
