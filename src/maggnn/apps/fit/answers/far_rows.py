"""A warning about tables whose molecules are unlike those that a model was fitted to.

Intervals and test scores hold for molecules like those of training. A fitted model stores the similarity to training
that 95 % of its test molecules have at least (`Facts.least_similarity`); if many rows of a table are below it, one line
says so.
"""

from __future__ import annotations

import math

import numpy as np

from maggnn.apps.fit.fitted import FittedModel

USUAL = 0.95
"""The share of the test molecules that are at least as similar to training as `Facts.least_similarity` says."""

MOST_FAR = 4 * (1 - USUAL)
"""The largest share of less similar rows without a warning: a small test split estimates the limit only roughly."""

FEWEST_FAR = 3
"""The smallest number of less similar rows about which there is a warning: one or two may be so by chance."""


def least_similarity(similarity: np.ndarray | None) -> float:
    """Return the similarity that 95 % of the test molecules [R] have at least, rounded down to .01; 0 if unknown."""
    if similarity is None or not len(similarity):
        return 0.0
    return math.floor(100 * float(np.quantile(similarity, 1 - USUAL))) / 100


ROUNDING = 1e-6
"""Similarities are in single precision, and have seven digits in a table. One that is equal to a limit is not below."""


def far_limit(fitted: FittedModel) -> float:
    """Return the similarity below which a row is counted as far from training; no number is if it is unknown."""
    return -math.inf if fitted.known is None else fitted.facts.least_similarity - ROUNDING


def far_warning(far: int, predicted: int, limit: float) -> str:
    """Return one line about a table with many rows that are far from training; empty if there are not.

    Args:
        far: the number of predicted rows below the limit.
        predicted: the number of rows with a prediction.
        limit: the limit (`far_limit`).
    """
    if far < FEWEST_FAR or far <= MOST_FAR * predicted:
        return ""
    return (
        f"Warning: {100 * far / predicted:.0f} % of these molecules are less similar to the training molecules (below "
        f"{limit:.2f}) than {100 * USUAL:.0f} % of the test molecules were: errors may be larger than intervals and "
        "test scores say."
    )
