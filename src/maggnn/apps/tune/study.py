"""`maggnn tune`: tunes m, k, t, the width and a few other settings with Optuna, by the validation split only.

    study.db      every trial (SQLite); a study that was killed resumes when it is started again
    best.toml     the best config so far, for `maggnn train` or `maggnn fit --config`
    trials.csv    the trials as a table
    tuning.png    the validation metric of each trial, and the importance of settings

The proposals depend only on the seed and on the trials that finished before, so that an interrupted study makes the
same proposals. A trial that was killed is marked as failed and its settings run again, up to three times, since they
may be the reason, by the memory that they need. Trials that are worse than half of the earlier ones are pruned
(`training.validation` runs several times in a trial). Trials share one seed and one split, so that differences are due
to the settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maggnn.apps.tune import folder as tuning_folder
from maggnn.apps.tune.problem import Problem, any_agent
from maggnn.apps.tune.space import start_params, suggested
from maggnn.apps.tune.trial import SECONDS, TimeUpError, validation_score
from maggnn.config import Config
from maggnn.errors import DivergenceError, InputError

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

STARTUP_TRIALS = 6
"""The number of random trials before TPE is used."""

COMPARED_TRIALS = 3
"""The number of complete trials before one may be pruned."""

AGAIN = "its settings run again"
MOST_AGAIN = 3
"""The number of times that the settings of a trial run again after a kill."""

PROPOSAL = "proposal"
"""The attribute of a trial that holds the number of its proposal, from 0."""


def tune(
    problem: Problem,
    folder: Path,
    trials: int = 20,
    minutes: float | None = None,
    tell: Callable[[str], None] = print,
    ray: str | None = None,
) -> dict[str, Any]:
    """Run trials until `trials` have finished or the time is over, and write the folder. Returns a summary.

    Args:
        trials: the number of complete and pruned trials, including those of earlier runs of the study.
        ray: the address of Ray for parallel trials; None runs them here, one after the other.
    """
    if trials < 1:
        raise InputError(f"--trials is {trials}: give at least 1")
    if minutes is not None and not minutes > 0:
        raise InputError(f"--minutes is {minutes:g}: give more than 0")
    with tuning_folder.lock_study(folder), tuning_folder.storing(folder), any_agent():
        study = _study(problem, folder, tell)
        if problem.note:
            tell(problem.note)
        began = time.monotonic()
        until = None if minutes is None else began + 60 * minutes
        if ray is not None:
            _run_on_ray(study, problem, folder, trials, minutes, ray, tell)
        while ray is None and _num_finished(study) < trials and (until is None or time.monotonic() < until):
            _run_trial(study, problem, until)
            _write(study, problem, folder)
            tell(_progress(study, problem, trials))
        _write(study, problem, folder)  # an earlier process may have been killed before this
        if not _in_state(study, "COMPLETE"):
            raise InputError(f"{folder}: no trial has finished; {tuning_folder.last_reason(study)}")
        tuning_folder.draw(folder, study, problem.objective)
    return _result(study, problem, folder, time.monotonic() - began)


def _run_on_ray(
    study: Study,
    problem: Problem,
    folder: Path,
    trials: int,
    minutes: float | None,
    address: str,
    tell: Callable[[str], None],
) -> None:
    from maggnn.apps.tune.on_ray import run_on_ray  # needs Ray

    for cut in [trial for trial in _interrupted(study).get(None, []) if trial.params]:  # see `_study`
        if not any(other.params == cut.params and other.number > cut.number for other in study.trials):
            study.enqueue_trial(cut.params)

    def done() -> None:
        _write(study, problem, folder)
        tell(_progress(study, problem, trials))

    if _num_finished(study) < trials:
        run_on_ray(problem, study, trials - _num_finished(study), address, minutes, done)


def _write(study: Study, problem: Problem, folder: Path) -> None:
    """Write the table of trials, and the best config if there is one."""
    tuning_folder.write_trials(folder, study)
    best = _best_config(study, problem)
    if best is not None:
        tuning_folder.write_config(folder, best, problem.objective, study.best_value)


def _study(problem: Problem, folder: Path, tell: Callable[[str], None]) -> Study:
    """Open the folder's study, or create one; trials that are still running belong to a process that was killed."""
    from optuna.pruners import MedianPruner
    from optuna.trial import TrialState

    pruner = MedianPruner(COMPARED_TRIALS, n_warmup_steps=problem.base.training.predictor_steps // 4)
    study = tuning_folder.open_study(folder, problem.digest, problem.maximises, pruner)
    for trial in _in_state(study, "RUNNING"):
        study.tell(trial.number, state=TrialState.FAIL)
        again = len(_interrupted(study).get(trial.user_attrs.get(PROPOSAL), [])) <= MOST_AGAIN
        tell(f"trial {trial.number} was interrupted and counts as failed{f': {AGAIN}' if again else ''}")
    return study


def _interrupted(study: Study) -> dict[int | None, list[Any]]:
    """Return the trials of each proposal that were killed."""
    found: dict[int | None, list[Any]] = {}
    for trial in _in_state(study, "FAIL"):
        if SECONDS not in trial.user_attrs:
            found.setdefault(trial.user_attrs.get(PROPOSAL), []).append(trial)
    return found


def _next_proposal(study: Study) -> int:
    """Return the number of the next proposal, after finished trials and proposals that were killed too often."""
    given_up = [number for number, cut in _interrupted(study).items() if number is not None and len(cut) > MOST_AGAIN]
    return _num_finished(study) + len(given_up)


def next_trial(study: Study, problem: Problem) -> Trial:
    """Return the next trial. It depends only on finished trials, so that it is the same after an interruption."""
    import optuna

    number = _next_proposal(study)
    seed = 100_003 * problem.base.runtime.seed + number
    study.sampler = optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=STARTUP_TRIALS)
    if not number and not _in_state(study, "WAITING"):
        study.enqueue_trial(start_params(problem.base, problem.own_table), {"reason": "the initial settings"})
    trial = study.ask()
    trial.set_user_attr(PROPOSAL, number)
    before = [each for each in study.get_trials(deepcopy=False)[: trial.number] if _ran(each, number)]
    if before:
        trial.set_user_attr("reason", f"trial {before[-1].number} was interrupted: {AGAIN}")
    return trial


def _ran(trial: FrozenTrial, number: int) -> bool:
    """Whether a trial ran proposal `number` and did not finish."""
    return trial.state.name == "FAIL" and trial.user_attrs.get(PROPOSAL) == number


def _run_trial(study: Study, problem: Problem, until: float | None) -> None:
    import optuna
    from optuna.trial import TrialState

    trial = next_trial(study, problem)
    began = time.monotonic()
    try:
        config = suggested(trial, problem.base, problem.own_table)
        value, state = validation_score(trial, config, problem, until), TrialState.COMPLETE
    except optuna.TrialPruned:
        value, state = None, TrialState.PRUNED
    except TimeUpError:
        value, state = None, TrialState.FAIL
    except InputError as error:  # such as a model that is larger than a benchmark allows
        # Any trial may diverge, because the learning rate is tuned too.
        if not isinstance(error, DivergenceError) and not _num_finished(study):
            trial.set_user_attr(SECONDS, time.monotonic() - began)
            study.tell(trial, state=TrialState.FAIL)
            raise
        value, state = None, TrialState.PRUNED
        trial.set_user_attr("reason", str(error))
    trial.set_user_attr(SECONDS, time.monotonic() - began)
    study.tell(trial, value, state)


def _in_state(study: Study, *states: str) -> list[FrozenTrial]:
    """Return the trials in one of some states, by the names of Optuna's `TrialState`."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.name in states]


def _num_finished(study: Study) -> int:
    return len(_in_state(study, "COMPLETE", "PRUNED"))


def _best_config(study: Study, problem: Problem) -> Config | None:
    from optuna.trial import FixedTrial

    if not _in_state(study, "COMPLETE"):
        return None
    return suggested(FixedTrial(study.best_params), problem.base, problem.own_table)  # pyright: ignore[reportArgumentType]


def _progress(study: Study, problem: Problem, trials: int) -> str:
    """Return a line about the last trial: its result, the best so far, and the estimated remaining time."""
    last = next(trial for trial in reversed(study.trials) if trial.state.is_finished())
    done = _num_finished(study)
    is_whole = last.state.name == "COMPLETE"  # Optuna gives pruned trials a value too
    said = f"{problem.objective} {last.value:.4g}" if is_whole else last.user_attrs.get("reason", "failed")
    best = (
        f"best {study.best_value:.4g} (trial {study.best_trial.number})"
        if _in_state(study, "COMPLETE")
        else "none complete yet"
    )
    spent = [trial.user_attrs.get(SECONDS, 0.0) for trial in study.trials if trial.state.is_finished()]
    left = (trials - done) * sum(spent) / max(len(spent), 1)
    return f"trial {last.number}: {said}; {best}; {done} of {trials}, about {left:.0f} s left"


def _result(study: Study, problem: Problem, folder: Path, seconds: float) -> dict[str, Any]:
    states = [trial.state.name.lower() for trial in study.trials]
    base = start_params(problem.base, problem.own_table)
    return {
        "folder": str(folder),
        "objective": problem.objective,
        "best": study.best_value,
        "best_trial": study.best_trial.number,
        "start": next((trial.value for trial in _in_state(study, "COMPLETE") if trial.params == base), None),
        "params": study.best_params,
        "trials": {state: states.count(state) for state in ("complete", "pruned", "fail")},
        "seconds": seconds,
    }
