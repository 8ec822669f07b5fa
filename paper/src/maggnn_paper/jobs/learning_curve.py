"""Learning curves: tests of an agent while it learns, from other random starts than those of the final test."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from maggnn.config import Config
from maggnn.data import registry
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import make_generator
from maggnn.training.callbacks import Callback
from maggnn.training.evaluate import evaluate
from maggnn.training.validation import VALIDATION_SEED

TESTS_PER_POINT = 20
"""Tests of each graph at one point of a curve."""


class LearningCurve(Callback):
    """Tests the agent after every `every` of its steps on the validation part.

    Attributes:
        scores: the metric by the number of steps, each [tests][t + 1] from the last state.
    """

    def __init__(self, config: Config, every: int, moves: int) -> None:
        self.every, self.moves, self.seed = every, moves, config.runtime.seed
        self.dataset = registry.load(config.data.name)
        self.ids = self.dataset.split(config.data.split_seed, config.data.fold).val
        self.scores: dict[int, list[list[float]]] = {}

    def on_begin(self, model: MagGNN) -> None:
        """Keep the model, and its graphs on its device."""
        self.model = model
        self.packed = model.precomputed(self.dataset.graphs.to(next(model.parameters()).device))

    def on_step(self, phase: str, step: int, scalars: Mapping[str, Tensor | float]) -> None:
        """Test where it is time; at every point from the same starts."""
        if phase != "agent" or step % self.every:
            return
        generator = make_generator(VALIDATION_SEED + self.seed, self.packed.device)
        task, metric = self.dataset.task, self.dataset.metric
        seen = evaluate(
            self.model, self.packed, self.ids, task, self.moves, TESTS_PER_POINT, 0.0, generator, metric=metric
        )
        self.scores[step] = seen.last.tolist()
