"""Learning rate and epsilon as functions of the step: no state to save, so resuming is exact."""

from __future__ import annotations

import math

WARM_UP = 0.1
"""The share of a one-cycle phase in which the rate rises to its peak."""


def learning_rate(peak: float, schedule: str, step: int, num_steps: int) -> float:
    """Return the learning rate: `constant`, or `one_cycle`: linear growth for a tenth of the phase, then a cosine."""
    if schedule == "constant":
        return peak
    progress = (step + 0.5) / num_steps  # the middle of the step, so that the rate is never zero
    if progress < WARM_UP:
        return peak * progress / WARM_UP
    return peak * 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))


def epsilon(end: float, share: float, step: int, num_steps: int) -> float:
    """Return epsilon, which falls linearly from 1 to `end` over the first `share` of the steps."""
    progress = 1.0 if share == 0 else min(1.0, step / (share * num_steps))
    return 1.0 + (end - 1.0) * progress
