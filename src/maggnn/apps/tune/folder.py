"""The folder of a study: its database, and the table, config and picture that are written from it."""

from __future__ import annotations

import contextlib
import csv
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from maggnn import config as configs
from maggnn.config import Config
from maggnn.data.files import locked, whole_file
from maggnn.errors import InputError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner

STUDY, BEST, TRIALS, PICTURE, LOCK = "study.db", "best.toml", "trials.csv", "tuning.png", "study.lock"
NAME = "maggnn tune"
FEWEST_FOR_IMPORTANCE = 5

OF_THE_DISK = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_BUSY")
"""How the names of SQLite's errors begin whose reason is the file system, and not the content of the file."""


def lock_study(folder: Path) -> AbstractContextManager[None]:
    """Lock the folder against a second `maggnn tune`, which would consider our running trial a dead one."""
    return locked(folder / LOCK, f"{folder}: another `maggnn tune` is using this folder")


def open_study(folder: Path, digest: str, maximises: bool, pruner: BasePruner) -> Study:
    """Open the study of the folder, or create it; raises an error for a study of other data or settings."""
    import optuna
    from sqlalchemy import URL  # which Optuna needs, too

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = folder / STUDY
    # Quoted: in a URL a question mark in the folder's name would end the path, and the study be written elsewhere.
    address = URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)
    try:
        study = optuna.create_study(
            storage=address, study_name=NAME, load_if_exists=True, pruner=pruner,
            direction="maximize" if maximises else "minimize",
        )  # fmt: skip
        known = study.user_attrs.get("digest")
        if known is None and not study.trials:
            study.set_user_attr("digest", digest)
            known = digest
    except Exception as error:  # SQLAlchemy, Alembic and Optuna raise different errors
        if _disk_error(error):
            raise  # `storing` reports it: the study is not damaged, and must not be removed
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path}: damaged, or not a study of `maggnn tune` ({reason}): remove it") from error
    if known != digest:
        raise InputError(f"{folder}: contains a study of other data or settings; choose another folder")
    return study


@contextlib.contextmanager
def storing(folder: Path) -> Iterator[None]:
    """Make a failure to write the study, such as on a full disk, an `InputError`; everything before it is kept."""
    try:
        yield
    except Exception as error:
        reason = _disk_error(error)
        if not reason:
            raise
        raise InputError(
            f"{folder / STUDY}: cannot be written ({reason}); finished trials are kept, and the same command resumes"
        ) from error


def _disk_error(error: BaseException | None) -> str:
    """Return what SQLite says of the disk if that is the origin of an error; empty if it is not."""
    while error is not None:
        if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorname.startswith(OF_THE_DISK):
            return str(error)
        error = error.__cause__
    return ""


def write_trials(folder: Path, study: Study) -> None:
    """Write all finished trials, one in each row."""
    ended = [trial for trial in study.trials if trial.state.is_finished()]
    keys = sorted({key for trial in ended for key in trial.params})
    with whole_file(folder / TRIALS) as waiting, waiting.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("trial", "state", "value", "seconds", *keys, "reason"))
        for trial in ended:
            seconds = trial.user_attrs.get("seconds")
            cells = [trial.params.get(key, "") for key in keys]
            value = "" if trial.value is None else trial.value
            shown = "" if seconds is None else f"{seconds:.1f}"
            reason = trial.user_attrs.get("reason", "")
            writer.writerow((trial.number, trial.state.name.lower(), value, shown, *cells, reason))


def write_config(folder: Path, config: Config, objective: str, value: float) -> None:
    """Write the best config so far as TOML that `config.load` reads."""
    text = f"# The best of a study: {objective} {value:.6g} on the validation split.\n\n{configs.to_toml(config)}"
    with whole_file(folder / BEST) as waiting:
        waiting.write_text(text, encoding="utf-8", newline="\n")


def last_reason(study: Study) -> str:
    """Return the reason of the last failed trial."""
    reasons = [trial.user_attrs.get("reason") for trial in reversed(study.trials)]
    return f"the last one: {next(filter(None, reasons), 'failed')}"


def draw(folder: Path, study: Study, objective: str) -> None:
    """Plot the validation metric of each trial and the best so far and, next to it, the importance of settings."""
    from maggnn.apps.draw.style import COLOURS, PALE, SOFT_INK, new_figure, save, tidy

    shares = _importances(study)
    figure = new_figure(height=3.2)
    left, *right = figure.subplots(1, 2 if shares else 1, squeeze=False)[0]
    whole = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    pruned = [trial for trial in study.trials if trial.state.name == "PRUNED" and trial.intermediate_values]
    better = max if study.direction.name == "MAXIMIZE" else min
    values = [trial.value for trial in whole if trial.value is not None]  # every complete trial has one
    best = [better(values[: place + 1]) for place in range(len(values))]
    left.plot(
        [trial.number for trial in whole], values, "o", color=COLOURS[0], markersize=4, label="trained to the end"
    )
    last = [trial.intermediate_values[max(trial.intermediate_values)] for trial in pruned]
    if pruned:
        left.plot([trial.number for trial in pruned], last, "x", color=SOFT_INK, markersize=4, label="pruned")
    left.step([trial.number for trial in whole], best, where="post", color=COLOURS[1], label="best so far")
    left.legend(frameon=False, fontsize=8, labelcolor=SOFT_INK)
    tidy(left, "trial", f"{objective} (validation)")
    for plot in right:
        names = list(reversed(shares))
        plot.barh([name.split(".")[1] for name in names], [shares[name] for name in names], color=PALE)
        tidy(plot, "share of the variance explained", "")
    with whole_file(folder / PICTURE) as waiting:
        save(figure, waiting)


def _importances(study: Study) -> dict[str, float]:
    """Return the importances of settings by fANOVA, the largest first; empty if there are too few trials."""
    import optuna

    whole = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    if len(whole) < FEWEST_FOR_IMPORTANCE or len({trial.value for trial in whole}) < 2:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return optuna.importance.get_param_importances(study, evaluator=evaluator)
