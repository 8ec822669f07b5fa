"""The paper's time table: a test set, packed on the device, to predictions; all methods in one run, medians, warm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from maggnn.bench.floor import feature_bytes, floor_ms
from maggnn.bench.timing import median_ms, peak_mb
from maggnn.bench.workloads import PygGNN, Workload, load_workload
from maggnn.config import Precision
from maggnn.conversions import to_pyg
from maggnn.engine import Engine
from maggnn.experiments.ledger import LedgerRow
from maggnn.model import MagGNN

DATASETS = ("zinc_full", "cycle", "qm9")
LOADER_BATCHES = (512, 5000)
"""Batch sizes PyG's loader is tried with; the faster one counts."""


def bench(
    datasets: Sequence[str] = DATASETS,
    device: torch.device = torch.device("cpu"),  # noqa: B008
    limit: int | None = None,
    memory_mb: float = 1000.0,
    repeats: int = 9,
    tell: Callable[[str], None] = print,
) -> list[LedgerRow]:
    """Rows of every set: PyG with its loader, PyG resident, our MPNN, MAG-GNN in each precision, and the floor.

    Args:
        limit: take only that many graphs of each test set.
        memory_mb: the engine's budget; the paper allows 1 GB.
        tell: is given one line a measurement.
    """
    rows = []
    for name in datasets:
        workload = load_workload(name, device, limit)
        for row in _measure(workload, memory_mb, repeats):
            tell(f"{row.dataset:18} {row.method:18} {row.mean:10.3f} ms  {row.note or ''}")
            rows.append(row)
    return rows


def _measure(workload: Workload, memory_mb: float, repeats: int) -> list[LedgerRow]:
    device, count = workload.graphs.device, len(workload.graphs)
    agent, plain = workload.model(), workload.model(num_tuples=1, tuple_order=0, num_moves=0)
    floor = floor_ms(workload, agent, repeats)
    rows = _pyg_rows(workload, repeats)
    rows.append(_engine_row(workload, plain, "mpnn", memory_mb, "float32", repeats))
    main = _engine_row(workload, agent, "mag-gnn", memory_mb, "float32", repeats)
    times = {row.method: row.mean for row in rows}
    ratios = ", ".join(f"{(main.mean or 0) / time:.2f} x {method}" for method, time in times.items() if time)
    note = f"{main.note}; {ratios}, {(main.mean or 0) / floor:.2f} x the floor of its matrix products"
    rows.append(_with_note(main, note))
    if device.type == "cuda":
        for precision in ("tf32", "bfloat16"):
            rows.append(_engine_row(workload, agent, "mag-gnn", memory_mb, precision, repeats))
    moved = feature_bytes(workload, agent) / 1e9
    note = f"{count} graphs; matrix products of the search and answer, float32; its features are {moved:.2f} GB to move"
    rows.append(_row("bench_floor", workload, "floor", floor, agent, note))
    return rows


def _engine_row(
    workload: Workload, model: MagGNN, method: str, memory_mb: float, precision: Precision, repeats: int
) -> LedgerRow:
    device, ids = workload.graphs.device, torch.arange(len(workload.graphs))
    engine = Engine(model, workload.graphs, memory_mb, precision)
    peak = peak_mb(lambda: engine.predict(ids), device)
    time = median_ms(lambda: engine.predict(ids), device, repeats)
    error = relative_error(engine, model, ids[:512])
    chunks = len(list(engine.chunks(ids)))
    note = f"{len(ids)} graphs in {chunks} chunk(s), {precision}, error {error:.1e} of the largest answer"
    suffix = "" if precision == "float32" else f"-{precision}"
    return _row("bench_inference", workload, method, time, model, note, suffix, peak)


@torch.no_grad()
def relative_error(engine: Engine, model: MagGNN, ids: torch.Tensor) -> float:
    """Largest difference between the engine's model and `model` in float64 on equal tuples, over the largest answer."""
    from maggnn.tuples import sample_tuples

    graphs = engine.packed[ids]
    agent = engine.model.agent
    tuples = sample_tuples(graphs, agent.num_tuples, agent.tuple_order, engine.generator)
    exact = model.double().to(graphs.device).predictor(graphs, tuples)
    model.float()
    answers = engine.answer_for(graphs, tuples)
    return float((answers - exact).abs().max() / exact.abs().max())


def _pyg_rows(workload: Workload, repeats: int) -> list[LedgerRow]:
    from torch_geometric.data import Batch
    from torch_geometric.loader import DataLoader

    device = workload.graphs.device
    data: list[Any] = to_pyg(workload.graphs.to("cpu"))
    model = PygGNN(workload).to(device).eval()
    params = sum(parameter.numel() for parameter in model.parameters())
    resident: Any = Batch.from_data_list(data)
    resident = resident.to(device)

    @torch.no_grad()
    def one_pass() -> None:
        model(resident)

    @torch.no_grad()
    def with_loader(batch_size: int) -> None:
        for batch in DataLoader(data, batch_size=batch_size):
            model(batch.to(device))

    times = {size: median_ms(lambda size=size: with_loader(size), device, 3, warm_up=1) for size in LOADER_BATCHES}
    best = min(times, key=lambda size: times[size])
    rows = []
    for method, time, note in (
        ("pyg-gin+loader", times[best], f"batches of {best}, loader in the same process"),
        ("pyg-gin+resident", median_ms(one_pass, device, repeats), "one batch, collated and on the device before"),
    ):
        row = _row("bench_inference", workload, method, time, None, f"{len(data)} graphs; {note}")
        rows.append(LedgerRow(**{**row.__dict__, "params": params}))
    return rows


def _row(
    table: str,
    workload: Workload,
    method: str,
    time: float,
    model: MagGNN | None,
    note: str,
    suffix: str = "",
    peak: float | None = None,
) -> LedgerRow:
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
        params=None if model is None else sum(parameter.numel() for parameter in model.parameters()),
        infer_ms=round(time, 4),
        peak_mb=None if peak is None else round(peak, 1),
        config="5 layers, d = 100",
        note=note,
    )


def _with_note(row: LedgerRow, note: str) -> LedgerRow:
    return LedgerRow(**{**row.__dict__, "note": note})
