"""The first steps of a new user: times and memory of the commands, and the accuracy of the first model.

    help      `maggnn --help`
    zinc2000  a table of 2,000 molecules: `maggnn fit`, then `maggnn predict` on the same table
    smiles    `maggnn predict` on a long table, once in one go and once killed on the way and started again

The commands run as they would for the user, in processes of their own; memory is what all of them hold together. The
molecules are ZINC's and ZINC-FULL's (`zinc12k_smiles.txt.xz`, `zinc_full_smiles.txt.xz` under the data root).
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import lzma
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maggnn.data import registry
from maggnn.data.sources import data_root
from maggnn.errors import InputError
from maggnn_paper.ledger import LedgerRow

NAMES = {
    "this model": "mag-gnn-blend",
    "its MAG-GNN networks": "part-networks",
    "its MAG-GNN networks with descriptors": "part-network+descriptors",
    "its random forest, Morgan fingerprints": "part-forest",
    "its Gaussian process, descriptors and fingerprints": "part-kernel",
    "its gradient boosting, RDKit descriptors": "part-boosting",
}
"""What `maggnn fit` calls its methods, and the ledger."""

ROWS_TO_FIT = 2_000
ROWS_TO_PREDICT = 1_000_000
KILLED_AT = (0.2, 0.55)
"""Shares of the time of an undisturbed run after which the other one is killed."""

LOOK_EVERY_S = 0.5
HELPS = 7


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """All rows of table `people`.

    Args:
        limit: rows of the long table, if not a million.
        tell: is given one line a measurement.
    """
    rows: list[LedgerRow] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for row in itertools.chain(_help(), _first_model(folder), _long_table(folder, limit or ROWS_TO_PREDICT)):
            tell(f"{row.dataset:16} {row.method:20} {row.metric:4} {row.mean:12.4g}  {row.note or ''}")
            rows.append(row)
    return rows


def _help() -> Iterator[LedgerRow]:
    times = [run_command(["--help"]).seconds for _ in range(HELPS)]
    yield _row("help", "mag-gnn", "ms", 1000 * statistics.median(times), f"median of {HELPS} calls")


def _first_model(folder: Path) -> Iterator[LedgerRow]:
    """Two commands, and what the card says."""
    table = zinc_table(folder / "zinc.csv", ROWS_TO_FIT)
    model, answers = folder / "model", folder / "answers.csv"
    fit = run_command(["fit", str(table), "--smiles", "smiles", "--target", "y", "-o", str(model), "--json"])
    predict = run_command(["predict", str(model), str(table), "-o", str(answers), "--json"])
    note = f"maggnn fit {fit.seconds:.1f} s, then maggnn predict {predict.seconds:.1f} s"
    total, peak = 1000 * (fit.seconds + predict.seconds), max(fit.peak_mb, predict.peak_mb)
    dataset = f"zinc{ROWS_TO_FIT}"
    yield _row(dataset, "mag-gnn", "ms", total, note, peak)
    for name, entry in fit.answer["test_scores"].items():
        note = "{} test rows, 95 % interval {:.3f} to {:.3f}".format(fit.answer["test"], *entry["interval"])
        yield _row(dataset, NAMES[name], fit.answer["metric"], entry["value"], note)


def _long_table(folder: Path, count: int) -> Iterator[LedgerRow]:
    """The same file comes of a run in one go and of one that is killed."""
    table, model = _long_smiles(folder / "long.smi", count), folder / "model"
    whole, killed = folder / "whole.csv", folder / "killed.csv"
    command = ["predict", str(model), str(table), "--json", "-o"]
    run = run_command([*command, str(whole)])
    for share in KILLED_AT:
        run_command([*command, str(killed)], kill_after_s=share * run.seconds)
    run_command([*command, str(killed)])
    if _digest(whole) != _digest(killed):
        raise RuntimeError("a run that was killed and started again wrote another file")
    note = (
        f"{count / run.seconds:.0f} molecules a second from SMILES; killed at {' and '.join(map(str, KILLED_AT))} of "
        f"that time and started again: the same file; memory {_spread(run.memory_mb)}"
    )
    yield _row(f"smiles{count}", "mag-gnn", "ms", 1000 * run.seconds, note, run.peak_mb)


def _spread(memory_mb: Sequence[float]) -> str:
    """Medians of the first and of the last quarter of a run: whether memory grows."""
    quarter = max(1, len(memory_mb) // 4)
    first, last = statistics.median(memory_mb[:quarter]), statistics.median(memory_mb[-quarter:])
    return f"{first:.0f} MB in the first quarter of the run, {last:.0f} MB in the last"


def _row(dataset: str, method: str, metric: str, value: float, note: str, peak: float | None = None) -> LedgerRow:
    return LedgerRow(
        table="people",
        dataset=dataset,
        method=method,
        metric=metric,
        mean=round(value, 4),
        peak_mb=None if peak is None else round(peak, 1),
        config="defaults",
        note=note,
    )


@dataclass(frozen=True)
class Run:
    """A command that has ended: what its --json said, and what it took.

    Attributes:
        memory_mb: memory in MB at each time.
    """

    answer: dict[str, Any]
    seconds: float
    memory_mb: Sequence[float]

    @property
    def peak_mb(self) -> float:
        """The most that was seen."""
        return max(self.memory_mb)


def run_command(arguments: Sequence[str], kill_after_s: float | None = None) -> Run:
    """Run a `maggnn` command and look at its memory while it runs.

    Args:
        kill_after_s: end it and its workers then, as a power cut would.
    """
    command = [sys.executable, "-c", "from maggnn.apps.cli import main; main()", *arguments]
    began, memory_mb = time.monotonic(), [0.0]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        while process.poll() is None:
            if kill_after_s is not None and time.monotonic() - began > kill_after_s:
                os.killpg(process.pid, signal.SIGKILL)
            memory_mb.append(_memory_mb(process.pid))
            _wait(process, LOOK_EVERY_S)
        seconds = time.monotonic() - began
        said = process.stdout.read() if process.stdout else ""
    if process.returncode and kill_after_s is None:
        raise InputError(f"maggnn {arguments[0]} ended with exit code {process.returncode}")
    last = said.strip().splitlines()[-1:]
    return Run(json.loads(last[0]) if last and last[0].startswith("{") else {}, seconds, memory_mb[1:] or memory_mb)


def _wait(process: subprocess.Popen[str], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _memory_mb(group: int) -> float:
    """What all processes of a group hold together; pages that several share count once (Linux)."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) != group:
                continue
            lines = (folder / "smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, ValueError):
            continue  # it has ended meanwhile
    return total / 1e3


def zinc_table(path: Path, count: int) -> Path:
    """Write ZINC's first molecules with their targets as a table, columns smiles and y."""
    graphs = registry.load("zinc").graphs
    assert graphs.y is not None
    values = graphs.y[:count].flatten().tolist()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y"])
        writer.writerows(zip(smiles_of("zinc12k_smiles.txt.xz"), values, strict=False))
    return path


def _long_smiles(path: Path, count: int) -> Path:
    """ZINC-FULL's molecules over and over."""
    molecules = list(smiles_of("zinc_full_smiles.txt.xz"))
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{smiles}\n" for smiles in itertools.islice(itertools.cycle(molecules), count))
    return path


def smiles_of(name: str) -> Iterator[str]:
    """The lines of a compressed list of SMILES under the data root."""
    path = data_root() / name
    if not path.is_file():
        raise InputError(f"{path}: no such file; ZINC's SMILES are needed there")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.strip()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
