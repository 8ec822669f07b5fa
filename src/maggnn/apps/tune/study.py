"""`maggnn tune`: search m, k, t, the width and a few more settings with Optuna, judged on the validation split alone.

    study.db      every trial (SQLite); killed and started again, the study goes on
    best.toml     the best config so far, for `maggnn train` or `maggnn fit --config`
    trials.csv    the trials as a table
    tuning.png    the validation metric against the trial, and what mattered

What a trial tries depends on the seed and on the trials that finished before it, so that a study that was interrupted
proposes what it would have proposed. A trial that a kill cut short is marked as failed and its settings run again, up
to three times: they may be what kills it, by the memory that they take. Trials that look worse than half of the
earlier ones are pruned (`training.validation` runs some times in a trial). Trials share one seed
and one split, so differences are those of the settings.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from maggnn import config as configs
from maggnn.apps.fit.fitting import data_digest
from maggnn.apps.fit.own_settings import VALIDATIONS, own_config
from maggnn.apps.fit.own_table import read_own_table
from maggnn.apps.tune import folder as tuning_folder
from maggnn.apps.tune.space import start_params, suggested
from maggnn.config import Config
from maggnn.data import registry
from maggnn.data.dataset import Dataset
from maggnn.data.packing import Arrays
from maggnn.errors import DivergenceError, InputError
from maggnn.model.runtime import make_generator, pick_device
from maggnn.training.callbacks import Callback
from maggnn.training.evaluate import evaluate
from maggnn.training.paradigms import make_model
from maggnn.training.run import train
from maggnn.training.validation import MOST_GRAPHS, VALIDATION_SEED

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

STARTUP_TRIALS = 6
"""Drawn at random before TPE has seen enough."""

COMPARED_TRIALS = 3
"""Whole trials before one may be pruned."""

AGAIN = "its settings run again"
MOST_AGAIN = 3
"""Times that the settings of a trial run again after a kill."""

PROPOSAL, SECONDS = "proposal", "seconds"
"""What a study knows of a trial: which proposal it runs, counted from 0; how long it took, unless it was killed."""


class TimeUpError(Exception):
    """The study's minutes are over while a trial runs."""


@dataclass(frozen=True)
class Problem:
    """What is tuned.

    Attributes:
        base: the config to start from.
        own_table: whether it came from a table of one's own.
        digest: of the data, so that a folder is never continued with other data.
        note: what there is to say before the first trial.
    """

    dataset: Dataset
    base: Config
    own_table: bool
    digest: str
    note: str = ""

    @property
    def maximises(self) -> bool:
        return self.dataset.metric != "mae"

    @property
    def objective(self) -> str:
        """The name of what a trial is judged by."""
        several = self.dataset.metric == "mae" and self.dataset.num_outputs > 1
        return "mae in units of the targets' spread" if several else self.dataset.metric


def table_problem(
    table: Path, smiles: str, targets: Sequence[str], task: str, split: str, seed: int, steps: int | None, workers: int
) -> Problem:
    """A table, as `maggnn fit` reads it."""
    own = read_own_table(table, smiles, targets, task, split, seed, workers)
    base = own_config(own.dataset, seed, **({} if steps is None else {"predictor_steps": steps}))
    note = f"{table}: {own.table.target.why}" if own.table.target.guessed else ""
    return _prepared(Problem(own.dataset, base, True, data_digest(own.table.arrays, base), note))


def config_problem(path: Path, settings: Sequence[str], seed: int | None, steps: int | None) -> Problem:
    """A data set's config, as `maggnn train` reads it."""
    base = configs.load(path).with_settings(settings)
    if seed is not None:
        base = base.replaced(runtime={"seed": seed})
    base = _with_steps(base, base.training.predictor_steps if steps is None else steps)
    dataset = registry.load(base.data.name)
    return _prepared(Problem(dataset, base, False, data_digest(_arrays(dataset, base), base)))


def _arrays(dataset: Dataset, base: Config) -> Arrays:
    """What trials learn from and are judged by: the graphs, and which of them are in which part."""
    graphs = dataset.graphs
    tensors = {
        "node_offsets": graphs.node_offsets, "edge_offsets": graphs.edge_offsets, "edge_index": graphs.edge_index,
        "x": graphs.x, "edge_attr": graphs.edge_attr, "roots": graphs.roots, "y": graphs.y,
    }  # fmt: skip
    split = dataset.split(base.data.split_seed, base.data.fold)
    parts = [split.train, split.val, split.test]
    tensors |= {f"part {number}": ids for number, ids in enumerate(parts)}
    return {name: values.numpy() for name, values in tensors.items() if values is not None}


def _with_steps(base: Config, steps: int) -> Config:
    """With so many predictor steps, the agent's in proportion, and validations in any case."""
    training = base.training
    agent_steps, every = training.agent_steps, training.validate_every
    if steps != training.predictor_steps:
        every = 0
        if agent_steps:
            agent_steps = max(1, agent_steps * steps // max(training.predictor_steps, 1))
        if training.paradigm == "simul":  # takes turns
            steps = agent_steps * (training.predictor_steps // training.agent_steps)
    changed = {
        "predictor_steps": steps,
        "agent_steps": agent_steps,
        "validate_every": every or max(1, steps // VALIDATIONS),
    }
    return base.replaced(training=changed)


def _prepared(problem: Problem) -> Problem:
    """With a validation split, and with the structure of its graphs worked out once for all trials."""
    dataset, data = problem.dataset, problem.base.data
    split = dataset.split(data.split_seed, data.fold)
    if not len(split.val) or bool(torch.isin(split.val, split.test).any()):
        raise InputError(
            f"{dataset.name} has no validation split of its own, and tuning must not look at the test split"
        )
    with _any_agent():
        graphs = make_model(problem.base, dataset).precomputed(dataset.graphs)
    return replace(problem, dataset=replace(dataset, graphs=graphs))


@contextlib.contextmanager
def _any_agent() -> Iterator[None]:
    """m is searched here, so with which one an agent learned is no news."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="agent .* learned with")
        yield


def tune(
    problem: Problem, folder: Path, trials: int = 20, minutes: float | None = None, tell: Callable[[str], None] = print
) -> dict[str, Any]:
    """Run trials until `trials` have finished (or the time is over), write the folder, return what there is to say.

    Args:
        trials: whole and pruned ones, those of earlier runs of the study included.
    """
    if trials < 1:
        raise InputError(f"--trials is {trials}: give at least 1")
    if minutes is not None and not minutes > 0:
        raise InputError(f"--minutes is {minutes:g}: give more than 0")
    with tuning_folder.only_here(folder), _any_agent():
        study = _study(problem, folder, tell)
        if problem.note:
            tell(problem.note)
        began = time.monotonic()
        until = None if minutes is None else began + 60 * minutes
        while _num_finished(study) < trials and (until is None or time.monotonic() < until):
            _run_trial(study, problem, until)
            _write(study, problem, folder)
            tell(_progress(study, problem, trials))
        _write(study, problem, folder)  # an earlier process may have been killed before it did
        if not _whole(study):
            raise InputError(f"{folder}: no trial has finished; {tuning_folder.last_reason(study)}")
        tuning_folder.draw(folder, study, problem.objective)
    return _result(study, problem, folder, time.monotonic() - began)


def _write(study: Study, problem: Problem, folder: Path) -> None:
    """The table of trials, and the best config if there is one."""
    tuning_folder.write_trials(folder, study)
    best = _best_config(study, problem)
    if best is not None:
        tuning_folder.write_config(folder, best, problem.objective, study.best_value)


def _study(problem: Problem, folder: Path, tell: Callable[[str], None]) -> Study:
    """The folder's study, or a new one; trials that still run are those of a process that was killed."""
    from optuna.pruners import MedianPruner
    from optuna.trial import TrialState

    pruner = MedianPruner(COMPARED_TRIALS, n_warmup_steps=problem.base.training.predictor_steps // 4)
    study = tuning_folder.open_study(folder, problem.digest, problem.maximises, pruner)
    for trial in study.get_trials(states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)
        again = len(_cut_short(study).get(trial.user_attrs.get(PROPOSAL), [])) <= MOST_AGAIN
        tell(f"trial {trial.number} was cut short and counts as failed{f': {AGAIN}' if again else ''}")
    return study


def _cut_short(study: Study) -> dict[int | None, list[Any]]:
    """The trials of each proposal that a kill ended."""
    from optuna.trial import TrialState

    found: dict[int | None, list[Any]] = {}
    for trial in study.get_trials(deepcopy=False, states=[TrialState.FAIL]):
        if SECONDS not in trial.user_attrs:
            found.setdefault(trial.user_attrs.get(PROPOSAL), []).append(trial)
    return found


def _next_proposal(study: Study) -> int:
    """Trials that have finished, and proposals that were given up because they were cut short again and again."""
    given_up = [number for number, cut in _cut_short(study).items() if number is not None and len(cut) > MOST_AGAIN]
    return _num_finished(study) + len(given_up)


def next_trial(study: Study, problem: Problem) -> Trial:
    """The next trial. It depends on what has finished alone, so that it is the same after an interruption."""
    import optuna
    from optuna.trial import TrialState

    number = _next_proposal(study)
    seed = 100_003 * problem.base.runtime.seed + number
    study.sampler = optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=STARTUP_TRIALS)
    if not number and not study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
        study.enqueue_trial(start_params(problem.base, problem.own_table), {"reason": "the settings to start from"})
    trial = study.ask()
    trial.set_user_attr(PROPOSAL, number)
    before = [each for each in study.get_trials(deepcopy=False)[: trial.number] if _ran(each, number)]
    if before:
        trial.set_user_attr("reason", f"trial {before[-1].number} was cut short: {AGAIN}")
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
        value, state = _judged(trial, config, problem, until), TrialState.COMPLETE
    except optuna.TrialPruned:
        value, state = None, TrialState.PRUNED
    except TimeUpError:
        value, state = None, TrialState.FAIL
    except DivergenceError as error:  # the learning rate is searched too, so also the first trial may
        value, state = None, TrialState.PRUNED
        trial.set_user_attr("reason", str(error))
    except InputError as error:  # such as a model that is larger than a benchmark allows
        if not _num_finished(study):
            trial.set_user_attr(SECONDS, time.monotonic() - began)
            study.tell(trial, state=TrialState.FAIL)
            raise
        value, state = None, TrialState.PRUNED
        trial.set_user_attr("reason", str(error))
    trial.set_user_attr(SECONDS, time.monotonic() - began)
    study.tell(trial, value, state)


def _judged(trial: Trial, config: Config, problem: Problem, until: float | None) -> float:
    """Train as the trial says; the metric on the validation split after t moves, with the best weights."""
    import optuna

    class Report(Callback):
        """Tells the study of each validation, and ends trials that are worse than others or out of time."""

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
    several = dataset.metric == "mae" and dataset.num_outputs > 1
    value = float((result.loss if several else result.kept(config.agent.keep))[0, -1])
    if not math.isfinite(value):
        trial.set_user_attr("reason", "its answers are no numbers")
        raise optuna.TrialPruned
    return value


def _num_finished(study: Study) -> int:
    from optuna.trial import TrialState

    return len(study.get_trials(deepcopy=False, states=[TrialState.COMPLETE, TrialState.PRUNED]))


def _whole(study: Study) -> list[Any]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])


def _best_config(study: Study, problem: Problem) -> Config | None:
    from optuna.trial import FixedTrial

    if not _whole(study):
        return None
    return suggested(FixedTrial(study.best_params), problem.base, problem.own_table)  # pyright: ignore[reportArgumentType]


def _progress(study: Study, problem: Problem, trials: int) -> str:
    """One line a trial: what it gave, the best so far, how long the rest will take."""
    last = next(trial for trial in reversed(study.trials) if trial.state.is_finished())
    done = _num_finished(study)
    is_whole = last.state.name == "COMPLETE"  # Optuna gives pruned ones a value too
    said = f"{problem.objective} {last.value:.4g}" if is_whole else last.user_attrs.get("reason", "failed")
    best = f"best {study.best_value:.4g} (trial {study.best_trial.number})" if _whole(study) else "none whole yet"
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
        "start": next((trial.value for trial in _whole(study) if trial.params == base), None),
        "params": study.best_params,
        "trials": {state: states.count(state) for state in ("complete", "pruned", "fail")},
        "seconds": seconds,
    }
