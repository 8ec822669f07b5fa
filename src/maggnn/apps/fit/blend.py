"""The weights of a blend's parts, chosen by their out-of-fold predictions.

    answer = sum over parts p of w_p (mean over folds i of part p's model i),   w_p >= 0,   sum of w_p = 1

The loss is convex in w and there are few parts, so all weights in steps of 1/20 are tried. Shrinking the best weights
towards equal weights neither lowers nor raises the loss on other folds (measured on the practice tables).

The networks answer in two ways, without and with descriptors, and only one of them gets a weight: both together would
double the time of predictions.

Shapes: R out-of-fold rows, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

STEPS = 20
"""The number of steps between the weights 0 and 1. A part whose weight is less than one step is left out."""

LEAST_PROBABILITY = 1e-3
NETWORK, WITH_DESCRIPTORS, BLEND = "network", "network+descriptors", "blend"
READINGS = (NETWORK, WITH_DESCRIPTORS)
"""The answers of the networks without descriptors of the molecule, and with them (`network+descriptors`)."""


def blend_weights(
    parts: Mapping[str, np.ndarray], y: np.ndarray, classify: bool, rows: np.ndarray | None = None
) -> dict[str, float]:
    """Return the weights with the smallest out-of-fold loss. Ties favour the earlier parts.

    Args:
        parts: the out-of-fold answers of each part, probabilities or values, [R, O].
        y: classes [R] or numbers [R, O].
        rows: how much each row counts, as in training, [R]; None for all alike.
    """
    left_out = (WITH_DESCRIPTORS, NETWORK) if all(name in parts for name in READINGS) else ("",)
    choices = [{name: part for name, part in parts.items() if name != other} for other in left_out]
    weights, _ = min((_best_weights(chosen, y, classify, rows) for chosen in choices), key=lambda found: found[1])
    return {name: weights.get(name, 0.0) for name in parts}


def _best_weights(
    parts: Mapping[str, np.ndarray], y: np.ndarray, classify: bool, rows: np.ndarray | None
) -> tuple[dict[str, float], float]:
    """Return the best of all weights in steps, and their loss."""
    stacked = np.stack(list(parts.values()))  # [parts, R, O]
    tried = _all_weights(len(parts))
    losses = [loss(np.tensordot(weights, stacked, axes=1), y, classify, rows) for weights in tried]
    best = int(np.argmin(losses))
    return dict(zip(parts, tried[best].tolist(), strict=True)), losses[best]


def blended(parts: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> np.ndarray:
    """Return the weighted mean of parts, each [..., O]. Parts without a weight are not read."""
    return sum(weight * parts[name] for name, weight in weights.items() if weight > 0)  # pyright: ignore[reportReturnType]


def loss(answers: np.ndarray, y: np.ndarray, classify: bool, rows: np.ndarray | None = None) -> float:
    """Return the log loss for classes, and for numbers MAE plus RMSE in standard deviations of the target.

    Args:
        rows: how much each row counts, [R]; None for all alike.
    """
    if classify:
        likely = np.clip(answers[np.arange(len(y)), y.reshape(-1)], LEAST_PROBABILITY, 1.0)
        return float(np.average(-np.log(likely), weights=rows))
    spread = y.std(axis=0)
    errors = (answers - y) / np.where(spread > 0, spread, 1.0)
    squared = np.average(errors**2, axis=0, weights=rows)
    return float((np.average(np.abs(errors), axis=0, weights=rows) + np.sqrt(squared)).mean())


def _all_weights(parts: int) -> np.ndarray:
    """Return all weights in steps that sum to 1, [choices, parts], with descending weights of the first part.

    The weights of a choice are the numbers of steps between `parts - 1` bars.
    """
    places = STEPS + parts - 1
    bars = np.array(list(combinations(range(places), parts - 1)))[::-1]
    return (np.diff(bars, axis=1, prepend=-1, append=places) - 1) / STEPS
