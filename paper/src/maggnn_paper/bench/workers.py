"""`maggnn predict --ray` with 1, 2 and 4 workers: how the rate grows with them, and what a shard costs the driver.

As in `screen`, what starting costs is taken out by a second table of a fifth of the size. What a shard costs the
driver comes from the same rows in more files, each of which is a shard. `docs/scale.md` compares the rates with those
of its model (`maggnn_paper.figures.screening`). Ray is told of four CPUs, since it would not start more workers than
there are, whatever the machine has.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

from maggnn.errors import require
from maggnn_paper.bench.people import smiles_of
from maggnn_paper.bench.predict import default_model
from maggnn_paper.bench.rows import milliseconds_row
from maggnn_paper.bench.screen import Run, run_command, seconds_apart
from maggnn_paper.ledger import LedgerRow

MOLECULES = 80_000
WORKERS = (1, 2, 4)
TABLES, MANY_TABLES = 8, 64
"""Files of a table: several, so that all workers have a shard while the last ones are answered."""

STORE_BYTES = 2**30


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row for each number of workers, and one for what a shard costs the driver.

    Args:
        limit: molecules, if not `MOLECULES`.
        tell: is given one line for each command that has ended, and one for each row.
    """
    require("ray", "psutil")
    many = max(1, (limit or MOLECULES) // MANY_TABLES)
    large = many * MANY_TABLES // TABLES
    small = max(1, large // 5)
    count, rows = large * TABLES, list[LedgerRow]()
    with tempfile.TemporaryDirectory() as name, _ray() as address:
        folder = Path(name)
        default_model(folder).save(folder / "model")
        for table, files, size in (("small", TABLES, small), ("large", TABLES, large), ("many", MANY_TABLES, many)):
            _write_tables(folder / table, files, size)

        def run(table: str, workers: int) -> Run:
            options = ["--ray", address, "--workers", str(workers)]
            return run_command(folder, [table, "-o", f"{table}-{workers}", *options], tell)

        for workers in WORKERS:
            few, all_of_them = run("small", workers), run("large", workers)
            cost = 1e6 * seconds_apart(few, all_of_them) / (TABLES * (large - small))
            note = f"for 1,000 molecules; {1e6 / cost:.0f} a second, {count} molecules, --workers {workers}"
            rows.append(milliseconds_row(f"screen-workers{workers}", cost, f"{note}; {os.cpu_count()} cores"))
            if workers == WORKERS[0]:
                driver = 1e3 * (run("many", workers).driver_s - all_of_them.driver_s) / (MANY_TABLES - TABLES)
                note = f"of the driver's processor for a shard: {MANY_TABLES} beside {TABLES} shards of the same rows"
                rows.append(milliseconds_row("screen-driver", driver, note))
    for row in rows:
        tell(f"{row.dataset:24} {row.mean or 0.0:10.1f} ms  {row.note}")
    return rows


def _write_tables(folder: Path, files: int, rows: int) -> None:
    folder.mkdir()
    molecules = cycle(smiles_of("zinc_full_smiles.txt.xz"))
    for number in range(files):
        lines = "".join(f"{smiles}\n" for smiles in islice(molecules, rows))
        (folder / f"t{number:02d}.smi").write_text(lines)


@contextmanager
def _ray() -> Iterator[str]:
    """A Ray of one node that takes itself to have as many CPUs as the most workers; its address."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
    from ray.cluster_utils import Cluster

    node = {"num_cpus": max(WORKERS), "object_store_memory": STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        yield str(cluster.address)
    finally:
        cluster.shutdown()
