"""Training that comes apart: the first loss that is no finite number ends a run.

On a CPU every step is checked. A GPU is not waited for in every step: what its steps logged is checked together,
before a line is logged, weights are validated or a checkpoint is written, and the first bad step is named
all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from maggnn.errors import diverged


class Watch:
    """Looks for the first step of a phase that logged something other than finite numbers."""

    def __init__(self, phase: str, at_once: bool) -> None:
        """`at_once`: check every step, where that costs no waiting."""
        self.phase, self.at_once = phase, at_once
        self.unseen: list[tuple[int, str, Tensor | float]] = []

    def add(self, step: int, scalars: Mapping[str, Tensor | float]) -> None:
        """What step number `step`, counted from 1, logged."""
        self.unseen += [(step, name, value) for name, value in scalars.items()]
        if self.at_once:
            self.check()

    def check(self) -> None:
        """Refuse the first number that is not finite; on a GPU this waits, once for all steps since the last check."""
        unseen, self.unseen = self.unseen, []
        tensors = [value.detach().reshape(()).double() for _, _, value in unseen if isinstance(value, Tensor)]
        read = iter(torch.stack(tensors).tolist() if tensors else [])
        for step, name, value in unseen:
            number = next(read) if isinstance(value, Tensor) else value
            if not math.isfinite(number):
                raise diverged(f"{name} is {number} at step {step} of phase {self.phase}")
