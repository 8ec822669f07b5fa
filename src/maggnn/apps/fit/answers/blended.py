"""The composition of an answer: weights and temperatures of the parts, for a single target or for each of several.

    one target        `Blend` itself has the weights and temperatures of the parts
    several targets   each has its own (`TargetBlend`), since a part may suit one target and not another

Shapes: F folds, G graphs, O outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from maggnn.apps.fit.blend import BLEND, NETWORK, READINGS, blended
from maggnn.apps.fit.uncertainty import Spread, disagreement, tempered
from maggnn.graphs.batch import Task

Seen = tuple[tuple[int, ...], ...]
"""The categories of each integer column that occur in training, the most frequent first; empty for floats."""

Combine = Callable[[Mapping[str, np.ndarray], Mapping[str, float]], np.ndarray]
"""Combines the answers of the parts for one output by their weights."""


@dataclass(frozen=True)
class TargetBlend:
    """The weights of the parts for one of several targets, and temperatures as in `Blend`."""

    weights: dict[str, float]
    temperatures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Blend:
    """The composition of an answer, and the distribution of its errors.

    Attributes:
        weights: the weight of each part: "network", which is always present, "network+descriptors", "boosting",
            "forest" and "kernel"; for several targets, the mean over them.
        folds: the number of models of each part.
        temperatures: the temperatures of the probabilities of each part, and of the blend under the name "blend".
        spreads: the distribution of errors of each target; empty if it is unknown.
        thresholds: for each target, the probability from which on metrics predict the second of two classes; chosen
            on out-of-fold rows, and empty if there are no two classes or too few rows.
        seen: the categories of nodes and edges that each network after the first has seen.
        files: checksums of the files next to the first model; `save` sets them.
        targets: the blend of each of several targets; else empty.
    """

    weights: dict[str, float] = field(default_factory=lambda: {NETWORK: 1.0})
    folds: int = 1
    temperatures: dict[str, float] = field(default_factory=dict)
    spreads: tuple[Spread, ...] = ()
    thresholds: tuple[float, ...] = ()
    seen: tuple[tuple[Seen, Seen], ...] = field(default=(), repr=False)
    files: dict[str, str] = field(default_factory=dict, repr=False)
    targets: tuple[TargetBlend, ...] = ()

    @property
    def held_out(self) -> str:
        """In words, the rows on which probabilities are calibrated and thresholds chosen."""
        return "out-of-fold rows" if self.folds > 1 else "the validation rows"

    @property
    def uses_networks(self) -> bool:
        """Whether the networks have a weight, in one of the two ways in which they answer."""
        return any(self.weights.get(name) for name in READINGS)

    def calibrated(self, said: np.ndarray, part: str, task: Task) -> np.ndarray:
        """Apply the temperature of a part (or of "blend") to its answers, [..., G, O]."""
        if task == "classification":
            return tempered(said, self.temperatures.get(part, 1.0))
        if task == "regression" or not self.targets:
            return said
        heat = [target.temperatures.get(part, 1.0) for target in self.targets]
        return np.stack([tempered_share(said[..., place], warm) for place, warm in enumerate(heat)], axis=-1)

    def combined(self, parts: Mapping[str, np.ndarray], task: Task) -> np.ndarray:
        """Return the weighted mean of the parts, each [..., O], with the temperature of the blend."""
        return self.calibrated(self._each_output(parts, blended), BLEND, task)

    def disagreement(self, folds: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the disagreement of a fold's parts, averaged over folds: [G, O] from [F, G, O] of each part."""
        return self._each_output(folds, disagreement)

    def output_weights(self, outputs: int) -> list[dict[str, float]]:
        """Return the weights of the parts for each output."""
        return [target.weights for target in self.targets] or [self.weights] * outputs

    def _each_output(self, parts: Mapping[str, np.ndarray], combine: Combine) -> np.ndarray:
        """Combine the parts, each [..., O], with the weights of each output."""
        outputs = next(iter(parts.values())).shape[-1]
        columns = [
            combine({name: said[..., place] for name, said in parts.items()}, weights)
            for place, weights in enumerate(self.output_weights(outputs))
        ]
        return np.stack(columns, axis=-1)


def tempered_share(share: np.ndarray, temperature: float) -> np.ndarray:
    """Sharpen or soften the probability of the second of two classes; the shape stays the same."""
    return tempered(np.stack([1.0 - share, share], axis=-1), temperature)[..., 1]
