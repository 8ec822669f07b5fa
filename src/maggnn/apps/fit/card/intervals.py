"""How sure a score is: the bootstrap's 95 % interval over the rows that it was measured on.

Shapes: answers [rows, out], y [rows, ...]; R draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from maggnn.apps.fit.card.metrics import limits
from maggnn.training.metrics import Metric, score

DRAWS = 1000


@dataclass(frozen=True)
class Judged:
    """A score, and what it was in draws of as many rows: [R]. Equal rows and seeds give draws that can be compared."""

    value: float
    draws: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        """Where 95 % of the draws lie."""
        return limits(self.draws)


def judge(answers: Tensor, y: Tensor, metric: Metric, seed: int = 0) -> Judged:
    """The metric of probabilities or values on their rows."""
    value = float(score(answers, y, metric))
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(DRAWS):
        ids = torch.from_numpy(rng.integers(len(y), size=len(y)))
        drawn = y[ids]
        one_sided = metric == "auroc" and len(drawn.unique()) < 2
        draws.append(np.nan if one_sided else float(score(answers[ids], drawn, metric)))
    return Judged(value, np.array(draws))
