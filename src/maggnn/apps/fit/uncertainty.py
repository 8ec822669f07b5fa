"""The uncertainty of predictions, estimated from the rows that a model did not learn from.

Numbers: the expected size u of an error grows with the disagreement of the parts and with the distance from the
training molecules,

    u(x) = a + b * disagreement(x) + c * (1 - similarity(x)),   a, b, c >= 0 by least squares on out-of-fold rows

The standard deviation is u(x) times a factor that is calibrated on out-of-fold rows. An interval of coverage q reaches
u(x) times the out-of-fold q-quantile of |error| / u to either side (conformal prediction with a normalised score).
Classes: the probabilities of each part, and then those of the blend, are scaled by a temperature if that lowers the
out-of-fold log loss. An overconfident network would otherwise get too little weight in the blend.

Shapes: R out-of-fold rows, n rows to predict, T targets, K known molecules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from maggnn.apps.fit.blend import loss
from maggnn.apps.fit.classical.similarity import Fingerprints
from maggnn.errors import InputError

COVERAGE = 0.9
COVERAGES = np.arange(1, 100) / 100
"""The coverages whose quantiles are stored."""

LEAST_SHARE = 0.1
"""The smallest expected error of a row, as a share of the mean error."""

CUT = 95.0
"""The percentile at which errors are clipped when u is fitted, because a few outliers would dominate the fit."""

TEMPERATURES = np.geomspace(0.25, 4.0, 81)


@dataclass(frozen=True)
class Spread:
    """The distribution of errors of one target.

    Attributes:
        size: a, b and c of u(x).
        factor: the standard deviation of an error in units of u.
        quantiles: the quantiles of |error| / u at coverages of 1 % to 99 %.
        rows: the number of errors that they were estimated from; 0 in folders that do not say it.
    """

    size: tuple[float, ...]
    factor: float
    quantiles: tuple[float, ...]
    rows: int = 0

    def errors(self, disagreement: np.ndarray, similarity: np.ndarray | None) -> np.ndarray:
        """Return u(x), [n]."""
        far = 0.0 if similarity is None else 1.0 - similarity
        return self.size[0] + self.size[1] * disagreement + self.size[2] * far

    def reach(self, coverage: float) -> float:
        """Return how far an interval extends to either side, in units of u."""
        return float(np.interp(coverage, COVERAGES, self.quantiles))


def check_coverage(coverage: float, spreads: Sequence[Spread]) -> None:
    """Check the coverage of prediction intervals.

    An interval that reaches as far as the largest of R errors contains a new value with a probability of R / (R + 1),
    so no error of a small table says how far an interval of more coverage must reach.
    """
    if not 0.5 <= coverage <= 0.99:
        raise InputError(f"coverage is {coverage:g}, must be a share from 0.5 to 0.99")
    rows = min((spread.rows for spread in spreads if spread.rows), default=0)
    if rows and coverage > rows / (rows + 1):
        raise InputError(
            f"coverage is {coverage:g}, but the intervals of this model are calibrated on {rows} rows, which is enough "
            f"for {math.floor(100 * rows / (rows + 1)) / 100:g} at most"
        )


def fitted_spread(errors: np.ndarray, disagreement: np.ndarray, similarity: np.ndarray | None) -> Spread:
    """Fit the distribution of errors to out-of-fold errors, disagreements and similarities, [R] each."""
    absolute = np.abs(errors)
    mean = float(absolute.mean()) or 1e-12
    far = np.zeros_like(absolute) if similarity is None else 1.0 - similarity
    columns = np.column_stack([np.ones_like(absolute), disagreement, far])
    size = _least_squares(columns, np.minimum(absolute, np.percentile(absolute, CUT)))
    size[0] = max(size[0], LEAST_SHARE * mean)
    scores = absolute / (columns @ size)
    ranks = np.ceil((len(scores) + 1) * COVERAGES).astype(int).clip(1, len(scores)) - 1
    quantiles = np.sort(scores)[ranks]
    return Spread(
        tuple(map(float, size)), float(np.sqrt((scores**2).mean())), tuple(map(float, quantiles)), len(scores)
    )


def _least_squares(columns: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the non-negative least-squares weights: the best of all subsets of the three columns."""
    best, least = np.array([y.mean(), 0.0, 0.0]), np.inf
    for count in range(1, columns.shape[1] + 1):
        for chosen in combinations(range(columns.shape[1]), count):
            weights = np.zeros(columns.shape[1])
            weights[list(chosen)] = np.linalg.lstsq(columns[:, list(chosen)], y, rcond=None)[0]
            squared = float(((columns @ weights - y) ** 2).mean())
            if (weights >= 0).all() and squared < least * (1 - 1e-9):
                best, least = weights, squared
    return best


def disagreement(folds: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> np.ndarray:
    """Return the disagreement of a fold's parts, averaged over folds: [n, ...] from [F, n, ...] of each part."""
    used = {name: weight for name, weight in weights.items() if weight > 0}
    mean = sum(weight * folds[name] for name, weight in used.items())
    return np.sqrt(sum(weight * (folds[name] - mean) ** 2 for name, weight in used.items())).mean(axis=0)


def best_temperature(probabilities: np.ndarray, y: np.ndarray, rows: np.ndarray | None = None) -> float:
    """Return the temperature with the smallest log loss on rows [R, classes]; 1 if none is better.

    Args:
        rows: how much each row counts, as in training, [R]; None for all alike.
    """
    losses = [loss(tempered(probabilities, t), y, classify=True, rows=rows) for t in TEMPERATURES]
    best = int(np.argmin(losses))
    return float(TEMPERATURES[best]) if losses[best] < loss(probabilities, y, classify=True, rows=rows) else 1.0


def tempered(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Sharpen (temperature below 1) or soften (above 1) probabilities, [..., classes]."""
    if temperature == 1.0:
        return probabilities
    powers = np.clip(probabilities, 1e-12, 1.0) ** (1.0 / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)


def nearest_similarity(bits: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the Tanimoto similarity to the most similar known molecule, [n]; bits [n, bytes], known [K, bytes]."""
    return Fingerprints(known).nearest(bits)
