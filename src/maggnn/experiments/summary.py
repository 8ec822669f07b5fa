"""From the results of jobs to ledger rows: means over tests, then over folds, then over runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.experiments.jobs import Result
from maggnn.experiments.ledger import LedgerRow

RESULT_POLICY = {
    "gin": "gin",
    "random-marks": "random-moves",  # the same walk before its first move
    "random-moves": "random-moves",
    "mag-gnn": "mag-gnn",
    "mag-gnn-dqn": "mag-gnn",
    "mag-gnn-double-dqn": "mag-gnn",
    "mag-gnn-shared": "mag-gnn",
}
"""Which of a job's walks a method of the ledger reads."""


MAX_PAIRS = 16
"""Runs of a paired test: 2^16 sign patterns are listed in a moment."""


def run_means(results: Sequence[Result], method: str, keep: str) -> Tensor:
    """Accuracy of each run after each number of moves, [runs, t + 1]: mean over the run's folds and tests."""
    by_seed: dict[int, list[Tensor]] = {}
    for result in results:
        tests = torch.tensor(result["accuracy"][RESULT_POLICY[method]][keep], dtype=torch.float64)
        by_seed.setdefault(result["config"]["runtime"]["seed"], []).append(tests.mean(dim=0))
    return torch.stack([torch.stack(folds).mean(dim=0) for _, folds in sorted(by_seed.items())])


def accuracy_row(
    table: str,
    method: str,
    results: Sequence[Result],
    moves: int,
    keep: str = "last",
    note: str | None = None,
) -> LedgerRow:
    """One ledger row: `method` after `moves` moves, over all runs and folds of `results`."""
    accuracy = run_means(results, method, keep)[:, moves]
    agent = results[0]["config"]["agent"]
    marked = method != "gin"
    return LedgerRow(
        table=table,
        dataset=results[0]["config"]["data"]["name"],
        method=method,
        metric="accuracy",
        mean=_exact(float(accuracy.mean())),
        std=_exact(float(accuracy.std())) if len(accuracy) > 1 else None,
        runs=len(accuracy),
        tests_per_run=len(results[0]["accuracy"][RESULT_POLICY[method]][keep]),
        m=agent["num_tuples"] if marked else None,
        k=agent["tuple_order"] if marked else None,
        t=moves if marked else None,
        keep=keep if marked else None,
        params=results[0]["params"],
        train_s=_mean(results, "train_s"),
        infer_ms=_mean(results, "infer_ms"),
        peak_mb=_mean(results, "peak_mb"),
        hardware=results[0]["hardware"],
        torch=results[0]["torch"],
        commit=results[0]["commit"],
        config=f"configs/{results[0]['recipe']}.toml",
        note=note,
    )


def paired_p_value(first: Tensor, second: Tensor) -> float:
    """Exact two-sided sign-flip test of paired runs [runs]: the share of sign patterns at least as extreme."""
    difference = (first - second).double()
    if len(difference) > MAX_PAIRS:
        raise InputError(f"the exact test lists all sign patterns: at most {MAX_PAIRS} runs, not {len(difference)}")
    signs = torch.tensor(list(itertools.product((1.0, -1.0), repeat=len(difference))), dtype=torch.float64)
    extreme = (signs @ difference).abs() >= difference.sum().abs() - 1e-9
    return float(extreme.double().mean())


def _mean(results: Sequence[Result], name: str) -> float:
    return round(sum(result[name] for result in results) / len(results), 3)


def _exact(value: float) -> float:
    """Six decimals: float noise of a mean of hundreds is not a measurement."""
    return round(value, 6)
