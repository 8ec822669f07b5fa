"""The paper's time table: a test set, packed on the device, to predictions; all methods in one run, medians, warm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from maggnn.config import Precision
from maggnn.graphs.conversions import to_pyg
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.engine import Engine
from maggnn.model.mag_gnn import MagGNN
from maggnn.training.run import count_parameters
from maggnn_paper.bench.baselines import BaselineTime, time_baseline
from maggnn_paper.bench.floor import feature_bytes, products
from maggnn_paper.bench.pyg_baseline import time_pyg_i2gnn
from maggnn_paper.bench.pyg_models import PygGNN
from maggnn_paper.bench.timing import peak_mb, side_by_side
from maggnn_paper.bench.workloads import Workload, load_workload
from maggnn_paper.ledger import LedgerRow

DATASETS = ("zinc_full", "cycle", "qm9")
LOADER_BATCHES = (512, 5000)
"""Batch sizes PyG's loader is tried with; the faster one counts."""


PYG_NOTES = {"loader": "loader in the same process", "resident": "collated and on the device before"}


def bench(
    datasets: Sequence[str] = DATASETS,
    device: torch.device = torch.device("cpu"),  # noqa: B008
    limit: int | None = None,
    memory_mb: float = 1000.0,
    repeats: int = 9,
    tell: Callable[[str], None] = print,
    methods: Sequence[str] = (),
) -> list[LedgerRow]:
    """Rows of every set: PyG with its loader, PyG resident, our MPNN, MAG-GNN in each precision, and the floor.

    Args:
        methods: baselines to be timed as well.
        limit: take only that many graphs of each test set.
        memory_mb: the engine's budget; the paper allows 1 GB.
        tell: is given one line a measurement.
    """
    rows = []
    for name in datasets:
        workload = load_workload(name, device, limit)
        for row in _all_rows(workload, memory_mb, repeats, methods):
            tell(f"{row.dataset:18} {row.method:18} {row.mean:10.3f} ms  {row.note or ''}")
            rows.append(row)
    return rows


def _all_rows(workload: Workload, memory_mb: float, repeats: int, methods: Sequence[str]) -> Iterator[LedgerRow]:
    """MAG-GNN's rows, then the baselines', each with how many times MAG-GNN's time it takes."""
    own, mag_gnn = _measure(workload, memory_mb, repeats)
    yield from own
    count = len(workload.graphs)
    for method in methods:
        time = time_baseline(workload, method, memory_mb, mag_gnn, repeats)
        more = f"{time.from_graphs_ms:.1f} ms with gathering the chunks and making what they determine"
        yield _baseline_row(workload, method, time, f"{count} graphs in chunks of {time.chunk}", more)
    if "i2gnn" in methods:
        for how, time in time_pyg_i2gnn(workload, memory_mb, mag_gnn).items():
            more = f"PyG's layers; {PYG_NOTES[how]}, copies made before"
            yield _baseline_row(workload, f"pyg-i2gnn+{how}", time, f"{count} graphs in batches of {time.chunk}", more)


def _baseline_row(workload: Workload, method: str, time: BaselineTime, what: str, more: str) -> LedgerRow:
    note = f"{what}, float32; {time.ms / time.mag_gnn_ms:.1f} x mag-gnn, timed in turns; {more}"
    return time_row("bench_inference", workload, method, time.ms, None, note, peak=time.peak_mb, params=time.params)


def _measure(workload: Workload, memory_mb: float, repeats: int) -> tuple[list[LedgerRow], Callable[[], object]]:
    """Rows of all that is not a baseline, and MAG-GNN's own answer for the whole set, to time baselines beside it."""
    device, count = workload.graphs.device, len(workload.graphs)
    ids = torch.arange(count)
    agent, plain = workload.model(), workload.model(num_tuples=1, tuple_order=0, num_moves=0)
    runs = [Run("mpnn", plain, Engine(plain, device, memory_mb))]
    for precision in PRECISIONS if device.type == "cuda" else PRECISIONS[:1]:
        runs.append(Run(f"mag-gnn {precision}", agent, Engine(agent, device, memory_mb, precision)))
    functions, pyg_notes, pyg_params = _pyg_functions(workload)
    functions |= {run.name: partial(run.engine.predict, run.engine.precomputed(workload.graphs)) for run in runs}
    functions["floor"] = products(workload, agent)
    peaks = {run.name: peak_mb(functions[run.name], device) for run in runs}  # before anything is recorded
    times = side_by_side(functions, device, repeats)
    rows = [
        time_row("bench_inference", workload, method, times[method], None, f"{count} graphs; {note}", params=pyg_params)
        for method, note in pyg_notes.items()
    ]
    ratios = ", ".join(f"{times[f'mag-gnn {PRECISIONS[0]}'] / times[name]:.2f} x {name}" for name in COMPARED)
    for run in runs:
        precision, chunks = run.engine.precision, len(list(run.engine.chunks(workload.graphs, ids)))
        error = relative_error(run.engine, run.model, workload.graphs, ids[:512])
        note = f"{count} graphs in {chunks} chunk(s), {precision}, error {error:.1e} relative to the largest output"
        note += f"; {ratios} (its matrix products)" if run.name == f"mag-gnn {PRECISIONS[0]}" else ""
        suffix = "" if precision == PRECISIONS[0] else f"-{precision}"
        method, peak = run.name.split()[0], peaks[run.name]
        rows.append(time_row("bench_inference", workload, method, times[run.name], run.model, note, suffix, peak))
    moved = feature_bytes(workload, agent) / 1e9
    note = f"{count} graphs; matrix products of search and prediction, float32; {moved:.2f} GB of features to move"
    rows.append(time_row("bench_floor", workload, "floor", times["floor"], agent, note))
    return rows, functions[f"mag-gnn {PRECISIONS[0]}"]


@dataclass(frozen=True)
class Run:
    """An engine to time."""

    name: str
    model: MagGNN
    engine: Engine


PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bfloat16")
COMPARED = ("pyg-gin+loader", "pyg-gin+resident", "mpnn", "floor")
"""What MAG-GNN's time is divided by."""


@torch.no_grad()
def relative_error(engine: Engine, model: MagGNN, packed: PackedGraphs, ids: torch.Tensor) -> float:
    """Largest difference between the engine's model and `model` in float64 on equal tuples, over the largest answer."""
    from maggnn.model.tuples import sample_tuples

    graphs = engine.precomputed(packed)[ids]
    agent = engine.model.agent
    tuples = sample_tuples(graphs, agent.num_tuples, agent.tuple_order, engine.generator)
    exact = model.double().to(graphs.device).predictor(graphs, tuples)
    model.float()
    answers = engine.answer_for(graphs, tuples)
    return float((answers - exact).abs().max() / exact.abs().max())


def _pyg_functions(workload: Workload) -> tuple[dict[str, Callable[[], object]], dict[str, str], int]:
    """PyG with its loader and resident: functions to time, notes, and the number of parameters."""
    from torch_geometric.data import Batch
    from torch_geometric.loader import DataLoader

    device = workload.graphs.device
    data: list[Any] = to_pyg(workload.graphs.to("cpu"))
    model = PygGNN(workload).to(device).eval()
    resident: Any = Batch.from_data_list(data)
    resident = resident.to(device)

    @torch.no_grad()
    def one_pass() -> None:
        model(resident)

    @torch.no_grad()
    def with_loader(batch_size: int) -> None:
        for batch in DataLoader(data, batch_size=batch_size):
            model(batch.to(device))

    trial = {str(size): partial(with_loader, size) for size in LOADER_BATCHES}
    times = side_by_side(trial, device, repeats=3, warm_up=1)
    best = int(min(times, key=lambda size: times[size]))
    functions: dict[str, Callable[[], object]] = {
        "pyg-gin+loader": partial(with_loader, best),
        "pyg-gin+resident": one_pass,
    }
    notes = {
        "pyg-gin+loader": f"batches of {best}, {PYG_NOTES['loader']}",
        "pyg-gin+resident": f"one batch, {PYG_NOTES['resident']}",
    }
    return functions, notes, count_parameters(model)


def time_row(
    table: str,
    workload: Workload,
    method: str,
    time: float,
    model: MagGNN | None,
    note: str,
    suffix: str = "",
    peak: float | None = None,
    params: int | None = None,
    marking: str | None = None,
) -> LedgerRow:
    """The row of one time: the median of a method on a test set, and the model's m, k and t."""
    if model is not None:
        params = count_parameters(model)
    agent = None if model is None or not model.agent.tuple_order else model.agent
    return LedgerRow(
        table=table,
        dataset=workload.name + suffix,
        method=method,
        metric="ms",
        mean=round(time, 4),
        m=None if agent is None else agent.num_tuples,
        k=None if agent is None else agent.tuple_order,
        t=None if agent is None else agent.num_moves,
        keep=None if agent is None else agent.keep,
        marking=marking,
        params=params,
        infer_ms=round(time, 4),
        peak_mb=None if peak is None else round(peak, 1),
        config="5 layers, d = 100",
        note=note,
    )
