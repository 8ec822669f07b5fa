"""What `maggnn fit` and `maggnn evaluate` print: scores with their units and intervals, as on the model card."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from maggnn.apps.fit.card.markdown import better
from maggnn.apps.fit.card.reported import metric_name
from maggnn.apps.terminal import print_table

SMALL, LARGE = 1e-3, 1e9
"""The sizes of scores below or from which on a column of a table is written with exponents."""

CV_KEYS = ("mean", "low", "high")


def print_fit(result: Mapping[str, Any]) -> None:
    """Print the result of `fit_table`."""
    metric, scores = result["metric"], result["test_scores"]
    columns = [
        [as_on_the_card(metric, value) for value in (entry["value"], *entry["interval"])] for entry in scores.values()
    ]
    value, low, high = (alike(column) for column in zip(*columns, strict=True))
    between = [f"{least} to {most}" if least != "–" else least for least, most in zip(low, high, strict=True)]
    rows = [list(row) for row in zip(scores, value, between, strict=True)]
    heading = ", ".join(filter(None, (score_unit(metric, result["metrics"]), better(metric))))
    print_table([f"{metric} on {result['test']} test rows", heading, "95 % interval"], rows)
    for name, found in (result["cross_validation"] or {}).items():
        shown = [as_on_the_card(metric, found[key]) for key in CV_KEYS]
        print("cross-validation, {}: {:.4g} ({:.4g} to {:.4g})".format(name, *shown))
    print(result["verdict"])
    _print_metrics(result["metrics"])
    took = f"{result['seconds']['all']:.0f} s"
    print(f"{_left_out(result)}; {took}; model card: {result['model']}/README.md")


def print_evaluation(result: Mapping[str, Any]) -> None:
    """Print the result of `evaluate_table`."""
    used = result["rows"] - result["left_out"]
    metric = result["metric"]
    own, low, high = (as_on_the_card(metric, value) for value in (result[metric], *result["interval"]))
    score = f"{metric} {own:.4g} {score_unit(metric, result['metrics'])}".rstrip()
    between = f"95 % interval {low:.4g} to {high:.4g}; " if math.isfinite(low) else ""
    print(f"{score} ({between}{better(metric)}) on {used} rows")
    _print_metrics(result["metrics"])
    if result["known"]:
        print(
            f"{result['known']} of these rows have the fingerprint of a molecule that the model was fitted to: it has "
            "seen the same molecule or almost the same, so the scores are optimistic"
        )
    print(_left_out(result))


def _left_out(result: Mapping[str, Any]) -> str:
    """Say how many rows of a table were not used, and why the first of them was not."""
    first = result["first_left_out"]
    why = "" if first is None else f"; the first in line {first['row']}: {first['reason']}"
    return f"{result['left_out']} of {result['rows']} rows left out{why}"


def _print_metrics(targets: dict[str, Any]) -> None:
    """Print one line for each target with all metrics of the model."""
    for name, report in targets.items():
        own = next(iter(report["methods"].values()))
        known = {key: entry["value"] for key, entry in own.items() if entry["value"] is not None}
        if not known:
            print(f"{name}: no score, because the rows lack values or one of the classes")
            continue
        said = ", ".join(
            f"{metric_name(key, report['unit'] or '', report.get('positive', ''))} {value:.4g}"
            for key, value in known.items()
        )
        at = f" (at a threshold of {report['threshold']:.3g})" if "threshold" in report else ""
        print(f"{name}: {said}{at}")


def score_unit(metric: str, targets: Mapping[str, Any]) -> str:
    """Return the unit of a score of `fit` and `evaluate`: of errors that of the targets, if they all have the same.

    Args:
        metric: mae, auroc or accuracy; the last two are shares (`as_on_the_card`), which have no unit.
        targets: the reports on the targets, as in `metrics.json`.

    Example:
        >>> score_unit("mae", {"logS": {"unit": "log mol/L"}}), score_unit("auroc", {})
        ('log mol/L', '')
    """
    if metric != "mae":
        return ""
    units = {report["unit"] or "" for report in targets.values()}
    return units.pop() if len(units) == 1 else ""


def as_on_the_card(metric: str, value: float) -> float:
    """Return a score as the model card shows it: percent become a share, as the metrics of each target are."""
    return value if metric == "mae" else value / 100


def alike(values: Sequence[float]) -> list[str]:
    """Format a column of scores with the same number of decimals: four digits for the smallest of them.

    Columns of very small or very large numbers, such as errors of concentrations in mol/L, have exponents.

    Example:
        >>> alike([46.66, 104.0, 100.0]), alike([2.5e-9, 1e-8])
        (['46.66', '104.00', '100.00'], ['2.500e-09', '1.000e-08'])
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    decimals = min(max(3 - math.floor(math.log10(min(sizes))), 0), 6) if sizes else 0
    form = ".3e" if sizes and (max(sizes) < SMALL or max(sizes) >= LARGE) else f".{decimals}f"
    return [f"{value:{form}}" if math.isfinite(value) else "–" for value in values]
