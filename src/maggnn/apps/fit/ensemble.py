"""Fit all parts of a model on the same folds, and learn from their out-of-fold predictions how to blend them.

    network    a MAG-GNN for each fold, which learns from the other folds and keeps its last weights
    network+descriptors
               the same networks, whose readout also gets the descriptors (only for molecules): they learn to answer
               with and without
    boosting   gradient boosting on descriptors, for each fold (only for molecules)
    forest     a random forest on fingerprints, for each fold (only for molecules)
    kernel     a Gaussian process on both, for each fold (only for molecules)

Every row of the training and validation splits has one prediction of each part by a model that did not learn from it.
The weights of the parts, the temperatures of probabilities and the spread of errors are estimated from these. Nothing
else is chosen on a fold: a network that kept the weights which are best on its own fold would score better there than
on new molecules, and would get too large a weight and too narrow intervals.

Shapes: G graphs, R out-of-fold rows, O outputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from maggnn.apps.fit.answers.blended import Blend, Seen, TargetBlend
from maggnn.apps.fit.answers.target_weights import with_fitted_weights
from maggnn.apps.fit.blend import BLEND, NETWORK, READINGS, WITH_DESCRIPTORS
from maggnn.apps.fit.categories import seen_categories
from maggnn.apps.fit.classical.cheap_baselines import BOOSTING, FOREST, fit_trees, joined, part_answers, tree_task
from maggnn.apps.fit.classical.descriptors import Descriptors, descriptors_of
from maggnn.apps.fit.classical.kernel import KERNEL, Kernels, fit_kernels
from maggnn.apps.fit.classical.trees import Trees
from maggnn.apps.fit.classical.trees_file import MOST_KNOWN
from maggnn.apps.fit.fitted import Facts, FittedModel, UnseenWarning
from maggnn.apps.fit.folds import Folds
from maggnn.apps.fit.members import Start, train_members
from maggnn.apps.fit.uncertainty import nearest_similarity
from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.data.own_file import official_split
from maggnn.graphs.canonical_order import in_canonical_order
from maggnn.model.mag_gnn import MagGNN
from maggnn.training.devices import Launch


@dataclass(frozen=True)
class OutOfFold:
    """Predictions for rows by models that did not learn from them.

    Attributes:
        rows: the ids of the rows, [R].
        parts: the answers of each part, [R, O].
        answers: the answers of the blend, [R, O].
    """

    rows: np.ndarray
    parts: Mapping[str, np.ndarray]
    answers: np.ndarray


def fit_blend(
    dataset: Dataset,
    facts: Facts,
    config: Config,
    folds: Folds,
    smiles: Sequence[str] | None = None,
    folder: Path | None = None,
    workers: int = 1,
    quiet: bool = True,
    starts: Sequence[Start] | None = None,
    more: np.ndarray | None = None,
    launch: Launch | None = None,
) -> tuple[FittedModel, OutOfFold, Descriptors | None]:
    """Fit a network for each fold, and for molecules also the classical parts. A single fold gives one network only.

    Args:
        config: the settings of every network; each network has its own seed.
        smiles: canonical SMILES of the molecules; None for graphs.
        folder: where checkpoints are written, and from which an interrupted fit resumes.
        starts: initial weights for the network of each fold; None for random ones.
        more: additional numeric columns that are read besides descriptors, [G, columns].
        launch: starts the processes that train each network together; None for one process.

    Returns:
        The model with all fitted parts (`trimmed` removes those without a weight), its out-of-fold predictions, and
        the descriptors of all molecules.
    """
    molecules = None if smiles is None else descriptors_of(smiles, workers).with_columns(more)
    dataset = replace(dataset, graphs=in_canonical_order(dataset.graphs))  # as `predict` reads them
    if molecules is not None and folds.count > 1:  # with a single fold there is no blend to choose a reading
        dataset, config = _with_descriptors(dataset, config, molecules)
    sets = [fold_set(dataset, folds, number) for number in range(folds.count)]
    seeds = [config.runtime.seed + number for number in range(folds.count)]
    validation = {"validate_every": 0, "patience": 0} if folds.count > 1 else {}
    configs = [config.replaced(training=validation, runtime={"seed": seed}) for seed in seeds]
    networks = train_members(sets, configs, folder, workers, quiet, starts, launch)
    seen = [seen_categories(dataset.graphs, torch.from_numpy(folds.train(n))) for n in range(folds.count)]
    trees = {} if molecules is None else _trees(molecules, dataset, folds, config.runtime.seed)
    known = None
    if molecules is not None:
        known = molecules.bits[_some(dataset.learned(np.flatnonzero(folds.fold >= 0)), config.runtime.seed)]
    fitted = _unblended(networks, config, facts, seen, trees, known)
    # An element that occurs in one fold only is new to the network of that fold.
    with warnings.catch_warnings(action="ignore", category=UnseenWarning):
        held_out = _out_of_fold(fitted, dataset, molecules, folds)
    return _blended(fitted, dataset, molecules, folds, held_out)


def _with_descriptors(dataset: Dataset, config: Config, molecules: Descriptors) -> tuple[Dataset, Config]:
    """Return the data set with descriptors as features of its graphs, and the settings to learn with and without."""
    graphs = dataset.graphs.with_graph_attr(torch.from_numpy(molecules.numbers))
    return replace(dataset, graphs=graphs), config.replaced(predictor={"graph_attr_optional": True})


def trimmed(fitted: FittedModel) -> FittedModel:
    """Remove the parts without a weight; the first network stays, for explanations and the page."""
    blend = fitted.facts.blend
    parts = [name for name, weight in blend.weights.items() if weight or name == NETWORK]
    whole = _restricted(TargetBlend(blend.weights, blend.temperatures), parts)
    targets = tuple(_restricted(target, parts) for target in blend.targets)
    blend = replace(blend, weights=whole.weights, temperatures=whole.temperatures, targets=targets)
    if not blend.uses_networks:
        fitted, blend = replace(fitted, others=()), replace(blend, seen=())
    trees = {name: trees for name, trees in fitted.trees.items() if name in parts}
    return replace(fitted, facts=replace(fitted.facts, blend=blend), trees=trees)


def _restricted(target: TargetBlend, parts: Collection[str]) -> TargetBlend:
    """Return weights and temperatures of only some parts."""
    weights = {name: weight for name, weight in target.weights.items() if name in parts}
    heat = {name: value for name, value in target.temperatures.items() if name in {*parts, BLEND}}
    return TargetBlend(weights, heat)


def fold_set(dataset: Dataset, folds: Folds, number: int) -> Dataset:
    """Return the data set with fold `number` as its validation split."""
    parts = {"train": folds.train(number), "val": folds.held_out(number), "test": np.empty(0, dtype="int64")}
    return replace(dataset, protocol=official_split, extra=parts)


def _some(rows: np.ndarray, seed: int) -> np.ndarray:
    if len(rows) <= MOST_KNOWN:
        return rows
    return np.sort(np.random.default_rng(seed % 2**32).permutation(rows)[:MOST_KNOWN])


def _unblended(
    networks: Sequence[MagGNN],
    config: Config,
    facts: Facts,
    seen: Sequence[tuple[Seen, Seen]],
    trees: dict[str, Trees | Kernels],
    known: np.ndarray | None,
) -> FittedModel:
    (nodes, edges), *others = seen
    weights = (
        {NETWORK: 1.0} | ({WITH_DESCRIPTORS: 0.0} if networks[0].graph_features else {}) | dict.fromkeys(trees, 0.0)
    )
    blend = Blend(weights, folds=len(networks), seen=tuple(others))
    facts = replace(facts, seen_nodes=nodes, seen_edges=edges, blend=blend)
    return FittedModel(networks[0], config, facts, tuple(networks[1:]), trees, known)


def _trees(molecules: Descriptors, dataset: Dataset, folds: Folds, seed: int) -> dict[str, Trees | Kernels]:
    """Fit the classical parts on every fold; none if scikit-learn is not installed, which the card mentions."""
    learned = [folds.train(number) for number in range(folds.count)]
    parts: dict[str, Trees | Kernels] = {}
    try:
        for kind in (BOOSTING, FOREST):
            tasks = (
                tree_task(kind, molecules, dataset, rows, seed + number, folds.count)
                for number, rows in enumerate(learned)
            )
            parts[kind] = joined([fit_trees(task) for task in tasks])
        if folds.count > 1:
            parts[KERNEL] = fit_kernels(molecules, dataset, learned, seed)
    except ImportError:
        return {}
    return parts


def _out_of_fold(fitted: FittedModel, dataset: Dataset, molecules: Descriptors | None, folds: Folds) -> OutOfFold:
    """Return each part's prediction for each row by the model that did not learn from it, not yet blended."""
    rows = np.concatenate([folds.held_out(number) for number in range(folds.count)])
    parts: dict[str, list[np.ndarray]] = {name: [] for name in fitted.facts.blend.weights}
    for number, network in enumerate(fitted.networks):
        own = folds.held_out(number)
        if len(own):
            graphs = dataset.graphs.select(torch.from_numpy(own))
            described = None if molecules is None else molecules.select(own)
            readings = [name for name in READINGS if name in parts]
            for name, answers in network.fold_answers(graphs, described, parts=readings).items():
                parts[name].append(answers[0])
        for name, trees in fitted.trees.items():
            assert molecules is not None
            said = part_answers(name, trees, molecules.select(own), folds.count, dataset.task)
            parts[name].append(said[number])
    empty = np.empty((0, dataset.num_outputs))
    whole = {name: np.concatenate([empty, *answers]) for name, answers in parts.items()}
    return OutOfFold(rows, whole, whole[NETWORK])


def _blended(
    fitted: FittedModel, dataset: Dataset, molecules: Descriptors | None, folds: Folds, found: OutOfFold
) -> tuple[FittedModel, OutOfFold, Descriptors | None]:
    """Return the model with weights, temperatures and error spreads."""
    near = None if molecules is None else _near_out_of_fold(molecules, dataset, folds, found.rows)
    y = dataset.y.numpy()[found.rows]
    trained = None if dataset.weights is None else dataset.weights.numpy()[found.rows]
    counted, like_test = folds.counted[found.rows], folds.like_test[found.rows]
    blend = with_fitted_weights(fitted.facts.blend, found.parts, y, dataset.task, counted, near, trained, like_test)
    calibrated = {name: blend.calibrated(part, name, dataset.task) for name, part in found.parts.items()}
    fitted = replace(fitted, facts=replace(fitted.facts, blend=blend))
    return fitted, replace(found, answers=blend.combined(calibrated, dataset.task)), molecules


def _near_out_of_fold(molecules: Descriptors, dataset: Dataset, folds: Folds, rows: np.ndarray) -> np.ndarray:
    """Return the similarity of each row to the most similar molecule that its model learned from, [R]."""
    near = np.zeros(len(folds.fold), dtype=np.float32)
    for number in range(folds.count):
        own = folds.held_out(number)
        if len(own):
            learned = _some(dataset.learned(folds.train(number)), number)
            near[own] = nearest_similarity(molecules.bits[own], molecules.bits[learned])
    return near[rows]
