"""A model fitted to a user's own data, and the folder that stores it.

    model.safetensors     weights and config, as for every model of this package; the first network of an ensemble
    model-2.safetensors   the second network, and so on
    trees.safetensors     the trees of the other parts, and fingerprints of the training molecules (`trees_file`)
    fitted.json           what is needed to read new data: source, columns and classes; the weights of the parts and
                          the spread of errors (`facts`)

To fit, `MagClassifier` and `maggnn fit` make a `Dataset` and call `fit_blend` (`ensemble`). To predict, they load the
folder and call `FittedModel.predict` with packed graphs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maggnn.apps.fit.answers.blended import Blend
from maggnn.apps.fit.answers.given_graphs import check_no_graph_attr, read_inputs
from maggnn.apps.fit.answers.network_answers import network_answers
from maggnn.apps.fit.blend import NETWORK, READINGS, WITH_DESCRIPTORS
from maggnn.apps.fit.categories import known_categories, without_unseen
from maggnn.apps.fit.classical.cheap_baselines import part_answers
from maggnn.apps.fit.classical.descriptors import Descriptors
from maggnn.apps.fit.classical.kernel import Kernels
from maggnn.apps.fit.classical.similarity import Fingerprints
from maggnn.apps.fit.classical.trees import Trees
from maggnn.apps.fit.classical.trees_file import TREES, check_file, load_trees, save_trees
from maggnn.apps.fit.facts import FACTS, Facts, load_facts, save_facts
from maggnn.apps.fit.uncertainty import Spread
from maggnn.apps.terminal import tell
from maggnn.config import Config
from maggnn.errors import InputError
from maggnn.graphs.batch import Task
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.engine import Engine
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import pick_device
from maggnn.model.saving import MODEL, load_model, save_model
from maggnn.model.weights_file import checksum_of, one_line


class UnseenWarning(UserWarning):
    """Graphs contain an element, a bond or another category that does not occur in training."""


@contextmanager
def unseen_told(rows: str) -> Iterator[None]:
    """Tell the terminal what each `UnseenWarning` about some rows says, instead of Python's warning with its code."""
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always", UnseenWarning)
        yield
    for message in dict.fromkeys(str(warning.message) for warning in noticed):  # networks may answer in two ways
        tell(f"{rows}: {message}")


@dataclass(frozen=True)
class Answer:
    """The predictions of a model for some graphs, with their uncertainty.

    Attributes:
        values: probabilities of the classes, of the second class of each two-class target, or values in the targets'
            own units, [G, outputs].
        errors: the expected size of each value's error, [G, outputs]; None if it is unknown.
        similarity: Tanimoto similarity to the most similar training molecule, [G]; None without stored fingerprints.
        spreads: the distribution of the errors of each target.
    """

    values: Tensor
    errors: np.ndarray | None
    similarity: np.ndarray | None
    spreads: tuple[Spread, ...]

    @property
    def std(self) -> np.ndarray:
        """Return the standard deviation of each value, [G, outputs]."""
        assert self.errors is not None
        return self.errors * np.array([spread.factor for spread in self.spreads])

    def interval(self, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper limits of intervals with the given coverage, [G, outputs] each."""
        assert self.errors is not None
        reach = self.errors * np.array([spread.reach(coverage) for spread in self.spreads])
        values = self.values.double().numpy()
        return values - reach, values + reach

    def contains(self, true: np.ndarray, coverage: float) -> np.ndarray:
        """Return which true values [G, outputs] are within the intervals; never a missing one (NaN)."""
        low, high = self.interval(coverage)
        return (low <= true) & (true <= high)


@dataclass(frozen=True)
class FittedModel:
    """A trained model with a description of the data that it was fitted to.

    Attributes:
        model: the network; the first one of an ensemble.
        config: the settings it was trained with.
        facts: task, columns, classes, test scores and weights of the parts.
        others: the other networks of an ensemble.
        trees: the classical parts of the blend, by name.
        known: packed fingerprints of the training molecules, [K, bytes].
        device: where networks run: "auto" (a GPU if there is one), "cpu" or "cuda".

    Example:
        >>> from maggnn.apps.fit.fitted import FittedModel
        >>> FittedModel.load("solubility/").predict(["CCO", "c1ccccc1"])  # doctest: +SKIP
        tensor([[0.61], [-1.93]])
    """

    model: MagGNN
    config: Config
    facts: Facts
    others: tuple[MagGNN, ...] = field(default=(), repr=False)
    trees: dict[str, Trees | Kernels] = field(default_factory=dict, repr=False)
    known: np.ndarray | None = field(default=None, repr=False)
    device: str = field(default="auto", repr=False)

    def predict(
        self,
        packed: Any,
        seed: int = 0,
        memory_mb: float = 200.0,
        done: Callable[[int], None] | None = None,
        molecules: Descriptors | None = None,
    ) -> Tensor:
        """Predict for graphs or molecules.

        A category that does not occur in training has no weights; it is replaced by the most frequent one, with a
        warning. The answer depends neither on the numbering of nodes nor on how a molecule is written.

        Args:
            packed: SMILES, InChI or RDKit molecules for a model of molecules, graphs for a model of graphs, or
                `PackedGraphs` of the model's own features.
            seed: the seed of the starting tuples; equal seeds, graphs and chunks give equal answers.
            memory_mb: the memory that a chunk of graphs may take.
            done: called after each chunk with the number of graphs answered so far.
            molecules: descriptors of the same graphs (`descriptors_of`), if a part of the model reads them.

        Returns:
            Probabilities of the classes (for several targets, of the second class of each), or values in the targets'
            own units: [G, outputs].
        """
        return self.answer(packed, molecules, seed, memory_mb, done).values

    def answer(
        self,
        packed: Any,
        molecules: Descriptors | None = None,
        seed: int = 0,
        memory_mb: float = 200.0,
        done: Callable[[int], None] | None = None,
    ) -> Answer:
        """Predict with uncertainty.

        Args:
            packed: SMILES, InChI or RDKit molecules, graphs, or `PackedGraphs` of the model's own features.
            molecules: descriptors of the same graphs, if a part of the model reads them.
            seed: the seed of the starting tuples.
            memory_mb: the memory that a chunk of graphs may take.
            done: called after each chunk with the number of graphs answered so far.

        Returns:
            The predictions of `predict` with their uncertainty.
        """
        if not isinstance(packed, PackedGraphs):
            packed, molecules = read_inputs(self, packed)
        if self.facts.source == "graphs":
            check_no_graph_attr(packed)
        used = [name for name, weight in self.facts.blend.weights.items() if weight]
        return self.blended(self.fold_answers(packed, molecules, seed, memory_mb, done, used), molecules)

    def blended(self, folds: dict[str, np.ndarray], molecules: Descriptors | None) -> Answer:
        """Blend the answers of all models of all parts (`fold_answers`)."""
        blend = self.facts.blend
        values = blend.combined({name: answers.mean(axis=0) for name, answers in folds.items()}, self.facts.task)
        near = None if molecules is None or self.trained_on is None else self.trained_on.nearest(molecules.bits)
        errors = None
        if blend.spreads:
            apart = blend.disagreement(folds)
            errors = np.stack([s.errors(column, near) for s, column in zip(blend.spreads, apart.T, strict=True)], 1)
        return Answer(torch.from_numpy(values).to(self.dtype), errors, near, blend.spreads)

    @property
    def dtype(self) -> torch.dtype:
        """The type of answers, which have the precision of the targets."""
        scale = self.model.targets
        return torch.float64 if scale is not None and scale.mean.dtype == torch.float64 else torch.float32

    def fold_answers(
        self,
        packed: PackedGraphs,
        molecules: Descriptors | None,
        seed: int = 0,
        memory_mb: float = 200.0,
        done: Callable[[int], None] | None = None,
        parts: Sequence[str] | None = None,
    ) -> dict[str, np.ndarray]:
        """Return the answers of each model of each part, [folds, G, outputs]; for all parts if none are named."""
        answers: dict[str, np.ndarray] = {}
        for part in self._parts if parts is None else parts:
            if part in READINGS:
                answers[part] = self._networks(self.as_read(packed, part, molecules), seed, memory_mb, done)
                continue
            if molecules is None:
                raise InputError(NO_DESCRIPTORS)
            folds = self.facts.blend.folds
            answers[part] = part_answers(part, self.trees[part], molecules, folds, self.facts.task)
        return {part: self.facts.blend.calibrated(said, part, self.facts.task) for part, said in answers.items()}

    @property
    def _parts(self) -> tuple[str, ...]:
        """The names of all parts, in the order of the card."""
        return (*(READINGS if self.model.graph_features else (NETWORK,)), *self.trees)

    @property
    def reads_numbers(self) -> bool:
        """Whether a part with a weight reads descriptors of molecules, or columns of their table."""
        return bool(self.trees) or bool(self.facts.blend.weights.get(WITH_DESCRIPTORS))

    @property
    def reads_molecules(self) -> bool:
        """Whether an answer needs `Descriptors`: for a part that reads them, or for similarities to training."""
        return self.reads_numbers or self.known is not None

    def as_read(self, packed: PackedGraphs, reading: str, molecules: Descriptors | None) -> PackedGraphs:
        """Return graphs as the networks read them: with or without descriptors.

        Args:
            packed: the graphs.
            reading: "network" (without) or "network+descriptors" (with).
            molecules: descriptors of the same graphs.
        """
        if reading == NETWORK:
            return packed.with_graph_attr(None)
        if molecules is None:
            raise InputError(NO_DESCRIPTORS)
        return packed.with_graph_attr(torch.from_numpy(molecules.numbers))

    def _networks(
        self, packed: PackedGraphs, seed: int, memory_mb: float, done: Callable[[int], None] | None
    ) -> np.ndarray:
        """Return the answers of each network, [networks, G, outputs]."""
        answers = network_answers(self.networks, packed, seed, memory_mb, self.device, done)
        if self.facts.task != "regression":
            answers = [_probabilities(said, self.facts.task) for said in answers]
        return torch.stack(answers).double().numpy()

    @cached_property
    def networks(self) -> list[FittedModel]:
        """Each network as a model of its own."""
        alone = replace(self.facts, blend=Blend())
        seen = [(alone.seen_nodes, alone.seen_edges), *self.facts.blend.seen]
        return [
            FittedModel(model, self.config, replace(alone, seen_nodes=nodes, seen_edges=edges))
            for model, (nodes, edges) in zip((self.model, *self.others), seen, strict=True)
        ]

    @cached_property
    def trained_on(self) -> Fingerprints | None:
        """The fingerprints of the training molecules, ready to be compared on the model's device."""
        return None if self.known is None else Fingerprints(self.known, pick_device(self.device))

    def engine(self, memory_mb: float = 200.0, device: str = "auto") -> Engine:
        """Return the inference engine, on the GPU if there is one; it is made once for each budget and device."""
        engines: dict[tuple[float, str], Engine] = self.__dict__.setdefault("_engines", {})
        if (memory_mb, device) not in engines:
            engines[memory_mb, device] = Engine(self.model, device, memory_mb, adapt=False)
        return engines[memory_mb, device]

    def __getstate__(self) -> dict[str, Any]:
        """Leave engines out: a copy or an unpickled model makes its own, on the device that it then has."""
        return {name: value for name, value in self.__dict__.items() if name not in CACHES}

    def _check(self, packed: PackedGraphs) -> None:
        if packed.canonical and self.facts.source == "smiles":  # molecules that this package has featurised
            return
        for name, values, spec in (
            ("node", packed.x, self.model.node_features),
            ("edge", packed.edge_attr, self.model.edge_features),
        ):
            if FeatureSpec.of(values).empty and not spec.empty and len(packed):
                if name == "edge" and not int(packed.num_edges.sum()):
                    continue  # no edges, no features of edges
                raise InputError(f"the model was fitted to graphs with {name} features, these have none")

    def with_seen_categories(self, packed: PackedGraphs, warn: bool = True) -> PackedGraphs:
        """Check the graphs and replace categories that do not occur in training.

        Args:
            packed: the graphs.
            warn: whether to warn about replaced categories.
        """
        self._check(packed)
        spec, facts = self.model.edge_features, self.facts
        x, unseen_nodes = without_unseen(packed.x, known_categories(facts.seen_nodes, self.model.node_features), "node")
        edge_attr, unseen_edges = without_unseen(packed.edge_attr, known_categories(facts.seen_edges, spec), "edge")
        if facts.source == "smiles" and spec.empty and edge_attr is not None:  # no molecule of training had a bond
            edge_attr, unseen_edges = None, len(edge_attr)
        if edge_attr is None and not spec.empty:  # graphs without edges: none has features, but there are columns
            dtype = torch.float32 if spec.width else torch.long
            edge_attr = torch.empty(0, spec.columns, dtype=dtype, device=packed.device)
        if warn and (unseen_nodes or unseen_edges):
            warnings.warn(
                f"categories that are not in the training data were replaced by the most frequent ones: of nodes "
                f"{unseen_nodes}, of directed edges {unseen_edges}",
                UnseenWarning,
                stacklevel=3,
            )
        same = x is packed.x and edge_attr is packed.edge_attr
        return replace(packed, x=x, edge_attr=edge_attr, canonical=packed.canonical and same)

    def save(self, folder: Path | str) -> None:
        """Write the model's folder. Files are written atomically and the facts last, so interruptions leave no mixture.

        Args:
            folder: the folder to write.
        """
        folder = Path(folder)
        save_model(folder / MODEL, self.model, self.config)  # makes the folder
        written = []
        for number, model in enumerate(self.others, start=2):
            written.append(member_file(number))
            save_model(folder / written[-1], model, self.config)
        if save_trees(folder, self.trees, self.known):
            written.append(TREES)
        files = {name: checksum_of(folder / name) for name in written}
        facts = replace(self.facts, blend=replace(self.facts.blend, files=files))
        save_facts(folder, facts, checksum_of(folder / MODEL))
        for left in {*folder.glob(member_file("*")), folder / TREES} - {folder / name for name in written}:
            left.unlink(missing_ok=True)  # files of a previous model in this folder

    @classmethod
    def load(cls, folder: Path | str) -> FittedModel:
        """Read a folder that `save` or `maggnn fit` wrote.

        Args:
            folder: the model's folder.

        Returns:
            The model.

        Raises:
            InputError: a file is missing, damaged or does not fit the others.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise InputError(f"{folder}: no such model folder; `maggnn fit` makes one")
        model, config = load_model(folder / MODEL)
        if not (folder / FACTS).exists():
            raise InputError(f"{folder}: has no {FACTS}: it is a training run, not a model of `maggnn fit`")
        facts = load_facts(folder, model, checksum_of(folder / MODEL))
        networks = range(2, facts.blend.folds + 1) if facts.blend.uses_networks else ()
        strange = sorted(facts.blend.files.keys() - {*map(member_file, networks), TREES})
        if strange:
            raise InputError(f"{folder / FACTS}: names the file {one_line(strange[0])!r}, which is not one of a model")
        others = tuple(_other(folder, number, facts, model) for number in networks)
        return cls(model, config, facts, others, *load_trees(folder, facts, model.num_outputs))

    def __repr__(self) -> str:
        facts = self.facts
        what = f"{facts.task} of {', '.join(facts.targets) or 'y'} from {facts.source}"
        rows = ", ".join(f"{count:,} {name}" for name, count in facts.rows.items())
        scores = "".join(f"; {name} {facts.metric} {value:.4g}" for name, value in facts.scores.items())
        return f"FittedModel({what}; {rows}{scores};\n  MagGNN({self.model.extra_repr()}))"


def _probabilities(outputs: Tensor, task: Task) -> Tensor:
    """Return the probabilities of the classes, or of the second class of each target, [G, outputs]."""
    exact = outputs.double()
    return (exact.softmax(dim=-1) if task == "classification" else exact.sigmoid()).float()


CACHES = ("_engines", "networks", "trained_on")
NO_DESCRIPTORS = "a part of the model reads descriptors of molecules: give `molecules` too"


def member_file(number: int | str) -> str:
    """Return the file name of network `number`, counted from 1."""
    return MODEL if number == 1 else f"model-{number}.safetensors"


def load_first(folder: Path) -> FittedModel:
    """Load a folder's model for uses of its first network only; prints a note if it is an ensemble."""
    fitted = FittedModel.load(folder)
    if len(fitted.facts.blend.weights) > 1 or fitted.facts.blend.folds > 1:
        without = ", without descriptors" if fitted.model.graph_features else ""
        tell(f"{folder} is a blend of several models; only its first network is used here{without}")
    return fitted


def _other(folder: Path, number: int, facts: Facts, first: MagGNN) -> MagGNN:
    """Load a network after the first, which must have the same kind."""
    path = folder / member_file(number)
    model, _ = load_model(path)
    check_file(path, facts)
    if model.data_shape != first.data_shape:
        raise InputError(f"{path}: does not match the model next to it")
    return model


def is_fitted(folder: Path) -> bool:
    """Whether `maggnn fit` wrote a folder, also if its facts are a broken link or not a regular file."""
    return (folder / FACTS).is_symlink() or (folder / FACTS).exists()
