"""`maggnn predict --ray` with 1, 2 and 4 workers: how the rate grows with them, and what a shard costs the driver.

As in `screen`, what starting costs is taken out by a second table of a fifth of the size. `docs/scale.md` compares the
rates with those of its model (`maggnn_paper.figures.screening`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

from maggnn.apps.fit.predicting import ROWS
from maggnn.apps.scale.shards import CHUNKS
from maggnn.errors import require
from maggnn_paper.bench.people import smiles_of
from maggnn_paper.bench.predict import default_model
from maggnn_paper.bench.screen import run_command
from maggnn_paper.ledger import LedgerRow

MOLECULES = 80_000
WORKERS = (1, 2, 4)
TABLES = 8
"""Files of the larger table, so that all workers have a shard while the last ones are answered."""


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row for each number of workers, and one for what a shard costs the driver.

    Args:
        limit: molecules, if not `MOLECULES`.
        tell: is given one line a measurement.
    """
    require("ray", "psutil")
    count = limit or MOLECULES
    sizes = (count // 5 // TABLES, count // TABLES)
    rows: list[LedgerRow] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        default_model(folder).save(folder / "model")
        for size in sizes:
            molecules = cycle(smiles_of("zinc_full_smiles.txt.xz"))
            (folder / f"{size}").mkdir()
            for number in range(TABLES):
                lines = "".join(f"{smiles}\n" for smiles in islice(molecules, size))
                (folder / f"{size}" / f"t{number}.smi").write_text(lines)
        for workers in WORKERS:
            options = ["--ray", "--workers", str(workers)]
            runs = [run_command(folder, [f"{size}", "-o", f"{size}-{workers}", *options]) for size in sizes]
            apart = TABLES * (sizes[1] - sizes[0])
            cost = 1e6 * (runs[1].seconds - runs[0].seconds) / apart
            note = f"for 1,000 molecules; {1e3 / cost * 1e3:.0f} a second, {count} molecules, --workers {workers}"
            rows.append(_row(f"screen-workers{workers}", cost, note))
            if workers == WORKERS[0]:
                driver = 1e3 * (runs[1].driver_s - runs[0].driver_s) / max(1, apart / (CHUNKS * ROWS))
                note = f"of the driver's processor for a shard of {CHUNKS * ROWS} rows, {TABLES} shards"
                rows.append(_row("screen-driver", driver, note))
    for row in rows:
        tell(f"{row.dataset:24} {row.mean or 0.0:10.1f} ms  {row.note}")
    return rows


def _row(dataset: str, value: float, note: str) -> LedgerRow:
    return LedgerRow(
        table="people", dataset=dataset, method="mag-gnn", metric="ms", mean=round(value, 2), config="defaults",
        note=note,
    )  # fmt: skip
