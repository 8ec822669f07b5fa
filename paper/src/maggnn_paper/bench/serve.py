"""The speed of `maggnn serve` on this machine: molecules a second in batches, and the latency of single requests.

The server is a process of its own; the clients are threads of this one, so they share the machine's cores with it.
Batches are streams of Arrow that two clients send one after the other. Single questions leave at fixed times, whether
or not earlier ones were answered, so that a server which falls behind is seen to. Time does not depend on the weights,
so the model has the default settings and has learned for one step.
"""

from __future__ import annotations

import io
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from maggnn.errors import require
from maggnn_paper.bench.people import smiles_of
from maggnn_paper.bench.predict import default_model
from maggnn_paper.bench.rows import milliseconds_row
from maggnn_paper.ledger import LedgerRow

MOLECULES = 16_384
A_BATCH = 1024
CLIENTS = 2
A_SECOND = 50
SECONDS = 20


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row for batches and one for single questions.

    Args:
        limit: molecules that are sent in batches, if not `MOLECULES`.
        tell: is given one line a measurement.
    """
    require("prometheus_client")
    count = limit or MOLECULES
    smiles = list(islice(smiles_of("zinc_full_smiles.txt.xz"), count))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        default_model(folder).save(folder / "model")
        with _serving(folder / "model") as address:
            seconds = _batches(address, smiles)
            times = _singles(address, smiles)
    load = f"load average {os.getloadavg()[0]:.1f}, the server's own included"
    p50, p99 = statistics.median(times), sorted(times)[-(-len(times) * 99 // 100) - 1]
    batches = f"for 1,000 molecules; {count / seconds:.0f} a second in streams of {A_BATCH}, {CLIENTS} clients; {load}"
    single = (
        f"p99 of {len(times)} questions of one molecule, {A_SECOND} a second; p50 {1e3 * p50:.1f} ms; none lost; {load}"
    )
    rows = [
        milliseconds_row("serve-batches", 1e6 * seconds / count, batches),
        milliseconds_row("serve-single", 1e3 * p99, single),
    ]
    for row in rows:
        tell(f"{row.dataset:16} {row.mean or 0.0:8.1f} ms  {row.note}")
    return rows


@contextmanager
def _serving(model: Path) -> Iterator[str]:
    """The address of a server of its own process."""
    command = [sys.executable, "-c", "from maggnn.apps.cli import main; main()", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[0]
        finally:
            process.terminate()


def _batches(address: str, smiles: Sequence[str]) -> float:
    """Seconds until all molecules are answered; before, one stream of each client warms the server up."""
    bodies = [_stream(smiles[begin : begin + A_BATCH]) for begin in range(0, len(smiles), A_BATCH)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda body: _asked(address, body), bodies[:CLIENTS]))
        began = time.monotonic()
        list(clients.map(lambda body: _asked(address, body), bodies))
        return time.monotonic() - began


def _singles(address: str, smiles: Sequence[str]) -> list[float]:
    """How long each question took, from the time at which it was to leave."""
    import httpx

    times: list[float] = []
    with httpx.Client(timeout=60) as session, ThreadPoolExecutor(32) as clients:
        ready = threading.Event()

        def ask(number: int) -> None:
            ready.wait()
            due = began + number / A_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
            session.post(f"{address}predict", json={"smiles": [smiles[number % len(smiles)]]}).raise_for_status()
            times.append(time.monotonic() - due)

        tasks = [clients.submit(ask, number) for number in range(A_SECOND * SECONDS)]
        began = time.monotonic() + 0.5
        ready.set()
        for task in tasks:
            task.result()
    return times


def _stream(smiles: Sequence[str]) -> bytes:
    import pyarrow

    table, sink = pyarrow.table({"smiles": list(smiles)}), io.BytesIO()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _asked(address: str, body: bytes) -> None:
    import httpx

    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    httpx.post(f"{address}predict", content=body, headers=headers, timeout=300).raise_for_status()
