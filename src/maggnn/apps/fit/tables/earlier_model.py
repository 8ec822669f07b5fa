"""`maggnn fit --from MODEL`: the networks are initialised with the weights of a model that was fitted before.

The settings of the networks are those of the earlier model. Its last layer is reused if the targets are the same. The
classical parts and all weights of the blend are fitted from scratch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from maggnn.apps.fit.card.markdown import plain
from maggnn.apps.fit.classical.descriptors import descriptors_of
from maggnn.apps.fit.classical.trees_file import MOST_KNOWN
from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.fitted import FittedModel
from maggnn.apps.fit.uncertainty import nearest_similarity
from maggnn.config import Config
from maggnn.errors import InputError

HEAD = "predictor.second."
LEARNING_RATE = 1e-3
"""A third of the learning rate for random initial weights, which have to change more."""


@dataclass(frozen=True)
class EarlierModel:
    """A fitted model whose weights initialise others."""

    folder: Path
    fitted: FittedModel

    @classmethod
    def load(cls, folder: Path, features: str) -> EarlierModel:
        """Load the model of a folder, which must read molecules with the same features."""
        fitted = FittedModel.load(folder)
        if fitted.facts.source != "smiles" or fitted.facts.features != features:
            raise InputError(
                f"{folder}: was not fitted to a table of molecules with these features, so --from cannot use it"
            )
        return cls(folder, fitted)

    def starts(self, facts: Facts, count: int) -> list[Mapping[str, Tensor]]:
        """Return the initial weights of each of `count` networks."""
        known = self.fitted.facts
        same = (known.task, known.targets, known.classes, known.labels) == (
            facts.task, facts.targets, facts.classes, facts.labels
        )  # fmt: skip
        networks = [network.model.state_dict() for network in self.fitted.networks]
        kept = [{name: value for name, value in own.items() if same or not name.startswith(HEAD)} for own in networks]
        return [kept[place % len(kept)] for place in range(count)]

    def config(self, own: Config) -> Config:
        """Return the settings of a fit: those of the networks come from the earlier model, the rest is unchanged."""
        earlier = self.fitted.config
        sections = {name: getattr(earlier, name) for name in ("encoder", "predictor", "agent")}
        return Config(**{**{name: getattr(own, name) for name in vars(own)}, **sections}).replaced(
            training={"learning_rate": LEARNING_RATE, "initial_weights": ""}
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of this model and of those that it was itself initialised with, the oldest first."""
        return (*self.fitted.facts.started_from, self.folder.name)

    def words(self, test: Sequence[str], others: Sequence[str]) -> str:
        """Return the line of the card, with warnings about molecules that are known by their fingerprints.

        Args:
            test: the molecules of the test split.
            others: the molecules of the other splits, whose out-of-fold predictions determine weights and intervals.
        """
        warnings = self._warnings(self._known(test), len(test), self._known(others), len(others))
        return "; ".join([f"Networks were initialised with the weights of {plain(self.folder.name)}", *warnings])

    def _known(self, smiles: Sequence[str]) -> int:
        """Return how many molecules this model may have learned from."""
        if self.fitted.known is None or not len(smiles):
            return 0
        return int((nearest_similarity(descriptors_of(smiles).bits, self.fitted.known) > 1 - 1e-6).sum())

    def _warnings(self, test: int, tests: int, other: int, others: int) -> list[str]:
        found: list[str] = []
        if self.fitted.known is None:
            found.append("its folder does not list the molecules that it learned from, so test scores may be of these")
        elif len(self.fitted.known) >= MOST_KNOWN:
            found.append(
                f"its folder lists {MOST_KNOWN:,} of its molecules, so more may be known than are counted here"
            )
        if test:
            found.append(
                f"it may have learned from {test} of the {tests} test molecules, whose scores are too good then"
            )
        if other:
            found.append(
                f"it may have learned from {other} of the {others} other molecules, whose out-of-fold errors are too "
                "small then, the weights of networks too large and intervals too narrow"
            )
        if self.fitted.facts.started_from:
            before = ", ".join(map(plain, self.fitted.facts.started_from))
            found.append(f"it started itself from {before}, whose molecules are not counted here")
        return [f"warning: {line}" for line in found]

    def digest(self) -> np.ndarray:
        """Return numbers that identify the weights."""
        tensors = self.fitted.model.state_dict().values()
        return np.array([float(value.double().sum()) for value in tensors])
