"""The columns that predictions add to a table: their names, their types and their values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from maggnn.apps.fit.fitted import Answer, FittedModel
from maggnn.data.molecules.target_column import are_truth

REASON, SIMILARITY = "reason", "similarity"
STD, LOW, HIGH = "std", "low", "high"
NOT_FINITE = "no prediction: the model's answer is not a finite number"


def answer_names(fitted: FittedModel) -> list[str]:
    """Return the names of added columns: predictions, their uncertainty, the similarity to training, and the reason.

    Each begins with a fixed word, so that a name from an untrusted folder cannot begin a spreadsheet formula.
    """
    facts = fitted.facts
    if facts.labels:
        pairs = zip(facts.targets, facts.labels, strict=True)
        names = [column for name, labels in pairs for column in (f"predicted_{name}", _share_name(name, labels))]
    else:
        kinds = ("predicted", *((STD, LOW, HIGH) if facts.blend.spreads else ()))
        names = [f"{kind}_{name}" for name in facts.targets for kind in kinds]
        names += [f"p_{name}" for name in facts.classes]
    return [*names, *([SIMILARITY] if fitted.known is not None else []), REASON]


def _share_name(target: str, labels: Sequence[str]) -> str:
    """Return the column name for the probability of the second class, which is named unless it is yes, true or 1."""
    return f"p_{target}" if are_truth(labels) else f"p_{target}_{labels[1]}"


def answer_types(fitted: FittedModel) -> list[str | None]:
    """Return the types of added columns, as for `arrow_table`: a label, numbers, and the reason."""
    number = "double" if fitted.dtype == torch.float64 else "number"
    own: list[str | None] = [None] if fitted.facts.classes else [None, number] * len(fitted.facts.labels)
    return [*own, *[number] * (len(answer_names(fitted)) - len(own) - 1), None]


def answer_columns(answer: Answer, fitted: FittedModel, coverage: float) -> list[np.ndarray | list[str]]:
    """Return the values of all answers: the columns of `answer_names` without the reason."""
    facts, values = fitted.facts, answer.values.numpy()
    columns: list[np.ndarray | list[str]] = list(values.T)
    if facts.labels:
        named = [
            [labels[int(share > 0.5)] for share in column]
            for labels, column in zip(facts.labels, values.T, strict=True)
        ]
        columns = [column for pair in zip(named, columns, strict=True) for column in pair]
    elif facts.classes:
        columns.insert(0, [facts.classes[place] for place in values.argmax(axis=1)])
    elif answer.errors is not None:
        kinds = (values, *(part.astype(values.dtype) for part in (answer.std, *answer.interval(coverage))))
        columns = [kind[:, target] for target in range(values.shape[1]) for kind in kinds]
    return columns if answer.similarity is None else [*columns, answer.similarity]
