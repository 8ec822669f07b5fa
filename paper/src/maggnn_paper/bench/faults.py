"""`maggnn predict --ray` with injected faults: every row is predicted once, and the files equal an undisturbed run's.

The command runs on a simulated cluster of three nodes (`ray.cluster_utils`). At random moments of its work

    actor     one that reads or answers is ended for good by `ray.kill`, to which the command is made by a signal
    worker    the process of one is killed (SIGKILL), and Ray starts it again
    driver    the command itself is killed (SIGKILL)
    node      a node goes, with everything on it, and another one comes later
    disk      the disk of the answers is full until the command has ended

and whenever the command has ended without being finished, it is started again, as a user would.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from maggnn.errors import InputError, require
from maggnn_paper.bench.people import smiles_of
from maggnn_paper.bench.predict import default_model
from maggnn_paper.ledger import LedgerRow

ROWS, TABLES, FAULTS = 200_000, 50, 20
KINDS = ("actor", "worker", "driver", "node", "disk")
LAST = 0.85
"""The last fault comes before so much of the tables is answered, so that there is something left to break."""

DELAY_S = 1.0
"""A fault comes so long, at most, after the table that it waits for: in the middle of another one's rows."""

DISK_MB = 400
LONGEST_S = 1800.0
NOTICED_S = 60.0
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 200_000_000}
COMMAND = "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN); from {0} import killable; killable()"


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row: seconds with faults, beside those without.

    Args:
        limit: rows, if not `ROWS`; with fewer rows there are fewer faults, but each kind at least once.
        tell: is given one line a fault.
    """
    require("ray", "psutil")
    a_table = max(1, (limit or ROWS) // TABLES)
    count = a_table * TABLES
    number = max(len(KINDS), round(FAULTS * min(1.0, count / ROWS)))
    with tempfile.TemporaryDirectory() as name, _small_disk(Path(name) / "disk") as disk, _cluster() as cluster:
        folder = Path(name)
        default_model(folder).save(folder / "model")
        (folder / "tables").mkdir()
        molecules = cycle(smiles_of("zinc_full_smiles.txt.xz"))
        for table in range(TABLES):
            lines = "".join(f"{smiles}\n" for smiles in islice(molecules, a_table))
            (folder / "tables" / f"t{table:02d}.smi").write_text(lines)
        without_s = _Screening(folder, folder / "whole", cluster, tell).run([])
        tell(f"{count} rows without faults: {without_s:.0f} s")
        broken = _Screening(folder, disk / "broken", cluster, tell)
        # Every kind as often as any other, in random order.
        rng = random.Random(0)
        seconds = broken.run(rng.sample([KINDS[place % len(KINDS)] for place in range(number)], number))
        _check_same(folder, disk / "broken", count)
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(broken.faults.items()))
    note = (
        f"{number} faults ({kinds}) during {count} rows, {broken.starts} starts of the command: every row once, the "
        f"same bytes; {without_s:.0f} s without faults"
    )
    row = LedgerRow(
        table="people", dataset=f"screen{count}-faults", method="mag-gnn", metric="ms", mean=round(1e3 * seconds),
        runs=1, config="defaults", note=note,
    )  # fmt: skip
    tell(f"{row.dataset:24} {row.mean or 0.0:10.0f} ms  {row.note}")
    return [row]


@contextmanager
def _small_disk(place: Path) -> Iterator[Path]:
    """A file system of its own, which can be filled."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        raise InputError("bench faults fills a disk of its own, which only root may make (mount -t tmpfs)")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def _cluster() -> Iterator[Any]:
    """Three nodes, whose processes are children of this one."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(**NODE)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()


@dataclass
class _Screening:
    """The command, started as often as it takes, and what is done to it."""

    folder: Path
    out: Path
    cluster: Any
    tell: Callable[[str], None]
    faults: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def run(self, kinds: list[str]) -> float:
        """Seconds until the command has finished, during which all of `kinds` have happened in this order."""
        began, driver = time.monotonic(), self._started()
        waits = sorted(self.rng.sample(range(1, round(LAST * TABLES)), len(kinds)))
        todo = list(zip(waits, kinds, strict=True))
        try:
            while time.monotonic() - began < LONGEST_S:
                code = driver.poll()
                if code == 0 and not todo:
                    return time.monotonic() - began
                if code == 0:
                    raise RuntimeError(f"the run ended before {len(todo)} faults had happened: give more rows")
                if code is not None and not self.faults:
                    raise RuntimeError(f"the command ended with exit code {code} before anything was broken")
                if code is not None:
                    driver = self._started()
                elif todo and self._finished() >= todo[0][0]:
                    time.sleep(self.rng.uniform(0, DELAY_S))
                    if self._break(todo[0][1], driver):
                        kind = todo.pop(0)[1]
                        self.faults[kind] += 1
                        done = f"{self._finished()} of {TABLES} tables, {time.monotonic() - began:.0f} s"
                        self.tell(f"fault {self.faults.total():2}, {kind}: {done}, {self.starts} starts")
                time.sleep(0.1)
        finally:
            driver.kill()
            driver.wait()
        raise RuntimeError(f"not finished after {LONGEST_S:.0f} s, with {len(todo)} faults to come")

    def _started(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        command = [sys.executable, "-c", COMMAND.format(__name__), "predict", "model", "tables", "-o", str(self.out)]
        command += ["--ray", self.cluster.address, "--workers", "1"]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _finished(self) -> int:
        return len(list((self.out / "shards").glob("[!.]*.parquet")))

    def _break(self, kind: str, driver: subprocess.Popen[bytes]) -> bool:
        """Break something; False where there is nothing to break yet."""
        if kind == "driver":
            driver.kill()
            driver.wait()
            return True
        if kind == "disk":
            return self._fill_disk(driver)
        if kind == "node":
            self.cluster.remove_node(self.rng.choice(list(self.cluster.worker_nodes)), allow_graceful=False)
            time.sleep(self.rng.uniform(0, 3))
            self.cluster.add_node(**NODE)
            return True
        found = _worker_processes()
        if kind == "worker" and found:
            os.kill(self.rng.choice(found), signal.SIGKILL)
        return bool(found) and (kind == "worker" or self._kill_actor(driver))

    def _fill_disk(self, driver: subprocess.Popen[bytes]) -> bool:
        """Until the command, which meets it with its next shard, has ended."""
        ballast = self.out.parent / "ballast"
        try:
            with ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 20))
        except OSError:
            with suppress(subprocess.TimeoutExpired):
                driver.wait(NOTICED_S)
        ballast.unlink()
        return driver.poll() == 2

    def _kill_actor(self, driver: subprocess.Popen[bytes]) -> bool:
        killed = self.folder / KILLED
        killed.unlink(missing_ok=True)
        driver.send_signal(signal.SIGUSR1)
        end = time.monotonic() + NOTICED_S
        while not killed.exists() and driver.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        return killed.exists()


KILLED = "killed"
"""The file by which the command says that it has called `ray.kill`."""


def killable() -> None:
    """The command `maggnn`, in which a signal ends an actor by `ray.kill`: only who has started it has its handle."""
    signal.signal(signal.SIGUSR1, _kill_an_actor)
    from maggnn.apps.cli import main

    main()


def _kill_an_actor(*_: Any) -> None:
    import ray
    from ray.actor import ActorHandle

    found = [thing for thing in gc.get_objects() if isinstance(thing, ActorHandle) and "MapWorker" in repr(thing)]
    if found:
        ray.kill(random.choice(found))
        Path(KILLED).touch()


def _worker_processes() -> list[int]:
    """Of the actors that read and answer."""
    import psutil

    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if " ".join(process.cmdline()).startswith("ray::MapWorker"):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def _check_same(folder: Path, broken: Path, count: int) -> None:
    """Both folders have the same shards, and they hold every row of the tables once, in order."""
    from pyarrow import parquet

    whole = folder / "whole"
    names = [{path.name for path in (run / "shards").iterdir()} for run in (whole, broken)]
    if names[0] != names[1]:
        raise RuntimeError("there are other shards after faults")
    for name in sorted(names[0]):
        if (whole / "shards" / name).read_bytes() != (broken / "shards" / name).read_bytes():
            raise RuntimeError(f"{name} differs after faults")
    found = [row for name in sorted(names[0]) for row in _smiles(parquet.read_table(broken / "shards" / name))]
    given = [row for path in sorted((folder / "tables").iterdir()) for row in path.read_text().split()]
    counted = json.loads((broken / "summary.json").read_text())["rows"]
    if found != given or (counted, len(given)) != (count, count):
        raise RuntimeError(f"{len(found)} rows were written and {counted} counted, not the {count} of the tables")


def _smiles(table: Any) -> list[str]:
    return table.column(0).to_pylist()
