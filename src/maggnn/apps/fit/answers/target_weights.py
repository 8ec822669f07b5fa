"""The weights of a model's parts for each target, from out-of-fold answers.

The weights are chosen for a single target as a whole, and for several targets one by one, each on the rows where it is
known: two-class targets as probabilities (of the first and the second class), numbers as values.

Shapes: R out-of-fold rows, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from maggnn.apps.fit.answers.blended import Blend, TargetBlend
from maggnn.apps.fit.blend import BLEND, WITH_DESCRIPTORS, blend_weights, blended
from maggnn.apps.fit.card.metrics import USUAL_THRESHOLD, best_threshold
from maggnn.apps.fit.uncertainty import Spread, best_temperature, disagreement, fitted_spread, tempered
from maggnn.graphs.batch import Task

FEWEST_HELD_OUT = 10
"""The smallest number of rows for estimating errors, and the smallest number of each of two classes."""


@dataclass(frozen=True)
class _FittedWeights:
    weights: dict[str, float]
    temperatures: dict[str, float]
    spreads: tuple[Spread, ...] = ()
    threshold: float | None = None


def with_fitted_weights(
    blend: Blend,
    parts: Mapping[str, np.ndarray],
    y: np.ndarray,
    task: Task,
    counted: np.ndarray,
    near: np.ndarray | None,
    trained: np.ndarray | None = None,
    like_test: np.ndarray | None = None,
) -> Blend:
    """Return the blend with fitted weights, temperatures and error spreads.

    Args:
        blend: its weights are kept if there is a single fold, or too few rows to choose weights.
        parts: the out-of-fold answers of each part, [R, O].
        y: classes [R], or values [R, O]; NaN for missing ones.
        counted: whether weights are chosen by a row (see `Folds`), [R].
        near: similarity to the most similar training molecule, [R].
        trained: the weights of rows in training, in the shape of y; None if all are equal. Probabilities for classes
            of equal total weight are calibrated for these, not for the classes as they occur.
        like_test: the rows on which intervals of numbers are calibrated, [R]; the counted ones if it is None.
    """
    start = blend.weights
    choose = blend.folds > 1
    if task == "classification":
        own = {name: part[counted] for name, part in parts.items()}
        found = _fit_class_weights(own, y[counted], start, choose, _counting(trained, counted))
        thresholds = () if found.threshold is None else (found.threshold,)
        return replace(blend, weights=found.weights, temperatures=found.temperatures, thresholds=thresholds)
    y = y.reshape(next(iter(parts.values())).shape).astype(np.float64)
    each = []
    for place in range(y.shape[1]):
        sized = counted if like_test is None else like_test
        rows = (counted | sized) & ~np.isnan(y[:, place])
        own = {name: part[rows, place] for name, part in parts.items()}
        weights = None if trained is None else _counting(trained.reshape(y.shape)[:, place], rows)
        if task == "multilabel":
            each.append(_fit_two_class_weights(own, y[rows, place], start, choose, weights))
        else:
            near_rows = None if near is None else near[rows]
            use = counted[rows], sized[rows]
            each.append(_fit_number_weights(own, y[rows, place], near_rows, start, choose, weights, *use))
    spreads = tuple(spread for found in each for spread in found.spreads)
    spreads = spreads if len(spreads) == len(each) else ()  # intervals of only some targets would be misleading
    if len(each) == 1 and task == "regression":
        return replace(blend, weights=each[0].weights, spreads=spreads)
    mean = {name: float(np.mean([found.weights[name] for found in each])) for name in start}
    targets = tuple(TargetBlend(found.weights, found.temperatures) for found in each)
    return replace(blend, weights=mean, targets=targets, spreads=spreads, thresholds=_thresholds(each))


def _counting(trained: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """Return how much each of some rows counts, [R]; None if all count alike, or if none of them counts."""
    weights = None if trained is None else trained[rows].astype(np.float64)
    return weights if weights is not None and weights.any() else None


def _thresholds(each: Sequence[_FittedWeights]) -> tuple[float, ...]:
    """Return a threshold for each target, the default one if none could be chosen; none for numbers."""
    if all(found.threshold is None for found in each):
        return ()
    return tuple(USUAL_THRESHOLD if found.threshold is None else found.threshold for found in each)


def _fit_two_class_weights(
    parts: Mapping[str, np.ndarray], y: np.ndarray, start: dict[str, float], choose: bool, rows: np.ndarray | None
) -> _FittedWeights:
    """Choose weights for probabilities [R] of the second class; nothing is chosen if a class is too rare."""
    if min(int((y == 0).sum()), int((y == 1).sum())) < FEWEST_HELD_OUT:
        used = [name for name in start if name != WITH_DESCRIPTORS]  # the networks answer in one of two ways
        equal = {name: 1.0 / len(used) if name in used else 0.0 for name in start}
        return _FittedWeights(equal if choose else start, {})
    pairs = {name: np.stack([1.0 - share, share], axis=-1) for name, share in parts.items()}
    return _fit_class_weights(pairs, y.astype(np.int64), start, choose, rows)


def _fit_class_weights(
    parts: Mapping[str, np.ndarray], y: np.ndarray, start: dict[str, float], choose: bool, rows: np.ndarray | None
) -> _FittedWeights:
    """Choose weights for probabilities [R, classes] and classes [R]."""
    enough = len(y) >= FEWEST_HELD_OUT
    heat = {name: best_temperature(part, y, rows) for name, part in parts.items()} if enough else {}
    warm = {name: tempered(part, heat.get(name, 1.0)) for name, part in parts.items()}
    weights = blend_weights(warm, y, classify=True, rows=rows) if choose else start
    if not enough:
        return _FittedWeights(weights, heat)
    answers = blended(warm, weights)
    heat[BLEND] = best_temperature(answers, y, rows)
    return _FittedWeights(weights, heat, threshold=_threshold(tempered(answers, heat[BLEND]), y))


def _threshold(probabilities: np.ndarray, y: np.ndarray) -> float | None:
    """Return the threshold for the second of two classes; None for more classes, or without scikit-learn."""
    try:
        return best_threshold(y, probabilities[:, 1]) if probabilities.shape[1] == 2 else None
    except ImportError:
        return None


def _fit_number_weights(
    parts: Mapping[str, np.ndarray],
    y: np.ndarray,
    near: np.ndarray | None,
    start: dict[str, float],
    choose: bool,
    rows: np.ndarray | None,
    counted: np.ndarray,
    sized: np.ndarray,
) -> _FittedWeights:
    """Choose weights for values [R] by the rows `counted` [R], and the spread of errors by the rows `sized` [R]."""
    if not len(y):
        return _FittedWeights(start, {})
    columns = {name: part[counted, None] for name, part in parts.items()}
    heavy = None if rows is None else rows[counted]
    weights = blend_weights(columns, y[counted, None], classify=False, rows=heavy) if choose else start
    if sized.sum() < FEWEST_HELD_OUT:
        return _FittedWeights(weights, {})
    apart = disagreement({name: part[None, sized] for name, part in parts.items()}, weights)
    errors = (blended(parts, weights) - y)[sized]
    return _FittedWeights(weights, {}, (fitted_spread(errors, apart, None if near is None else near[sized]),))
