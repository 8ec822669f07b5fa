"""`maggnn predict --ray` with injected faults: every row is predicted once, and the files equal an undisturbed run's.

The command runs on a simulated cluster of three nodes (`ray.cluster_utils`). One after the other, at random times,

    worker    a process that reads or answers is killed (SIGKILL); `ray.kill` needs a handle, which only the command has
    driver    the command itself is killed
    node      a node goes, with everything on it, and another one comes later
    disk      the disk of the answers is full for some seconds

and whenever the command has ended without being finished, it is started again, as a user would.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from maggnn.errors import InputError, require
from maggnn_paper.bench.people import smiles_of
from maggnn_paper.bench.predict import default_model
from maggnn_paper.ledger import LedgerRow

ROWS, TABLES, FAULTS = 200_000, 50, 20
KINDS = ("worker", "driver", "node", "disk")
LEAST_S, MOST_S = 1.0, 12.0
"""Between two faults."""

DISK_MB = 400
LONGEST_S = 1500.0
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 200_000_000}


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row: seconds with faults, beside those without.

    Args:
        limit: rows, if not `ROWS`.
        tell: is given one line a fault.
    """
    require("ray", "psutil")
    count = limit or ROWS
    with tempfile.TemporaryDirectory() as name, _small_disk(Path(name) / "disk") as disk, _cluster() as cluster:
        folder = Path(name)
        default_model(folder).save(folder / "model")
        (folder / "tables").mkdir()
        molecules = cycle(smiles_of("zinc_full_smiles.txt.xz"))
        for number in range(TABLES):
            lines = "".join(f"{smiles}\n" for smiles in islice(molecules, count // TABLES))
            (folder / "tables" / f"t{number:02d}.smi").write_text(lines)
        began = time.monotonic()
        whole = _Screening(folder, folder / "whole", cluster)
        if whole.started().wait(LONGEST_S):
            raise RuntimeError("the run without faults failed")
        without_s = time.monotonic() - began
        broken = _Screening(folder, disk / "broken", cluster)
        seconds = broken.run_with_faults(tell)
        _check_same(folder / "whole", disk / "broken", count // TABLES * TABLES)
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(broken.faults.items()))
    note = (
        f"{FAULTS} faults ({kinds}) during {count} rows, {broken.starts} starts of the command: every row once, the "
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
    """Three nodes; this process is connected too."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(**NODE)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.CRITICAL)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@dataclass
class _Screening:
    """The command, started as often as it takes, and what is done to it."""

    folder: Path
    out: Path
    cluster: Any
    faults: Counter[str] = field(default_factory=Counter)
    starts: int = 0

    def started(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        command = [sys.executable, "-c", "from maggnn.apps.cli import main; main()", "predict", "model", "tables"]
        command += ["-o", str(self.out), "--ray", self.cluster.address, "--workers", "1"]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run_with_faults(self, tell: Callable[[str], None]) -> float:
        """Seconds until the command has finished, during which everything has gone wrong."""
        rng, began = random.Random(0), time.monotonic()
        # Every kind as often as any other, in random order.
        waiting = rng.sample([KINDS[number % len(KINDS)] for number in range(FAULTS)], FAULTS)
        process, due = self.started(), time.monotonic() + rng.uniform(LEAST_S, MOST_S)
        while time.monotonic() - began < LONGEST_S:
            code = process.poll()
            if code is not None:
                if code == 0 and not waiting:
                    return time.monotonic() - began
                if code == 0:
                    raise RuntimeError(f"the run ended before {len(waiting)} faults had happened: give more rows")
                process = self.started()
            elif waiting and time.monotonic() > due and self._break(waiting[0], process, rng):
                self.faults[waiting.pop(0)] += 1
                tell(f"{sum(self.faults.values()):2} of {FAULTS}: {self.faults}")
                due = time.monotonic() + rng.uniform(LEAST_S, MOST_S)
            time.sleep(0.2)
        process.kill()
        raise RuntimeError(f"not finished after {LONGEST_S:.0f} s")

    def _break(self, kind: str, driver: subprocess.Popen[bytes], rng: random.Random) -> bool:
        """Break something; False where there is nothing to break yet."""
        if kind == "driver":
            driver.kill()
            driver.wait()
            return True
        if kind == "disk":
            return self._fill_disk(rng)
        if kind == "node":
            node = rng.choice(list(self.cluster.worker_nodes))
            self.cluster.remove_node(node, allow_graceful=False)
            time.sleep(rng.uniform(0, 3))
            self.cluster.add_node(**NODE)
            return True
        return _killed_worker(rng)

    def _fill_disk(self, rng: random.Random) -> bool:
        if not (self.out / "shards").is_dir():
            return False
        ballast = self.out.parent / "ballast"
        try:
            with ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 20))
        except OSError:
            time.sleep(rng.uniform(4, 12))
        ballast.unlink()
        return True


def _killed_worker(rng: random.Random) -> bool:
    import psutil

    own = psutil.Process().children(recursive=True)  # the nodes of the cluster are children of this process
    found = [process.pid for process in own if _title(process).startswith("ray::MapWorker")]
    if found:
        os.kill(rng.choice(found), signal.SIGKILL)
    return bool(found)


def _title(process: Any) -> str:
    import psutil

    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _check_same(whole: Path, broken: Path, count: int) -> None:
    """Both folders have the same shards, and they hold every row once."""
    from pyarrow import parquet

    for path in sorted((whole / "shards").iterdir()):
        if path.read_bytes() != (broken / "shards" / path.name).read_bytes():
            raise RuntimeError(f"{path.name} differs after faults")
    names = [{path.name for path in (folder / "shards").glob("*.parquet")} for folder in (whole, broken)]
    rows = sum(parquet.read_metadata(path).num_rows for path in (broken / "shards").glob("*.parquet"))
    summary = json.loads((broken / "summary.json").read_text())
    if names[0] != names[1] or rows != count or summary["rows"] != count:
        raise RuntimeError(f"{rows} rows were written and {summary['rows']} counted, not {count}")
