"""Tests a model as the paper does: several tests, each from new random tuples, after 0, 1, ..., t moves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maggnn.data import registry
from maggnn.data.dataset import USUAL_METRIC
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, Task
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import kept_state
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.predictor import graph_mean
from maggnn.model.runtime import make_generator, pick_device
from maggnn.model.saving import load_model
from maggnn.training.metrics import Metric, absolute_errors, score, trimmed_error

TEST_SEED = 1_000_003
"""Tests draw their tuples from a different random stream than training."""


LEAST_PROBABILITY = 1e-12
"""The smallest probability in the cross-entropy of several targets, since a sigmoid may round to 0."""


@dataclass(frozen=True)
class Evaluation:
    """The results of a test: the metric, [tests, t + 1] for each keep rule.

    Attributes:
        last: the metric of the last of the first t + 1 states.
        confident: that of the most confident of them; None for regression and for several two-class targets.
        mean: that of the mean answer of all of them.
        loss: cross-entropy, or the absolute error in units of the targets' spread, of the last state, [tests, t + 1];
            for several targets, the mean over the known ones.
        errors: for regression, the mean absolute error of each output in the last state, [tests, t + 1, out].
        trimmed: for regression, the mean absolute error in the last state without the worst hundredth of the rows,
            [tests, t + 1].
    """

    last: Tensor
    confident: Tensor | None
    mean: Tensor
    loss: Tensor
    errors: Tensor | None
    trimmed: Tensor | None = None

    def kept(self, keep: str) -> Tensor:
        """Return the metric of one keep rule.

        Args:
            keep: "last", "confident" or "mean".

        Returns:
            The metric of each test after each number of moves, [tests, t + 1].
        """
        chosen = {"last": self.last, "confident": self.confident, "mean": self.mean}[keep]
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
    metric: Metric | None = None,
    starts: int = 1,
    tuples: Tensor | None = None,
) -> Evaluation:
    """Test a model after 0, 1, ..., t moves from random tuples.

    Args:
        model: the model.
        packed: the graphs; their targets are in their own units.
        ids: the graphs of the test, [B].
        task: classification or regression.
        num_moves: t.
        tests: the number of tests of each graph, each from new tuples.
        epsilon: 0 makes the best moves, 1 random moves.
        generator: draws tuples and random moves.
        batch_size: the number of graphs in a batch.
        metric: by default accuracy for classes and MAE for numbers.
        starts: the number of walks whose answers are averaged in each test.
        tuples: the first tuples of all walks, [tests * starts * B, m, k], the walks of a test one after the other; by
            default those of the model.

    Returns:
        The metric of each test after each number of moves.
    """
    model.eval()
    chunks = ids.repeat(tests * starts).split(batch_size)  # walks are independent, so tests can share batches
    # All starts are drawn before the first move, so that two policies with equal generators have the same starts.
    drawn = [model.starts(packed[chunk], generator) for chunk in chunks] if tuples is None else []
    firsts = drawn if tuples is None else tuples.split(batch_size)
    parts = [
        _walk_answers(model, packed[chunk], first, task, num_moves, epsilon, generator)
        for chunk, first in zip(chunks, firsts, strict=True)
    ]
    last, confident = (torch.cat(answers, dim=1) for answers in zip(*parts, strict=True))
    y = _y(packed[ids])
    metric = metric or USUAL_METRIC[task]
    last = _mean_over_starts(last, tests, starts)  # [t + 1, tests, rows, out]
    per_test = score(last, y, metric).T.cpu()
    mean = per_test
    if num_moves:
        seen = torch.arange(1, num_moves + 2, device=last.device).reshape(-1, 1, 1, 1)
        mean = score(last.cumsum(dim=0) / seen, y, metric).T.cpu()
    if task == "regression":
        errors = absolute_errors(last, y).transpose(0, 1)  # [tests, t + 1, out]
        spread = model.targets.std if model.targets is not None else torch.ones_like(errors)
        trimmed = trimmed_error(last, y).T.cpu()
        scaled = errors / spread
        has_rows = ~y.reshape(len(y), -1).isnan().all(dim=0)
        return Evaluation(per_test, None, mean, scaled[..., has_rows].mean(dim=-1).cpu(), errors.cpu(), trimmed)
    if task == "multilabel":
        likely = torch.where(y > 0.5, last, 1 - last).clamp(min=LEAST_PROBABILITY).log()
        known = ~y.isnan()
        loss = -(torch.where(known, likely, 0.0).sum(dim=(-1, -2)) / known.sum())
        return Evaluation(per_test, None, mean, loss.T.cpu(), None)
    sure = score(_mean_over_starts(confident, tests, starts), y, metric).T.cpu()
    right = last.gather(-1, y[:, None].expand(*last.shape[:-1], 1))[..., 0]
    return Evaluation(per_test, sure, mean, -right.log().mean(dim=-1).T.cpu(), None)


def _walk_answers(
    model: MagGNN,
    graphs: GraphBatch,
    start: Tensor,
    task: Task,
    num_moves: int,
    epsilon: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Return the answers of the last and of the most confident state after each number of moves, [t + 1, rows, out].

    They are probabilities for classes, and values in the targets' own units for regression, where both are the same.
    """
    states = model.walk(graphs, start, num_moves, epsilon, generator)
    outputs = torch.stack([model.predictor(graphs, state.tuples) for state in states])  # [t + 1, rows, out]
    answers = torch.stack([model.answers(output, graphs) for output in outputs])
    if task != "classification":
        return answers, answers
    sure = torch.stack([_per_graph(p.amax(dim=-1), graphs) for p in answers])  # [t + 1, B]
    kept = torch.stack([kept_state(sure[: t + 1], "confident") for t in range(num_moves + 1)])  # [t + 1, B]
    kept = kept if answers.shape[1] == graphs.num_graphs else kept[:, graphs.node_graph]
    return answers, answers.gather(0, kept[..., None].expand_as(answers))


def _mean_over_starts(answers: Tensor, tests: int, starts: int) -> Tensor:
    """[t + 1, tests * starts * rows, out] -> [t + 1, tests, rows, out]."""
    return answers.reshape(len(answers), tests, starts, -1, answers.shape[-1]).mean(dim=2)


def _per_graph(values: Tensor, graphs: GraphBatch) -> Tensor:
    return values if len(values) == graphs.num_graphs else graph_mean(values, graphs)


def _y(graphs: GraphBatch) -> Tensor:
    assert graphs.y is not None, "a test needs targets"
    return graphs.y


def evaluate_model(path: Path, tests: int, num_moves: int | None = None) -> dict[str, Any]:
    """Test a saved model on the test split of its own config, with its own moves and with random ones.

    Args:
        path: a model.safetensors.
        tests: the number of tests of each graph.
        num_moves: t; by default the model's own.

    Returns:
        Plain values. The entry named by `metric` (accuracy, auroc or mae) maps each policy and keep rule to its mean
        over tests after 0, 1, ..., t moves.
    """
    model, config = load_model(path)
    device = pick_device(config.runtime.device)
    dataset = registry.load(config.data.name)
    test_ids = dataset.split(config.data.split_seed, config.data.fold).test
    moves = config.agent.num_moves if num_moves is None else num_moves
    if moves and model.q_network is None:
        raise InputError(f"{path}: a plain GNN (k = 0) has nothing to move: leave --moves out")
    values: dict[str, list[float]] = {}
    policies = {"mag-gnn": 0.0, "random-moves": 1.0} if model.q_network is not None else {"gin": 1.0}
    graphs = model.to(device).precomputed(dataset.graphs.to(device))
    for policy, epsilon in policies.items():
        generator = make_generator(config.runtime.seed + TEST_SEED, device)
        evaluation = evaluate(
            model, graphs, test_ids, dataset.task, moves, tests, epsilon, generator, metric=dataset.metric
        )
        values[f"{policy}, last state"] = evaluation.last.mean(dim=0).tolist()
        if evaluation.confident is not None and model.q_network is not None:
            values[f"{policy}, most confident state"] = evaluation.confident.mean(dim=0).tolist()
    metric = dataset.metric
    return {"metric": metric, metric: values, "moves": moves, "tests": tests, "graphs": len(test_ids)}
