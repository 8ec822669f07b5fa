"""How fast a machine with one GPU predicts from SMILES, end to end, and for what share of the time the GPU waits.

`maggnn predict` reads a table of SMILES and writes one of answers, with a worker process for each core but one. The
rate is the difference between a long and a short table, so that start-up does not count. The time for which the GPU is
busy is that of its kernels and copies while a profiler watches runs on the short table and on a quarter of it.

The network and its agent are those of `maggnn fit --ensemble 1` for 1,000 molecules, but untrained: time does not
depend on the weights. The molecules are ZINC-FULL's, over and over. Only torch, numpy, safetensors, RDKit and typer
have to be installed:

    python -m maggnn_paper.bench.predict_gpu
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from maggnn.apps.fit.answers.blended import Blend
from maggnn.apps.fit.categories import seen_categories
from maggnn.apps.fit.classical.descriptors import describe
from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.fitted import FittedModel
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.own_table import read_own_table
from maggnn.apps.fit.predicting import ROWS, predict_table
from maggnn.apps.fit.uncertainty import COVERAGES, Spread
from maggnn.graphs.canonical_order import in_canonical_order
from maggnn.model.runtime import pick_device
from maggnn.training.paradigms import make_model
from maggnn_paper import ledger
from maggnn_paper.bench.people import smiles_of
from maggnn_paper.bench.rows import milliseconds_row
from maggnn_paper.ledger import LedgerRow

SHORT, LONG = 32 * ROWS, 512 * ROWS
ROWS_TO_FIT = 1_000
LOOK_EVERY_S = 0.1
MB = 1e6


@dataclass(frozen=True)
class Run:
    """A run of `maggnn predict`.

    Attributes:
        seconds: from beginning to end.
        own_seconds: processor time of the predicting process.
        memory_mb: memory of the predicting process at each time.
    """

    seconds: float
    own_seconds: float
    memory_mb: list[float]


def bench(device: torch.device, limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row: milliseconds for 1,000 molecules.

    Args:
        limit: molecules of the long table, if not `LONG`; the short one has a quarter of them.
        tell: is called with the row's line.
    """
    most = limit or LONG
    few = min(SHORT, most // 4)
    workers = max(1, (os.cpu_count() or 1) - 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        untrained_model(folder).save(folder / "model")
        busy = [_gpu_seconds(partial(_run, folder, count, workers, device), device) for count in (few // 4, few)]
        short, long = (_run(folder, count, workers, device) for count in (few, most))
    each = (long.seconds - short.seconds) / (most - few)
    own = (long.own_seconds - short.own_seconds) / (most - few)
    quarter = max(1, len(long.memory_mb) // 4)
    early, late = (
        statistics.median(part) for part in (long.memory_mb[quarter : 2 * quarter], long.memory_mb[-quarter:])
    )
    share = (busy[1] - busy[0]) / (few - few // 4) / each
    waits = f"the GPU waits for {1 - share:.3f} of the time; " if device.type == "cuda" else ""
    note = (
        f"{1 / each:,.0f} molecules a second from SMILES, {most} of them, {workers} workers; {waits}the predicting "
        f"process takes {1e6 * own:.1f} ms of the processor for 1,000, and holds {early:.0f} MB in the second quarter "
        f"of the time and {late:.0f} MB in the last; start-up {short.seconds - few * each:.1f} s"
    )
    tell(note)
    return [milliseconds_row(f"predict-{device.type}", 1e6 * each, note)]


def untrained_model(folder: Path) -> FittedModel:
    """What `maggnn fit --ensemble 1` makes of 1,000 molecules, with random weights and a spread of errors."""
    smiles = list(islice(smiles_of("zinc_full_smiles.txt.xz"), ROWS_TO_FIT))
    table = folder / "fit.csv"
    table.write_text("".join(["smiles,y\n", *(f"{text},{len(text)}\n" for text in smiles)]))
    own = read_own_table(table, "smiles", ["y"], "regression", "random", seed=0, workers=1)
    config, graphs = own_config(own.dataset, predictor_steps=1), in_canonical_order(own.dataset.graphs)
    nodes, edges = seen_categories(graphs, torch.arange(len(graphs)))
    spread = Spread((0.1, 0.1, 0.1), 1.0, tuple(COVERAGES.tolist()), len(graphs))
    facts = Facts("smiles", "regression", "mol", "smiles", ("y",), seen_nodes=nodes, seen_edges=edges)
    with warnings.catch_warnings(action="ignore"):  # the agent learned with more tuples
        model = make_model(config, replace(own.dataset, graphs=graphs))
    known = describe(own.table.canonical).bits
    return FittedModel(model, config, replace(facts, blend=Blend(spreads=(spread,))), known=known)


def _run(folder: Path, count: int, workers: int, device: torch.device) -> Run:
    table, out = folder / f"{count}.smi", folder / "out.csv"
    if not table.exists():
        molecules = cycle(list(smiles_of("zinc_full_smiles.txt.xz")))
        table.write_text("".join(f"{smiles}\n" for smiles in islice(molecules, count)))
    with _memory() as memory_mb:
        began, own = time.perf_counter(), time.process_time()
        predict_table(folder / "model", table, out, workers=workers, overwrite=True, device=device.type)
        return Run(time.perf_counter() - began, time.process_time() - own, memory_mb)


@contextmanager
def _memory() -> Iterator[list[float]]:
    """Yield a list to which the memory of this process, in MB, is added again and again."""
    found, ended = [_memory_mb()], threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_EVERY_S):
            found.append(_memory_mb())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def _memory_mb() -> float:
    """Return the memory of this process, where the system tells it (Linux)."""
    state = Path("/proc/self/statm")
    return int(state.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MB if state.exists() else float(np.nan)


def _gpu_seconds(run: Callable[[], object], device: torch.device) -> float:
    """Return for how many seconds the GPU computes or copies during a run; 0 without a GPU."""
    if device.type != "cuda":
        return 0.0
    with profile(activities=[ProfilerActivity.CUDA]) as watched:
        run()
    events = [event for event in watched.events() or () if event.device_type.name == "CUDA"]
    spans = sorted((event.time_range.start, event.time_range.end) for event in events)
    total, covered = 0.0, 0.0
    for start, end in spans:  # in microseconds; streams may overlap
        total += max(0.0, end - max(start, covered))
        covered = max(covered, end)
    return total / 1e6


if __name__ == "__main__":
    ledger.append(bench(pick_device("auto")))
