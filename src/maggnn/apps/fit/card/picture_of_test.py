"""The picture of a fitted model's test: what it says against the truth, and whether it knows how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.apps.draw import style
from maggnn.apps.fit.card.model_card import MOST_NAMES, Test
from maggnn.apps.fit.fitted import Facts
from maggnn.apps.fit.uncertainty import COVERAGES

MOST_PLOTS = 6
"""Targets that have a plot of their own."""

BINS = 5
"""Groups of equally many rows whose probabilities are compared with how often they were right."""


def draw_test(path: Path, facts: Facts, test: Test) -> None:
    """True against predicted, the ROC curve or the confusion matrix; beside it coverage or calibration."""
    targets = facts.targets[:MOST_PLOTS] if facts.task == "regression" else ("",)
    beside = facts.task != "regression" or test.answer.errors is not None
    figure = style.new_figure(height=4.4, width=min(4.8 * (len(targets) + beside), 24.0))
    plots = figure.subplots(1, len(targets) + beside, squeeze=False)[0]
    if facts.task == "regression":
        _draw_values(plots, targets, test)
        if beside:
            _draw_coverage(plots[-1], facts.targets, test)
    elif facts.task == "multilabel":
        _draw_rocs(plots[0], facts.targets, test)
        _draw_share_calibration(plots[1], test)
    else:
        (_draw_roc if facts.metric == "auroc" else _draw_confusion)(plots[0], facts.classes, test)
        _draw_calibration(plots[1], facts.classes, test)
    style.save(figure, path)


def _draw_values(plots: Any, targets: Sequence[str], test: Test) -> None:
    for place, (axes, name) in enumerate(zip(plots, targets, strict=False)):
        known = ~np.isnan(test.true[:, place])
        true, said = test.true[known, place], test.answer.values.numpy()[known, place]
        low, high = min(true.min(initial=0), said.min(initial=0)), max(true.max(initial=0), said.max(initial=0))
        if len(true):
            low, high = min(true.min(), said.min()), max(true.max(), said.max())
        axes.plot((low, high), (low, high), color=style.PALE, linewidth=1.2)
        axes.scatter(true, said, s=12, alpha=0.6, color=style.COLOURS[0], linewidths=0)
        style.tidy(axes, "true", "predicted", style.literal(name))


def _draw_coverage(axes: Any, targets: Sequence[str], test: Test) -> None:
    """How often intervals of each coverage hold the true value."""
    wanted = COVERAGES[4::5]
    limits = [test.answer.interval(float(coverage)) for coverage in wanted]
    known = np.maximum((~np.isnan(test.true)).sum(axis=0), 1)
    found = np.array([((low <= test.true) & (test.true <= high)).sum(axis=0) / known for low, high in limits])
    axes.plot((0, 100), (0, 100), color=style.PALE, linewidth=1.2)
    for place, name in enumerate(targets):
        colour = style.COLOURS[place % len(style.COLOURS)]
        axes.plot(100 * wanted, 100 * found[:, place], "o-", markersize=3, color=colour, label=style.literal(name))
    if 1 < len(targets) <= MOST_NAMES:
        axes.legend(fontsize=8, frameon=False)
    style.tidy(axes, "coverage asked for, %", "true values inside, %", "intervals")


def _draw_calibration(axes: Any, classes: Sequence[str], test: Test) -> None:
    """How often a class is right that is said to be so likely: the second of two, the likeliest of several."""
    said, y = test.answer.values.numpy(), test.y.numpy()
    if len(classes) == 2:
        likely, right, what = said[:, 1], y == 1, style.literal(classes[1])
    else:
        likely, right, what = said.max(axis=1), said.argmax(axis=1) == y, "likeliest class"
    _draw_groups(axes, likely, right, what)


def _draw_share_calibration(axes: Any, test: Test) -> None:
    """The same of the second classes of several targets, all known values together."""
    known = ~np.isnan(test.true)
    _draw_groups(axes, test.answer.values.numpy()[known], test.true[known] == 1, "second class of all targets")


def _draw_groups(axes: Any, likely: np.ndarray, right: np.ndarray, what: str) -> None:
    groups = np.array_split(np.argsort(likely, kind="stable"), min(BINS, len(likely)))
    axes.plot((0, 1), (0, 1), color=style.PALE, linewidth=1.2)
    points = [(likely[group].mean(), right[group].mean()) for group in groups]
    axes.plot(*zip(*points, strict=True), "o-", markersize=5, color=style.COLOURS[0])
    style.tidy(axes, f"predicted probability, {what}", "share that is right", "calibration")


def _draw_roc(axes: Any, classes: Sequence[str], test: Test) -> None:
    axes.plot((0, 1), (0, 1), color=style.PALE, linewidth=1.2)
    false, true = _roc(test.answer.values[:, 1].numpy(), test.y.numpy() == 1)
    axes.plot(false, true, color=style.COLOURS[0], linewidth=2)
    first, second = map(style.literal, classes)
    style.tidy(axes, f"{first} taken for {second}", f"{second} found", "ROC curve")


def _draw_rocs(axes: Any, targets: Sequence[str], test: Test) -> None:
    """A curve for each of several targets whose test part has both classes."""
    axes.plot((0, 1), (0, 1), color=style.PALE, linewidth=1.2)
    for place, name in enumerate(targets):
        known = ~np.isnan(test.true[:, place])
        positive = test.true[known, place] == 1
        if positive.any() and not positive.all():
            colour = style.COLOURS[place % len(style.COLOURS)]
            false, true = _roc(test.answer.values.numpy()[known, place], positive)
            axes.plot(false, true, color=colour, linewidth=1.4, label=style.literal(name))
    if len(targets) <= MOST_PLOTS * 2:
        axes.legend(fontsize=7, frameon=False)
    style.tidy(axes, "first class taken for second", "second class found", "ROC curves of the targets")


def _roc(said: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of false and of true positives, from the highest score down."""
    ordered = positive[np.argsort(-said, kind="stable")]
    true, false = np.cumsum(ordered) / ordered.sum(), np.cumsum(~ordered) / (~ordered).sum()
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], true])


def _draw_confusion(axes: Any, classes: Sequence[str], test: Test) -> None:
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (test.y.numpy(), test.answer.values.argmax(dim=1).numpy()), 1)
    axes.imshow(counts / counts.sum(axis=1, keepdims=True).clip(min=1), cmap="Blues", vmin=0, vmax=1)
    style.tidy(axes, "predicted", "true", "test molecules")
    axes.grid(visible=False)
    if len(classes) <= MOST_NAMES:
        names = [style.literal(name) for name in classes]
        axes.set_xticks(range(len(classes)), names, rotation=45, ha="right")
        axes.set_yticks(range(len(classes)), names)
        for row, column in np.ndindex(counts.shape):
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=8, color=style.INK)
