"""The card's tables of several targets: the number of known values, and the scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from maggnn.apps.fit.card.intervals import Judged
from maggnn.apps.fit.card.markdown import number, plain, table, with_interval
from maggnn.apps.fit.facts import Facts
from maggnn.data.molecules.several_targets import Known


def known_lines(facts: Facts, known: Mapping[str, Mapping[str, Known]]) -> list[str]:
    """Return a row for each target: its known values in each part and, for two classes, the share of the second."""
    if not known:
        return []
    parts = list(next(iter(known.values())))
    two_class = bool(facts.labels)
    head = ["known values (share of the second class)", "second class"] if two_class else ["known values"]
    rows = []
    for place, (name, counts) in enumerate(known.items()):
        label = [plain(facts.labels[place][1])] if two_class else []
        rows.append([plain(name), *label, *(_count(count, two_class) for count in counts.values())])
    return ["", *table([*head, *parts], rows)]


def _count(count: Known, two_class: bool) -> str:
    if not two_class or not count.values:
        return str(count.values)
    return f"{count.values} ({100 * count.positive / count.values:.1f} %)"


LARGEST_SHARE = 0.9
"""The largest share of a single target in the mean error over targets at which that mean is about all of them."""


def dominated(judged: Mapping[str, Mapping[str, Judged]], metric: str, own: str) -> str:
    """Say so if a single target, whose errors are the largest numbers, makes up nearly all of the mean error."""
    errors = {name: methods[own].value for name, methods in judged.items() if np.isfinite(methods[own].value)}
    total = sum(errors.values())
    if metric != "mae" or len(errors) < 2 or not total:
        return ""
    name = max(errors, key=errors.__getitem__)
    share = errors[name] / total
    if share <= LARGEST_SHARE:
        return ""
    return (
        f"The mean over targets is hardly more than the error of {plain(name)} ({100 * share:.3g} % of the sum), whose "
        "numbers are the largest: compare methods target by target."
    )


def target_lines(facts: Facts, judged: Mapping[str, Mapping[str, Judged]]) -> list[str]:
    """Return a row for each target: test scores of the model and its parts, and weights; empty for a single target."""
    if len(judged) < 2:
        return []
    metric = facts.metric
    own, *parts = next(iter(judged.values()))
    weights = [name for name, weight in facts.blend.weights.items() if weight]
    weighed = bool(facts.blend.targets) and len(weights) > 1
    head = [own, *([" / ".join(f"weight of {name}" for name in weights)] if weighed else []), *parts]
    rows = []
    for place, (name, methods) in enumerate(judged.items()):
        cells = [with_interval(methods[own], metric)]
        if weighed:
            said = facts.blend.targets[place].weights
            cells.append(" / ".join(f"{said[part]:.2f}" for part in weights))
        cells += [number(methods[part].value, metric) for part in parts]
        rows.append([plain(name), *cells])
    lines = table(["target", *head], rows)
    lacking = sum(not np.isfinite(methods[own].value) for methods in judged.values())
    if lacking:
        lines += ["", f"{lacking} targets have no score, because the test split lacks values or one of the classes."]
    return [*lines, ""]
