"""Learning rate and epsilon as functions of the step: no state to save, so resuming is exact."""

from __future__ import annotations

import math

WARM_UP = 0.1
"""Share of a one-cycle phase spent rising to the peak rate."""


def learning_rate(peak: float, schedule: str, step: int, num_steps: int) -> float:
    """`constant`, or `one_cycle`: up linearly for a tenth of the phase, then down a cosine to zero."""
    if schedule == "constant":
        return peak
    progress = (step + 0.5) / num_steps  # the middle of the step: neither end has rate zero
    if progress < WARM_UP:
        return peak * progress / WARM_UP
    return peak * 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))


def epsilon(end: float, share: float, step: int, num_steps: int) -> float:
    """From 1 down a line to `end` over the first `share` of the steps."""
    progress = 1.0 if share == 0 else min(1.0, step / (share * num_steps))
    return 1.0 + (end - 1.0) * progress
