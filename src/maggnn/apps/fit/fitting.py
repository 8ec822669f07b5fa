"""`maggnn fit`: fits a model to a table and writes its folder, with a card that compares the parts of the model."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maggnn import config as configs
from maggnn.apps.fit.answers.estimator_file import FILE as ESTIMATOR
from maggnn.apps.fit.answers.far_rows import least_similarity
from maggnn.apps.fit.card import model_card
from maggnn.apps.fit.card.intervals import Judged, judge, judged_singly
from maggnn.apps.fit.card.markdown import plain
from maggnn.apps.fit.card.picture_of_test import draw_test
from maggnn.apps.fit.card.reported import reports, to_json, write_metrics
from maggnn.apps.fit.classical.cheap_baselines import NAMES
from maggnn.apps.fit.classical.descriptors import Descriptors
from maggnn.apps.fit.ensemble import OutOfFold, fit_blend, fold_set, trimmed
from maggnn.apps.fit.facts import FACTS, Facts
from maggnn.apps.fit.fitted import MODEL, FittedModel, unseen_told
from maggnn.apps.fit.folds import Folds, deal_folds, single_fold
from maggnn.apps.fit.members import member_folder
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.own_table import FEATURES, Cleaning, OwnTable, Weighting, read_own_table, skewed_targets
from maggnn.apps.fit.packing import write_errors
from maggnn.apps.fit.tables.cross_validation import Plan, Scores, cross_validated
from maggnn.apps.fit.tables.earlier_model import EarlierModel
from maggnn.apps.fit.tables.number_columns import stacked
from maggnn.apps.fit.training_rows import MOST_TEST_ROWS, TEST_FILE, training_rows, write_training_rows
from maggnn.apps.terminal import tell
from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.data.files import locked, whole_file
from maggnn.data.packing import Arrays
from maggnn.data.splits import PARTS
from maggnn.errors import InputError, require
from maggnn.model import weights_file
from maggnn.model.pretrained import PREDICTORS
from maggnn.training.devices import Launch
from maggnn.training.metrics import Metric, score
from maggnn.training.progress import LOG

LOCK = "fit.lock"
LONGEST_SMILES = 80
"""The largest number of characters of a SMILES that are shown."""
SALTS_IN_WORDS = {
    "keep": "Salts and mixtures: all fragments are kept, as one graph",
    "largest": "Salts and mixtures: only the largest organic fragment is read, here and by `maggnn predict`",
}
TRAINING = "training-"
"""The prefix of folders of checkpoints. A digest of the data and settings follows, so that the same command resumes
from them and another one does not."""


def fit_table(
    table: Path,
    smiles: str,
    targets: Sequence[str],
    out: Path,
    task: str = "auto",
    split: str = "random",
    seed: int = 0,
    steps: int | None = None,
    workers: int = 2,
    overwrite: bool = False,
    settings: Path | None = None,
    ensemble: int = 5,
    units: Sequence[str] = (),
    cleaning: Cleaning = Cleaning(),  # noqa: B008 (frozen)
    weighting: Weighting = Weighting(),  # noqa: B008
    plan: Plan = Plan(),  # noqa: B008
    device: str = "auto",
    start: Path | None = None,
    number_columns: Sequence[str] = (),
    launch: Launch | None = None,
) -> dict[str, Any]:
    """Fit a model to a table, test it, and write the folder `out`. Returns a summary as plain values.

    Args:
        units: the units of the targets, in their order, for the labels of tables and axes.
        ensemble: the number of folds, each with a network, boosting, a forest and a Gaussian process; 1: one network.
        settings: a TOML file of settings, such as the best of `maggnn tune`; by default those of `own_config`.
        cleaning: how salts and repeated molecules are treated.
        weighting: the weights of rows and classes.
        plan: the cross-validation, whose scores the card shows next to those of the test split.
        device: where networks are trained: auto, cpu or cuda.
        start: the folder of a fitted model whose weights initialise the networks.
        number_columns: columns of the table that are read besides descriptors.
        launch: starts the processes that train each network together, one network after the other; each process has
            its own batch of `batch_size` graphs. None: one process trains every network.
    """
    began = time.monotonic()
    _check_request(out, overwrite, split, plan, ensemble, number_columns)
    given = None if settings is None else configs.load(settings)
    earlier = None if start is None else EarlierModel.load(start, FEATURES)
    own = read_own_table(table, smiles, targets, task, split, seed, workers, cleaning, weighting, number_columns)
    _check_units(own, units)
    skewed = skewed_targets(own.dataset)
    if skewed:
        tell(f"{table}: {skewed}")
    if own.table.shared:
        shared = f"{len(own.table.shared)}, such as {own.table.shared[0][:LONGEST_SMILES]}"
        tell(f"{table}: molecules in more than one part of the split: {shared}; test scores are optimistic")
    folds = learned_folds(own, ensemble, seed)
    changes = {} if steps is None else {"predictor_steps": steps}
    config = own_config(fold_set(own.dataset, folds, 0), seed, **changes)
    if given is not None:
        config = _given_config(given, config, steps)
    config = (config if earlier is None else earlier.config(config)).replaced(runtime={"device": device})
    facts = replace(
        table_facts(own, smiles), salts=cleaning.salts, units=tuple(units), number_columns=tuple(number_columns),
        started_from=() if earlier is None else earlier.names,
    )  # fmt: skip
    starts = None if earlier is None else earlier.starts(facts, max(ensemble, folds.count))
    more = stacked(own.table.numbers, number_columns)
    fit = partial(fit_blend, smiles=own.table.canonical, workers=workers, starts=starts, more=more, launch=launch)
    with _only_here(out):
        training = out / f"{TRAINING}{data_digest(_learned_from(own, folds, earlier, number_columns), config)}"
        _check_folder(out, overwrite, [training])  # another fit may have finished here in the meantime
        validated = None
        if plan.folds:
            validated = cross_validated(own, facts, config, plan, ensemble, training, fit, _own_scores)
        choices = _choices(own, cleaning, weighting, config, earlier, number_columns)
        if own.table.target.guessed:
            tell(f"{table}: {own.table.target.why}")
        found = fit(own.dataset, facts, config, folds, folder=training, quiet=False)
        test, seconds = tested(*found, own.dataset)
        fitted = _with_test(trimmed(found[0]), test)
        fitted.save(out)
        origin = model_card.Origin(
            str(table), _split_in_words(own, folds), own.table.num_rows, len(own.table.errors), len(own.table.shared),
            time.monotonic() - began, own.table.target.why, own.balance, own.known, choices, validated,
        )  # fmt: skip
        _describe(out, fitted.facts, origin, test, own)
        _finish(out, training)
    first = asdict(own.table.errors[0]) if own.table.errors else None
    return _result(out, fitted.facts, origin, test, seconds) | {"first_left_out": first}


def _check_request(
    out: Path, overwrite: bool, split: str, plan: Plan, ensemble: int, number_columns: Sequence[str]
) -> None:
    """Check what can be checked before the long work of reading a table."""
    require("rdkit", "matplotlib")
    _remove_done(out)
    _check_folder(out, overwrite, list(out.glob(f"{TRAINING}*")))
    if out.is_dir():
        with _only_here(out):
            pass
    plan.check(split)
    if number_columns:
        require("sklearn")
        if ensemble == 1:
            raise InputError(
                "--feature is for boosting, which --ensemble 1 (a single network) does not use: leave one out"
            )


def _learned_from(own: OwnTable, folds: Folds, earlier: EarlierModel | None, number_columns: Sequence[str]) -> Arrays:
    """Return the data that training depends on, besides the settings; networks read the columns in their order."""
    weights = own.dataset.weights
    more = {} if weights is None else {"weights": weights.numpy()}
    more |= {} if earlier is None else {"start": earlier.digest()}
    more |= {f"column {name}": values for name, values in own.table.numbers.items()}
    return own.table.arrays | {"fold": folds.fold, "columns read": np.array(number_columns, dtype=str)} | more


def _own_scores(fitted: FittedModel, held_out: OutOfFold, molecules: Descriptors | None, dataset: Dataset) -> Scores:
    """Return the scores of the model and of its parts on the test split."""
    test, _ = tested(fitted, held_out, molecules, dataset)
    return {name: judged.value for name, judged in test.judged.items()}


def _choices(
    own: OwnTable,
    cleaning: Cleaning,
    weighting: Weighting,
    config: Config,
    earlier: EarlierModel | None,
    number_columns: Sequence[str],
) -> tuple[str, ...]:
    """Return the choices about rows, columns and initial weights, as lines of the card."""
    repeated = len(own.table.canonical) - len(set(own.table.canonical))
    lines = [SALTS_IN_WORDS[cleaning.salts]]
    if own.table.num_merged:
        lines.append(
            f"Repeated molecules: {own.table.num_merged} rows were merged into the first row of their molecule"
        )
    elif repeated:
        lines.append(f"Repeated molecules: {repeated} rows repeat a molecule; all were kept, in one part of the split")
    if weighting.column is not None:
        lines.append(f"Weights: training weights rows by column {plain(weighting.column)}; scores are not weighted")
    if weighting.balance:
        lines.append(
            "Weights: all classes of a target have the same total weight in training, so probabilities are those for "
            "a table whose classes are equally frequent; scores are not weighted"
        )
    skewed = skewed_targets(own.dataset)
    lines += [plain(skewed, model_card.LONGEST_REASON)] if skewed else []
    name = config.training.initial_weights
    if name:
        trained = "trained to compute properties of public molecules, without measured values"
        lines.append(f"Initial weights of the networks: {plain(name)}" + (f", {trained}" if name in PREDICTORS else ""))
    if number_columns:
        columns = ", ".join(map(plain, number_columns))
        lines.append(f"Columns read with the descriptors, by all parts that read these: {columns}")
    if earlier is not None:
        parts = {part: [own.table.canonical[row] for row in own.table.arrays[part]] for part in PARTS}
        lines.append(earlier.words(parts["test"], parts["train"] + parts["val"]))
    return tuple(lines)


def _check_units(own: OwnTable, units: Sequence[str]) -> None:
    """Check the number of units after the table has been read, since a pattern may name several targets."""
    names = list(own.dataset.target_names or ())
    if units and own.dataset.task != "regression":
        raise InputError(f"--unit {units[0]!r}: {names[0]!r} has classes, which have no unit")
    if units and len(units) != len(names):
        raise InputError(
            f"--unit is given {len(units)} times for {len(names)} targets: give it once for each, in order"
        )


def learned_folds(own: OwnTable, count: int, seed: int) -> Folds:
    """Return the folds of all rows outside the test split; a single fold is the split itself."""
    split, y = own.dataset.split(0, 0), own.dataset.y.numpy()
    dealt = None
    if count > 1:
        rows = torch.cat([split.train, split.val]).sort().values.numpy()
        dealt = deal_folds(
            rows, y, own.dataset.task, count, seed, own.table.canonical, own.groups, own.weights, own.times
        )
        if dealt is None or dealt.count < count:
            found = "one network" if dealt is None else f"an ensemble of {dealt.count}"
            tell(f"{own.dataset.name}: {found} instead of {count}: the rows allow no more folds")
    return single_fold(split, len(y)) if dealt is None else dealt


def _with_test(fitted: FittedModel, test: model_card.Test) -> FittedModel:
    """Store the score on the test split, if there is one, and the similarity of its molecules to training."""
    value = test.judged[model_card.OWN].value
    scores = {"test": value} if math.isfinite(value) else {}
    near = least_similarity(test.answer.similarity)
    return replace(fitted, facts=replace(fitted.facts, scores=scores, least_similarity=near))


def _split_in_words(own: OwnTable, folds: Folds) -> str:
    """Describe the split and, for one by time, on which rows intervals are calibrated."""
    if own.times is None or own.dataset.task != "regression" or folds.count == 1:
        return own.split
    if folds.newest is None:
        return f"{own.split}; intervals by random folds, as the newest other rows are few: they may be too narrow"
    return f"{own.split}; intervals by the newest {int(folds.newest.sum())} of the other rows"


def _only_here(out: Path) -> AbstractContextManager[None]:
    """Lock the folder against a second `maggnn fit`, and create it if it is missing."""
    return locked(out / LOCK, f"{out}: another `maggnn fit` is at work there")


def _check_folder(out: Path, overwrite: bool, trainings: Sequence[Path]) -> None:
    """Check the output folder before the long work of a fit.

    Args:
        trainings: folders of checkpoints from which this fit may resume.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: give the path of a folder")
    if (out / FACTS).exists() and not overwrite and not any(_saved_from(out, training) for training in trainings):
        raise InputError(f"{out}: contains a model already; choose another folder, or --overwrite to replace it")


def _saved_from(out: Path, training: Path) -> bool:
    """Whether the folder's model comes from that training; then the fit was killed before its card was complete.

    Weights are compared, not files: the networks of folds are trained without validation, which their files record and
    the model's file does not.
    """
    try:
        saved, trained = (weights_file.load(folder / MODEL)[0] for folder in (out, member_folder(training, 1)))
    except (InputError, OSError):
        return False
    return saved.keys() == trained.keys() and all(torch.equal(saved[name], trained[name]) for name in saved)


def _finish(out: Path, training: Path) -> None:
    """Keep the curves of the first network, and remove all checkpoints, also those of abandoned fits.

    An estimator that was saved here before had parameters of its own, with which `MagRegressor.load` would come back.
    """
    (out / ESTIMATOR).unlink(missing_ok=True)
    with whole_file(out / LOG) as waiting:
        shutil.copyfile(member_folder(training, 1) / LOG, waiting)
    for done in out.glob(f"{TRAINING}*"):
        done.rename(out / f".{done.name}")  # a partly deleted folder must not be resumed from
    _remove_done(out)


def _remove_done(out: Path) -> None:
    """Remove checkpoints that are no longer needed; a fit that was killed at its end may have left some."""
    for done in out.glob(f".{TRAINING}*"):
        shutil.rmtree(done, ignore_errors=True)


def _given_config(given: Config, own: Config, steps: int | None) -> Config:
    """Return the settings of a file with the table's name, the command's seed and, if given, its number of steps."""
    changed = {} if steps is None else {"predictor_steps": steps, "validate_every": own.training.validate_every}
    return given.replaced(data={"name": own.data.name}, training=changed, runtime={"seed": own.runtime.seed})


def data_digest(arrays: Arrays, config: Config) -> str:
    """Return a digest of the data and the settings."""
    digest = hashlib.sha256(json.dumps(configs.to_dict(config), sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()[:12]


def table_facts(own: OwnTable, smiles: str) -> Facts:
    """Return what a model must know of its table, whose molecules are in the column `smiles`."""
    return Facts(
        source="smiles",
        task=own.dataset.task,
        features=FEATURES,
        smiles_column=smiles,
        targets=own.dataset.target_names or (),
        classes=own.classes,
        labels=own.table.target.labels,
        metric=own.dataset.metric,
        rows={part: len(own.table.arrays[part]) for part in PARTS},
    )


def tested(
    fitted: FittedModel, held_out: OutOfFold, molecules: Descriptors | None, dataset: Dataset
) -> tuple[model_card.Test, dict[str, float]]:
    """Return the answers of the model and of its parts on the test split, and the seconds that they took."""
    ids = dataset.split(0, 0).test
    graphs, y, blend = dataset.graphs.select(ids), dataset.y[ids], fitted.facts.blend
    descriptors = None if molecules is None else molecules.select(ids.numpy())
    began = time.monotonic()
    with unseen_told(f"{dataset.name}, test rows"):
        folds = fitted.fold_answers(graphs, descriptors)
    answer = fitted.blended(folds, descriptors)
    seconds = {"test": time.monotonic() - began}
    names = model_card.PARTS if blend.folds > 1 else NAMES
    answers = {name: torch.from_numpy(folds[name].mean(axis=0)) for name in names if name in folds}
    judged = {model_card.OWN: judge(answer.values, y, dataset.metric)}
    judged |= {names[part]: judge(values, y, dataset.metric) for part, values in answers.items()}
    known = dataset.y[torch.from_numpy(held_out.rows)]
    parts = {names[part]: model_card.Part(blend.weights[part], _score(held_out.parts[part], known, dataset.metric))
             for part in answers if blend.folds > 1}  # fmt: skip
    if parts:
        parts = {model_card.OWN: model_card.Part(None, _score(held_out.answers, known, dataset.metric))} | parts
    by_method = {model_card.OWN: answer.values} | {names[part]: values for part, values in answers.items()}
    metrics = reports(
        fitted.facts, y.double().numpy(), {name: values.double().numpy() for name, values in by_method.items()}
    )
    singly: dict[str, dict[str, Judged]] = {}
    if dataset.task != "classification":
        singly = judged_singly(by_method, y, dataset.target_names or (), dataset.metric)
    return model_card.Test(answer, y, judged, metrics, singly, parts), seconds


def _score(answers: np.ndarray, y: Tensor, metric: Metric) -> float:
    return float(score(torch.from_numpy(answers), y, metric)) if len(y) else math.nan


def _write_molecules(out: Path, own: OwnTable) -> None:
    """Write the molecules of the training and validation splits whose weight is not 0, and some of the test split."""
    split, dataset = own.dataset.split(0, 0), own.dataset
    known = dataset.learned(torch.cat([split.train, split.val]).sort().values.numpy())
    labels = (own.classes,) if own.classes else own.table.target.labels
    table = (own.table.canonical, dataset.target_names or (), dataset.y.numpy(), labels)
    write_training_rows(out, training_rows(*table, known))
    write_training_rows(out, training_rows(*table, split.test.sort().values.numpy(), MOST_TEST_ROWS), TEST_FILE)


def _describe(out: Path, facts: Facts, origin: model_card.Origin, test: model_card.Test, own: OwnTable) -> None:
    try:
        write_errors(out / model_card.LEFT_OUT, own.table.errors)
        write_metrics(out, test.metrics)
        _write_molecules(out, own)
        draw_test(out / model_card.PICTURE, facts, test)
        model_card.write_card(out, facts, origin, test)
    except OSError as error:
        raise InputError(f"{out}: the model is saved, its card cannot be written ({error})") from error


def _result(
    out: Path, facts: Facts, origin: model_card.Origin, test: model_card.Test, seconds: dict[str, float]
) -> dict[str, Any]:
    return {
        "model": str(out),
        "task": facts.task,
        "metric": facts.metric,
        "rows": origin.num_rows,
        "left_out": origin.num_left_out,
        "target": origin.target,
        **facts.rows,
        "balance": origin.balance,
        "known": {
            target: {part: count._asdict() for part, count in parts.items()} for target, parts in origin.known.items()
        },
        "targets": {
            target: {
                name: {"value": judged.value, "interval": list(judged.interval)} for name, judged in methods.items()
            }
            for target, methods in test.judged_targets.items()
        },
        "test_scores": {
            name: {"value": judged.value, "interval": list(judged.interval)} for name, judged in test.judged.items()
        },
        "cross_validation": None if origin.validated is None else origin.validated.summary(facts.metric),
        "parts": {name: asdict(part) for name, part in test.parts.items()},
        "metrics": to_json(test.metrics),
        "coverage": model_card.covered(test),
        "verdict": model_card.verdict_of_test(facts, test),
        "seconds": {"all": origin.seconds, **seconds},
    }
