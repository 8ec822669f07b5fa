"""The demo: the wall time and the scores of `maggnn demo`, and whether its two tasks are learned from every seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from maggnn.apps.demo import SETS, TESTS, run_demo
from maggnn_paper.jobs.job import Job, run_jobs
from maggnn_paper.jobs.summary import least_of_runs, score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import recipe

TIME = "time"
"""The row of the demo as a whole. It is true on a machine that does nothing else."""


def reproduce(folder: Path, runs: int = 10, datasets: Sequence[str] = (TIME, *SETS.values())) -> list[LedgerRow]:
    """The row `TIME`, and of each set the accuracy over `runs` seeds after 0, 1, ..., t moves.

    One training after another and with all threads, as in `maggnn demo`.
    """
    seeded = [row for name in datasets if name != TIME for row in seed_rows(name, runs, folder)]
    return [*([time_row(folder)] if TIME in datasets else []), *seeded]


def time_row(folder: Path) -> LedgerRow:
    """The demo once, with its wall time."""
    result = run_demo(folder / "demo")
    scores = "; ".join(
        f"{title}: " + ", ".join(f"{method} {value:.1f}" for method, value in methods.items())
        for title, methods in result["accuracy"].items()
    )
    return LedgerRow(
        table="bench_train",
        dataset="demo",
        method="mag-gnn",
        metric="ms",
        mean=round(1000 * result["seconds"], 1),
        tests_per_run=TESTS,
        config=", ".join(f"configs/{name}.toml" for name in SETS.values()),
        note=f"training, tests and picture of both sets; {scores}",
    )


def jobs(name: str, runs: int) -> list[Job]:
    """One training for each seed, with the settings and the tests of the demo."""
    config = recipe(name)
    seeded = [config.replaced(runtime={"seed": run}) for run in range(runs)]
    return [Job(name, one, max_moves=config.agent.num_moves, tests=TESTS) for one in seeded]


def seed_rows(name: str, runs: int, folder: Path) -> list[LedgerRow]:
    """Random and learned moves with the same predictors; the note has the worst seed. Time has a row of its own."""
    results = run_jobs(jobs(name, runs), folder, workers=1)
    rows = [
        score_row("demo", method, results, moves, note=least_of_runs(results, method, moves))
        for moves in range(results[0]["config"]["agent"]["num_moves"] + 1)
        for method in ("random-moves", "mag-gnn")
    ]
    return [replace(row, train_s=None, infer_ms=None) for row in rows]
