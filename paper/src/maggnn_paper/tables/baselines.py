"""The baselines in the paper's tables: jobs and rows of any of `maggnn_paper.baselines` on any of its data sets.

A baseline is trained and tested as MAG-GNN is. Its settings lie in `paper/configs/baselines`: `<data set>.toml` is the
budget that all baselines share, `<method>.toml` its own width, and `<data set>_<method>.toml` has what one method needs
on one set.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maggnn.config import Config
from maggnn.data import registry
from maggnn.errors import InputError
from maggnn.model.named_encoders import BASELINES, baseline_type
from maggnn_paper.datasets.cycle_counts import CYCLES
from maggnn_paper.jobs.job import Job, run_jobs
from maggnn_paper.jobs.summary import score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import BASELINES as FOLDER
from maggnn_paper.recipes import baseline_exception, baseline_recipe

METHODS = tuple(BASELINES)
TASKS = {"exp": "exp", "csl": "csl", "sr25": "sr25", "zinc": "zinc", **{f"cycle{length}": "cycle" for length in CYCLES}}
"""Data sets that baselines have settings for, and whose file has them."""

TESTS = 10
"""Of methods that draw; the others answer the same every time."""


def jobs(dataset: str, method: str, runs: int) -> list[Job]:
    """One job for each run and fold."""
    if dataset not in TASKS:
        raise InputError(f"baselines have no settings for {dataset}: there are {', '.join(TASKS)}")
    task = TASKS[dataset]
    config = baseline_recipe(task, method).replaced(data={"name": dataset})
    if task == "cycle":  # as far as a cycle reaches, as published: the authors' program has 1, 2, 2 and 3 too (I2-GNN)
        config = config.replaced(baseline={"hops": int(dataset.removeprefix("cycle")) // 2})
    folds = len(registry.load(dataset).splits(0))
    tests = TESTS if baseline_type(method).draws else 1
    return [
        Job(
            _files(task, method, config),
            config.replaced(data={"fold": fold, "split_seed": run}, runtime={"seed": run}),
            max_moves=0,
            tests=tests,
            keep_model=folds == 1,
        )
        for run in range(runs)
        for fold in range(folds)
    ]


def _files(task: str, method: str, config: Config) -> str:
    """What a job's settings come from, for the ledger, which puts `.toml` behind."""
    shared = f"{FOLDER}/{task}.toml, hops {config.baseline.hops}" if task == "cycle" else f"{FOLDER}/{task}.toml"
    own = [f"{FOLDER}/{name}.toml" for name in (method, *baseline_exception(task, method))]
    return " + ".join([shared, *own]).removesuffix(".toml")


def rows(
    table: str, datasets: Sequence[str], methods: Sequence[str], runs: int, folder: Path, workers: int
) -> list[LedgerRow]:
    """Run what is not in `folder` yet; a row for each data set and each of `methods` that is a baseline."""
    wanted = {
        (dataset, method): jobs(dataset, method, runs) for dataset in datasets for method in baselines_of(methods)
    }
    results = iter(run_jobs([job for own in wanted.values() for job in own], folder, workers))
    found = {key: [next(results) for _ in own] for key, own in wanted.items()}
    return [score_row(table, method, own, moves=0) for (_, method), own in found.items()]


def baselines_of(methods: Sequence[str]) -> list[str]:
    """Those of `methods` that are baselines."""
    return [method for method in methods if method in METHODS]
