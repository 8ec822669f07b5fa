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

BINS = 5
"""Groups of equally many rows whose probabilities are compared with how often they were right."""


def draw_test(path: Path, facts: Facts, test: Test) -> None:
    """True against predicted, the ROC curve or the confusion matrix; beside it coverage or calibration."""
    targets = facts.targets if facts.task == "regression" else ("",)
    beside = facts.task == "classification" or test.answer.errors is not None
    figure = style.new_figure(height=4.4, width=min(4.8 * (len(targets) + beside), 24.0))
    plots = figure.subplots(1, len(targets) + beside, squeeze=False)[0]
    if facts.task == "regression":
        _draw_values(plots, facts.targets, test)
        if beside:
            _draw_coverage(plots[-1], facts.targets, test)
    else:
        (_draw_roc if facts.metric == "auroc" else _draw_confusion)(plots[0], facts.classes, test)
        _draw_calibration(plots[1], facts.classes, test)
    style.save(figure, path)


def _draw_values(plots: Any, targets: Sequence[str], test: Test) -> None:
    answers, y = test.answer.values.numpy(), test.true
    for place, (axes, name) in enumerate(zip(plots, targets, strict=False)):
        low, high = min(y[:, place].min(), answers[:, place].min()), max(y[:, place].max(), answers[:, place].max())
        axes.plot((low, high), (low, high), color=style.PALE, linewidth=1.2)
        axes.scatter(y[:, place], answers[:, place], s=12, alpha=0.6, color=style.COLOURS[0], linewidths=0)
        style.tidy(axes, "true", "predicted", style.literal(name))


def _draw_coverage(axes: Any, targets: Sequence[str], test: Test) -> None:
    """How often intervals of each coverage hold the true value."""
    wanted = COVERAGES[4::5]
    limits = [test.answer.interval(float(coverage)) for coverage in wanted]
    found = np.array([((low <= test.true) & (test.true <= high)).mean(axis=0) for low, high in limits])
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
    groups = np.array_split(np.argsort(likely, kind="stable"), min(BINS, len(likely)))
    axes.plot((0, 1), (0, 1), color=style.PALE, linewidth=1.2)
    points = [(likely[group].mean(), right[group].mean()) for group in groups]
    axes.plot(*zip(*points, strict=True), "o-", markersize=5, color=style.COLOURS[0])
    style.tidy(axes, f"predicted probability, {what}", "share that is right", "calibration")


def _draw_roc(axes: Any, classes: Sequence[str], test: Test) -> None:
    order = test.answer.values[:, 1].argsort(descending=True).numpy()
    positive = (test.y.numpy() == 1)[order]
    true, false = np.cumsum(positive) / positive.sum(), np.cumsum(~positive) / (~positive).sum()
    axes.plot((0, 1), (0, 1), color=style.PALE, linewidth=1.2)
    axes.plot((0, *false), (0, *true), color=style.COLOURS[0], linewidth=2)
    first, second = map(style.literal, classes)
    style.tidy(axes, f"{first} taken for {second}", f"{second} found", "ROC curve")


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
