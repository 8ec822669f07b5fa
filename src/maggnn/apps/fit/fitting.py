"""`maggnn fit`: a table becomes a model's folder, with a card that says what each part of the model brings."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maggnn import config as configs
from maggnn.apps.fit.card import model_card
from maggnn.apps.fit.card.intervals import Judged, judge, judged_singly
from maggnn.apps.fit.card.markdown import plain
from maggnn.apps.fit.card.picture_of_test import draw_test
from maggnn.apps.fit.card.reported import reports, to_json, write_metrics
from maggnn.apps.fit.classical.cheap_baselines import NAMES
from maggnn.apps.fit.classical.descriptors import Descriptors
from maggnn.apps.fit.ensemble import OutOfFold, fit_blend, fold_set, trimmed
from maggnn.apps.fit.fitted import FACTS, MODEL, Facts, FittedModel, UnseenWarning
from maggnn.apps.fit.folds import Folds, deal_folds, single_fold
from maggnn.apps.fit.members import Start, member_folder
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.own_table import FEATURES, Cleaning, OwnTable, Weighting, read_own_table
from maggnn.apps.fit.packing import write_errors
from maggnn.apps.fit.tables.cross_validation import CrossValidated, Plan, Scores, cross_validated
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
from maggnn.model.weights_file import checksum_of
from maggnn.training.devices import Launch
from maggnn.training.metrics import Metric, score
from maggnn.training.progress import LOG

LOCK = "fit.lock"
SALTS_IN_WORDS = {
    "keep": "Salts and mixtures: all fragments are kept, as one graph",
    "largest": "Salts and mixtures: the largest organic fragment alone is read, here and by `maggnn predict`",
}
TRAINING = "training-"
"""How folders of checkpoints begin; a digest of exactly these data and settings follows, so that the same command goes
on from them and another one does not."""


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
    """Fit, test, and write the folder `out`; return what there is to say.

    Args:
        units: of the targets, in their order, for the labels of tables and axes.
        ensemble: folds, each with a network, boosting, a forest and a Gaussian process; 1: a network alone.
        settings: a TOML file of settings, such as the best of `maggnn tune`, if not `own_config`'s.
        cleaning: what becomes of salts and of repeated molecules.
        weighting: how much rows and classes count.
        plan: of cross-validation, whose scores the card has beside those of the test split.
        device: where networks learn: auto, cpu or cuda.
        start: the folder of a fitted model whose networks these begin with.
        number_columns: columns of the table that boosting and Gaussian processes read beside descriptors.
        launch: starts the processes that learn each network together, one network after the other; each process has
            its own `batch_size` graphs of a step. None: every network is learned by one process.
    """
    began = time.monotonic()
    require("rdkit", "matplotlib")
    _remove_done(out)
    _check_folder(out, overwrite, list(out.glob(f"{TRAINING}*")))
    if out.is_dir():
        with _only_here(out):  # said before long work too
            pass
    given = None if settings is None else configs.load(settings)
    plan.check(split)
    if number_columns:
        require("sklearn")
        if ensemble == 1:
            raise InputError("--feature is read by boosting, which a single network (--ensemble 1) is not blended with")
    earlier = None if start is None else EarlierModel.load(start, FEATURES)
    own = read_own_table(table, smiles, targets, task, split, seed, workers, cleaning, weighting, number_columns)
    _check_units(own, units)
    folds = _folds(own, ensemble, seed)
    config = own_config(fold_set(own.dataset, folds, 0), seed, **({} if steps is None else {"predictor_steps": steps}))
    if given is not None:
        config = _given_config(given, config, steps)
    config = (config if earlier is None else earlier.config(config)).replaced(runtime={"device": device})
    with _only_here(out):
        training = out / f"{TRAINING}{data_digest(_learned_from(own, folds, earlier), config)}"
        _check_folder(out, overwrite, [training])  # another fit may have ended here meanwhile
        facts = replace(
            _facts(own, smiles), salts=cleaning.salts, units=tuple(units), number_columns=tuple(number_columns)
        )
        starts = None if earlier is None else earlier.starts(facts, max(ensemble, folds.count))
        validated = None
        if plan.folds:
            validated = cross_validated(
                own, facts, config, plan, ensemble, training, workers, _own_scores, starts, launch
            )
        choices = _choices(own, cleaning, weighting)
        if number_columns:
            columns = ", ".join(map(plain, number_columns))
            choices += (f"Columns read by gradient boosting and the Gaussian process beside descriptors: {columns}",)
        if earlier is not None:
            choices += (earlier.words([own.table.canonical[row] for row in own.table.arrays["test"]]),)
        return _fitted_folder(
            own, facts, config, folds, table, out, training, workers, began, validated, choices, starts, launch
        )


def _learned_from(own: OwnTable, folds: Folds, earlier: EarlierModel | None) -> Arrays:
    """What a training depends on, beside the settings."""
    weights = own.dataset.weights
    more = {} if weights is None else {"weights": weights.numpy()}
    more |= {} if earlier is None else {"start": earlier.digest()}
    return own.table.arrays | {"fold": folds.fold} | more


def _own_scores(fitted: FittedModel, held_out: OutOfFold, molecules: Descriptors | None, dataset: Dataset) -> Scores:
    """What the model and its parts score on the test split."""
    test, _ = tested(fitted, held_out, molecules, dataset)
    return {name: judged.value for name, judged in test.judged.items()}


def _choices(own: OwnTable, cleaning: Cleaning, weighting: Weighting) -> tuple[str, ...]:
    """What was chosen about rows, as lines of the card."""
    repeated = len(own.table.canonical) - len(set(own.table.canonical))
    lines = [SALTS_IN_WORDS[cleaning.salts]]
    if own.table.num_merged:
        lines.append(
            f"Repeated molecules: {own.table.num_merged} rows were merged into the first row of their molecule"
        )
    elif repeated:
        lines.append(f"Repeated molecules: {repeated} rows repeat a molecule; all were kept, in one part of the split")
    if weighting.column is not None:
        lines.append(f"Weights: rows count in training by column {plain(weighting.column)}; scores are not weighted")
    if weighting.balance:
        lines.append(
            "Weights: all classes of a target count alike in total in training, so that probabilities are those of a "
            "table whose classes are equally common; scores are not weighted"
        )
    return tuple(lines)


def _check_units(own: OwnTable, units: Sequence[str]) -> None:
    """A pattern may name several targets, so they are counted once the table has been read."""
    names = list(own.dataset.target_names or ())
    if units and own.dataset.task != "regression":
        raise InputError(f"--unit {units[0]!r}: {names[0]!r} is classes, which have no unit")
    if units and len(units) != len(names):
        raise InputError(
            f"--unit is given {len(units)} times for {len(names)} targets: give it once for each, in order"
        )


def _folds(own: OwnTable, count: int, seed: int) -> Folds:
    """The folds of all rows but the test's; one fold is the split as it is."""
    split, y = own.dataset.split(0, 0), own.dataset.y.numpy()
    dealt = None
    if count > 1:
        rows = torch.cat([split.train, split.val]).sort().values.numpy()
        dealt = deal_folds(rows, y, own.dataset.task, count, seed, own.table.canonical, own.groups)
        if dealt is None or dealt.count < count:
            found = "one network" if dealt is None else f"an ensemble of {dealt.count}"
            tell(f"{own.dataset.name}: {found} instead of {count}: the rows allow no more folds")
    return single_fold(split, len(y)) if dealt is None else dealt


def _fitted_folder(
    own: OwnTable,
    facts: Facts,
    config: Config,
    folds: Folds,
    table: Path,
    out: Path,
    training: Path,
    workers: int,
    began: float,
    validated: CrossValidated | None,
    choices: tuple[str, ...],
    starts: Sequence[Start] | None,
    launch: Launch | None,
) -> dict[str, Any]:
    """Fit, test, and fill the folder; what there is to say."""
    if own.table.target.guessed:
        tell(f"{table}: {own.table.target.why}")
    more = stacked(own.table.numbers, facts.number_columns)
    fit = fit_blend(
        own.dataset, facts, config, folds, own.table.canonical, training, workers, False, starts, more, launch
    )
    test, seconds = tested(*fit, own.dataset)
    fitted, value = trimmed(fit[0]), test.judged[model_card.OWN].value
    fitted = replace(fitted, facts=replace(fitted.facts, scores={"test": value} if math.isfinite(value) else {}))
    fitted.save(out)
    origin = model_card.Origin(
        str(table), own.split, own.table.num_rows, len(own.table.errors), len(own.table.shared),
        time.monotonic() - began, own.table.target.why, own.balance, own.known,
        choices, validated,
    )  # fmt: skip
    _describe(out, fitted.facts, origin, test, own)
    _finish(out, training)
    return _result(out, fitted.facts, origin, test, seconds)


def _only_here(out: Path) -> AbstractContextManager[None]:
    """Keep a second `maggnn fit` out of the folder, which is made where it is missing."""
    return locked(out / LOCK, f"{out}: another `maggnn fit` is at work there")


def _check_folder(out: Path, overwrite: bool, trainings: Sequence[Path]) -> None:
    """Before long work, not after it.

    Args:
        trainings: folders of checkpoints that this fit may go on from.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, and the model needs a folder")
    if (out / FACTS).exists() and not overwrite and not any(_saved_from(out, training) for training in trainings):
        raise InputError(f"{out}: holds a model already; choose another folder, or --overwrite to replace it")


def _saved_from(out: Path, training: Path) -> bool:
    """Whether the folder's model is that training's: then the fit was killed before its card was whole, and goes on."""
    try:
        return checksum_of(out / MODEL) == checksum_of(member_folder(training, 1) / MODEL)
    except (InputError, OSError):
        return False


def _finish(out: Path, training: Path) -> None:
    """Keep the first network's curves; checkpoints, also of fits that were given up, are of no use any more."""
    with whole_file(out / LOG) as waiting:
        shutil.copyfile(member_folder(training, 1) / LOG, waiting)
    for done in out.glob(f"{TRAINING}*"):
        done.rename(out / f".{done.name}")  # half a folder must not be taken for a training to go on from
    _remove_done(out)


def _remove_done(out: Path) -> None:
    """Remove checkpoints that are of no use any more; a fit that was killed on its way out may have left some."""
    for done in out.glob(f".{TRAINING}*"):
        shutil.rmtree(done, ignore_errors=True)


def _given_config(given: Config, own: Config, steps: int | None) -> Config:
    """Settings of a file, for this table: its name, the seed and (if asked for) the steps are the command's."""
    changed = {} if steps is None else {"predictor_steps": steps, "validate_every": own.training.validate_every}
    return given.replaced(data={"name": own.data.name}, training=changed, runtime={"seed": own.runtime.seed})


def data_digest(arrays: Arrays, config: Config) -> str:
    """A short text that changes with the data and with the settings."""
    digest = hashlib.sha256(json.dumps(configs.to_dict(config), sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()[:12]


def _facts(own: OwnTable, smiles: str) -> Facts:
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
    """Answers of the model and of its parts on the test split, and the seconds that they took."""
    ids = dataset.split(0, 0).test
    graphs, y, blend = dataset.graphs.select(ids), dataset.y[ids], fitted.facts.blend
    descriptors = None if molecules is None else molecules.select(ids.numpy())
    began = time.monotonic()
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always", UnseenWarning)
        folds = fitted.fold_answers(graphs, descriptors)
    for warning in noticed:
        tell(f"{dataset.name}: of the test rows {warning.message}")
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
    """The rows to train and validate on, and some of the test split."""
    split, dataset = own.dataset.split(0, 0), own.dataset
    known = torch.cat([split.train, split.val]).sort().values.numpy()
    table = (own.table.canonical, dataset.target_names or (), dataset.y.numpy(), own.classes)
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
        "cross_validation": None if origin.validated is None else origin.validated.summary(),
        "parts": {name: asdict(part) for name, part in test.parts.items()},
        "metrics": to_json(test.metrics),
        "coverage": model_card.covered(test),
        "verdict": model_card.verdict(test.judged, facts.metric),
        "seconds": {"all": origin.seconds, **seconds},
    }
