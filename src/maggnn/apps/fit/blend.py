"""How much each part of a model says: weights that answer best for rows which the parts did not learn from.

    answer = sum over parts p of w_p (mean over folds i of part p's model i),   w_p >= 0,   sum of w_p = 1

The loss is convex in w, and there are three parts at most, so all weights in steps of 1/20 are tried. Moving the best
ones towards equal weights changes the loss on folds that they were not chosen by to neither side (practice tables).

Shapes: R rows out of fold, O outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

STEPS = 20
"""A part whose weight is below one of them is left out."""

LEAST_PROBABILITY = 1e-3
NETWORK, BLEND = "network", "blend"


def blend_weights(parts: Mapping[str, np.ndarray], y: np.ndarray, classify: bool) -> dict[str, float]:
    """The weights with the least loss out of fold; of equal ones the first part's are the largest.

    Args:
        parts: answers out of fold by name: probabilities or values, [R, O].
        y: [R] classes or [R, O] numbers.
    """
    stacked = np.stack(list(parts.values()))  # [parts, R, O]
    tried = np.array(list(_simplex(len(parts), STEPS))) / STEPS
    losses = [loss(np.tensordot(weights, stacked, axes=1), y, classify) for weights in tried]
    return dict(zip(parts, tried[int(np.argmin(losses))].tolist(), strict=True))


def blended(parts: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> np.ndarray:
    """The weighted mean of parts, each [..., O]; those without weight are not looked at."""
    return sum(weight * parts[name] for name, weight in weights.items() if weight > 0)  # pyright: ignore[reportReturnType]


def loss(answers: np.ndarray, y: np.ndarray, classify: bool) -> float:
    """Log loss of classes; of numbers the mean absolute and the root mean square error, in spreads of the target."""
    if classify:
        likely = np.clip(answers[np.arange(len(y)), y.reshape(-1)], LEAST_PROBABILITY, 1.0)
        return float(-np.log(likely).mean())
    spread = y.std(axis=0)
    errors = (answers - y) / np.where(spread > 0, spread, 1.0)
    return float((np.abs(errors).mean(axis=0) + np.sqrt((errors**2).mean(axis=0))).mean())


def _simplex(parts: int, steps: int) -> Iterator[tuple[int, ...]]:
    """All ways to share `steps` among `parts`, the first part's share descending."""
    if parts == 1:
        yield (steps,)
        return
    for first in range(steps, -1, -1):
        for rest in _simplex(parts - 1, steps - first):
            yield (first, *rest)
