"""The paper's figure 'Performance versus the number of RL steps': one tuple of two marks, 0 to 8 moves.

SR25 with the lookahead target and, in the same trained environments, with plain DQN and double DQN as the paper
trains, and with an agent that shares the predictor's encoder. Every row stands beside random moves from the same
starts. Beyond the paper, two tuples and 0 to 4 moves on ZINC with atoms and bonds alone (`zinc_features`), where the
mean absolute error should fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from maggnn_paper.jobs.job import Job, Result, run_jobs
from maggnn_paper.jobs.summary import paired_note, run_means, score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import recipe
from maggnn_paper.tables.synthetic import agent_jobs

VARIANTS = {
    "mag-gnn-dqn": "sr25_dqn",
    "mag-gnn-double-dqn": "sr25_double_dqn",
    "mag-gnn-shared": "sr25_shared",
}
"""Methods of the ledger that train another agent in the same environment, and their configs."""


DATASETS = ("sr25", "zinc_features")
MOLECULE_MOVES, MOLECULE_TESTS = 4, 10


def molecule_jobs(runs: int) -> list[Job]:
    """ORD on ZINC without anything but atoms and bonds."""
    config, name = recipe("zinc_features"), "zinc_features"
    seeded = [config.replaced(runtime={"seed": run}) for run in range(runs)]
    return [Job(name, one, MOLECULE_MOVES, MOLECULE_TESTS, keep_model=True) for one in seeded]


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
    folder: Path,
    runs: int = 10,
    workers: int = 1,
    datasets: Sequence[str] = ("sr25",),
    methods: Sequence[str] = ("mag-gnn", *VARIANTS),
) -> list[LedgerRow]:
    """Run what is not in `folder` yet and return the figure's rows, for every number of moves."""
    rows = []
    if "sr25" in datasets:
        rows += _sr25_rows(folder, runs, workers, methods)
    if "zinc_features" in datasets and "mag-gnn" in methods:
        results = run_jobs(molecule_jobs(runs), folder, workers)
        rows += _rows("mag-gnn", results, "zinc_features") + _control_rows(results, "zinc_features")
    return rows


def _sr25_rows(folder: Path, runs: int, workers: int, methods: Sequence[str]) -> list[LedgerRow]:
    results = run_jobs(agent_jobs("sr25", runs), folder, workers)
    rows = []
    if "mag-gnn" in methods:
        rows += _rows("mag-gnn", results) + _control_rows(results)
    for method, name in VARIANTS.items():
        if method in methods:
            rows += _rows(method, run_jobs(variant_jobs(name, runs), folder, workers))
    return rows


def _rows(method: str, results: Sequence[Result], dataset: str | None = None) -> list[LedgerRow]:
    rows = []
    for keep, most in _kept(results):
        score, control = run_means(results, method, keep), run_means(results, "random-moves", keep)
        for moves in range(most + 1):
            note = f"against random moves {paired_note(score[:, moves], control[:, moves])}" if moves else None
            rows.append(score_row("moves", method, results, moves, keep, note, dataset))
    return rows


def _control_rows(results: Sequence[Result], dataset: str | None = None) -> list[LedgerRow]:
    return [
        score_row("moves", "random-moves", results, moves, keep, dataset=dataset)
        for keep, most in _kept(results)
        for moves in range(most + 1)
    ]


def _kept(results: Sequence[Result]) -> list[tuple[str, int]]:
    """The keep rules that were tested, and up to how many moves."""
    scores = results[0]["scores"]["mag-gnn"]
    return [(keep, len(scores[keep][0]) - 1) for keep in ("last", "confident") if keep in scores]
