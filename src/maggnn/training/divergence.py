"""Divergence of training: the first loss that is not finite ends a run.

On a CPU every step is checked. On a GPU, which is not synchronised in every step, the values of several steps are
checked together, before a line is logged, weights are validated or a checkpoint is written. The error still names the
first bad step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from maggnn.errors import diverged


class Watch:
    """Finds the first step of a phase with a logged value that is not finite."""

    def __init__(self, phase: str, at_once: bool) -> None:
        """Make a watch; with `at_once` it checks every step, for devices that need no synchronisation."""
        self.phase, self.at_once = phase, at_once
        self.unseen: list[tuple[int, str, Tensor | float]] = []

    def add(self, step: int, scalars: Mapping[str, Tensor | float]) -> None:
        """Add the logged values of step number `step`, counted from 1."""
        self.unseen += [(step, name, value) for name, value in scalars.items()]
        if self.at_once:
            self.check()

    def check(self) -> None:
        """Raise an error for the first value that is not finite; this synchronises a GPU once for all added steps."""
        unseen, self.unseen = self.unseen, []
        tensors = [value.detach().reshape(()).double() for _, _, value in unseen if isinstance(value, Tensor)]
        read = iter(torch.stack(tensors).tolist() if tensors else [])
        for step, name, value in unseen:
            number = next(read) if isinstance(value, Tensor) else value
            if not math.isfinite(number):
                raise diverged(f"{name} is {number} at step {step} of phase {self.phase}")
