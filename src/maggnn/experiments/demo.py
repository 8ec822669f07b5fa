"""The demo: two embedded data sets, four methods, one picture, under three minutes on two cores."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from maggnn.experiments.figures.commands import draw
from maggnn.experiments.jobs import Job, run_job
from maggnn.experiments.ledger import LedgerRow
from maggnn.experiments.recipes import plain_gnn, recipe

SETS = {"super graphs (Theorem 2)": "demo_supergraph1", "Shrikhande / rook (3-WL)": "demo_shrikhande_rook"}
PICTURE = "demo_supergraph1"
TESTS = 100


def run_demo(folder: Path) -> dict[str, Any]:
    """Train, test and draw; accuracy in percent of each method on each set, the seconds and the picture's path."""
    began = time.monotonic()
    accuracy = {title: _accuracies(name, folder) for title, name in SETS.items()}
    picture = folder / "marks.png"
    draw("trajectory", folder / _job(PICTURE).name, picture, graph_ids=[0, 1], seed=3)
    return {"accuracy": accuracy, "seconds": time.monotonic() - began, "picture": str(picture)}


def reproduce(folder: Path) -> list[LedgerRow]:
    """The demo's wall time as a ledger row, with what it scored."""
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


def _job(name: str) -> Job:
    config = recipe(name)
    return Job(name, config, config.agent.num_moves, TESTS, keep_model=True)


def _accuracies(name: str, folder: Path) -> dict[str, float]:
    job = _job(name)
    print(f"training on {job.config.data.name}", file=sys.stderr)
    plain = run_job(Job(name, plain_gnn(job.config).replaced(training={"starts_per_graph": 1}), 0, 1))
    walks = run_job(job, folder)["scores"]

    def mean(policy: str, moves: int) -> float:
        tests = walks[policy]["last"]
        return sum(test[moves] for test in tests) / len(tests)

    moves = job.max_moves
    return {
        "GIN": plain["scores"]["gin"]["last"][0][0],
        "random marks": mean("random-moves", 0),
        f"random moves, t = {moves}": mean("random-moves", moves),
        f"MAG-GNN, t = {moves}": mean("mag-gnn", moves),
    }
