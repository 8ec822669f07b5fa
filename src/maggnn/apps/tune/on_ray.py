"""`maggnn tune --ray`: parallel trials of a study on Ray Tune, proposed by Optuna and stopped early by ASHA.

The study is that of the folder (`study.db`), to which Ray's search writes every trial, so that its files, resuming
after a kill and the choice of the best settings are the same as without Ray. A trial that ASHA stops counts as pruned.
Several trials run at a time, so proposals depend on which of them ends first, unlike in a sequential study.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maggnn.apps.scale.cluster import connected
from maggnn.apps.tune.problem import Problem
from maggnn.apps.tune.space import start_params, suggested
from maggnn.apps.tune.trial import SECONDS, validation_score
from maggnn.errors import DivergenceError, InputError, require

if TYPE_CHECKING:
    from optuna import Study

OBJECTIVE, STEP, WHOLE = "objective", "step", "whole"
"""The reports of a trial: its metric so far, the number of steps, and whether it was trained to the end."""

REDUCTION = 2
"""The reduction factor of ASHA: at each rung, one of this many trials continues."""


def run_on_ray(
    problem: Problem, study: Study, count: int, address: str, minutes: float | None, done: Callable[[], None]
) -> None:
    """Run trials of a study on Ray.

    Args:
        count: the number of trials.
        address: the address of Ray, as for `maggnn.apps.scale.cluster.connected`.
        minutes: the time limit of all trials; None for no limit.
        done: called whenever a trial has ended.
    """
    require("ray", "optuna")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # the study replaces Ray's logs
    if not study.get_trials(deepcopy=False):
        study.enqueue_trial(start_params(problem.base, problem.own_table))
    with connected(address) as resources, tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray warns about its next version
        from ray import tune
        from ray.tune.schedulers import ASHAScheduler

        for name in ("ray.tune", "ray.train"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        steps = problem.base.training.predictor_steps
        trainable = tune.with_resources(
            tune.with_parameters(_trial, problem=problem), {"cpu": 1, "gpu": 1 if resources.gpus else 0}
        )
        tuner = tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                metric=OBJECTIVE, mode="max" if problem.maximises else "min", num_samples=count,
                search_alg=_search(problem, study, done),
                scheduler=ASHAScheduler(
                    time_attr=STEP, max_t=steps + 1, grace_period=max(1, steps // 4), reduction_factor=REDUCTION
                ),
                time_budget_s=None if minutes is None else 60 * minutes,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )  # fmt: skip
        with contextlib.redirect_stdout(sys.stderr):  # Ray prints a table of settings
            results = tuner.fit()
    if results.errors and len(results.errors) == len(results):
        raise InputError(str(results.errors[0]).strip().splitlines()[-1])


def _search(problem: Problem, study: Study, done: Callable[[], None]) -> Any:
    """Return Ray Tune's Optuna search on an existing study."""
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    class Search(OptunaSearch):
        """Distinguishes complete trials from stopped ones, which Ray's own search considers complete too."""

        def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
            whole = result is not None and result.get(WHOLE)
            trial = self._ot_trials[trial_id]
            if result is not None:
                trial.set_user_attr(SECONDS, result.get("time_total_s", 0.0))
                if not whole:
                    trial.set_user_attr("reason", f"pruned after {result.get(STEP, 0)} steps")
            super().on_trial_complete(trial_id, result if whole else None, error)
            done()

        def save(self, checkpoint_path: str) -> None:
            Path(checkpoint_path).touch()  # the study is in its own file, from which a later command resumes

    base, own_table = problem.base, problem.own_table

    def space(trial: Any) -> None:
        suggested(trial, base, own_table)

    return Search(
        space, OBJECTIVE, "max" if problem.maximises else "min", study_name=study.study_name, storage=study._storage,
        sampler=optuna.samplers.TPESampler(seed=problem.base.runtime.seed, constant_liar=True),
    )  # fmt: skip


class _Reporting:
    """Forwards the reports of `validation_score` to Ray Tune, which decides whether a trial continues."""

    def report(self, value: float, step: int) -> None:
        from ray import tune

        tune.report({OBJECTIVE: value, STEP: step, WHOLE: False})

    def should_prune(self) -> bool:
        return False

    def set_user_attr(self, key: str, value: Any) -> None:
        pass


def _trial(params: dict[str, Any], problem: Problem) -> None:
    """Train with `params` in a process of Ray, and report the metric on the validation split."""
    import optuna
    import torch
    from ray import tune

    torch.set_num_threads(1)
    fixed: Any = optuna.trial.FixedTrial(params)
    reporting: Any = _Reporting()
    try:
        value = validation_score(reporting, suggested(fixed, problem.base, problem.own_table), problem, None)
    except (optuna.TrialPruned, DivergenceError):
        return  # without a value, it counts as pruned
    tune.report({OBJECTIVE: value, STEP: problem.base.training.predictor_steps + 1, WHOLE: True})
