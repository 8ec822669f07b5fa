"""The paper's limitation 'harder to train', measured: ORD on SR25, predictor and agent, alone on the machine."""

from __future__ import annotations

from pathlib import Path

from maggnn_paper.jobs.job import Job, Result, run_jobs
from maggnn_paper.jobs.summary import score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import recipe
from maggnn_paper.tables.synthetic import MAX_MOVES, TESTS


def reproduce(folder: Path) -> list[LedgerRow]:
    """Train the recipe of Table 1 with nothing else running."""
    job = Job("sr25", recipe("sr25"), MAX_MOVES, TESTS["sr25"])
    return [time_row(run_jobs([job], folder / "alone", workers=1)[0])]


def time_row(result: Result) -> LedgerRow:
    """Wall time of both phases, and what the model then scores."""
    moves = result["config"]["agent"]["num_moves"]
    row = score_row("bench_train", "mag-gnn", [result], moves)
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in result["phase_s"].items())
    note = f"both phases of ORD: {phases}; accuracy after {moves} moves {row.mean:.2f}, after {MAX_MOVES} moves "
    note += f"{score_row('bench_train', 'mag-gnn', [result], MAX_MOVES).mean:.2f}"
    changes = {"metric": "ms", "mean": round(1000 * result["train_s"], 1), "std": None, "note": note}
    return LedgerRow(**{**row.__dict__, **changes})
