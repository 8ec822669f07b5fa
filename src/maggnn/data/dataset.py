"""A data set and its row in the table of data sets."""

from __future__ import annotations

import hashlib
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
"""A statement about a data set, and whether it is true."""

Metric = Literal["accuracy", "auroc", "mae"]
"""The metrics by which predictions are evaluated."""

USUAL_METRIC: dict[Task, Metric] = {"classification": "accuracy", "multilabel": "auroc", "regression": "mae"}
"""The metric of a task whose data set names no other."""

MOST_COMPARED = 1 << 14
"""The largest number of graphs, spread evenly over a set, by which it is recognised: reading them takes a moment."""

Origin = Literal["generated", "data root"]


@dataclass(frozen=True)
class Dataset:
    """Graphs with their task.

    Attributes:
        name: the name of the set.
        graphs: all graphs with their targets.
        task: classification, multilabel (several two-class targets) or regression.
        num_outputs: the number of outputs: classes, two-class targets or regression targets.
        class_names: the names of the classes, if they have names.
        protocol: how the set is split, given the set and a random generator.
        metric: the metric of predictions.
        target_names: the names of outputs, for regression and for several two-class targets.
        max_parameters: the largest number of parameters that the benchmark allows.
        extra: additional arrays. With `pair_category` and `category_names`, graphs 2i and 2i + 1 are a pair of a
            category, as in BREC.
        weights: the weight of each target in training, in the shape of y; None if all are equal.
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

    def learned(self, rows: np.ndarray) -> np.ndarray:
        """Return those of the rows that training counts: the others have the weight 0 for every target.

        Args:
            rows: the ids of some graphs.

        Returns:
            Those of them with a weight.
        """
        if self.weights is None:
            return rows
        return rows[(self.weights.numpy()[rows].reshape(len(rows), -1) > 0).any(axis=1)]

    def splits(self, seed: int) -> list[Split]:
        """Return all splits of this set's protocol.

        Args:
            seed: the seed of the protocol; equal seeds give equal splits.

        Returns:
            One split for each fold.
        """
        return self.protocol(self, torch.Generator().manual_seed(seed))

    def split(self, seed: int, fold: int) -> Split:
        """Return one split of this set's protocol.

        Args:
            seed: the seed of the protocol.
            fold: the index in `splits(seed)`.

        Returns:
            The graphs of training, validation and test.
        """
        splits = self.splits(seed)
        if fold >= len(splits):
            raise InputError(f"data.fold is {fold}, but {self.name} has {len(splits)} split(s)")
        self._check_split(splits[fold])
        return splits[fold]

    def digest(self, split: Split) -> str:
        """Return a hash by which a resumed run recognises its data.

        Args:
            split: the split of the run.

        Returns:
            A hash of the graphs, the targets and the split; of many graphs, only some are read.
        """
        count = len(self.graphs)
        ids = torch.arange(count)
        if count > MOST_COMPARED:
            ids = torch.linspace(0, count - 1, MOST_COMPARED, dtype=torch.float64).long()
        batch = self.graphs[ids]
        names = ("num_nodes", "edge_index", "x", "edge_attr", "y", "roots", "graph_attr")
        values = {name: getattr(batch, name) for name in names} | vars(split) | {"weights": self.weights}
        digest = hashlib.sha256(repr((self.task, self.num_outputs, count)).encode())
        for name, value in values.items():
            if value is not None:
                digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
                digest.update(value.cpu().contiguous().numpy().data)
        return digest.hexdigest()

    def _check_split(self, split: Split) -> None:
        """Check that the parts are graph ids, and that there is something to learn from."""
        most = len(self.graphs) - 1
        for part, ids in vars(split).items():
            if not isinstance(ids, Tensor) or ids.dtype not in (torch.int32, torch.int64) or ids.ndim != 1:
                raise InputError(f"{self.name}: {part} of the split must be a tensor of graph ids")
            if len(ids) and (int(ids.min()) < 0 or int(ids.max()) > most):
                raise InputError(f"{self.name}: {part} of the split must contain graph ids from 0 to {most}")
        if not len(split.train):
            raise InputError(f"{self.name}: train of the split is empty: there is nothing to learn from")

    def __repr__(self) -> str:
        outputs = f"{self.num_outputs} {'classes' if self.task == 'classification' else 'targets'}"
        return f"Dataset({self.name!r}, {self.task} with {outputs}, metric {self.metric}, {self.graphs!r})"


@dataclass(frozen=True)
class DatasetEntry:
    """One row of the table of data sets.

    Attributes:
        description: a description of one line.
        num_graphs: the number of graphs.
        origin: whether it is generated or read from a packed file.
        load: generates or reads the set.
        facts: returns statements about the set, and whether they are true.
        features: for molecules, the feature set of their columns: mol, ogb, zinc or qm9.
        target_names: the names of regression targets, if they are known without loading the set.
    """

    description: str
    num_graphs: int
    origin: Origin
    load: Callable[[], Dataset]
    facts: Callable[[Dataset], list[Fact]] = lambda dataset: []
    features: str = ""
    target_names: tuple[str, ...] = ()
