"""The weights of a blend's parts, chosen by their out-of-fold predictions.

    answer = sum over parts p of w_p (mean over folds i of part p's model i),   w_p >= 0,   sum of w_p = 1

The loss is convex in w and there are few parts, so all weights in steps of 1/20 are tried. Shrinking the best weights
towards equal weights neither lowers nor raises the loss on other folds (measured on the practice tables).

Shapes: R out-of-fold rows, O outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

STEPS = 20
"""The number of steps between the weights 0 and 1. A part whose weight is less than one step is left out."""

LEAST_PROBABILITY = 1e-3
NETWORK, BLEND = "network", "blend"


def blend_weights(parts: Mapping[str, np.ndarray], y: np.ndarray, classify: bool) -> dict[str, float]:
    """Return the weights with the smallest out-of-fold loss. Ties favour the earlier parts.

    Args:
        parts: the out-of-fold answers of each part, probabilities or values, [R, O].
        y: classes [R] or numbers [R, O].
    """
    stacked = np.stack(list(parts.values()))  # [parts, R, O]
    tried = np.array(list(_simplex(len(parts), STEPS))) / STEPS
    losses = [loss(np.tensordot(weights, stacked, axes=1), y, classify) for weights in tried]
    return dict(zip(parts, tried[int(np.argmin(losses))].tolist(), strict=True))


def blended(parts: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> np.ndarray:
    """Return the weighted mean of parts, each [..., O]. Parts without a weight are not read."""
    return sum(weight * parts[name] for name, weight in weights.items() if weight > 0)  # pyright: ignore[reportReturnType]


def loss(answers: np.ndarray, y: np.ndarray, classify: bool) -> float:
    """Return the log loss for classes, and for numbers MAE plus RMSE in standard deviations of the target."""
    if classify:
        likely = np.clip(answers[np.arange(len(y)), y.reshape(-1)], LEAST_PROBABILITY, 1.0)
        return float(-np.log(likely).mean())
    spread = y.std(axis=0)
    errors = (answers - y) / np.where(spread > 0, spread, 1.0)
    return float((np.abs(errors).mean(axis=0) + np.sqrt((errors**2).mean(axis=0))).mean())


def _simplex(parts: int, steps: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to distribute `steps` among `parts`, with descending shares of the first part."""
    if parts == 1:
        yield (steps,)
        return
    for first in range(steps, -1, -1):
        for rest in _simplex(parts - 1, steps - first):
            yield (first, *rest)
