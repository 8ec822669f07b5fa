"""Reading an exported program back: its description, and graphs of any kind turned into its input tensors.

Example:
    from maggnn import load_exported

    model = load_exported("model.pt2")
    answers = model.predict(["CCO", "c1ccccc1"])  # [graphs, outputs]
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maggnn.data.inputs import packed_inputs
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.runtime import make_generator
from maggnn.model.tuples import neighbour_tuples, sample_tuples

SUFFIXES = {"torch": ".pt2", "aoti": ".pt2", "onnx": ".onnx"}
DESCRIPTION = "maggnn.json"
"""Under this name a program's file says what its inputs and outputs are."""

GRAPHS_AT_ONCE = 64
"""Few enough that what a program works on stays in the caches: several times faster a graph than hundreds."""

Run = Callable[[dict[str, Tensor]], Tensor]
"""Tensors by name -> answers."""


@dataclass(frozen=True)
class ExportedModel:
    """A program and what is known of it.

    Attributes:
        description: the JSON of its file: `inputs`, `output`, `search`, `source`, `features`, `targets`, `classes`.
        run: tensors by the names of `inputs` -> answers.
    """

    description: dict[str, Any]
    run: Run

    def predict(self, graphs: Any, seed: int = 0, inputs: str = "auto") -> Tensor:
        """Probabilities of the classes, or values in the targets' own units, [graphs (or nodes), outputs].

        Args:
            graphs: SMILES (of a model that was fitted to SMILES), graph6, PackedGraphs, NetworkX or PyG graphs.
            seed: of the starting tuples, where the model draws them.
            inputs: "smiles" and "graph6" say what strings are and allow nothing else; "auto" takes strings for SMILES.
        """
        packed = self._packed(graphs, inputs)
        generator = make_generator(seed)
        chunks = torch.arange(len(packed)).split(GRAPHS_AT_ONCE)
        return torch.cat([self.run(program_inputs(self.description, packed[ids], generator)) for ids in chunks])

    def _packed(self, graphs: Any, inputs: str) -> PackedGraphs:
        """Many a string is both SMILES and graph6, so a model that was fitted to graphs takes none for SMILES."""
        packed, came_as = packed_inputs(graphs, inputs, self.description["features"] or "ogb")
        if came_as == "smiles" and self.description["source"] != "smiles":
            raise InputError("the model was fitted to graphs, not to SMILES: of graph6 strings say inputs='graph6'")
        return packed


def load_exported(path: str | Path) -> ExportedModel:
    """The program of a file that `maggnn export` wrote."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; `maggnn export` writes one")
    run, description = open_exported(path, _kind(path))
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
    """How to run the program of a file, and its description."""
    try:
        run, text = {"torch": _open_torch, "aoti": _open_aoti, "onnx": _open_onnx}[kind](path)
    except InputError:
        raise
    except Exception as error:  # each format fails in ways of its own
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: truncated, damaged or no exported program ({reason})") from error
    if not text:
        raise InputError(f"{path}: a program, but not one that `maggnn export` wrote")
    return run, json.loads(text)


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
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def run(inputs: dict[str, Tensor]) -> Tensor:
        return torch.from_numpy(session.run(None, {name: value.numpy() for name, value in inputs.items()})[0])

    return run, session.get_modelmeta().custom_metadata_map.get(DESCRIPTION, "")


def program_inputs(
    description: dict[str, Any], graphs: GraphBatch, generator: torch.Generator | None = None
) -> dict[str, Tensor]:
    """A batch as the tensors that a program takes, by name."""
    inputs: dict[str, dict[str, Any]] = description["inputs"]
    made = {"edge_index": graphs.edge_index, "node_graph": graphs.node_graph, "num_nodes": graphs.num_nodes}
    for name, values, rows in (
        ("x", graphs.x, graphs.total_nodes),
        ("edge_attr", graphs.edge_attr, graphs.edge_index.shape[1]),
        ("roots", graphs.roots, graphs.num_graphs),
    ):
        if name in inputs:
            made[name] = _checked(name, values, rows, inputs[name])
    if "tuples" in inputs:
        _, m, k = inputs["tuples"]["shape"]
        is_random = description["search"]["start"] == "random"
        made["tuples"] = sample_tuples(graphs, m, k, generator) if is_random else neighbour_tuples(graphs, m, k)
    return {name: made[name].contiguous() for name in inputs}


def _checked(name: str, values: Tensor | None, rows: int, entry: dict[str, Any]) -> Tensor:
    dtype, columns = getattr(torch, entry["dtype"]), entry["shape"][1]
    if values is None and not rows:  # no edges, no features of edges
        return torch.empty(0, columns, dtype=dtype)
    if values is None or values.shape[1] != columns or values.is_floating_point() != dtype.is_floating_point:
        found = "none" if values is None else f"{values.shape[1]} of {str(values.dtype).removeprefix('torch.')}"
        wanted = f"{columns} columns of {entry['dtype']}"
        raise InputError(f"the program takes {wanted} as {name}, these graphs have {found}")
    return values.to(dtype)
