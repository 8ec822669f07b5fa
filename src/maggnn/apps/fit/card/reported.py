"""All metrics of every method and target, computed once for the card's tables, `metrics.json` and the commands.

Shapes: n rows, O outputs (targets of numbers or of two classes each, classes of a single target).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.apps.fit.answers.blended import Blend
from maggnn.apps.fit.card.metrics import (
    USUAL_THRESHOLD,
    WITH_UNIT,
    WORDS,
    Metrics,
    bootstrap_intervals,
    class_metrics,
    number_metrics,
    per_class,
    two_class_metrics,
)
from maggnn.apps.fit.facts import Facts
from maggnn.apps.terminal import finite_or_none
from maggnn.data.files import whole_file

FILE = "metrics.json"

MOST_REPORTS = 3
"""The largest number of targets for which the card has all metrics, with intervals; else only the file has them."""


@dataclass(frozen=True)
class TargetReport:
    """The metrics of every method for one target.

    Attributes:
        label: the target's name with its unit.
        unit: the unit of the target; empty if none was given.
        positive: the second of two classes, to which probabilities and thresholds refer; empty otherwise.
        share: the share of rows with the positive class; NaN otherwise.
        methods: the metrics of each method; the model itself is the first and has intervals.
    """

    label: str
    unit: str
    positive: str
    share: float
    methods: Mapping[str, Metrics]

    @property
    def own(self) -> Metrics:
        """The metrics of the model itself."""
        return next(iter(self.methods.values()))


def label_of(name: str, unit: str = "") -> str:
    """Return a target's name for axes and tables: with its unit, unless the name contains it already.

    Example:
        >>> label_of("logS", "log mol/L"), label_of("logS (mol/L)")
        ('logS (log mol/L)', 'logS (mol/L)')
    """
    return name if not unit or name.endswith((f"({unit})", f"[{unit}]")) else f"{name} ({unit})"


def labels(facts: Facts) -> list[str]:
    """Return the label of each target."""
    units = facts.units or ("",) * len(facts.targets)
    return [label_of(name, unit) for name, unit in zip(facts.targets, units, strict=True)]


def reports(facts: Facts, true: np.ndarray, answers: Mapping[str, np.ndarray]) -> dict[str, TargetReport]:
    """Compute the metrics of all targets; none if scikit-learn is not installed.

    Args:
        facts: The model's task, targets, units, classes and thresholds.
        true: Numbers or second classes [n, targets], NaN for missing ones; or classes [n].
        answers: Values or probabilities of each method, [n, O]; the model itself first.

    Returns:
        A report for each target, by its name.
    """
    try:
        import sklearn  # noqa: F401 (whether it is there)
    except ImportError:
        return {}
    if facts.task == "classification":
        return {name: _of_classes(facts, name, true.astype(int), answers) for name in facts.targets}
    true = true.reshape(len(true), -1)
    found = {}
    for place, name in enumerate(facts.targets):
        known = ~np.isnan(true[:, place])
        own = {method: values[known, place] for method, values in answers.items()}
        make = _of_two_classes if facts.task == "multilabel" else _of_numbers
        found[name] = make(facts, place, true[known, place], own)
    return found


def _of_numbers(facts: Facts, place: int, true: np.ndarray, answers: Mapping[str, np.ndarray]) -> TargetReport:
    """Report on one target of numbers, on the rows where it is known [n]."""
    name, unit = facts.targets[place], facts.units[place] if facts.units else ""
    metrics = _of_methods(true, answers, number_metrics, intervals=_has_intervals(facts))
    return TargetReport(label_of(name, unit), unit, "", math.nan, metrics)


def _of_two_classes(facts: Facts, place: int, true: np.ndarray, answers: Mapping[str, np.ndarray]) -> TargetReport:
    """Report on one of several two-class targets, on the rows where it is known [n]."""
    threshold = threshold_of(facts, place)
    score = partial(two_class_metrics, threshold=threshold)
    metrics = _of_methods(true, answers, score, threshold, _has_intervals(facts))
    share = float(true.mean()) if len(true) else math.nan
    return TargetReport(facts.targets[place], "", facts.labels[place][1], share, metrics)


def _has_intervals(facts: Facts) -> bool:
    """Whether there are few enough targets for intervals: a bootstrap takes a second for each target."""
    return len(facts.targets) <= MOST_REPORTS


def _of_classes(facts: Facts, name: str, true: np.ndarray, answers: Mapping[str, np.ndarray]) -> TargetReport:
    """Report on the single target of a classifier [n]."""
    two = len(facts.classes) == 2
    threshold = threshold_of(facts) if two else None
    score = partial(two_class_metrics, threshold=threshold_of(facts)) if two else class_metrics
    columns = {method: values[:, 1] for method, values in answers.items()} if two else answers
    metrics = _of_methods(true, columns, score, threshold)
    own, said = next(iter(answers.items()))
    if np.isfinite(said).all():
        each = per_class(true, said, threshold)
        metrics[own] = replace(metrics[own], classes=dict(zip(facts.classes, each, strict=True)))
    share = float(true.mean()) if two else math.nan
    return TargetReport(name, "", facts.classes[1] if two else "", share, metrics)


def threshold_of(facts: Facts, place: int = 0) -> float:
    """Return the probability from which on metrics predict the second of two classes."""
    return facts.blend.thresholds[place] if facts.blend.thresholds else USUAL_THRESHOLD


def _of_methods(
    true: np.ndarray,
    answers: Mapping[str, np.ndarray],
    metrics: Any,
    threshold: float | None = None,
    intervals: bool = True,
) -> dict[str, Metrics]:
    """Compute the metrics of each method; the first has intervals, if requested."""
    found: dict[str, Metrics] = {}
    for method, values in answers.items():
        drawn = partial(class_metrics, areas=False) if metrics is class_metrics else metrics
        limits = {} if found or not intervals else bootstrap_intervals(true, values, drawn)
        found[method] = Metrics(len(true), metrics(true, values), limits, threshold=threshold)
    return found


def to_json(found: Mapping[str, TargetReport]) -> dict[str, Any]:
    """Return plain values for `json.dumps`; a metric that is not defined is None."""
    return {name: finite_or_none(_plain_report(report)) for name, report in found.items()}


def _plain_report(report: TargetReport) -> dict[str, Any]:
    return {
        "rows": report.own.count,
        "unit": report.unit or None,
        **({"positive": report.positive, "threshold": report.own.threshold} if report.positive else {}),
        "methods": {
            method: {key: {"value": value, **_interval(metrics, key)} for key, value in metrics.values.items()}
            for method, metrics in report.methods.items()
        },
        **({"classes": report.own.classes} if report.own.classes else {}),
    }


def _interval(metrics: Metrics, key: str) -> dict[str, tuple[float, float]]:
    return {"interval": metrics.intervals[key]} if key in metrics.intervals else {}


def write_metrics(folder: Path, found: Mapping[str, TargetReport]) -> None:
    """Write `metrics.json` atomically."""
    with whole_file(folder / FILE) as waiting:
        waiting.write_text(json.dumps({"part": "test", "targets": to_json(found)}, indent=1) + "\n", encoding="utf-8")


def metric_rows(report: TargetReport) -> list[list[str]]:
    """Return a row for each metric: its name with the unit, then each method's value, the first with an interval."""
    return [
        [metric_name(key, report.unit, report.positive), *(shown(metrics, key) for metrics in report.methods.values())]
        for key in report.own.values
    ]


def class_rows(report: TargetReport) -> tuple[list[str], list[list[str]]]:
    """Return the header and a row for each class; no rows for numbers."""
    keys = ("precision", "recall", "f1", "roc_auc", "pr_auc")
    rows = [
        [label, f"{values['count']:.0f}", *(number(values[key], key) for key in keys)]
        for label, values in report.own.classes.items()
    ]
    return ["class", "rows", *(WORDS[key] for key in keys)], rows


def metric_name(key: str, unit: str = "", positive: str = "") -> str:
    """Return a metric's name such as "RMSE (mg/L)", or "PR-AUC (toxic)", whose value depends on the class."""
    of = unit if key in WITH_UNIT else positive if key == "pr_auc" else ""
    return f"{WORDS[key]} ({of})" if of else WORDS[key]


def shown(metrics: Metrics, key: str) -> str:
    """Format a value, with its interval if it has one."""
    value = number(metrics.values[key], key)
    if key not in metrics.intervals or not math.isfinite(metrics.values[key]):
        return value
    low, high = (number(limit, key) for limit in metrics.intervals[key])
    return f"{value} ({low} to {high})"


def number(value: float, key: str) -> str:
    """Format errors with four digits and all others with three decimals; an undefined value is a dash."""
    if not math.isfinite(value):
        return "–"
    return f"{value:.4g}" if key in WITH_UNIT else f"{value:.3f}"


def threshold_words(report: TargetReport, blend: Blend) -> str:
    """Describe the threshold, and how it was chosen."""
    if report.own.threshold is None:
        return ""
    chosen = (
        f"chosen on {blend.held_out} for the best balanced accuracy; predicted classes of `maggnn predict` are the "
    )
    how = f"{chosen}more probable ones instead" if blend.thresholds else "the default"
    return (
        f"For MCC and balanced accuracy, rows with a probability of at least {report.own.threshold:.3f} count as "
        f"{report.positive} ({how}). {100 * report.share:.1f} % of the rows are {report.positive}, which is the PR-AUC "
        "of random guessing."
    )
