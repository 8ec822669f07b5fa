"""Callbacks of a run while it trains: override the methods that you need.

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
    from maggnn.model.mag_gnn import MagGNN
    from maggnn.training.run import Trained


class Callback:
    """Does nothing by default. An exception in a method ends the run; a checkpoint that was written before stays."""

    def on_begin(self, model: MagGNN) -> None:
        """Called before the first step.

        Args:
            model: the model in training, which may be evaluated after any step, but not changed.
        """

    def on_step(self, phase: str, step: int, scalars: Mapping[str, Tensor | float]) -> None:
        """Called after each step of training.

        Args:
            phase: "predictor" or "agent"; with SIMUL and PRE the name of the paradigm.
            step: number of the step in its phase, counted from 1.
            scalars: the logged values of the step; tensors are on the device.
        """

    def on_validation(self, step: int, best_loss: float) -> None:
        """Called after each validation.

        Args:
            step: the number of completed steps.
            best_loss: the best loss so far: the metric, negated if more is better.
        """

    def on_end(self, trained: Trained) -> None:
        """Called after the last step.

        Args:
            trained: the finished run.
        """
