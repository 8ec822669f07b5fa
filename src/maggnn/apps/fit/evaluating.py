"""`maggnn evaluate MODEL TABLE`: the metrics of a fitted model on a table of its own kind, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import Tensor

from maggnn.apps.fit.card.intervals import judge, judge_targets
from maggnn.apps.fit.card.model_card import OWN
from maggnn.apps.fit.card.reported import reports, to_json
from maggnn.apps.fit.classical.descriptors import descriptors_of
from maggnn.apps.fit.fitted import Answer, FittedModel, unseen_told
from maggnn.apps.fit.own_table import Cleaning, metric_of, packed_table
from maggnn.apps.fit.tables.number_columns import number_parsers, stacked
from maggnn.apps.fit.uncertainty import COVERAGE
from maggnn.apps.terminal import finite_or_none
from maggnn.data.molecules.target_column import TargetKind, known_numbers
from maggnn.data.sources import graphs_of
from maggnn.errors import InputError
from maggnn.training.metrics import Metric


def evaluate_table(
    model: Path, table: Path, targets: Sequence[str], smiles: str | None = None, workers: int = 2
) -> dict[str, Any]:
    """Predict for every usable row and compare with its targets. Returns the metrics as plain values.

    Args:
        targets: the columns with the values of the model's targets, if they have other names.
    """
    fitted = FittedModel.load(model)
    facts = fitted.facts
    if facts.source != "smiles":
        raise InputError(f"{model}: was fitted to graphs, not to SMILES: use it from Python")
    targets = _columns(model, facts.targets, targets)
    classes = bool(facts.classes or facts.labels)
    kind = TargetKind(facts.classes, labels=facts.labels) if classes else known_numbers(table, targets)
    packed = packed_table(
        table,
        smiles or facts.column_of_smiles,
        targets,
        kind,
        workers,
        numbers=number_parsers(facts.number_columns),
        cleaning=Cleaning(facts.salts),
    )
    graphs = graphs_of(packed.arrays)
    assert graphs.y is not None
    metric = cast("Metric", facts.metric or metric_of(kind))  # a folder need not name the metric of its model
    if metric == "auroc" and facts.classes and len(graphs.y.unique()) < 2:
        raise InputError(f"{table}: column {targets[0]!r} has only one class, and {metric} needs both")
    molecules = None
    if fitted.reads_molecules:
        molecules = descriptors_of(packed.canonical, workers).with_columns(
            stacked(packed.numbers, facts.number_columns)
        )
    with unseen_told(str(table)):
        answer = fitted.answer(graphs, molecules)
    answers = answer.values
    bad = int((~answers.isfinite().all(dim=1)).sum())
    if bad:
        raise InputError(f"{table}: for {bad} rows the model's answer is not a finite number, so it has no {metric}")
    judged = judge(answers, graphs.y, metric)
    if math.isnan(judged.value):
        raise InputError(f"{table}: no target has both of its classes, and {metric} needs both")
    found = reports(replace(facts, targets=targets), graphs.y.double().numpy(), {OWN: answers.double().numpy()})
    return {
        "model": str(model),
        "table": str(table),
        "metric": metric,
        "rows": packed.num_rows,
        "left_out": len(packed.errors),
        "first_left_out": asdict(packed.errors[0]) if packed.errors else None,
        "known": _known(answer),
        metric: judged.value,
        "interval": list(judged.interval),
        "metrics": to_json(found),
        **_each_target(answers, graphs.y, targets, metric),
        **({} if answer.errors is None else {"coverage": _covered(answer, graphs.y)}),
    }


def _columns(model: Path, own: tuple[str, ...], given: Sequence[str]) -> tuple[str, ...]:
    """Return the column of each of the model's targets: the given ones in their order, unless they are its own names.

    The model's own names may be given in any order, and never for another target, which would compare the predictions
    for one with the values of another.
    """
    if not given or sorted(given) == sorted(own):
        return own
    if len(given) != len(own):
        raise InputError(f"{model}: predicts {len(own)} target(s), but {len(given)} columns were given")
    wrong = [(name, target) for name, target in zip(given, own, strict=True) if name != target and name in own]
    if wrong:
        name, target = wrong[0]
        raise InputError(f"{model}: predicts {name!r}, but its column is given for {target!r}: give the columns in the "
                         f"order {', '.join(own)}")  # fmt: skip
    return tuple(given)


def _each_target(answers: Tensor, y: Tensor, targets: Sequence[str], metric: Metric) -> dict[str, Any]:
    """Return the score of each of several targets; None where it is not defined."""
    if len(targets) < 2:
        return {}
    found = zip(targets, judge_targets(answers, y, metric), strict=True)
    return {"targets": finite_or_none({name: judged.value for name, judged in found})}


def _known(answer: Answer) -> int | None:
    """Return how many molecules the model may have learned from, by their fingerprints; None if it lists none."""
    return None if answer.similarity is None else int((answer.similarity > 1 - 1e-6).sum())


def _covered(answer: Answer, y: Tensor) -> float:
    """Return the share of true values within the 90 % intervals."""
    true = y.reshape(len(y), -1).double().numpy()
    return float(answer.contains(true, COVERAGE)[~np.isnan(true)].mean())
