"""The paper's figure 'Performance versus the number of RL steps': one tuple of two marks, 0 to 8 moves.

SR25 with the lookahead target and, in the same trained environments, with plain DQN and double DQN as the paper
trains, and with an agent that shares the predictor's encoder. Every row stands beside random moves from the same
starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from maggnn.experiments.jobs import Job, Result, run_jobs
from maggnn.experiments.ledger import LedgerRow
from maggnn.experiments.recipes import recipe
from maggnn.experiments.summary import paired_p_value, run_means, score_row
from maggnn.experiments.synthetic import MAX_MOVES, agent_jobs

VARIANTS = {
    "mag-gnn-dqn": "sr25_dqn",
    "mag-gnn-double-dqn": "sr25_double_dqn",
    "mag-gnn-shared": "sr25_shared",
}
"""Methods of the ledger that train another agent in the same environment, and their configs."""


def variant_jobs(recipe_name: str, runs: int) -> list[Job]:
    """The config's agent in the environments of the `sr25` jobs."""
    config = recipe(recipe_name)
    return [
        replace(
            job,
            recipe=recipe_name,
            config=config.replaced(data=vars(job.config.data), runtime=vars(job.config.runtime)),
            predictor_of=job,
        )
        for job in agent_jobs("sr25", runs)
    ]


def reproduce(
    folder: Path, runs: int = 10, workers: int = 1, methods: Sequence[str] = ("mag-gnn", *VARIANTS)
) -> list[LedgerRow]:
    """Run what is not in `folder` yet and return the figure's rows, for every number of moves."""
    results = run_jobs(agent_jobs("sr25", runs), folder, workers)
    rows = []
    if "mag-gnn" in methods:
        rows += _rows("mag-gnn", results) + _control_rows(results)
    for method, name in VARIANTS.items():
        if method in methods:
            rows += _rows(method, run_jobs(variant_jobs(name, runs), folder, workers))
    return rows


def _rows(method: str, results: Sequence[Result]) -> list[LedgerRow]:
    rows = []
    for keep in ("last", "confident"):
        accuracy, control = run_means(results, method, keep), run_means(results, "random-moves", keep)
        for moves in range(MAX_MOVES + 1):
            better = float((accuracy[:, moves] - control[:, moves]).mean())
            p = paired_p_value(accuracy[:, moves], control[:, moves])
            note = f"against random moves {better:+.2f}, paired sign-flip p = {p:.4f}" if moves else None
            rows.append(score_row("moves", method, results, moves, keep, note))
    return rows


def _control_rows(results: Sequence[Result]) -> list[LedgerRow]:
    return [
        score_row("moves", "random-moves", results, moves, keep)
        for keep in ("last", "confident")
        for moves in range(MAX_MOVES + 1)
    ]
