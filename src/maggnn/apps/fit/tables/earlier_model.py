"""`maggnn fit --from MODEL`: the networks begin with the weights of a model that was fitted before.

The settings of the networks are then those of the earlier model. Its last layer is taken over where the targets are
the same. Boosting and forests are fitted anew, and so are all weights of the blend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from maggnn.apps.fit.classical.descriptors import descriptors_of
from maggnn.apps.fit.fitted import Facts, FittedModel
from maggnn.apps.fit.uncertainty import nearest_similarity
from maggnn.config import Config
from maggnn.errors import InputError

HEAD = "predictor.second."
LEARNING_RATE = 1e-3
"""A third of that of a fresh network, whose weights have farther to go."""


@dataclass(frozen=True)
class EarlierModel:
    """A fitted model to begin from."""

    folder: Path
    fitted: FittedModel

    @classmethod
    def load(cls, folder: Path, features: str) -> EarlierModel:
        """The model of a folder, which must read molecules by the same features."""
        fitted = FittedModel.load(folder)
        if fitted.facts.source != "smiles" or fitted.facts.features != features:
            raise InputError(
                f"{folder}: was not fitted to molecules of a table, so a table's model cannot begin from it"
            )
        return cls(folder, fitted)

    def starts(self, facts: Facts, count: int) -> list[Mapping[str, Tensor]]:
        """The weights that each of `count` networks begins with."""
        known = self.fitted.facts
        same = (known.task, known.targets, known.classes, known.labels) == (
            facts.task, facts.targets, facts.classes, facts.labels
        )  # fmt: skip
        networks = [network.model.state_dict() for network in self.fitted.networks]
        kept = [{name: value for name, value in own.items() if same or not name.startswith(HEAD)} for own in networks]
        return [kept[place % len(kept)] for place in range(count)]

    def config(self, own: Config) -> Config:
        """The settings of a fit: the networks' are the earlier model's, the rest is as without it."""
        earlier = self.fitted.config
        sections = {name: getattr(earlier, name) for name in ("encoder", "predictor", "agent")}
        return Config(**{**{name: getattr(own, name) for name in vars(own)}, **sections}).replaced(
            training={"learning_rate": LEARNING_RATE}
        )

    def known_in(self, smiles: Sequence[str]) -> int:
        """How many molecules the earlier model may have learned from, by their fingerprints."""
        if self.fitted.known is None or not len(smiles):
            return 0
        return int((nearest_similarity(descriptors_of(smiles).bits, self.fitted.known) > 1 - 1e-6).sum())

    def words(self, test: Sequence[str]) -> str:
        """For the card."""
        known = self.known_in(test)
        warning = f"; warning: it may have learned from {known} of the {len(test)} test molecules" if known else ""
        return f"Networks began with the weights of {self.folder.name}{warning}"

    def digest(self) -> np.ndarray:
        """Numbers that change with the weights."""
        tensors = self.fitted.model.state_dict().values()
        return np.array([float(value.double().sum()) for value in tensors])
