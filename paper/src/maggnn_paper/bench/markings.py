"""What the markings cost: the search and the answer for the same graphs, timed in turns, with each of them.

The networks are those of the time table, with k = 2 as for the molecules of the other tables. Distances between
nodes are stored once for the set before the clock starts, as they are for training and for a screen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

import torch

from maggnn.config.sections import MarkingName
from maggnn.inference.engine import Engine
from maggnn_paper.bench.inference import time_row
from maggnn_paper.bench.timing import peak_mb, side_by_side
from maggnn_paper.bench.workloads import load_workload
from maggnn_paper.ledger import LedgerRow

DATASET, TUPLE_ORDER = "zinc_full", 2
MARKINGS: tuple[MarkingName, ...] = get_args(MarkingName)


def bench(
    device: torch.device = torch.device("cpu"),  # noqa: B008
    limit: int | None = None,
    memory_mb: float = 1000.0,
    repeats: int = 9,
    tell: Callable[[str], None] = print,
) -> list[LedgerRow]:
    """Measure the time of each marking.

    Args:
        limit: take only that many graphs of the test set.
        memory_mb: the engine's budget.
        tell: is called with each line of progress.

    Returns:
        One row for each marking; the note has its time divided by that of binary marks.
    """
    workload = load_workload(DATASET, device, limit)
    models = {marking: workload.model(tuple_order=TUPLE_ORDER, marking=marking) for marking in MARKINGS}
    functions = {}
    for marking, model in models.items():
        engine = Engine(model, device, memory_mb)
        functions[marking] = partial(engine.predict, engine.precomputed(workload.graphs))
    peaks = {marking: peak_mb(function, device) for marking, function in functions.items()}
    times = side_by_side(functions, device, repeats)
    rows = []
    for marking, model in models.items():
        ratio = f"{times[marking] / times[MARKINGS[0]]:.2f} x {MARKINGS[0]}, timed in turns"
        note, peak = f"{len(workload.graphs)} graphs, float32; {ratio}", peaks[marking]
        row = time_row("bench_inference", workload, "mag-gnn", times[marking], model, note, peak=peak, marking=marking)
        tell(f"{row.dataset:12} {marking:10} {row.mean:10.3f} ms  {note}")
        rows.append(row)
    return rows
