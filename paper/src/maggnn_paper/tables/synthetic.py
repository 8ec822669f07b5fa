"""Table 1 of the paper: EXP, CSL and SR25, with GIN, random marks and random moves beside the agent.

The paper's random node marking has as many tuples as it likes; so has `--methods random-marks`, beside the agent's own
control, which is the same predictor at the agent's m.

Ten runs; a run of EXP or CSL is a ten-fold cross-validation, a run of SR25 trains and tests on all 15 graphs. Each
trained model is tested several times from fresh random tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maggnn.data import registry
from maggnn_paper.jobs.job import Job, Result, run_jobs
from maggnn_paper.jobs.summary import score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import plain_gnn, recipe
from maggnn_paper.tables import baselines

DATASETS = ("exp", "csl", "sr25")
TESTS = {"exp": 10, "csl": 10, "sr25": 100}
"""The paper tests ten times; SR25 has only 15 graphs, so a hundred tests say more."""

MAX_MOVES = 8

MANY_TUPLES = {"exp": 8, "csl": 1, "sr25": 2}
"""Of random marks that have no agent to help them."""


def agent_jobs(dataset: str, runs: int) -> list[Job]:
    """One job for each run and fold; a run's seed also deals its folds."""
    config = recipe(dataset)
    folds = len(registry.load(dataset).splits(0))
    return [
        Job(
            dataset,
            config.replaced(data={"fold": fold, "split_seed": run}, runtime={"seed": run}),
            max_moves=MAX_MOVES,
            tests=TESTS.get(dataset, 10),
            keep_model=folds == 1,
        )
        for run in range(runs)
        for fold in range(folds)
    ]


def gin_jobs(dataset: str, runs: int) -> list[Job]:
    """The same predictor without marks. It is deterministic, so one start a graph and one test say all."""
    return [
        Job(dataset, plain_gnn(job.config).replaced(training={"starts_per_graph": 1}), max_moves=0, tests=1)
        for job in agent_jobs(dataset, runs)
    ]


def random_marks_jobs(dataset: str, runs: int) -> list[Job]:
    """A predictor of many random tuples, and no agent; as many marked copies in a step as the agent's predictor has."""
    jobs = []
    for job in agent_jobs(dataset, runs):
        m, starts = MANY_TUPLES[dataset], job.config.training.starts_per_graph
        agent, training = {"num_tuples": m, "num_moves": 0}, {"agent_steps": 0, "starts_per_graph": max(1, starts // m)}
        jobs.append(Job(dataset, job.config.replaced(agent=agent, training=training), max_moves=0, tests=job.tests))
    return jobs


def reproduce(
    folder: Path,
    runs: int = 10,
    workers: int = 1,
    datasets: Sequence[str] = DATASETS,
    methods: Sequence[str] = ("gin", "mag-gnn"),
) -> list[LedgerRow]:
    """Run what is not in `folder` yet and return the table's rows."""
    rows: list[LedgerRow] = []
    for dataset in datasets:
        if "gin" in methods:
            results = run_jobs(gin_jobs(dataset, runs), folder, workers)
            rows.append(score_row("synthetic", "gin", results, moves=0))
        if "random-marks" in methods:
            results = run_jobs(random_marks_jobs(dataset, runs), folder, workers)
            rows.append(score_row("synthetic", "random-marks", results, moves=0))
        if "mag-gnn" in methods:
            rows += agent_rows(run_jobs(agent_jobs(dataset, runs), folder, workers))
    return rows + baselines.rows("synthetic", datasets, methods, runs, folder, workers)


def agent_rows(results: Sequence[Result]) -> list[LedgerRow]:
    """The agent after the config's t moves and its two controls, under both keep rules."""
    moves = results[0]["config"]["agent"]["num_moves"]
    rows = [score_row("synthetic", "random-marks", results, moves=0)]
    for keep in ("last", "confident"):
        for method in ("random-moves", "mag-gnn"):
            rows.append(score_row("synthetic", method, results, moves, keep))
    return rows
