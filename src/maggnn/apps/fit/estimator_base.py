"""The base class of both scikit-learn estimators: parameters, training and prediction.

Shapes: n graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from maggnn.apps.fit.answers.estimator_file import read_estimator, write_estimator
from maggnn.apps.fit.answers.given_graphs import check_no_graph_attr, read_inputs
from maggnn.apps.fit.answers.given_y import target_names
from maggnn.apps.fit.card.model_card import remove_card
from maggnn.apps.fit.classical.descriptors import descriptors_of
from maggnn.apps.fit.ensemble import fit_blend, fold_set, trimmed
from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.fitted import MODEL, Answer, FittedModel, is_fitted
from maggnn.apps.fit.folds import Folds, deal_folds, single_fold
from maggnn.apps.fit.own_settings import own_config
from maggnn.config import Config
from maggnn.data.dataset import Dataset, Metric
from maggnn.data.inputs import molecule_strings, packed_inputs
from maggnn.data.molecules.several_targets import strata
from maggnn.data.molecules.smiles import canonical_smiles
from maggnn.data.own_file import official_split
from maggnn.data.splits import Split
from maggnn.errors import InputError
from maggnn.graphs.batch import Task
from maggnn.model.pretrained import pretrained_agent, with_fitting_weights
from maggnn.model.weights_file import checksum_of

FEWEST_HELD_OUT = 20
"""The smallest number of graphs for a validation split: with fewer, the choice of weights would be noise."""

METRICS: dict[Task, Metric] = {"classification": "accuracy", "multilabel": "auroc", "regression": "mae"}


class MagEstimator(BaseEstimator):
    """The parameters, training and prediction of both estimators. All parameters are checked in `fit`."""

    def __init__(
        self,
        *,
        steps: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        validation: float = 0.1,
        features: str = "mol",
        inputs: str = "auto",
        num_tuples: int | None = None,
        num_moves: int | None = None,
        agent: str | None = None,
        ensemble: int = 1,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.steps = steps
        self.random_state = random_state
        self.validation = validation
        self.features = features
        self.inputs = inputs
        self.num_tuples = num_tuples
        self.num_moves = num_moves
        self.agent = agent
        self.ensemble = ensemble
        self.device = device
        self.verbose = verbose

    fitted_: FittedModel
    seed_: int

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "fitted_")

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # X is a sequence of graphs: it has no columns
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def _fit(
        self,
        X: Any,
        y: Tensor,
        task: Task,
        classes: tuple[str, ...] = (),
        labels: tuple[tuple[str, ...], ...] = (),
        given: Any = None,
    ) -> None:
        """Train on targets y: classes [n] numbered from 0, or numbers or two-class targets [n, targets]."""
        _check_share(self.validation)
        changes, count = self._changes(), _integer("ensemble", self.ensemble, least=1) or 1
        X = _reiterable(X)
        packed, source = packed_inputs(X, self.inputs, self.features)
        check_no_graph_attr(packed)
        if len(packed) != len(y):
            raise InputError(f"X has {len(packed)} graphs, y has {len(y)} targets: give one for each graph")
        seed = _seed(self.random_state)
        outputs, metric = len(classes) or y.shape[1], METRICS[task]
        dataset = Dataset("X", replace(packed, y=y), task, outputs, official_split, metric=metric)
        names = list(map(canonical_smiles, molecule_strings(X))) if source == "smiles" else None
        folds = self._folds(y, task, count, seed, names)
        facts = Facts(
            source,
            task,
            features=self.features if source == "smiles" else "",
            targets=target_names(given, 1 if classes else y.shape[1]),
            classes=classes,
            labels=labels,
            metric=dataset.metric,
            rows={"train": len(folds.train(0)), "val": len(folds.held_out(0))},
        )
        config = _config(fold_set(dataset, folds, 0), facts, seed, changes).replaced(runtime={"device": self.device})
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        with torch.random.fork_rng(devices):  # dropout seeds torch's global generator, which belongs to the caller
            smiles = names if folds.count > 1 else None  # a single network has no other parts
            fitted, *_ = fit_blend(dataset, facts, config, folds, smiles, quiet=not self.verbose)
        self.fitted_ = replace(trimmed(fitted), device=self.device)
        self.seed_ = seed

    def _folds(self, y: Tensor, task: Task, count: int, seed: int, names: list[str] | None) -> Folds:
        """Return as many folds as requested, or as the graphs allow; a single one is the validation split."""
        dealt = None
        if count > 1:
            dealt = deal_folds(np.arange(len(y)), y.numpy(), task, count, seed, names)
        return single_fold(_held_out(y, self.validation, seed, names), len(y)) if dealt is None else dealt

    def _changes(self) -> dict[str, dict[str, int]]:
        """Return the settings that replace those of `own_config`, by section."""
        wanted = {
            "training": {"predictor_steps": _integer("steps", self.steps, least=1)},
            "agent": {
                "num_tuples": _integer("num_tuples", self.num_tuples, least=1),
                "num_moves": _integer("num_moves", self.num_moves, least=0),
                "pretrained": self.agent,
                "tuple_order": None if self.agent is None else _order(self.agent),
            },
        }
        return {
            section: {name: value for name, value in values.items() if value is not None}
            for section, values in wanted.items()
        }

    def save(self, folder: Path | str) -> None:
        """Write the model to a folder that `load` and `maggnn predict` read.

        A model that was there is replaced; the card and the molecules of one of `maggnn fit` are removed with it.
        """
        check_is_fitted(self)
        fitted_there, before = is_fitted(Path(folder)), _checksum_in(Path(folder))
        self.fitted_.save(folder)
        if fitted_there and before != _checksum_in(Path(folder)):  # a README of anything else stays
            remove_card(Path(folder))
        params = self.get_params() | {"random_state": self.seed_}
        write_estimator(Path(folder), type(self).__name__, params, {"seed": self.seed_} | self._fitted_attributes())

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Load the estimator from a folder that `save` or `maggnn fit` wrote; its predictions are the same."""
        folder = Path(folder)
        fitted = FittedModel.load(folder)
        if (fitted.facts.task == "regression") != issubclass(cls, RegressorMixin):
            raise InputError(f"{folder}: contains a model for {fitted.facts.task}, not one for {cls.__name__}")
        found = read_estimator(folder, cls.__name__, cls._get_param_names())
        params: dict[str, Any] = {"ensemble": fitted.facts.blend.folds} if found is None else found["params"]
        estimator = cls(**params)
        estimator.fitted_ = replace(fitted, device=estimator.device)
        estimator.seed_ = 0 if found is None else found["seed"]
        estimator._restore_attributes(found, folder)
        return estimator

    def _fitted_attributes(self) -> dict[str, Any]:
        """Return the attributes that `fit` sets besides the model, as plain values."""
        raise NotImplementedError

    def _restore_attributes(self, found: dict[str, Any] | None, folder: Path) -> None:
        """Set the attributes that `_fitted_attributes` returned; `found` is None for a folder of `maggnn fit`."""
        raise NotImplementedError

    def _answers(self, X: Any) -> np.ndarray:
        """Return the model's predictions, [n, outputs]."""
        return self._answer(X).values.double().numpy()

    def _answer(self, X: Any) -> Answer:
        """Return the model's predictions with their uncertainty."""
        check_is_fitted(self)
        X, facts = _reiterable(X), self.fitted_.facts
        # Parameters may have been set since `fit`; what molecules become is the model's.
        packed, source = packed_inputs(X, self.inputs, facts.features or self.features)
        if source == "smiles" and self.fitted_.model.node_features.empty:
            raise InputError(
                "X contains SMILES, but the model was fitted to graphs without atoms: "
                "for graph6 strings, set inputs='graph6'"
            )
        reads = self.fitted_.reads_molecules
        if reads and source != "smiles":
            raise InputError("the model was fitted to SMILES and reads descriptors of molecules: give SMILES")
        if source == "smiles" and (facts.salts != "keep" or facts.number_columns):  # for a model of `maggnn fit`
            packed, molecules = read_inputs(self.fitted_, X)
        else:
            molecules = descriptors_of(molecule_strings(X)) if reads else None
        answer = self.fitted_.answer(packed, molecules, seed=self.seed_)
        bad = np.flatnonzero(~answer.values.isfinite().all(dim=1).numpy())
        if len(bad):
            raise InputError(f"X[{bad[0]}] has no prediction: the model's answer is not a finite number")
        return answer


def _reiterable(X: Any) -> Any:
    """Return X as something that can be read twice: an iterator becomes a list."""
    return list(X) if isinstance(X, Iterator) else X


# ---- settings -------------------------------------------------------------------------------------------


def _config(dataset: Dataset, facts: Facts, seed: int, changes: Mapping[str, Mapping[str, int]]) -> Config:
    config = own_config(dataset, seed, **changes["training"])
    return with_fitting_weights(config.replaced(agent=changes["agent"]))


def _checksum_in(folder: Path) -> str | None:
    """Return the checksum of the model in a folder; None if there is none, or if it is damaged."""
    try:
        return checksum_of(folder / MODEL) if (folder / MODEL).exists() else None
    except InputError:
        return None


def _order(agent: str) -> int:
    """Return k of the tuples that a pretrained agent moves."""
    if not isinstance(agent, str):
        raise InputError(f"agent is {agent!r}: give a name of `maggnn agents` or the path of an agent's file")
    return pretrained_agent(agent).tuple_order


def _held_out(y: Tensor, share: float, seed: int, names: Sequence[str] | None = None) -> Split:
    """Hold out a random share for validation, stratified by class; one graph of each class stays in training.

    Args:
        names: canonical SMILES of molecules; all rows of a molecule are in the same part.
    """
    none = torch.empty(0, dtype=torch.long)
    if round(share * len(y)) < FEWEST_HELD_OUT:
        return Split(torch.arange(len(y)), none, none)
    places: dict[object, int] = {}
    molecule = np.array([places.setdefault(name, len(places)) for name in (range(len(y)) if names is None else names)])
    first = np.unique(molecule, return_index=True)[1]  # the first row of each molecule
    order = torch.randperm(len(first), generator=torch.Generator().manual_seed(seed))
    label = torch.from_numpy(strata(y.numpy())[first])[order]
    groups = [order[label == number] for number in label.unique()]
    chosen = torch.cat([group[: min(round(share * len(group)), len(group) - 1)] for group in groups])
    held_out = np.isin(molecule, chosen.numpy())
    learned, validated = (torch.from_numpy(np.flatnonzero(rows)) for rows in (~held_out, held_out))
    return Split(learned, validated, none)


def _seed(random_state: Any) -> int:
    """Return the seed for scikit-learn's `random_state`: a number is the seed itself, anything else draws one."""
    try:
        random = check_random_state(random_state)
    except ValueError as error:
        raise InputError(f"random_state is {random_state!r}: give a number from 0 to 2**32 - 1 or None") from error
    return int(random_state) if isinstance(random_state, Integral) else int(random.randint(2**31 - 1))


def _integer(name: str, value: Any, least: int) -> int | None:
    """Return an integer (also numpy's, which parameter grids contain) or None."""
    if value is None:
        return None
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise InputError(f"{name} is {value!r}, must be None or a whole number of at least {least}")
    return int(value)


def _check_share(value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= cast("float", value) < 1:
        raise InputError(f"validation is {value!r}, must be a share of at least 0 and below 1")
