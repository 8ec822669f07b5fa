"""The metric of the test split after 0, 1, ..., t moves, of the agent and of random moves from the same starts."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import Tensor

from maggnn.apps.show.gallery import Gallery
from maggnn.errors import InputError
from maggnn.model.runtime import make_generator
from maggnn.training.evaluate import TEST_SEED, evaluate

POLICIES = {"agent": 0.0, "random moves": 1.0}
MOST_TESTS = 10
MOST_SECONDS = 2.0
"""Tests are added up to that time, so that the page need not wait; the first one always counts."""

MOST_JUDGED = 100
"""Graphs of a test: few enough that who plays with a graph meanwhile hardly waits."""

HANDOVER_S = 0.005
"""Between tests: a lock that is taken again at once never goes to whoever waits for it."""


def metric_after_moves(gallery: Gallery) -> dict[str, Any]:
    """Means over tests after each number of moves, for each policy."""
    dataset, model = gallery.dataset, gallery.model
    if dataset is None or dataset.graphs.y is None:
        raise InputError("needs a test split with targets")
    if model.q_network is None or not model.agent.num_moves:
        raise InputError("this model makes no moves")
    ids = torch.arange(min(len(dataset.graphs), MOST_JUDGED))
    graphs = model.precomputed(dataset.graphs.select(ids))
    found: dict[str, list[Tensor]] = {policy: [] for policy in POLICIES}
    began, tests = time.monotonic(), 0
    while tests == 0 or (tests < MOST_TESTS and time.monotonic() - began < MOST_SECONDS):
        for policy, epsilon in POLICIES.items():
            with gallery.lock:
                result = evaluate(
                    model, graphs, ids, dataset.task, model.agent.num_moves, 1, epsilon,
                    make_generator(TEST_SEED + tests), metric=dataset.metric,
                )  # fmt: skip
            found[policy].append(result.last[0])
            time.sleep(HANDOVER_S)
        tests += 1
    means = {policy: torch.stack(values).mean(dim=0).tolist() for policy, values in found.items()}
    return {
        "metric": dataset.metric,
        "tests": tests,
        "graphs": len(ids),
        "policies": {policy: [v if math.isfinite(v) else None for v in values] for policy, values in means.items()},
    }
