"""A data set and its row in the visible table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from maggnn.data.splits import Split
from maggnn.errors import InputError
from maggnn.graphs.batch import Task
from maggnn.graphs.packed import PackedGraphs

Fact = tuple[str, bool]
"""Something known about a data set, in words, and whether it holds."""

Metric = Literal["accuracy", "auroc", "mae"]
"""What answers are judged by."""

Origin = Literal["generated", "data root"]


@dataclass(frozen=True)
class Dataset:
    """Graphs with their task.

    Attributes:
        name: what the set is called.
        graphs: all graphs with their targets.
        task: classification, multilabel (several two-class targets) or regression.
        num_outputs: width of the predictor's answer: classes, two-class targets or regression targets.
        class_names: what each class stands for, where that is more than a number.
        protocol: how the set is split, given the set and a random generator.
        metric: how predictions are scored.
        target_names: of regression and of several two-class targets, one for each output.
        max_parameters: how large a model the benchmark allows.
        extra: further arrays. Those called `pair_category` and `category_names` say that graphs 2i and 2i + 1 are a
            pair, and of which category, as in BREC.
        weights: how much each target counts in training, in the shape of y; None for all alike.
    """

    name: str
    graphs: PackedGraphs
    task: Task
    num_outputs: int
    protocol: Callable[[Dataset, torch.Generator], list[Split]]
    class_names: tuple[str, ...] | None = None
    metric: Metric = "accuracy"
    target_names: tuple[str, ...] | None = None
    max_parameters: int | None = None
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    weights: Tensor | None = None

    @property
    def y(self) -> Tensor:
        """The targets, [G, ...] or [total nodes, ...]."""
        if self.graphs.y is None:
            raise InputError(f"data set {self.name} has no targets")
        return self.graphs.y

    def splits(self, seed: int) -> list[Split]:
        """All splits of this set's protocol.

        Args:
            seed: of the protocol; equal seeds give equal splits.

        Returns:
            One split for each fold.
        """
        return self.protocol(self, torch.Generator().manual_seed(seed))

    def split(self, seed: int, fold: int) -> Split:
        """One split of this set's protocol.

        Args:
            seed: of the protocol.
            fold: which of `splits(seed)`.

        Returns:
            The graphs of training, validation and test.
        """
        splits = self.splits(seed)
        if fold >= len(splits):
            raise InputError(f"data.fold is {fold}, but {self.name} has {len(splits)} split(s)")
        return splits[fold]

    def __repr__(self) -> str:
        outputs = f"{self.num_outputs} {'classes' if self.task == 'classification' else 'targets'}"
        return f"Dataset({self.name!r}, {self.task} with {outputs}, metric {self.metric}, {self.graphs!r})"


@dataclass(frozen=True)
class DatasetEntry:
    """One row of the table.

    Attributes:
        description: one line for people.
        num_graphs: how many graphs the set has.
        origin: made by code, or read from a packed file.
        load: makes or reads the set.
        facts: what is known about it.
        features: of molecules, the feature set of their columns: mol, ogb, zinc or qm9.
        target_names: of regression, where they are known without loading the set.
    """

    description: str
    num_graphs: int
    origin: Origin
    load: Callable[[], Dataset]
    facts: Callable[[Dataset], list[Fact]] = lambda dataset: []
    features: str = ""
    target_names: tuple[str, ...] = ()
