"""What a study of `maggnn tune` is about: a data set with a validation split, and the config that it starts from."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from maggnn import config as configs
from maggnn.apps.fit.fitting import data_digest
from maggnn.apps.fit.own_settings import VALIDATIONS, own_config
from maggnn.apps.fit.own_table import read_own_table
from maggnn.config import Config
from maggnn.data import registry
from maggnn.data.dataset import Dataset
from maggnn.errors import InputError
from maggnn.training.paradigms import make_model


@dataclass(frozen=True)
class Problem:
    """The data and the initial config of a study.

    Attributes:
        base: the initial config.
        own_table: whether it is for a user's table.
        digest: a digest of the data, so that a study is never resumed with other data.
        note: a message that is printed before the first trial.
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
    def uses_loss(self) -> bool:
        """Whether the mean loss is optimised: errors of several targets may have different units."""
        return self.dataset.metric == "mae" and self.dataset.num_outputs > 1

    @property
    def objective(self) -> str:
        """The name of the metric that is optimised."""
        return "mae in units of the targets' spread" if self.uses_loss else self.dataset.metric


def table_problem(
    table: Path, smiles: str, targets: Sequence[str], task: str, split: str, seed: int, steps: int | None, workers: int
) -> Problem:
    """Return the problem for a table, read as by `maggnn fit`."""
    own = read_own_table(table, smiles, targets, task, split, seed, workers)
    base = own_config(own.dataset, seed, **({} if steps is None else {"predictor_steps": steps}))
    note = f"{table}: {own.table.target.why}" if own.table.target.guessed else ""
    return _checked(Problem(own.dataset, base, True, data_digest(own.table.arrays, base), note))


def config_problem(path: Path, settings: Sequence[str], seed: int | None, steps: int | None) -> Problem:
    """Return the problem for a data set's config, read as by `maggnn train`."""
    base = configs.load(path).with_settings(settings)
    if seed is not None:
        base = base.replaced(runtime={"seed": seed})
    base = _with_steps(base, base.training.predictor_steps if steps is None else steps)
    dataset = registry.load(base.data.name)
    own = dataset.digest(dataset.split(base.data.split_seed, base.data.fold))
    return _checked(Problem(dataset, base, False, data_digest({"data": np.array(own)}, base)))


def _with_steps(base: Config, steps: int) -> Config:
    """Set the number of predictor steps, with proportional steps of the agent, and ensure that validations happen."""
    training = base.training
    agent_steps, every = training.agent_steps, training.validate_every
    if steps != training.predictor_steps:
        every = 0
        if agent_steps:
            agent_steps = max(1, agent_steps * steps // max(training.predictor_steps, 1))
        if training.paradigm == "simul":  # its steps must be multiples
            steps = agent_steps * (training.predictor_steps // training.agent_steps)
    changed = {
        "predictor_steps": steps,
        "agent_steps": agent_steps,
        "validate_every": every or max(1, steps // VALIDATIONS),
    }
    return base.replaced(training=changed)


def _checked(problem: Problem) -> Problem:
    """Check that there is a validation split, and precompute structural features of graphs once for all trials."""
    dataset, data = problem.dataset, problem.base.data
    split = dataset.split(data.split_seed, data.fold)
    if not len(split.val) or bool(torch.isin(split.val, split.test).any()):
        raise InputError(f"{dataset.name} has no validation split, and tuning must not use the test split")
    with any_agent():
        graphs = make_model(problem.base, dataset).precomputed(dataset.graphs)
    return replace(problem, dataset=replace(dataset, graphs=graphs))


@contextlib.contextmanager
def any_agent() -> Iterator[None]:
    """Ignore warnings about the m with which an agent was trained, because m is tuned here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="agent .* learned with")
        yield
