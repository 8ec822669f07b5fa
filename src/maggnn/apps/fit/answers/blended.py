"""Of which parts an answer is made: weights and temperatures, for a single target or for each of several.

    one target        weights and temperatures of the parts stand in `Blend` itself
    several targets   each has its own (`TargetBlend`), since a part that serves one target may not serve another

Shapes: F folds, G graphs, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from maggnn.apps.fit.blend import BLEND, NETWORK, blended
from maggnn.apps.fit.uncertainty import Spread, disagreement, tempered
from maggnn.graphs.batch import Task

Seen = tuple[tuple[int, ...], ...]
"""Categories of each integer column that training saw, the commonest first; empty for floats."""


@dataclass(frozen=True)
class TargetBlend:
    """Of one of several targets: how much each part says, and temperatures as in `Blend`."""

    weights: dict[str, float]
    temperatures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Blend:
    """Of which parts an answer is made, and how far off it is.

    Attributes:
        weights: how much each part says: "network", "boosting" and "forest", of which the first is always there; of
            several targets the mean over them.
        folds: how many models each part has.
        temperatures: of the probabilities of each part, and of the blend's under the name "blend".
        spreads: of the errors, one a target; empty where nothing is known of them.
        thresholds: probability of the second of two classes from which on metrics take a row for it, one a target;
            chosen out of fold, and empty where there are no two classes or too few rows.
        seen: categories of nodes and edges that each network after the first has seen.
        files: checksums of the files beside the first model; `save` fills them in.
        targets: of several targets, one for each; else empty.
    """

    weights: dict[str, float] = field(default_factory=lambda: {NETWORK: 1.0})
    folds: int = 1
    temperatures: dict[str, float] = field(default_factory=dict)
    spreads: tuple[Spread, ...] = ()
    thresholds: tuple[float, ...] = ()
    seen: tuple[tuple[Seen, Seen], ...] = field(default=(), repr=False)
    files: dict[str, str] = field(default_factory=dict, repr=False)
    targets: tuple[TargetBlend, ...] = ()

    def heated(self, said: np.ndarray, part: str, task: Task) -> np.ndarray:
        """What a part (or the blend, by the name "blend") says with its temperature, [..., G, O]."""
        if task == "classification":
            return tempered(said, self.temperatures.get(part, 1.0))
        if task == "regression" or not self.targets:
            return said
        heat = [target.temperatures.get(part, 1.0) for target in self.targets]
        return np.stack([tempered_share(said[..., place], warm) for place, warm in enumerate(heat)], axis=-1)

    def mixed(self, parts: Mapping[str, np.ndarray], task: Task) -> np.ndarray:
        """The weighted mean of the parts, each [..., O], with the blend's own temperature."""
        if not self.targets:
            return self.heated(blended(parts, self.weights), BLEND, task)
        columns = [
            blended({name: said[..., place] for name, said in parts.items()}, target.weights)
            for place, target in enumerate(self.targets)
        ]
        return self.heated(np.stack(columns, axis=-1), BLEND, task)

    def apart(self, folds: Mapping[str, np.ndarray]) -> np.ndarray:
        """What the parts of a fold disagree about, in the mean over folds, [G, O] from [F, G, O] of each part."""
        if not self.targets:
            return disagreement(dict(folds), self.weights)
        columns = [
            disagreement({name: said[..., [place]] for name, said in folds.items()}, target.weights)
            for place, target in enumerate(self.targets)
        ]
        return np.concatenate(columns, axis=-1)


def tempered_share(share: np.ndarray, temperature: float) -> np.ndarray:
    """The probability of the second of two classes, sharpened or softened, in its own shape."""
    return tempered(np.stack([1.0 - share, share], axis=-1), temperature)[..., 1]
