"""The model card, `README.md` of a fitted model's folder: the data, and the test of the model and of its parts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from maggnn.apps.fit.blend import NETWORK, WITH_DESCRIPTORS
from maggnn.apps.fit.card.intervals import Judged
from maggnn.apps.fit.card.markdown import LONGEST_NAME, better, number, plain, table, with_interval
from maggnn.apps.fit.card.metrics import limits
from maggnn.apps.fit.card.reported import FILE as METRICS
from maggnn.apps.fit.card.reported import MOST_REPORTS, TargetReport, class_rows, labels, metric_rows, threshold_words
from maggnn.apps.fit.card.target_lines import dominated, known_lines, target_lines
from maggnn.apps.fit.classical.cheap_baselines import NAMES
from maggnn.apps.fit.classical.trees_file import MOST_KNOWN
from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.fitted import Answer
from maggnn.apps.fit.tables.cross_validation import CrossValidated
from maggnn.apps.fit.training_rows import FILE as TRAINING
from maggnn.apps.fit.training_rows import TEST_FILE
from maggnn.apps.fit.uncertainty import COVERAGE
from maggnn.data.files import whole_file
from maggnn.data.molecules.several_targets import Known
from maggnn.training.progress import LOG

CARD, PICTURE, LEFT_OUT = "README.md", "test.png", "left_out.csv"
OWN = "this model"
PARTS = {
    NETWORK: "its MAG-GNN networks",
    WITH_DESCRIPTORS: "its MAG-GNN networks with descriptors",
    **{name: f"its {words}" for name, words in NAMES.items()},
}
READ_TWICE = (
    "The networks answer without and with descriptors of the molecule; for each target, only the better of the two",
    "has a weight.",
)
UNITS = {"auroc": "ROC-AUC", "accuracy": "accuracy", "mae": "mean absolute error"}
LONGEST_REASON = 400
"""The largest number of characters of the sentence that says how the target was interpreted."""

MOST_NAMES = 20
"""The largest number of classes whose names are listed."""


@dataclass(frozen=True)
class Part:
    """A part of a blend: its weight (None for the whole blend) and its out-of-fold score."""

    weight: float | None
    out_of_fold: float


@dataclass(frozen=True)
class Test:
    """Answers on the test split, the scores of every method there, and the parts of a blend.

    Attributes:
        judged: for each method, the metric by which models are compared.
        metrics: all metrics of each target.
    """

    answer: Answer
    y: Tensor
    judged: Mapping[str, Judged]
    metrics: Mapping[str, TargetReport]
    judged_targets: Mapping[str, Mapping[str, Judged]]
    parts: Mapping[str, Part]

    @property
    def true(self) -> np.ndarray:
        """The true numbers, [rows, targets]."""
        return self.y.reshape(len(self.y), -1).double().numpy()


FEWEST_COMPARED = 6
"""The smallest number of test rows by which two methods are compared. A method that is better on each of five rows is
so by chance in one of 16 cases, but bootstrap resamples of them would all agree."""


@dataclass(frozen=True)
class Origin:
    """The origin of the data, and how they were processed.

    Attributes:
        target: how the target column was interpreted, and why.
        balance: the number of molecules of each class in each part; empty for numbers and for several targets.
        known: for several targets, the number of known values in each part; else empty.
        choices: the choices about rows, one line each.
        validated: the cross-validation, if one was requested.
    """

    table: str
    split: str
    num_rows: int
    num_left_out: int
    num_shared: int
    seconds: float
    target: str
    balance: Mapping[str, Mapping[str, int]]
    known: Mapping[str, Mapping[str, Known]] = field(default_factory=dict)
    choices: Sequence[str] = ()
    validated: CrossValidated | None = None


def covered(test: Test, coverage: float = COVERAGE) -> dict[str, float] | None:
    """Return the share of true test values within the prediction intervals, with its 95 % interval (Wilson's)."""
    if test.answer.errors is None:
        return None
    known = ~np.isnan(test.true)
    if not known.any():
        return None
    inside = test.answer.contains(test.true, coverage)[known]
    share, rows, z = float(inside.mean()), int(known.any(axis=1).sum()), 1.96
    middle, reach = share + z**2 / (2 * rows), z * math.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    scale = 1 + z**2 / rows
    return {"wanted": coverage, "share": share, "low": (middle - reach) / scale, "high": (middle + reach) / scale}


def verdict(judged: Mapping[str, Judged], metric: str, rows: int) -> str:
    """Say which method is best on some rows, and whether significantly so; only finite scores are ranked."""
    sign = 1 if metric == "mae" else -1
    ranked = sorted(
        (name for name in judged if math.isfinite(judged[name].value)), key=lambda name: sign * judged[name].value
    )
    unranked = [name for name in judged if name not in ranked]
    said = [_compared(ranked, judged, rows)] if ranked else []
    said += [f"Not ranked: {name}, whose answers are not all finite numbers." for name in unranked]
    return " ".join(said)


def _compared(ranked: Sequence[str], judged: Mapping[str, Judged], rows: int) -> str:
    """Compare the best method with the second best."""
    if len(judged) == 1:
        return "There is no baseline to compare with: scikit-learn is not installed."
    if len(ranked) == 1:
        return f"Best here: {ranked[0]}, the only one with a score."
    first, second = ranked[:2]
    if rows < FEWEST_COMPARED:
        return f"Best here: {first}; {rows} test rows are too few to compare it with {second}."
    low, high = limits(judged[first].draws - judged[second].draws)
    if low <= 0 <= high:  # a limit of 0 is a sample in which they are equal
        count = f"{len(judged[first].draws):,} bootstrap resamples"
        return f"Best here: {first}; the difference to {second} is not significant ({count})."
    return f"Best here: {first}, better than {second} in at least 97.5 % of the bootstrap resamples of the test rows."


def verdict_of_test(facts: Facts, test: Test) -> str:
    """Say which method is best on the test split, and whether the mean over targets is that of one of them."""
    said = (verdict(test.judged, facts.metric, len(test.y)), dominated(test.judged_targets, facts.metric, OWN))
    return " ".join(filter(None, said))


def write_card(folder: Path, facts: Facts, origin: Origin, test: Test) -> None:
    """Write the card atomically."""
    with whole_file(folder / CARD) as waiting:
        waiting.write_text(_text(facts, origin, test), encoding="utf-8")


def remove_card(folder: Path) -> None:
    """Remove the files by which `maggnn fit` describes a model, before another model is saved in its folder."""
    for name in (CARD, METRICS, PICTURE, LEFT_OUT, TRAINING, TEST_FILE, LOG):
        (folder / name).unlink(missing_ok=True)


def _code(text: str) -> str:
    """Format a name as code if no character in it can end the code."""
    return f"`{text}`" if re.fullmatch(r"[\w .,:/()+-]+", text) and len(text) <= LONGEST_NAME else plain(text)


def _text(facts: Facts, origin: Origin, test: Test) -> str:
    few = len(facts.targets) <= MOST_REPORTS
    what = " and ".join(map(plain, labels(facts))) if few else f"{len(facts.targets)} targets"
    kind = f"one of {len(facts.classes)} classes: {_listed(facts.classes)}" if facts.classes else "numbers"
    kind = "two classes each" if facts.labels else kind
    lines = [
        f"# {what} of molecules",
        "",
        f"{_made_of(facts)} that predicts {what} ({kind}) from SMILES, made by `maggnn fit` in {origin.seconds:.0f} s.",
        "",
        "    maggnn predict THIS_FOLDER new.csv -o answers.csv",
        "",
        "## Data",
        "",
        f"- Table: {_code(origin.table)}, {origin.num_rows} rows, SMILES in column {_code(facts.smiles_column)}.",
        f"- Target: {plain(origin.target, LONGEST_REASON)}.",
        f"- Left out: {origin.num_left_out} rows" + (f", listed in `{LEFT_OUT}`." if origin.num_left_out else "."),
        f"- Split: {origin.split}: " + ", ".join(f"{part} {count}" for part, count in facts.rows.items()) + ".",
    ]
    lines += [f"- {line}." for line in origin.choices]
    if origin.num_shared:
        lines.append(f"- Warning: {origin.num_shared} molecules are in more than one part: test scores are optimistic.")
    lines += [*_balance(origin.balance), *known_lines(facts, origin.known)]
    lines += ["", "## Test", "", *_methods(facts, test), "", verdict_of_test(facts, test), ""]
    lines += target_lines(facts, test.judged_targets)
    if len(test.metrics) <= MOST_REPORTS:
        for report in test.metrics.values():
            lines += _metrics(facts, report)
    lines += [
        f"The 95 % intervals of scores are bootstrap intervals over the {len(test.y)} test rows, which were used for",
        f"neither training nor model selection. All metrics are also in `{METRICS}`.",
        "",
        *_uncertainty(facts, test),
        f"`{TRAINING}` lists the training molecules for `maggnn explain`, `{TEST_FILE}` some of the test split for",
        "`maggnn show`; delete both before you share a model of confidential molecules.",
        "",
        f"![the test]({PICTURE})",
        "",
        *([] if origin.validated is None else origin.validated.lines(facts.metric, UNITS[facts.metric])),
    ]
    return "\n".join(lines)


def _made_of(facts: Facts) -> str:
    blend = facts.blend
    used = [PARTS[name].removeprefix("its ") for name, weight in blend.weights.items() if weight]
    return f"A blend of {blend.folds} models each of {' and '.join(used)}" if blend.folds > 1 else "A MAG-GNN"


def _direction(facts: Facts) -> str:
    """Return the unit of the metric, if all targets have the same, and which direction is better."""
    units = set(facts.units)
    unit = f"{plain(units.pop())}, " if facts.metric == "mae" and len(units) == 1 and all(units) else ""
    return unit + better(facts.metric)


def _methods(facts: Facts, test: Test) -> list[str]:
    """Return the table of methods; for a blend, with the weights of its parts and their out-of-fold scores."""
    unit, metric = UNITS[facts.metric], facts.metric
    if not test.parts:
        rows = [[name, with_interval(judged, metric)] for name, judged in test.judged.items()]
        return table(["method", f"{unit}, {_direction(facts)} (95 % interval)"], rows)
    rows = []
    for name, judged in test.judged.items():
        part = test.parts[name]
        weight = "" if part.weight is None else f"{part.weight:.2f}" if part.weight else "0 (left out)"
        rows.append([name, weight, number(part.out_of_fold, metric), with_interval(judged, metric)])
    folds = facts.blend.folds
    out_of_fold = f"{unit}, {_direction(facts)}: out of fold"
    return [
        *table(["method", "weight", out_of_fold, "on the test split (95 % interval)"], rows),
        "",
        f"An answer is the weighted mean of the parts, each of which is the mean of {folds} models, one for each of",
        f"{folds} folds of the training and validation rows. The weights were chosen by the out-of-fold loss, that is",
        "on rows that a model did not learn from.",
        *(READ_TWICE if PARTS[WITH_DESCRIPTORS] in test.parts else ()),
    ]


def _metrics(facts: Facts, report: TargetReport) -> list[str]:
    """Return the metrics of one target by all methods; for several classes, also those of each class."""
    methods = [f"{name} (95 % interval)" if not place else name for place, name in enumerate(report.methods)]
    lines = [f"### {plain(report.label)}: {report.own.count} test rows", ""]
    lines += table(["metric", *methods], [[plain(name), *values] for name, *values in metric_rows(report)])
    header, rows = class_rows(report)
    if rows:
        lines += ["", "Each class against all others, by this model:", ""]
        lines += table(header, [[plain(label), *values] for label, *values in rows])
    words = threshold_words(replace(report, positive=plain(report.positive)), facts.blend)
    return [*lines, "", *([words, ""] if words else [])]


def _uncertainty(facts: Facts, test: Test) -> list[str]:
    """Return the lines about uncertainty, with the coverage on the test split."""
    blend, lines = facts.blend, []
    found = covered(test)
    if found is not None:
        lines += [
            f"Intervals of {100 * found['wanted']:.0f} % (columns low and high of `maggnn predict`) contain",
            f"{100 * found['share']:.1f} % of the true values of the test split",
            f"(95 % interval of that share: {100 * found['low']:.1f} to {100 * found['high']:.1f} %).",
        ]
    if blend.temperatures or any(target.temperatures for target in blend.targets):
        reason = "from which a model did not learn" if blend.folds > 1 else "by which the network's steps were chosen"
        lines.append(f"Probabilities were calibrated on {blend.held_out}, {reason}.")
    if test.answer.similarity is not None and len(test.answer.similarity):
        near = np.median(test.answer.similarity)
        many = sum(facts.rows.get(part, 0) for part in ("train", "val")) > MOST_KNOWN
        among = f"of {MOST_KNOWN:,} training molecules, a random sample," if many else "training molecule"
        lines.append(f"The median Tanimoto similarity of a test molecule to the most similar {among} is {near:.2f}.")
        same = int((test.answer.similarity > 1 - 1e-6).sum())
        if same:
            lines.append(
                f"{same} test molecules have the fingerprint of a training molecule, as its stereoisomers do: for "
                "these, the model has seen almost the same molecules."
            )
    return [*lines, ""] if lines else []


def _balance(balance: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a table with a row for each class: its count and its share in each part of the split."""
    if not balance:
        return []
    totals = {part: sum(counts.values()) for part, counts in balance.items()}
    rows = [
        [plain(label), *(f"{counts[label]} ({100 * counts[label] / totals[part]:.1f} %)"
                         for part, counts in balance.items())]
        for label in next(iter(balance.values()))
    ]  # fmt: skip
    return ["", *table(["class", *balance], rows)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(plain, names[:MOST_NAMES])) + (", ..." if len(names) > MOST_NAMES else "")
