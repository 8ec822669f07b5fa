"""The metric on the test split after 0, 1, ..., t moves of the agent and after random moves from the same starts."""

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
"""The time limit after which no further test starts, so that the page does not wait; the first one always runs."""

MOST_JUDGED = 100
"""The largest number of graphs in a test: few enough that a user of the page does not wait long."""

HANDOVER_S = 0.005
"""A pause between tests: a lock that is acquired again at once would never go to a waiting thread."""


def metric_after_moves(gallery: Gallery) -> dict[str, Any]:
    """Return the means over tests after each number of moves, for each policy."""
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
