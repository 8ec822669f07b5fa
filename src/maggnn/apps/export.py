"""`maggnn export`: a model's whole search as one file that runs without this package.

| format | file | runs with |
|---|---|---|
| torch | .pt2 | `torch.export.load(path).module()` |
| aoti | .pt2 | `torch._inductor.aoti_load_package(path)`, in Python or C++; compiled for the machine's kind of CPU |
| onnx | .onnx | onnxruntime |

All take the same named tensors and return the same answers; `inference/export/search.py` documents them, and how ties
are broken. A description of the tensors is written into the file as JSON. `maggnn.load_exported` reads it and predicts
for graphs of the kinds that the model was fitted to. Loading a .pt2 file can execute code that it contains, so
`load_exported` requires `trust=True` for it; an .onnx file is only data, and is the format for sharing models.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from maggnn.apps.fit.blend import BLEND, NETWORK
from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.fitted import is_fitted, load_first
from maggnn.data.files import check_output, check_writable, whole_file
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.export.program import DESCRIPTION, SUFFIXES, Run, open_exported
from maggnn.inference.export.search import ExportedSearch
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.saving import load_model, model_file

WHAT = {
    "edge_index": "source and target of each directed edge as node ids of the batch, grouped by graph",
    "node_graph": "the graph of each node, in order: 0, 0, ..., 1, ... (PyG's `batch`)",
    "num_nodes": "the number of nodes of each graph (PyG's `ptr.diff()`)",
    "x": "features of the nodes",
    "edge_attr": "features of the edges",
    "tuples": "the nodes that are marked before the first move, as ids within each graph",
    "roots": "the root nodes of each graph, as ids within it",
    "graph_attr": "features of the graphs; NaN where a value is missing",
}
MEANING = {
    "classification": "probabilities of the classes",
    "multilabel": "probability of the second class of each target",
    "regression": "values in the targets' own units",
}
TIES = "among moves whose Q-values differ by less than 1e-5: the smallest node id, then the first slot"
CLOSE = 1e-4
"""The largest difference between a written program and its module that is accepted, relative to the largest answer."""


def export_model(model: Path, out: Path, kind: str = "torch", overwrite: bool = False) -> dict[str, Any]:
    """Write a model's whole search as one program.

    Args:
        model: a folder of `maggnn fit` or `maggnn train`, or a model.safetensors.
        out: the program, a .pt2 or an .onnx.
        kind: "torch", "aoti" (compiled) or "onnx".
        overwrite: whether an existing file may be replaced.

    Returns:
        Names, shapes and types of the program's inputs and output, and its size in bytes.
    """
    _check_out(out, kind, overwrite)
    search, description = _search(model)
    description["format"] = kind
    program = _traced(search, description)
    data = {"torch": _saved, "aoti": _compiled, "onnx": _as_onnx}[kind](program, description)

    def check(path: Path) -> None:
        run = _run(program) if kind == "torch" else open_exported(path, kind)[0]  # loading one takes seconds
        _check_answers(run, search, description)

    write_checked(out, data, check)
    return {"out": str(out), "bytes": len(data), **description}


def _check_out(out: Path, kind: str, overwrite: bool) -> None:
    """Check the format and the output path before the long work of an export."""
    if kind not in SUFFIXES:
        raise InputError(f"--format is {kind!r}: give {', '.join(SUFFIXES)}")
    if out.suffix != SUFFIXES[kind]:
        raise InputError(f"{out}: --format {kind} writes a {SUFFIXES[kind]} file")
    check_writable(out)
    check_output(out, overwrite)


def _search(model: Path) -> tuple[ExportedSearch, dict[str, Any]]:
    """Return the module to be exported and its description."""
    if is_fitted(model):
        fitted = load_first(model)
        facts = fitted.facts
        # `load_exported` makes graphs of SMILES without descriptors, which networks of a blend can do without.
        search = ExportedSearch(
            fitted.model, facts.seen_nodes, facts.seen_edges, _temperatures(facts), reads_graph_attr=False
        )
        said = {"source": facts.source, "features": facts.features, "targets": facts.targets, "classes": facts.classes}
        said |= {"salts": facts.salts, "seen": {"x": facts.seen_nodes, "edge_attr": facts.seen_edges}}
        return search, _description(search, fitted.model) | said
    if not model.exists():
        raise InputError(f"{model}: no such model; give a folder that `maggnn fit` or `maggnn train` wrote")
    loaded, _ = load_model(model_file(model))
    search = ExportedSearch(loaded)
    return search, _description(search, loaded) | {"source": "graphs", "features": "", "targets": (), "classes": ()}


def _temperatures(facts: Facts) -> list[tuple[float, ...]]:
    """Return the temperatures of a single network; none for the first network of a blend, which is exported alone."""
    blend = facts.blend
    parts = (NETWORK, BLEND) if blend.folds == 1 and list(blend.weights) == [NETWORK] else ()
    if facts.task == "classification":
        found = [(blend.temperatures.get(part, 1.0),) for part in parts]
    else:
        found = [tuple(target.temperatures.get(part, 1.0) for target in blend.targets) for part in parts]
    return [heat for heat in found if any(value != 1.0 for value in heat)]


def _description(search: ExportedSearch, model: MagGNN) -> dict[str, Any]:
    """Describe the inputs, the outputs and the search as plain values."""
    agent, spec = model.agent, {"x": model.node_features, "edge_attr": model.edge_features}
    shapes: dict[str, list[str | int]] = {
        "edge_index": [2, "edges"],
        "node_graph": ["nodes"],
        "num_nodes": ["graphs"],
        "x": ["nodes", spec["x"].columns],
        "edge_attr": ["edges", spec["edge_attr"].columns],
        "tuples": ["graphs", agent.num_tuples, agent.tuple_order],
        "roots": ["graphs", model.num_roots],
        "graph_attr": ["graphs", model.graph_features],
    }
    inputs = {}
    for name in search.inputs:
        floats = name == "graph_attr" or (name in spec and spec[name].width > 0)
        inputs[name] = {"shape": shapes[name], "dtype": "float32" if floats else "int64", "what": WHAT[name]}
        if name in spec and spec[name].categories:
            inputs[name]["categories"] = list(spec[name].categories)
    rows = "graphs" if model.predictor.level == "graph" else "nodes"
    meaning = MEANING[model.task]
    answers = "float32" if model.targets is None else str(model.targets.mean.dtype).removeprefix("torch.")
    return {
        "inputs": inputs,
        "output": {"shape": [rows, model.num_outputs], "dtype": answers, "what": meaning},
        "search": {
            "num_tuples": agent.num_tuples,
            "tuple_order": agent.tuple_order,
            "num_moves": agent.num_moves,
            "start": agent.start,
            "ties": TIES,
        },
    }


def _traced(search: ExportedSearch, description: dict[str, Any]) -> ExportedProgram:
    inputs = _example(description, sizes=(4, 3, 5), seed=0)
    dynamic = {
        name: {place: Dim.DYNAMIC for place, size in enumerate(entry["shape"]) if isinstance(size, str)}
        for name, entry in description["inputs"].items()
    }
    with torch.no_grad():
        program = torch.export.export(search, (), kwargs=inputs, dynamic_shapes=dynamic)
    for module in (program.graph_module, *program.graph_module.children()):
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            node.meta.pop("stack_trace", None)  # it would reveal paths of this machine
    return program


def _example(description: dict[str, Any], sizes: tuple[int, ...], seed: int) -> dict[str, Tensor]:
    """Return rings with `sizes` nodes (a single node for size 1) and random features."""
    generator = torch.Generator().manual_seed(seed)
    num_edges = [0 if size == 1 else 1 if size == 2 else size for size in sizes]
    rings = [[(node, (node + 1) % size) for node in range(count)] for size, count in zip(sizes, num_edges, strict=True)]
    edge_index = torch.tensor([edge for ring in rings for edge in ring], dtype=torch.long).reshape(-1, 2).T
    packed = PackedGraphs.build(
        torch.tensor(sizes), torch.tensor(num_edges), edge_index, undirected_once=True, level="graph"
    )
    batch = packed[torch.arange(len(sizes))]
    free: dict[str | int, int] = {
        "nodes": batch.total_nodes, "edges": batch.edge_index.shape[1], "graphs": len(sizes)
    }  # fmt: skip

    def made(entry: dict[str, Any]) -> Tensor:
        shape = [free[size] if isinstance(size, str) else int(size) for size in entry["shape"]]
        if entry["dtype"] == "float32":
            return torch.randn(shape, generator=generator)
        counts = torch.tensor(entry.get("categories", [1] * shape[-1]))
        return (torch.rand(shape, generator=generator) * counts).long()

    extra = {name: made(description["inputs"][name]) for name in WHAT if name in description["inputs"]}
    known = {"edge_index": batch.edge_index, "node_graph": batch.node_graph, "num_nodes": batch.num_nodes}
    return {name: known.get(name, extra[name]) for name in description["inputs"]}


def _saved(program: ExportedProgram, description: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={DESCRIPTION: json.dumps(description)})
    return file.getvalue()


def _compiled(program: ExportedProgram, description: dict[str, Any]) -> bytes:
    from torch._inductor.exc import InvalidCxxCompiler

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        settings = {"aot_inductor.metadata": {DESCRIPTION: json.dumps(description)}}
        try:
            with warnings.catch_warnings(action="ignore", category=FutureWarning):  # torch warns about its own code
                torch._inductor.aoti_compile_and_package(program, package_path=str(path), inductor_configs=settings)
        except InvalidCxxCompiler:
            raise InputError("--format aoti compiles the program: install a C++ compiler such as g++") from None
        return path.read_bytes()


def _as_onnx(program: ExportedProgram, description: dict[str, Any]) -> bytes:
    for name in ("onnx", "onnxruntime", "onnxscript"):  # torch's own message is later and longer
        if importlib.util.find_spec(name) is None:
            raise InputError(f"--format onnx needs {name}: pip install 'maggnn[onnx]'")
    with warnings.catch_warnings(action="ignore"), _silent("torch.onnx"), _silent("onnx_ir"):
        converted = torch.onnx.export(
            program, (), dynamo=True, verbose=False, input_names=list(description["inputs"]),
            custom_translation_table={torch.ops.aten.sort.stable: _stable_sort},
        )  # fmt: skip
    assert converted is not None, "an exported program becomes an ONNX program"
    converted.model.metadata_props[DESCRIPTION] = json.dumps(description)
    return converted.model_proto.SerializeToString()


def _stable_sort(values: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
    """Sort stably in ONNX, for which torch has no translation: a top-k of all values keeps equal values in order.

    Args:
        values: a tensor of an ONNX graph, as are both results, the sorted values and their previous positions.
    """
    from onnxscript import opset18  # pyright: ignore[reportMissingImports]

    size = opset18.Shape(values, start=dim, end=dim + 1 if dim != -1 else None)
    return opset18.TopK(values, size, axis=dim, largest=int(descending), sorted=1)


@contextlib.contextmanager
def _silent(logger: str) -> Iterator[None]:
    before = logging.getLogger(logger).level
    logging.getLogger(logger).setLevel(logging.ERROR)
    try:
        yield
    finally:
        logging.getLogger(logger).setLevel(before)


def _run(program: ExportedProgram) -> Run:
    module = program.module()
    return lambda inputs: module(**inputs)


def _check_answers(run: Run, search: ExportedSearch, description: dict[str, Any]) -> None:
    """Check that a program gives the module's answers on batches of other sizes: tracers and compilers have bugs."""
    for sizes in ((4, 3, 5), (1, 6, 2, 9, 1), (1,)):
        inputs = _example(description, sizes, seed=1)
        with torch.no_grad():
            expected = search(**inputs)
        apart = (run(inputs) - expected).abs().max() / expected.abs().max().clamp(min=1e-6)
        if not bool(apart < CLOSE):
            raise RuntimeError(f"the exported program is {float(apart):.2g} away from the model on graphs of {sizes}")


def write_checked(out: Path, data: bytes, check: Callable[[Path], None]) -> None:
    """Write to another name, check and rename, so that an existing file stays intact if anything fails."""

    def read_back(path: Path) -> None:
        try:
            check(path)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(
                f"{out}: the new file cannot be read back ({reason}); the previous file is unchanged"
            ) from error

    with whole_file(out, read_back) as waiting:
        waiting.write_bytes(data)
