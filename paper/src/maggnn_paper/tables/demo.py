"""The wall time of `maggnn demo` as a ledger row, with what it scored."""

from __future__ import annotations

from pathlib import Path

from maggnn.apps.demo import SETS, TESTS, run_demo
from maggnn_paper.ledger import LedgerRow


def reproduce(folder: Path) -> list[LedgerRow]:
    """Run the demo; one row."""
    result = run_demo(folder / "demo")
    scores = "; ".join(
        f"{title}: " + ", ".join(f"{method} {value:.1f}" for method, value in methods.items())
        for title, methods in result["accuracy"].items()
    )
    return [
        LedgerRow(
            table="bench_train",
            dataset="demo",
            method="mag-gnn",
            metric="ms",
            mean=round(1000 * result["seconds"], 1),
            tests_per_run=TESTS,
            config=", ".join(f"configs/{name}.toml" for name in SETS.values()),
            note=f"training, tests and picture of both sets; {scores}",
        )
    ]
