"""Tests of a model: accuracy or error after 0, 1, ..., t moves, from fresh tuples each time."""

import pytest
import torch

from builders import seeded
from maggnn.config import AgentConfig, EncoderConfig
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.tuples import sample_tuples
from maggnn.training.evaluate import evaluate

SIZES = (3, 1, 5, 4)
MOVES, TESTS = 3, 20


def make(task, level):
    torch.manual_seed(2)
    rows = len(SIZES) if level == "graph" else sum(SIZES)
    edges = [torch.stack([torch.arange(n - 1), torch.arange(1, n)]) for n in SIZES]
    packed = PackedGraphs.build(
        torch.tensor(SIZES),
        torch.tensor(SIZES) - 1,
        torch.cat(edges, 1),
        y=torch.randint(3, (rows,)) if task == "classification" else torch.randn(rows, 3),
        level=level,
        undirected_once=True,
    )
    agent = AgentConfig(num_tuples=2, tuple_order=2)
    encoder = EncoderConfig(num_layers=2, hidden=8, c_plus=5.0)  # strong marks: states differ
    model = MagGNN(3, encoder=encoder, agent=agent, task=task, level=level)
    spread_answers(model.eval(), packed[torch.arange(len(SIZES))])
    return model, packed


@torch.no_grad()
def spread_answers(model, graphs):
    """Centre and stretch the answers, so that classes change from state to state."""
    last = model.predictor.second
    last.bias -= model.predictor(graphs, sample_tuples(graphs, 50, 2, seeded())).mean(0)
    last.weight *= 20
    last.bias *= 20


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_results_equal_a_loop_over_walks(task, level, epsilon):
    model, packed = make(task, level)
    ids = torch.tensor([0, 2, 3])
    result = evaluate(model, packed, ids, task, MOVES, TESTS, epsilon, seeded())
    assert not model.training
    graphs = packed[ids.repeat(TESTS)]  # one batch, so that the same generator gives the same walks
    states = model.walk(graphs, num_moves=MOVES, epsilon=epsilon, generator=seeded())
    rows = graphs.num_nodes.tolist() if level == "node" else [1] * graphs.num_graphs
    last, confident = torch.zeros(TESTS, MOVES + 1), torch.zeros(TESTS, MOVES + 1)
    answers = [model.predictor(graphs, state.tuples).detach().split(rows) for state in states]
    for number, y in enumerate(graphs.y.split(rows)):
        test = number // len(ids)
        right, sure = [], []
        for t in range(MOVES + 1):
            answer = answers[t][number]
            if task == "classification":
                right.append(100 * (answer.argmax(-1) == y).float().mean())
                sure.append(answer.double().softmax(-1).amax(-1).mean())
            else:
                right.append((answer - y).abs().mean())
                sure.append(torch.tensor(0.0))
            share = len(answer) / sum(rows[: len(ids)])  # every row counts alike
            last[test, t] += right[t] * share
            confident[test, t] += right[int(torch.stack(sure).argmax())] * share
    torch.testing.assert_close(result.last.float(), last, atol=1e-3, rtol=1e-5)
    if task == "classification":
        torch.testing.assert_close(result.kept("confident").float(), confident, atol=1e-3, rtol=1e-5)
        assert (confident != last).any() and (confident.diff(dim=1) != 0).any()
    else:
        assert result.confident is None
        torch.testing.assert_close(result.loss, result.last)
    assert result.kept("last") is result.last


def test_small_batches_cover_every_graph():
    model, packed = make("classification", "graph")
    result = evaluate(model, packed, torch.arange(4), "classification", 1, TESTS, 0.0, seeded(), batch_size=3)
    assert result.last.shape == (TESTS, 2)
    assert set(result.last.flatten().tolist()) <= {0.0, 25.0, 50.0, 75.0, 100.0}


def test_same_seed_same_result():
    model, packed = make("classification", "graph")
    first, again = (evaluate(model, packed, torch.arange(4), "classification", 2, 5, 0.3, seeded(3)) for _ in range(2))
    assert torch.equal(first.loss, again.loss)


@pytest.mark.parametrize("batch_size", [512, 3])
def test_agent_and_random_moves_start_alike(batch_size):
    """The control is paired: the same seed gives the same starts, whoever moves then."""
    model, packed = make("classification", "graph")
    starts = [
        evaluate(model, packed, torch.arange(4), "classification", 2, TESTS, epsilon, seeded(), batch_size).loss[:, 0]
        for epsilon in (0.0, 1.0)
    ]
    assert torch.equal(*starts)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_mean_over_a_walk_is_that_of_the_answers_seen_so_far(task):
    model, packed = make(task, "graph")
    ids = torch.tensor([0, 2, 3])
    result = evaluate(model, packed, ids, task, MOVES, TESTS, 1.0, seeded())
    graphs = packed[ids.repeat(TESTS)]
    states = model.walk(graphs, num_moves=MOVES, epsilon=1.0, generator=seeded())
    answers = torch.stack([model.answers(model.predictor(graphs, state.tuples), graphs) for state in states]).detach()
    for t in range(MOVES + 1):
        mean = answers[: t + 1].mean(dim=0)
        if task == "classification":
            right = 100 * (mean.argmax(-1) == graphs.y).float()
        else:
            right = (mean - graphs.y).abs().mean(-1).float()
        expected = right.reshape(TESTS, len(ids)).mean(-1)
        torch.testing.assert_close(result.kept("mean")[:, t].float(), expected, atol=1e-3, rtol=1e-5)
    assert torch.equal(result.mean[:, 0], result.last[:, 0]) and not torch.equal(result.mean, result.last)


def test_walks_can_start_from_given_tuples():
    """A test of two starts averages the answers of both, which are those of the predictor at the given tuples."""
    model, packed = make("regression", "graph")
    ids = torch.tensor([0, 2, 3])
    graphs = packed[ids]
    first, second = (sample_tuples(graphs, 2, 2, seeded(seed)) for seed in (5, 6))
    result = evaluate(
        model, packed, ids, "regression", 0, 1, 1.0, seeded(), batch_size=2, starts=2, tuples=torch.cat([first, second])
    )
    with torch.no_grad():
        mean = (model.predictor(graphs, first) + model.predictor(graphs, second)) / 2
    error = (model.in_target_units(mean, graphs) - graphs.y).abs().mean()
    torch.testing.assert_close(result.last[0, 0].float(), error, atol=1e-5, rtol=1e-5)
