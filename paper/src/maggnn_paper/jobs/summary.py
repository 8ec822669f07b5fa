"""From the results of jobs to ledger rows: means over tests, then over folds, then over runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.model.named_encoders import BASELINES
from maggnn_paper.jobs.job import CENTRAL, MEAN, STARTS, WALK, Result, averaged, mean_of
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import BASELINES as BASELINE_CONFIGS

RESULT_POLICY = {
    "gin": "gin",
    "random-marks": "random-moves",  # the same walk before its first move
    "random-moves": "random-moves",
    "central-marks": "random-moves",  # before its first move, too
    CENTRAL: CENTRAL,
    "mag-gnn": "mag-gnn",
    "mag-gnn-dqn": "mag-gnn",
    "mag-gnn-double-dqn": "mag-gnn",
    "mag-gnn-shared": "mag-gnn",
    "mag-gnn-pre": "mag-gnn",
    "mag-gnn-finest": "finest",
    **dict.fromkeys(BASELINES, "gin"),
}
"""Which of a job's walks a method of the ledger reads."""


MOLECULES = ("zinc", "molhiv", "qm9")
"""How the names of data sets of molecules begin."""

MIN_PAIRS = 4
"""Runs below which the exact test cannot say anything: with three the smallest p-value is a quarter."""

MAX_PAIRS = 16
"""Runs of a paired test: 2^16 sign patterns are listed in a moment."""


def run_means(results: Sequence[Result], method: str, keep: str) -> Tensor:
    """The metric of each run after each number of moves, [runs, t + 1]: mean over the run's folds and tests."""
    policy = RESULT_POLICY[method]
    return _over_runs(results, [result["scores"][policy][keep] for result in results])


def run_errors(results: Sequence[Result], method: str, keep: str = "last") -> Tensor:
    """Mean absolute error of each run, number of moves and output, [runs, t + 1, out].

    Args:
        keep: the last state, or the mean of a number of random starts (`mean_of`).
    """
    name = RESULT_POLICY[method] if keep == "last" else averaged(_starts(keep))
    return _over_runs(results, [result["errors"][name] for result in results])


def _over_runs(results: Sequence[Result], tests: Sequence[list[Any]]) -> Tensor:
    """What was measured [tests, ...] of each result, as one row a run: folds of equal seed are one run."""
    by_seed: dict[int, list[Tensor]] = {}
    for result, measured in zip(results, tests, strict=True):
        mean = torch.tensor(measured, dtype=torch.float64).mean(dim=0)
        by_seed.setdefault(result["config"]["runtime"]["seed"], []).append(mean)
    return torch.stack([torch.stack(folds).mean(dim=0) for _, folds in sorted(by_seed.items())])


def score_row(
    table: str,
    method: str,
    results: Sequence[Result],
    moves: int,
    keep: str = "last",
    note: str | None = None,
    dataset: str | None = None,
    output: int | None = None,
) -> LedgerRow:
    """One ledger row: `method` after `moves` moves, over all runs and folds of `results`.

    Args:
        dataset: its name in the ledger, if not that of the config.
        output: the error of this output alone.
    """
    scores = run_means(results, method, keep) if output is None else run_errors(results, method, keep)[..., output]
    scores = scores[:, moves]
    agent = results[0]["config"]["agent"]
    marked = RESULT_POLICY[method] != "gin"
    # Random marks have no agent; a mean over starts is several searches. What was timed is one search with the agent.
    no_agent = method in ("random-marks", "central-marks", CENTRAL)
    one_search = method != "random-marks" and not keep.startswith(MEAN)
    return LedgerRow(
        table=table,
        dataset=dataset or results[0]["config"]["data"]["name"],
        method=method,
        metric=results[0]["metric"],
        mean=_exact(float(scores.mean())),
        std=_exact(float(scores.std())) if len(scores) > 1 else None,
        runs=len(scores),
        tests_per_run=len(results[0]["scores"][RESULT_POLICY[method]][keep]),
        m=agent["num_tuples"] if marked else None,
        k=agent["tuple_order"] if marked else None,
        t=moves if marked else None,
        keep=keep if marked else None,
        marking=results[0]["config"]["encoder"].get("marking", "binary") if marked else None,
        inputs=inputs_of(results[0]["config"]),
        passes=passes_of(method, results[0]["config"]["agent"], moves, keep),
        params=results[0].get("predictor_params") if no_agent else results[0]["params"],
        train_s=_mean(results, "train_s"),
        infer_ms=_mean(results, "infer_ms") if one_search else None,
        peak_mb=_mean(results, "peak_mb"),
        hardware=results[0]["hardware"],
        torch=results[0]["torch"],
        commit=results[0]["commit"],
        config=_config_files(results[0]["recipe"]),
        note=note,
    )


def least_of_runs(results: Sequence[Result], method: str, moves: int, keep: str = "last") -> str | None:
    """The worst run's accuracy, for a row's note; nothing to say of a single run."""
    scores = run_means(results, method, keep)[:, moves]
    return f"least of {len(scores)} runs: {float(scores.min()):.2f}" if len(scores) > 1 else None


def inputs_of(config: dict[str, Any]) -> str | None:
    """What a network reads of molecules, in the ledger's words; None for other data and bare graphs."""
    name = config["data"]["name"]
    if name == "zinc_rings" or not name.startswith(MOLECULES):
        return None
    encoder = config["encoder"]
    words = {"walks": encoder["random_walk"], "rings": encoder["rings"], "distances": encoder["distances"]}
    return "+".join(["atoms", "bonds", *(word for word, read in words.items() if read)])


def passes_of(method: str, agent: dict[str, Any], moves: int, keep: str) -> int | None:
    """Encoder passes over one graph for one prediction; None for baselines, whose passes are not comparable.

    The agent reads m marked copies before each move, and the predictor those of the state that is kept, or of all
    states if the most confident one is kept or their answers are averaged. Where both share an encoder, a pass serves
    both. Random moves cost no pass.
    """
    if method in BASELINES:
        return None
    if RESULT_POLICY[method] == "gin":
        return 1
    searched = moves if RESULT_POLICY[method] == "mag-gnn" else 0
    answers = moves + 1 if keep in ("confident", WALK) else 1
    if agent.get("encoder") == "shared" and answers > 1:
        searched = 0
    return agent["num_tuples"] * (searched + answers) * _starts(keep)


def equal_cost_note(results: Sequence[Result], method: str, moves: int) -> str:
    """What an agent's walk and its controls in the same predictor have, in words.

    A walk is compared with the mean of as many random starts, and of as many sets of central nodes, as it has states.
    """
    sets = mean_of(moves + 1)
    found = {
        "mean of the walk": run_means(results, method, WALK)[:, moves],
        "random moves": run_means(results, "random-moves", "last")[:, moves],
        "mean of a random walk": run_means(results, "random-moves", WALK)[:, moves],
        f"{sets} random starts": run_means(results, "random-moves", sets)[:, 0],
        "central nodes": run_means(results, CENTRAL, "last")[:, 0],
        f"{sets} sets of central nodes": run_means(results, CENTRAL, sets)[:, 0],
    }
    if run_means(results, CENTRAL, "last").shape[1] > moves:
        found["moves from central nodes"] = run_means(results, CENTRAL, "last")[:, moves]
        found["mean of the walk from central nodes"] = run_means(results, CENTRAL, WALK)[:, moves]
    return "; " + "; ".join(f"{name} {float(scores.mean()):.4f}" for name, scores in found.items())


def _starts(keep: str) -> int:
    """How many starts a keep rule averages over: `mean`, `mean of 3`; one for the others."""
    if keep == MEAN:
        return STARTS
    if keep == WALK:
        return 1
    return int(keep.removeprefix(f"{MEAN} of ")) if keep.startswith(MEAN) else 1


def _config_files(recipe: str) -> str:
    """The files that a job's settings come from: a packaged config by its name, baselines' by their paths."""
    return f"{recipe}.toml" if recipe.startswith(BASELINE_CONFIGS) else f"configs/{recipe}.toml"


def paired_note(first: Tensor, second: Tensor) -> str:
    """The mean difference of paired runs [runs] in words, with its p-value where there are runs enough for one."""
    text = f"{float((first - second).mean()):+.4f}"
    if len(first) < MIN_PAIRS:
        return f"{text} ({len(first)} run(s), no test)"
    least = 2.0 ** (1 - len(first))
    p = paired_p_value(first, second)
    return f"{text}, paired sign-flip p = {p:.3f} (at least {least:.3f} with {len(first)} runs)"


def validation_note(results: Sequence[Result]) -> str:
    """What the runs had on the validation part, by which settings are chosen, in words; empty without one."""
    values = [float(result["best_validation"]) for result in results if result.get("best_validation") is not None]
    if not values:
        return ""
    spreads = [float(result["score_spread"]) for result in results if result.get("score_spread") is not None]
    spread = f"; spread of scores over marked copies {fmean(spreads):.4f}" if spreads else ""
    return f"on the validation part {fmean(values):.4f} ({min(values):.4f} to {max(values):.4f}){spread}"


def trimmed_note(results: Sequence[Result], method: str, moves: int) -> str:
    """The error without the worst hundredth of the rows, in words; empty where it was not measured."""
    policy = RESULT_POLICY[method]
    if not all(policy in result.get("trimmed", {}) for result in results):
        return ""
    runs = _over_runs(results, [result["trimmed"][policy] for result in results])[:, moves]
    deviation = f" +- {float(runs.std()):.4f}" if len(runs) > 1 else ""
    return f"; without the worst 1 % of the molecules {float(runs.mean()):.4f}{deviation}"


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
    """Six decimals: float noise of a mean of hundreds is not a measurement. Small energies keep four digits."""
    return round(value, 6) if abs(value) >= 0.01 else float(f"{value:.4g}")
