"""`maggnn predict --ray` compared with plain `maggnn predict`: time and memory for the same table on the same machine.

Both run as commands in processes of their own, plain first. What starting costs (Python, torch, Ray) is taken out by a
second table of a fifth of the size: the rate is that of the difference. The answers have to be equal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from maggnn.errors import InputError, require
from maggnn_paper.bench.people import smiles_of
from maggnn_paper.bench.predict import default_model
from maggnn_paper.ledger import LedgerRow

MOLECULES = 1_000_000
LOOK_EVERY_S = 0.5


@dataclass
class Run:
    """A command that has ended.

    Attributes:
        seconds: that it took.
        memory_mb: the most memory of a single worker process at each time, in MB.
        driver_s: seconds of the processor that the command's own process took.
    """

    seconds: float
    memory_mb: list[float] = field(default_factory=list)
    driver_s: float = 0.0


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row for each of the two commands.

    Args:
        limit: molecules, if not a million.
        tell: is given one line for each command that has ended, and one for each row.
    """
    require("ray", "psutil")
    count = limit or MOLECULES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        default_model(folder).save(folder / "model")
        molecules = list(smiles_of("zinc_full_smiles.txt.xz"))
        sizes = (count // 5, count)
        for size in sizes:
            lines = islice(cycle(molecules), size)
            (folder / f"{size}.smi").write_text("".join(f"{smiles}\n" for smiles in lines))
        plain = [run_command(folder, [f"{size}.smi", "-o", f"{size}.parquet"], tell) for size in sizes]
        ray = [run_command(folder, [f"{size}.smi", "-o", f"{size}", "--ray"], tell) for size in sizes]
        _check_equal(folder, sizes)
    load = f"load average {os.getloadavg()[0]:.1f}, the command's own included"
    apart = sizes[1] - sizes[0]
    rates = [apart / seconds_apart(*runs) for runs in (plain, ray)]
    memory_mb = [value for value in ray[1].memory_mb if value] or [0.0]  # while there were workers
    quarter = max(1, len(memory_mb) // 4)
    first, last = max(memory_mb[:quarter]), max(memory_mb[-quarter:])
    note = (
        f"{rates[1]:.0f} molecules a second, {rates[1] / rates[0]:.2f} of plain predict; the same values; the largest "
        f"worker held {first:.0f} MB in the first quarter of the run and {last:.0f} MB in the last; {load}"
    )
    rows = [
        _row(f"screen{count}-plain", plain[1], f"{rates[0]:.0f} molecules a second"),
        _row(f"screen{count}-ray", ray[1], note),
    ]
    for row in rows:
        tell(f"{row.dataset:24} {row.mean or 0.0:10.0f} ms  {row.note}")
    return rows


def seconds_apart(small: Run, large: Run) -> float:
    """How much longer the larger table took; refused where other work on the machine hides it."""
    if large.seconds <= small.seconds:
        raise InputError(
            f"the smaller table took {small.seconds:.0f} s and the larger one {large.seconds:.0f} s: the machine is "
            "too busy for so few rows; give more of them, or measure when it is quiet"
        )
    return large.seconds - small.seconds


def run_command(folder: Path, arguments: Sequence[str], tell: Callable[[str], None]) -> Run:
    """Run `maggnn predict`, and measure the memory of its workers."""
    import psutil

    command = [sys.executable, "-c", "from maggnn.apps.cli import main; main()", "predict", "model", *arguments]
    began, run = time.monotonic(), Run(0.0, [0.0])
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    # What it says is read all the time: a full pipe would stop it.
    listener = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    listener.start()
    try:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            run.memory_mb.append(_largest_worker_mb(watched))
            run.driver_s = _processor_s(watched) or run.driver_s
            time.sleep(LOOK_EVERY_S)
        run.seconds = time.monotonic() - began
    finally:
        process.kill()
        process.wait()
        listener.join()
    if process.returncode:
        raise RuntimeError(f"maggnn predict {' '.join(arguments)}: exit code {process.returncode}: {said[-1:]}")
    tell(f"maggnn predict {' '.join(arguments)}: {run.seconds:.0f} s")
    return run


def _largest_worker_mb(command: Any) -> float:
    """The most memory that one of Ray's actors under a command holds for itself."""
    import psutil

    sizes = [0.0]
    try:
        for child in command.children(recursive=True):
            if "MapWorker" in " ".join(child.cmdline()):
                memory = child.memory_info()
                sizes.append((memory.rss - memory.shared) / 1e6)  # the object store is shared by all
    except psutil.Error:  # something has just ended
        pass
    return max(sizes)


def _processor_s(process: Any) -> float:
    """Seconds of the processor that a process has taken; 0 where it has just ended."""
    import psutil

    try:
        return sum(process.cpu_times()[:2])
    except psutil.Error:
        return 0.0


def _check_equal(folder: Path, sizes: Sequence[int]) -> None:
    from pyarrow import concat_tables, parquet

    for size in sizes:
        shards = [parquet.read_table(path) for path in sorted((folder / f"{size}" / "shards").iterdir())]
        found, expected = concat_tables(shards), parquet.read_table(folder / f"{size}.parquet")
        if not found.replace_schema_metadata(None).equals(expected.replace_schema_metadata(None)):
            raise RuntimeError(f"on Ray, {size} molecules have other answers")
        if json.loads((folder / f"{size}" / "summary.json").read_text())["rows"] != size:
            raise RuntimeError("counts do not add up")


def _row(dataset: str, run: Run, note: str) -> LedgerRow:
    return LedgerRow(
        table="people",
        dataset=dataset,
        method="mag-gnn",
        metric="ms",
        mean=round(1e3 * run.seconds),
        peak_mb=round(max(run.memory_mb), 1) or None,
        config="defaults",
        note=f"{note}; {os.cpu_count()} cores",
    )
