"""What a fitted model's folder says of itself: `README.md` with the test and its rivals, and a picture of the test."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from maggnn.apps.draw import style
from maggnn.apps.fit.fitted import Facts
from maggnn.apps.fit.intervals import Judged, limits
from maggnn.data.files import whole_file

CARD, PICTURE, LEFT_OUT = "README.md", "test.png", "left_out.csv"
OWN = "this model (MAG-GNN)"
UNITS = {"auroc": "ROC-AUC in %", "accuracy": "accuracy in %", "mae": "mean absolute error"}
MOST_NAMES = 20
"""Classes whose names fit beside a picture."""

LONGEST_NAME = 100
"""Of a column or a class, in the card."""


@dataclass(frozen=True)
class Test:
    """Answers on the test part, and what every method scored there."""

    answers: Tensor
    y: Tensor
    judged: Mapping[str, Judged]
    judged_targets: Mapping[str, Judged]


@dataclass(frozen=True)
class Origin:
    """Where the data came from, and what became of it.

    Attributes:
        target: what the target column was taken for, and why.
        balance: how many molecules of each class each part has; empty for numbers.
    """

    table: str
    split: str
    num_rows: int
    num_left_out: int
    num_shared: int
    seconds: float
    target: str
    balance: Mapping[str, Mapping[str, int]]


def verdict(judged: Mapping[str, Judged], metric: str) -> str:
    """Which method is best, and whether the test is large enough to say so; without a finite score there is no rank."""
    sign = 1 if metric == "mae" else -1
    ranked = sorted(
        (name for name in judged if math.isfinite(judged[name].value)), key=lambda name: sign * judged[name].value
    )
    unranked = [name for name in judged if name not in ranked]
    said = [_compared(ranked, judged)] if ranked else []
    said += [f"Not ranked: {name}, whose answers are not all finite numbers." for name in unranked]
    return " ".join(said)


def _compared(ranked: Sequence[str], judged: Mapping[str, Judged]) -> str:
    """The best against the second best."""
    if len(judged) == 1:
        return "There is no rival to compare with: scikit-learn is not installed."
    if len(ranked) == 1:
        return f"Best here: {ranked[0]}, the only one with a score."
    first, second = ranked[:2]
    low, high = limits(judged[first].draws - judged[second].draws)
    if low <= 0 <= high:  # a limit of 0 is a draw in which they are equal
        return (
            f"Best here: {first}; but {second} is so close that {len(judged[first].draws)} draws of the test rows do "
            "not tell them apart."
        )
    return f"Best here: {first}, ahead of {second} in at least 97.5 % of the draws of the test rows."


def write_card(folder: Path, facts: Facts, origin: Origin, test: Test) -> None:
    """Write the text, all or nothing."""
    with whole_file(folder / CARD) as waiting:
        waiting.write_text(_text(facts, origin, test), encoding="utf-8")


def draw_test(path: Path, facts: Facts, test: Test) -> None:
    """True against predicted; the ROC curve of two classes; how often each class is taken for which."""
    if facts.task == "regression":
        _draw_values(path, facts.targets, test)
    elif facts.metric == "auroc":
        _draw_roc(path, facts.classes, test)
    else:
        _draw_confusion(path, facts.classes, test)


def number(value: float, metric: str) -> str:
    """A score as the card writes it."""
    return f"{value:.4g}" if metric == "mae" else f"{value:.1f}"


def with_interval(judged: Judged, metric: str) -> str:
    """A score and where it may lie."""
    low, high = judged.interval
    return f"{number(judged.value, metric)} ({number(low, metric)} to {number(high, metric)})"


def plain(text: str) -> str:
    """A name of the user's as Markdown that shows it as it is: no markup, no HTML, no formula of a spreadsheet."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    line = line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 3] + "..."
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"[\\`*\[\]|#~!${}=]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^[-+@]|:(?=//)", r"\\\g<0>", line)


def _code(text: str) -> str:
    """A name as code, where nothing in it can end the code."""
    return f"`{text}`" if re.fullmatch(r"[\w .,:/()+-]+", text) and len(text) <= LONGEST_NAME else plain(text)


def _text(facts: Facts, origin: Origin, test: Test) -> str:
    what = " and ".join(map(plain, facts.targets))
    kind = f"one of {len(facts.classes)} classes: {_listed(facts.classes)}" if facts.classes else "numbers"
    lines = [
        f"# {what} of molecules",
        "",
        f"A MAG-GNN that predicts {what} ({kind}) from SMILES, made by `maggnn fit` in {origin.seconds:.0f} s.",
        "",
        "    maggnn predict THIS_FOLDER new.csv -o answers.csv",
        "",
        "## Data",
        "",
        f"- Table: {_code(origin.table)}, {origin.num_rows} rows, SMILES in column {_code(facts.smiles_column)}.",
        f"- Target: {plain(origin.target)}.",
        f"- Left out: {origin.num_left_out} rows" + (f", listed in `{LEFT_OUT}`." if origin.num_left_out else "."),
        f"- Split: {origin.split}: " + ", ".join(f"{part} {count}" for part, count in facts.rows.items()) + ".",
    ]
    if origin.num_shared:
        lines.append(f"- Beware: {origin.num_shared} molecules are in more than one part, so the test is too kind.")
    lines += _balance(origin.balance)
    lines += ["", "## Test", "", f"| method | {UNITS[facts.metric]} (95 % interval) |", "|---|---|"]
    lines += [f"| {name} | {with_interval(judged, facts.metric)} |" for name, judged in test.judged.items()]
    lines += ["", verdict(test.judged, facts.metric), ""]
    if len(test.judged_targets) > 1:
        lines += [f"| target | {UNITS[facts.metric]} of this model |", "|---|---|"]
        lines += [f"| {plain(name)} | {with_interval(judged, 'mae')} |" for name, judged in test.judged_targets.items()]
        lines.append("")
    lines += [
        f"Intervals come from drawing the {len(test.y)} test rows anew (bootstrap). No row of the test was learned",
        "from or chosen by; the rivals learned from the rows to train on alone.",
        "",
        f"![the test]({PICTURE})",
        "",
    ]
    return "\n".join(lines)


def _balance(balance: Mapping[str, Mapping[str, int]]) -> list[str]:
    """How the classes fall into the parts: a row a class, with its count and its share of each part."""
    if not balance:
        return []
    totals = {part: sum(counts.values()) for part, counts in balance.items()}
    lines = ["", f"| class | {' | '.join(balance)} |", f"|---|{'---|' * len(balance)}"]
    for label in next(iter(balance.values())):
        cells = [f"{counts[label]} ({100 * counts[label] / totals[part]:.1f} %)" for part, counts in balance.items()]
        lines.append(f"| {plain(label)} | {' | '.join(cells)} |")
    return lines


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(plain, names[:MOST_NAMES])) + (", ..." if len(names) > MOST_NAMES else "")


def _draw_values(path: Path, targets: Sequence[str], test: Test) -> None:
    answers, y = test.answers.numpy(), test.y.reshape(len(test.y), -1).numpy()
    figure = style.new_figure(height=4.4, width=min(4.8 * len(targets), 24.0))
    for place, (axes, name) in enumerate(zip(figure.subplots(1, len(targets), squeeze=False)[0], targets, strict=True)):
        low, high = min(y[:, place].min(), answers[:, place].min()), max(y[:, place].max(), answers[:, place].max())
        axes.plot((low, high), (low, high), color=style.PALE, linewidth=1.2)
        axes.scatter(y[:, place], answers[:, place], s=12, alpha=0.6, color=style.COLOURS[0], linewidths=0)
        style.tidy(axes, "true", "predicted", style.literal(name))
    style.save(figure, path)


def _draw_roc(path: Path, classes: Sequence[str], test: Test) -> None:
    order = test.answers[:, 1].argsort(descending=True).numpy()
    positive = (test.y.numpy() == 1)[order]
    true, false = np.cumsum(positive) / positive.sum(), np.cumsum(~positive) / (~positive).sum()
    figure = style.new_figure(height=4.4, width=4.8)
    axes = figure.subplots()
    axes.plot((0, 1), (0, 1), color=style.PALE, linewidth=1.2)
    axes.plot((0, *false), (0, *true), color=style.COLOURS[0], linewidth=2)
    first, second = map(style.literal, classes)
    style.tidy(axes, f"{first} taken for {second}", f"{second} found", "ROC curve")
    style.save(figure, path)


def _draw_confusion(path: Path, classes: Sequence[str], test: Test) -> None:
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (test.y.numpy(), test.answers.argmax(dim=1).numpy()), 1)
    figure = style.new_figure(height=4.8, width=5.6)
    axes = figure.subplots()
    axes.imshow(counts / counts.sum(axis=1, keepdims=True).clip(min=1), cmap="Blues", vmin=0, vmax=1)
    style.tidy(axes, "predicted", "true", "test molecules")
    axes.grid(visible=False)
    if len(classes) <= MOST_NAMES:
        names = [style.literal(name) for name in classes]
        axes.set_xticks(range(len(classes)), names, rotation=45, ha="right")
        axes.set_yticks(range(len(classes)), names)
        for row, column in np.ndindex(counts.shape):
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=8, color=style.INK)
    style.save(figure, path)
