"""Training on a set that is larger than memory: the time of a step, compared with a set in memory.

The set is ZINC-FULL, several times over, as `maggnn data map` writes it. Steps on it are made by a process that may
hold less memory than the set takes, its pages of files included (a control group of Linux), and none of it is in memory
when it begins. Steps from memory are made on ZINC-FULL itself, without such a limit. The two take turns.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from maggnn.config import Config
from maggnn.data import registry
from maggnn.data.mapped import write_mapped
from maggnn.data.sources import data_root
from maggnn.errors import InputError
from maggnn_paper.ledger import LedgerRow

COPIES = 16
STEPS, WARM_UP, TURNS = 300, 10, 3
"""More steps than a group of blocks has batches (`maggnn.training.epochs`), so that reading a new group counts too."""

ROOM = 1.5
"""The limit of a process, beside pages of the set, in parts of what it holds of its own at the end: reading the set's
sizes, targets and splits takes more for a moment."""

RUNS = Path("runs")
"""Where the set lies meanwhile: on a disk, which /tmp need not be."""

GROUPS = Path("/sys/fs/cgroup/memory")
SETTINGS = Config().replaced(
    encoder={"conv": "gine", "num_layers": 4, "hidden": 64},
    agent={"num_tuples": 2, "tuple_order": 1, "num_moves": 0},
    training={"agent_steps": 0, "batch_size": 128},
    runtime={"device": "cpu", "threads": 1},
)


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row: milliseconds of a step on a mapped set.

    Args:
        limit: copies of ZINC-FULL, if not `COPIES`.
        tell: is given a line for each process that has made its steps.
    """
    copies = limit or COPIES
    RUNS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RUNS) as name:
        single, many = data_root() / "zinc_full.npz", Path(name) / "many.graphs"
        size = write_mapped([single] * copies, many)
        tell(f"{size['graphs']} graphs are mapped, {size['bytes'] / 1e6:.0f} MB")
        own = _child(many, None, tell)["anonymous_mb"]
        most = int(1e6 * ROOM * own) + size["bytes"] // 3
        with _bounded(most) as group:
            turns = [(_child(single, None, tell), _child(many, group, tell)) for _ in range(TURNS)]
    held = max(turn[1]["anonymous_mb"] for turn in turns)
    fits = min(1.0, (most - 1e6 * held) / size["bytes"])
    memory, mapped = (statistics.median(turn[place]["ms"] for turn in turns) for place in (0, 1))
    note = (
        f"a step of {SETTINGS.training.batch_size} graphs, {mapped / memory:.3f} of {memory:.1f} ms from memory; "
        f"{size['graphs']} graphs in {size['bytes'] / 1e6:.0f} MB, of which at most {100 * fits:.0f} % fit into the "
        f"memory that is left beside {held:.0f} MB of the process's own; one thread, median of {TURNS} turns"
    )
    row = LedgerRow(
        table="people", dataset="mapped-step", method="mag-gnn", metric="ms", mean=round(mapped, 2), config="defaults",
        note=note,
    )  # fmt: skip
    tell(f"{row.dataset:16} {row.mean or 0.0:8.1f} ms  {row.note}")
    return [row]


@contextmanager
def _bounded(most: int) -> Iterator[Path]:
    """A control group whose processes hold at most so many bytes of memory, pages of files included."""
    group = GROUPS / f"maggnn-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(most))
    except OSError as error:
        raise InputError(f"bench mapped bounds memory by a control group, which fails here ({error})") from error
    try:
        yield group
    finally:
        group.rmdir()


def _child(data: Path, group: Path | None, tell: Callable[[str], None]) -> dict[str, float]:
    """Steps in a process of its own; a set that is bounded is not in memory when it begins."""
    if group is not None:
        _forget(data)
    enter = "" if group is None else f"open({str(group / 'cgroup.procs')!r}, 'w').write('0'); "
    code = f"{enter}from maggnn_paper.bench.mapped import print_steps; print_steps({str(data)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        why = "out of memory" if done.returncode == -signal.SIGKILL else done.stderr.strip().splitlines()[-1:]
        raise RuntimeError(f"steps on {data.name} failed: {why}")
    found = json.loads(done.stdout.splitlines()[-1])
    limits = "" if group is None else ", with limited memory"
    tell(f"{data.name}{limits}: {found['ms']:.1f} ms a step, {found['anonymous_mb']:.0f} MB of the process's own")
    return found


def _forget(folder: Path) -> None:
    """Let the operating system drop what it holds of a folder's files."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def print_steps(name: str) -> None:
    """Make steps, and print the mean of their milliseconds and the process's own memory, as JSON."""
    import torch

    from maggnn.training.paradigms import Ord

    torch.set_num_threads(1)
    dataset = registry.load(name)
    config = SETTINGS.replaced(data={"name": name}, training={"predictor_steps": STEPS + WARM_UP})
    paradigm = Ord(config, dataset, dataset.split(0, 0), torch.device("cpu"))
    times: list[float] = []
    for step in range(STEPS + WARM_UP):
        began = time.perf_counter()
        paradigm.predictor_step(step)
        times.append(1e3 * (time.perf_counter() - began))
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps({"ms": statistics.mean(times[WARM_UP:]), "anonymous_mb": int(status["RssAnon"].split()[0]) / 1e3}))
