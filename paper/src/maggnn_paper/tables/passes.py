"""Agents and their controls at equal cost: accuracy against encoder passes over a graph, on SR25 and EXP.

There is one tuple of two marks. These are the ways to spend p passes (random moves cost none):

| row | passes |
|---|---|
| mag-gnn, last state | p - 1 moves of the agent, each of which reads the marked copy, and the prediction |
| random-moves, most confident state | the predictions of p states, of which the most confident counts |
| random-marks, mean of p | the mean answer of p random starts |
| random-marks, m = p | a predictor that was trained to read p random tuples at once |

The last way (`--methods many-tuples`) needs a training for each p; all others are tests of one predictor
(`--methods mag-gnn`). A run is one training on one fold; the fold of EXP is another one in each run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from maggnn_paper.jobs.job import Job, Result, mean_of, run_jobs
from maggnn_paper.jobs.summary import paired_note, run_means, score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import recipe
from maggnn_paper.tables.synthetic import TESTS

DATASETS = ("sr25", "exp")
FOLDS = {"sr25": 1, "exp": 10}
MOST_PASSES = 6
METHODS = ("mag-gnn", "many-tuples")
"""Trainings: a predictor of one tuple with its agent, and predictors of several random tuples."""

MANY_TUPLES = (2, 3, 4, 6)
"""Numbers of tuples that predictors are trained for."""


AGENT, CONFIDENT, MEAN_ANSWER, MANY = (
    "agent, last state",
    "most confident random state",
    "mean of starts",
    "many tuples",
)
WAYS = (AGENT, CONFIDENT, MEAN_ANSWER, MANY)
"""What passes are spent on, as the page of results and the figure call it."""


def way_to_spend(row: LedgerRow) -> str:
    """Which of `WAYS` a row of this table measures."""
    if row.method == "mag-gnn":
        return AGENT
    if row.method == "random-moves":
        return CONFIDENT
    return MANY if row.keep == "last" else MEAN_ANSWER


def agent_jobs(dataset: str, runs: int) -> list[Job]:
    """One training a run, with all controls that need no training of their own."""
    config = recipe(dataset)
    return [
        Job(
            dataset,
            config.replaced(data={"fold": run % FOLDS[dataset], "split_seed": run}, runtime={"seed": run}),
            max_moves=MOST_PASSES - 1,
            tests=TESTS[dataset],
            keep_model=True,
            means=tuple(range(2, MOST_PASSES + 1)),
        )
        for run in range(runs)
    ]


def many_tuples_jobs(dataset: str, runs: int, m: int) -> list[Job]:
    """Predictors of m random tuples without an agent, with as many marked copies in a step as the agent's has."""
    made = []
    for job in agent_jobs(dataset, runs):
        starts = max(1, job.config.training.starts_per_graph // m)
        config = job.config.replaced(
            agent={"num_tuples": m, "num_moves": 0}, training={"agent_steps": 0, "starts_per_graph": starts}
        )
        made.append(replace(job, config=config, max_moves=0, means=()))
    return made


def all_jobs(dataset: str, runs: int, methods: Sequence[str] = METHODS) -> list[Job]:
    """Everything that the table trains on a data set; the agent's jobs are always the first."""
    numbers = MANY_TUPLES if "many-tuples" in methods else ()
    return agent_jobs(dataset, runs) + [job for m in numbers for job in many_tuples_jobs(dataset, runs, m)]


def reproduce(
    folder: Path,
    runs: int = 10,
    workers: int = 1,
    datasets: Sequence[str] = DATASETS,
    methods: Sequence[str] = METHODS,
) -> list[LedgerRow]:
    """Run what is not in `folder` yet and return the rows, in the order of their passes.

    Args:
        methods: "many-tuples" adds the predictors of several tuples; the agent and its other controls are always there.
    """
    rows: list[LedgerRow] = []
    for dataset in datasets:
        results = run_jobs(all_jobs(dataset, runs, methods), folder, workers)
        trained = [results[first : first + runs] for first in range(runs, len(results), runs)]
        rows += _rows(results[:runs], dict(zip(MANY_TUPLES, trained, strict=False)))
    return rows


def _rows(results: Sequence[Result], many: Mapping[int, Sequence[Result]]) -> list[LedgerRow]:
    rows = []
    for passes in range(1, MOST_PASSES + 1):
        moves = passes - 1
        agent = run_means(results, "mag-gnn", "last")[:, moves]
        sure = run_means(results, "random-moves", "confident")[:, moves]
        others = {"the most confident of as many random states": sure}
        controls = [score_row("passes", "random-moves", results, moves, "confident")]
        if passes > 1:
            keep = mean_of(passes)
            others["the mean of as many random starts"] = run_means(results, "random-marks", keep)[:, 0]
            controls.append(score_row("passes", "random-marks", results, 0, keep))
        if passes in many:
            others["a predictor of as many random tuples"] = run_means(many[passes], "random-marks", "last")[:, 0]
            controls.append(score_row("passes", "random-marks", many[passes], 0))
        note = "against " + "; against ".join(f"{name} {paired_note(agent, other)}" for name, other in others.items())
        rows += [score_row("passes", "mag-gnn", results, moves, "last", note if moves else None), *controls]
    return rows
