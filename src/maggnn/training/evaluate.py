"""Test a model as the paper does: several tests, each from fresh random tuples, after 0, 1, ..., t moves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maggnn.agent import kept_state
from maggnn.data import registry
from maggnn.environment import graph_mean, individual_loss
from maggnn.errors import InputError
from maggnn.graphs import GraphBatch, PackedGraphs, Task
from maggnn.model import MagGNN
from maggnn.runtime import make_generator, pick_device
from maggnn.training.checkpoint import load_model
from maggnn.training.run import pick_split
from maggnn.tuples import sample_tuples

TEST_SEED = 1_000_003
"""Tests draw their tuples from another stream than training."""


@dataclass(frozen=True)
class Evaluation:
    """What a test set gave: `metric` is accuracy in percent or MAE, [tests, t + 1] for each keep rule.

    Attributes:
        last: answering from the last of the first t + 1 states.
        confident: answering from the surest of them; None for regression.
        loss: the individual loss, averaged over the set, [tests, t + 1], last state.
    """

    last: Tensor
    confident: Tensor | None
    loss: Tensor

    def kept(self, keep: str) -> Tensor:
        chosen = self.last if keep == "last" else self.confident
        assert chosen is not None, "the confident state needs a classifier"
        return chosen


@torch.no_grad()
def evaluate(
    model: MagGNN,
    packed: PackedGraphs,
    ids: Tensor,
    task: Task,
    num_moves: int,
    tests: int,
    epsilon: float,
    generator: torch.Generator,
    batch_size: int = 512,
) -> Evaluation:
    """Walk `num_moves` from random tuples on each graph of `ids`, `tests` times; epsilon = 1 is random moves."""
    model.eval()
    chunks = ids.repeat(tests).split(batch_size)  # every test is a fresh draw, so tests can share batches
    # All starts come before the first move: two policies with equal generators then walk from the same starts.
    m, k = model.agent.num_tuples, model.agent.tuple_order
    starts = [sample_tuples(packed[chunk], m, k, generator) for chunk in chunks]
    parts = [
        _walk_results(model, packed[chunk], start, task, num_moves, epsilon, generator)
        for chunk, start in zip(chunks, starts, strict=True)
    ]
    results = torch.cat(parts, dim=-1)  # [3, t + 1, tests * graphs]
    per_test = results.reshape(3, num_moves + 1, tests, len(ids)).mean(dim=-1).transpose(1, 2)  # [3, tests, t + 1]
    last, confident, loss = per_test.cpu()
    if task == "classification":
        return Evaluation(100 * last, 100 * confident, loss)
    return Evaluation(last, None, loss)


def _walk_results(
    model: MagGNN,
    graphs: GraphBatch,
    start: Tensor,
    task: Task,
    num_moves: int,
    epsilon: float,
    generator: torch.Generator,
) -> Tensor:
    """Per graph and number of moves: metric of the last state, of the surest state, loss: [3, t + 1, B]."""
    states = model.walk(graphs, start, num_moves, epsilon, generator)
    answers = [model.predictor(graphs, state.tuples) for state in states]  # each [rows, out]
    loss = torch.stack([_per_graph(individual_loss(a, _y(graphs), task), graphs) for a in answers])
    if task == "regression":
        return torch.stack([loss, loss, loss])
    right = torch.stack([_per_graph((a.argmax(-1) == _y(graphs)).float(), graphs) for a in answers])
    sure = torch.stack([_per_graph(a.softmax(-1).amax(-1), graphs) for a in answers])
    kept = torch.stack([kept_state(sure[: t + 1], "confident") for t in range(num_moves + 1)])  # [t + 1, B]
    return torch.stack([right, right.gather(0, kept), loss])


def _per_graph(values: Tensor, graphs: GraphBatch) -> Tensor:
    return values if len(values) == graphs.num_graphs else graph_mean(values, graphs)


def _y(graphs: GraphBatch) -> Tensor:
    assert graphs.y is not None, "a test needs targets"
    return graphs.y


def evaluate_model(path: Path, tests: int, num_moves: int | None = None) -> dict[str, Any]:
    """Test a saved model on the test split of its own config, beside random moves, as plain values.

    The result's entry named by `metric` (accuracy or mae) maps each policy and keep rule to its mean over tests
    after 0, 1, ..., t moves.
    """
    model, config = load_model(path)
    device = pick_device(config.runtime.device)
    dataset = registry.load(config.data.name)
    test_ids = pick_split(config, dataset).test
    moves = config.agent.num_moves if num_moves is None else num_moves
    if moves and model.q_network is None:
        raise InputError(f"{path}: a plain GNN (k = 0) has nothing to move: leave --moves out")
    values: dict[str, list[float]] = {}
    policies = {"mag-gnn": 0.0, "random-moves": 1.0} if model.q_network is not None else {"gin": 1.0}
    for policy, epsilon in policies.items():
        generator = make_generator(config.runtime.seed + TEST_SEED, device)
        graphs = dataset.graphs.to(device)
        evaluation = evaluate(model.to(device), graphs, test_ids, dataset.task, moves, tests, epsilon, generator)
        values[f"{policy}, last state"] = evaluation.last.mean(dim=0).tolist()
        if evaluation.confident is not None and model.q_network is not None:
            values[f"{policy}, surest state"] = evaluation.confident.mean(dim=0).tolist()
    metric = "accuracy" if dataset.task == "classification" else "mae"
    return {"metric": metric, metric: values, "moves": moves, "tests": tests, "graphs": len(test_ids)}
