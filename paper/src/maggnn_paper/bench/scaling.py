"""Time and memory of a search and answer against graphs, nodes of a graph, m, k and t, with fitted exponents.

An exponent is the slope of log time over log size, by least squares over the sizes where work, and not the cost of
launching it, is what is measured (the largest ones).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.engine import Engine
from maggnn_paper.bench.timing import peak_mb, side_by_side
from maggnn_paper.bench.workloads import Workload
from maggnn_paper.datasets.regular_graphs import random_regular
from maggnn_paper.ledger import LedgerRow

DEGREE = 4
"""Of the random regular graphs that are measured."""

DISTINCT_NODES = 10_000
"""Nodes of the graphs of a set that differ: drawing more takes long, and answers for repeated graphs cost the same."""

FITTED = 4
"""How many of the largest sizes an exponent is fitted to."""


@dataclass(frozen=True)
class Axis:
    """One size that grows while the others stay."""

    name: str
    values: Sequence[int]
    graphs: int = 256
    nodes: int = 25
    num_tuples: int = 2
    tuple_order: int = 3
    num_moves: int = 2

    def at(self, value: int) -> dict[str, int]:
        """All sizes with this axis at `value`."""
        names = ("graphs", "nodes", "num_tuples", "tuple_order", "num_moves")
        return {**{name: getattr(self, name) for name in names}, self.name: value}


# Fewer graphs than these make too few chunks to keep all cores busy, and time grows more slowly than they do: from 128
# to 1,024 graphs the exponent on two cores was .74 (a row of the ledger).
CPU_AXES = (
    Axis("graphs", (256, 512, 1024, 2048, 4096)),
    Axis("nodes", (100, 300, 1000, 3000, 10_000), graphs=4),
    Axis("num_tuples", (1, 2, 4, 8, 16)),
    Axis("tuple_order", (1, 2, 3, 4, 6)),
    Axis("num_moves", (1, 2, 4, 8, 16)),
)
GPU_AXES = (
    Axis("graphs", (2_000, 4_000, 8_000, 16_000, 32_000)),
    Axis("nodes", (100, 300, 1000, 3000, 10_000), graphs=100),
    Axis("num_tuples", (1, 2, 4, 8, 16), graphs=4_000),
    Axis("tuple_order", (1, 2, 3, 4, 6), graphs=4_000),
    Axis("num_moves", (1, 2, 4, 8, 16), graphs=4_000),
)


def bench(
    device: torch.device = torch.device("cpu"),  # noqa: B008
    repeats: int = 9,
    memory_mb: float = 1000.0,
    axes: Sequence[Axis] | None = None,
    tell: Callable[[str], None] = print,
) -> list[LedgerRow]:
    """One row a size, and one exponent a axis."""
    rows = []
    for axis in axes or (GPU_AXES if device.type == "cuda" else CPU_AXES):
        added = _axis_rows(axis, device, repeats, memory_mb)
        for row in added:
            tell(f"{row.dataset:24} {row.metric:16} {row.mean:10.3f}  {row.peak_mb or 0:8.1f} MB")
        rows += added
    return rows


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Slope of log time over log size."""
    x = torch.tensor(sizes, dtype=torch.float64).log()
    y = torch.tensor(times, dtype=torch.float64).log()
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / (x * x).sum())


def regular_graphs(count: int, num_nodes: int, seed: int = 0) -> PackedGraphs:
    """Random graphs in which every node has `DEGREE` neighbours; a large set holds the same ones several times."""
    distinct = min(count, max(1, DISTINCT_NODES // num_nodes))
    return random_regular(num_nodes, DEGREE, distinct, seed).select(torch.arange(count) % distinct)


def _axis_rows(axis: Axis, device: torch.device, repeats: int, memory_mb: float) -> list[LedgerRow]:
    """All sizes are measured in turns: a slow moment of the machine then bends no line."""
    searches = {value: _search(axis.at(value), device, memory_mb) for value in axis.values}
    peaks = {value: peak_mb(search, device) for value, search in searches.items()}
    functions = {str(value): search for value, search in searches.items()}
    times = side_by_side(functions, device, repeats, warm_up=4 if device.type == "cuda" else 1)
    rows = [
        _row(axis, f"regular-{axis.name}-{value}", "ms", times[str(value)], axis.at(value), peaks[value])
        for value in axis.values
    ]
    return [*rows, _exponent_row(axis, list(times.values()))]


def _search(sizes: dict[str, int], device: torch.device, memory_mb: float) -> Callable[[], object]:
    """A search and answer for graphs of these sizes."""
    packed = regular_graphs(sizes["graphs"], sizes["nodes"])
    workload = Workload("regular", packed.to(device), "gin", 1, "graph")
    model = workload.model(sizes["num_tuples"], sizes["tuple_order"], sizes["num_moves"])
    engine = Engine(model, workload.graphs.device, memory_mb)
    return partial(engine.predict, engine.precomputed(workload.graphs), torch.arange(sizes["graphs"]))


def _exponent_row(axis: Axis, times: Sequence[float]) -> LedgerRow:
    # t moves are t + 1 passes of an encoder
    values = [value + 1 if axis.name == "num_moves" else value for value in axis.values][-FITTED:]
    slope = exponent(values, times[-FITTED:])
    short = {"num_tuples": "m", "tuple_order": "k", "num_moves": "t"}.get(axis.name, axis.name)
    return _row(axis, "regular", f"exponent_{short}", slope, axis.at(axis.values[-1]), None)


def _row(axis: Axis, dataset: str, metric: str, value: float, sizes: dict[str, int], peak: float | None) -> LedgerRow:
    fixed = ", ".join(f"{name} {size}" for name, size in sizes.items() if name != axis.name)
    note = f"{DEGREE}-regular graphs; {fixed}"
    if metric.startswith("exponent"):
        note = f"{axis.name} from {axis.values[-FITTED:][0]} to {axis.values[-1]}; {note}"
    return LedgerRow(
        table="bench_scaling",
        dataset=dataset,
        method="mag-gnn",
        metric=metric,
        mean=round(value, 4),
        m=sizes["num_tuples"],
        k=sizes["tuple_order"],
        t=sizes["num_moves"],
        keep="last",
        peak_mb=None if peak is None else round(peak, 1),
        config="gin, 5 layers, d = 100",
        note=note,
    )
