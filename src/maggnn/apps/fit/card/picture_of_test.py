"""The plots of a fitted model's test: predictions against the truth, and the calibration of their uncertainty.

    numbers  a parity plot of each target, and the empirical coverage of prediction intervals
    classes  the confusion matrix, the ROC and the precision-recall curve, and the calibration of probabilities
    targets  for several two-class targets, their ROC curves and the calibration of all probabilities together

Curves and matrices are computed by scikit-learn; without it, the curves are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.apps.draw import style
from maggnn.apps.fit.card.metrics import WITH_UNIT, chosen_classes
from maggnn.apps.fit.card.model_card import MOST_NAMES, Test
from maggnn.apps.fit.card.reported import labels, metric_name, number
from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.uncertainty import COVERAGES

BINS = 5
"""The number of bins with equally many rows in calibration plots."""

PANEL, ACROSS = 4.6, 3
"""The side of a panel in inches, and the number of panels in a row."""

GUIDE = style.GREYS[0]
"""The colour of lines to compare with: the identity and random guessing. Its contrast with white is above 3."""

MOST_TARGETS = 24
"""The largest number of targets with a parity plot; the tables of the card contain all targets."""

MOST_CURVES = len(style.COLOURS)
"""The largest number of classes with a curve; more could not be distinguished."""

Plot = Callable[[Any], None]
"""Draws into the axes of one panel."""


def draw_test(path: Path, facts: Facts, test: Test) -> None:
    """Draw all panels of a test into one PNG."""
    plots = {"classification": _of_classes, "multilabel": _of_labels, "regression": _of_numbers}[facts.task](
        facts, test
    )
    across = 2 if len(plots) in (2, 4) else min(ACROSS, len(plots))
    down = math.ceil(len(plots) / across)
    figure = style.new_figure(height=(PANEL + 0.35) * down, width=PANEL * across)
    panels = figure.subplots(down, across, squeeze=False).flatten()
    for axes, plot in zip(panels, plots, strict=False):
        plot(axes)
    for axes in panels[len(plots) :]:
        axes.set_axis_off()
    style.save(figure, path)


def _of_numbers(facts: Facts, test: Test) -> list[Plot]:
    names = labels(facts)
    count = min(len(names), MOST_TARGETS)
    plots: list[Plot] = [
        lambda axes, k=k: _draw_parity(axes, facts.targets[k], names[k], k, test) for k in range(count)
    ]
    if test.answer.errors is not None:
        plots.append(lambda axes: _draw_coverage(axes, names, test))
    return plots


def _of_labels(facts: Facts, test: Test) -> list[Plot]:
    said, known = test.answer.values.double().numpy(), np.isfinite(test.true)
    what = "second class of all targets"
    plots: list[Plot] = [lambda axes: _draw_groups(axes, said[known], test.true[known] == 1, what, "values")]
    if test.metrics:
        plots.insert(0, lambda axes: _draw_target_curves(axes, facts.targets, test))
    return plots


def _of_classes(facts: Facts, test: Test) -> list[Plot]:
    report = test.metrics.get(facts.targets[0]) if facts.targets else None
    threshold = None if report is None else report.own.threshold
    plots: list[Plot] = [lambda axes: _draw_confusion(axes, facts, test, threshold)]
    if report is not None and len(facts.classes) <= MOST_CURVES:
        plots.append(lambda axes: _draw_curves(axes, facts, test, threshold, roc=True))
        plots.append(lambda axes: _draw_curves(axes, facts, test, threshold, roc=False))
    plots.append(lambda axes: _draw_calibration(axes, facts, test))
    return plots


def _draw_parity(axes: Any, target: str, label: str, place: int, test: Test) -> None:
    """Draw true against predicted values on equal axes, with the number of rows and the errors."""
    predicted, true = test.answer.values.double().numpy()[:, place], test.true[:, place]
    shown = np.isfinite(predicted) & np.isfinite(true)
    predicted, true = predicted[shown], true[shown]
    axes.scatter(true, predicted, s=20, alpha=0.7, color=style.COLOURS[0], linewidths=0, zorder=2)
    both = np.concatenate([true, predicted]) if len(true) else np.array([0.0, 1.0])
    margin = 0.04 * (np.ptp(both) or 1.0)
    ends = (both.min() - margin, both.max() + margin)
    axes.plot(ends, ends, color=GUIDE, linewidth=1.2, zorder=1)
    axes.locator_params(axis="y", nbins=7)
    axes.set_ylim(ends)
    axes.set_xticks(axes.get_yticks())  # equal axes have equal ticks
    axes.set_xlim(ends)
    axes.set_aspect("equal", adjustable="box")
    style.tidy(axes, f"true {style.literal(label)}", f"predicted {style.literal(label)}", "parity")
    lines = [f"n = {len(true)}"]
    if target in test.metrics:
        report = test.metrics[target]
        unit = f" {style.literal(report.unit)}" if report.unit else ""
        lines += [
            f"{metric_name(key)} = {number(value, key)}{unit if key in WITH_UNIT else ''}"
            for key, value in report.own.values.items()
        ]
    middle = sum(ends) / 2
    above, below = ((true < middle) & (predicted > middle)).sum(), ((true > middle) & (predicted < middle)).sum()
    x, y, side, edge = (0.04, 0.96, "left", "top") if above <= below else (0.96, 0.04, "right", "bottom")
    axes.text(x, y, "\n".join(lines), transform=axes.transAxes, ha=side, va=edge, fontsize=9, color=style.INK,
              bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 2.0}, zorder=3)  # fmt: skip


def _draw_coverage(axes: Any, names: Sequence[str], test: Test) -> None:
    """Draw how often intervals of each nominal coverage contain the true value."""
    wanted = COVERAGES[4::5]
    known = np.maximum(np.isfinite(test.true).sum(axis=0), 1)
    found = np.array([test.answer.contains(test.true, coverage).sum(axis=0) / known for coverage in wanted.tolist()])
    axes.plot((0, 100), (0, 100), color=GUIDE, linewidth=1.2, label="ideal")
    for place, name in enumerate(names[:MOST_CURVES]):
        axes.plot(100 * wanted, 100 * found[:, place], "o-", markersize=3.5, color=style.COLOURS[place],
                  label=style.literal(name))  # fmt: skip
    _legend(axes, "upper left")
    _unit_square(axes, 100)
    axes.set_xticks(axes.get_yticks()[1:-1])
    style.tidy(axes, "nominal coverage, %", "true values within the interval, %",
               f"prediction intervals (n = {len(test.true)})")  # fmt: skip


def _draw_calibration(axes: Any, facts: Facts, test: Test) -> None:
    """Draw the calibration of probabilities: of the second of two classes, or of the most probable of several."""
    said, y = test.answer.values.numpy(), test.y.numpy()
    if len(facts.classes) == 2:
        likely, right, what = said[:, 1], y == 1, _class_name(facts, 1)
    else:
        likely, right, what = said.max(axis=1), said.argmax(axis=1) == y, "most probable class"
    _draw_groups(axes, likely, right, what, "rows")


def _class_name(facts: Facts, place: int) -> str:
    """Return a class, with its target if the name alone says little, such as "toxic = 1"."""
    name = facts.classes[place]
    alone = len(facts.classes) > 2 and not name.isdigit()
    return style.literal(name if alone or not facts.targets else f"{facts.targets[0]} = {name}")


def _draw_groups(axes: Any, likely: np.ndarray, right: np.ndarray, what: str, counted: str) -> None:
    """Draw bins of equally many rows: the mean predicted probability against the share of correct predictions."""
    groups = np.array_split(np.argsort(likely, kind="stable"), min(BINS, len(likely)))
    axes.plot((0, 1), (0, 1), color=GUIDE, linewidth=1.2, label="ideal")
    points = [(likely[group].mean(), right[group].mean()) for group in groups]
    axes.plot(*zip(*points, strict=True), "o-", markersize=5, color=style.COLOURS[0],
              label=f"mean of {min(map(len, groups))} or more {counted}")  # fmt: skip
    _legend(axes, "upper left")
    _unit_square(axes)
    style.tidy(axes, f"predicted probability, {what}", "observed frequency", f"calibration (n = {len(likely)})")


def _draw_curves(axes: Any, facts: Facts, test: Test, threshold: float | None, roc: bool) -> None:
    """Draw ROC or precision-recall curves: for the second of two classes, else for each class against all others."""
    said, y, classes = test.answer.values.double().numpy(), test.y.numpy(), facts.classes
    places = [1] if len(classes) == 2 else range(len(classes))
    if roc:
        _guess(axes, (0, 1), (0, 1), "random guessing")
    for number_, place in enumerate(places):
        positive = y == place
        if not 0 < positive.sum() < len(y) or not np.isfinite(said).all():
            continue
        x, up, area = _curve(positive, said[:, place], roc)
        colour = style.COLOURS[number_]
        axes.plot(x, up, color=colour, linewidth=2, label=f"{_class_name(facts, place)}: area {area:.3f}",
                  drawstyle="default" if roc else "steps-pre")  # fmt: skip
        if not roc:  # the precision of random guessing
            share, single = positive.mean(), len(places) == 1
            _guess(axes, (0, 1), (share, share), f"random guessing: {share:.3f}" if single else "",
                   GUIDE if single else colour)  # fmt: skip
        if threshold is not None:
            axes.plot(*_at_threshold(positive, said[:, place], threshold, roc), "o", color=colour, markersize=7,
                      markeredgecolor="white", label=f"at the threshold {threshold:.2f}")  # fmt: skip
    if not roc and len(places) > 1 and axes.lines:
        _guess(axes, (), (), "random guessing")
    _unit_square(axes)
    _legend(axes, "lower right" if roc else "lower left")
    names = ("false positive rate", "true positive rate", f"ROC curve (n = {len(y)})")
    style.tidy(axes, *(names if roc else ("recall", "precision", f"precision-recall curve (n = {len(y)})")))


def _guess(axes: Any, x: Sequence[float], y: Sequence[float], label: str, colour: str = GUIDE) -> None:
    """Draw the dashed line of random guessing; an empty label keeps it out of the legend."""
    axes.plot(x, y, color=colour, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1, label=label or "_")


def _legend(axes: Any, place: str, size: int = 9) -> None:
    """Draw the legend on white, which keeps it readable where a curve passes below it."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=size, loc=place, labelcolor=style.INK, framealpha=0.85, edgecolor="none",
                    facecolor="white")  # fmt: skip


def _draw_target_curves(axes: Any, targets: Sequence[str], test: Test) -> None:
    """Draw the ROC curve of each of several targets whose test split has both classes."""
    _guess(axes, (0, 1), (0, 1), "random guessing")
    for place, name in enumerate(targets):
        known = np.isfinite(test.true[:, place])
        positive = test.true[known, place] == 1
        said = test.answer.values.double().numpy()[known, place]
        if 0 < positive.sum() < len(positive) and np.isfinite(said).all():
            x, up, area = _curve(positive, said, roc=True)
            colour = style.COLOURS[place % MOST_CURVES]
            line = "-" if place < MOST_CURVES else (0, (4, 2)) if place < 2 * MOST_CURVES else (0, (1, 1))
            label = f"{style.literal(name)}: area {area:.3f} (n = {len(positive)})"
            axes.plot(x, up, color=colour, linewidth=1.6, linestyle=line, label=label)
    _unit_square(axes)
    if len(targets) <= MOST_NAMES:
        _legend(axes, "lower right", 8 if len(targets) <= 6 else 6)
    style.tidy(axes, "false positive rate", "true positive rate", "ROC curves of the targets")


def _curve(positive: np.ndarray, scores: np.ndarray, roc: bool) -> tuple[np.ndarray, np.ndarray, float]:
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

    if roc:
        false_rate, true_rate, _ = roc_curve(positive, scores)
        return false_rate, true_rate, float(roc_auc_score(positive, scores))
    precision, recall, _ = precision_recall_curve(positive, scores)
    return recall[::-1], precision[::-1], float(average_precision_score(positive, scores))


def _at_threshold(positive: np.ndarray, scores: np.ndarray, threshold: float, roc: bool) -> tuple[float, float]:
    """Return the point of the curve for a threshold."""
    taken = scores >= threshold
    found = float(taken[positive].mean())
    if roc:
        return float(taken[~positive].mean()), found
    return found, float(positive[taken].mean()) if taken.any() else 1.0


def _draw_confusion(axes: Any, facts: Facts, test: Test, threshold: float | None) -> None:
    """Draw the confusion matrix with counts, shaded by the share of each true class."""
    classes, target = facts.classes, f" {style.literal(facts.targets[0])}" if facts.targets else ""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (test.y.numpy(), chosen_classes(test.answer.values.numpy(), threshold)), 1)
    shares = counts / counts.sum(axis=1, keepdims=True).clip(min=1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    at = "" if threshold is None else f", threshold {threshold:.2f}"
    style.tidy(axes, f"predicted{target}", f"true{target}", f"confusion matrix (n = {counts.sum()}{at})")
    axes.grid(visible=False)
    if len(classes) > MOST_NAMES:
        return
    names = [style.literal(name) for name in classes]
    short = max(map(len, names)) <= 10 and len(classes) <= 4
    axes.set_xticks(range(len(classes)), names, rotation=0 if short else 45, ha="center" if short else "right")
    axes.set_yticks(range(len(classes)), names)
    size = 13 if len(classes) <= 4 else 9 if len(classes) <= 10 else 7
    for row, column in np.ndindex(counts.shape):
        share = shares[row, column]
        text = f"{counts[row, column]}" + (f"\n{100 * share:.0f} %" if len(classes) <= 6 else "")
        axes.text(column, row, text, ha="center", va="center", fontsize=size,
                  color="white" if _is_dark(image.to_rgba(share)) else style.INK)  # fmt: skip


def _is_dark(colour: Sequence[float]) -> bool:
    """Whether white has a larger contrast with the colour than `INK`, by the relative luminances of WCAG."""
    from matplotlib.colors import to_rgb

    def luminance(channels: Sequence[float]) -> float:
        linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels[:3]]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    own, ink = luminance(colour), luminance(to_rgb(style.INK))
    return 1.05 / (own + 0.05) > (own + 0.05) / (ink + 0.05)


def _unit_square(axes: Any, top: float = 1.0) -> None:
    """Set equal axes from 0 to `top`, with a little room for points on the border."""
    axes.set_xlim(-0.02 * top, 1.02 * top)
    axes.set_ylim(-0.02 * top, 1.02 * top)
    axes.set_aspect("equal", adjustable="box")
