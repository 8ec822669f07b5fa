"""One trial of `maggnn tune`: a training with the proposed settings, and its metric on the validation split."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from maggnn.apps.tune.problem import Problem
from maggnn.config import Config
from maggnn.model.runtime import make_generator, pick_device
from maggnn.training.callbacks import Callback
from maggnn.training.evaluate import evaluate
from maggnn.training.run import train
from maggnn.training.validation import MOST_GRAPHS, VALIDATION_SEED

if TYPE_CHECKING:
    from optuna import Trial

SECONDS = "seconds"
"""The attribute of a trial that holds its duration; a trial that was killed has none."""


class TimeUpError(Exception):
    """The time limit of the study was reached during a trial."""


def validation_score(trial: Trial, config: Config, problem: Problem, until: float | None) -> float:
    """Train with a trial's config. Returns the metric on the validation split after t moves, with the best weights."""
    import optuna

    class Report(Callback):
        """Reports each validation to the study, and ends trials that are worse than others or out of time."""

        def on_validation(self, step: int, best_loss: float) -> None:
            if math.isfinite(best_loss):
                trial.report(-best_loss if problem.maximises else best_loss, step)
            if until is not None and time.monotonic() > until:
                raise TimeUpError
            if not math.isfinite(best_loss) or trial.should_prune():
                trial.set_user_attr("reason", f"pruned after {step} steps")
                raise optuna.TrialPruned

    trained = train(config, quiet=True, dataset=problem.dataset, callbacks=[Report()])
    dataset, device = problem.dataset, pick_device(config.runtime.device)
    generator = make_generator(VALIDATION_SEED + config.runtime.seed, device)
    result = evaluate(
        trained.model, dataset.graphs.to(device), trained.split.val[:MOST_GRAPHS], dataset.task,
        config.agent.num_moves, 1, 0.0, generator, metric=dataset.metric,
    )  # fmt: skip
    value = float((result.loss if problem.uses_loss else result.kept(config.agent.keep))[0, -1])
    if not math.isfinite(value):
        trial.set_user_attr("reason", "its predictions are not finite")
        raise optuna.TrialPruned
    return value
