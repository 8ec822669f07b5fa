"""What is told of a run while it trains: override the methods that are wanted.

Example:
    class Stop(Callback):
        def on_validation(self, step, best_loss):
            if best_loss < 0.1:
                raise KeyboardInterrupt

    train(config, callbacks=[Stop()])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from maggnn.training.run import Trained


class Callback:
    """Nothing by default. What a method raises ends the run; a checkpoint that was written before stays."""

    def on_step(self, phase: str, step: int, scalars: Mapping[str, Tensor | float]) -> None:
        """After step number `step` of a phase, counted from 1, with what it logs; tensors are on the device."""

    def on_validation(self, step: int, best_loss: float) -> None:
        """After a validation: how many steps are done, and the best loss so far.

        The loss is the metric with its sign turned where more is better.
        """

    def on_end(self, trained: Trained) -> None:
        """After the last step, with the finished run."""
