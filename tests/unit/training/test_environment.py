"""The judge: individual losses, the table of embeddings, and what one move away would cost."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from builders import packed_edges, random_edges, random_targets, seeded
from maggnn.config import EncoderConfig, PredictorConfig
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec
from maggnn.model.predictor import Predictor, graph_mean
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples
from maggnn.training.environment import Environment, individual_loss

SIZES = (4, 1, 6, 3)
ALL = torch.arange(len(SIZES))
CASES = list(itertools.product(["classification", "regression"], ["graph", "node"]))


def make_packed(task, level):
    generator = seeded()
    edges = random_edges(SIZES, 0.5, generator)
    return packed_edges(SIZES, edges, y=random_targets(task, level, SIZES, 3, generator), level=level)


def make_environment(task, level, pooling="mean", reward="loss", **options):
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(num_layers=2, hidden=8), 2, FeatureSpec(), FeatureSpec())
    predictor = Predictor(PredictorConfig(pooling, **options), encoder, level, 3).eval()
    return Environment(predictor, task, reward)


def make_state(packed, num_tuples, seed=0):
    ids = torch.tensor([2, 0, 3, 1, 0])
    graphs = packed[ids]
    tuples = sample_tuples(graphs, num_tuples, 2, torch.Generator().manual_seed(seed))
    return State.start(graphs, tuples, 0, ids)


def test_classification_loss_is_cross_entropy():
    outputs, y = torch.randn(6, 4), torch.randint(4, (6,))
    expected = F.cross_entropy(outputs, y, reduction="none")
    torch.testing.assert_close(individual_loss(outputs, y, "classification"), expected)
    error = individual_loss(outputs, y, "classification", "error")
    torch.testing.assert_close(error, 1 - outputs.softmax(-1)[torch.arange(6), y])


def test_regression_loss_is_mean_absolute_error():
    outputs, y = torch.randn(6, 4), torch.randn(6, 4)
    torch.testing.assert_close(individual_loss(outputs, y, "regression"), (outputs - y).abs().mean(1))
    one_target = individual_loss(outputs[:, :1], y[:, 0], "regression")
    torch.testing.assert_close(one_target, (outputs[:, 0] - y[:, 0]).abs())


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_losses_of_several_answers_a_row(task):
    outputs = torch.randn(6, 5, 4)
    y = torch.randint(4, (6,)) if task == "classification" else torch.randn(6, 4)
    expected = torch.stack([individual_loss(outputs[:, i], y, task) for i in range(5)], dim=1)
    torch.testing.assert_close(individual_loss(outputs, y, task), expected)


def test_graph_mean():
    graphs = make_packed("classification", "graph")[torch.tensor([2, 1])]
    values = torch.randn(7, 2)
    torch.testing.assert_close(graph_mean(values, graphs), torch.stack([values[:6].mean(0), values[6]]))


@pytest.mark.parametrize(("task", "level"), CASES)
def test_state_loss_is_the_loss_of_the_answer(task, level):
    environment, state = make_environment(task, level), make_state(make_packed(task, level), 2)
    outputs = environment.predictor(state.graphs, state.tuples)
    loss = individual_loss(outputs, state.graphs.y, task)
    if level == "node":
        loss = torch.stack([part.mean() for part in loss.split(state.graphs.num_nodes.tolist())])
    torch.testing.assert_close(environment.loss(state), loss)


@pytest.mark.parametrize("table", [False, True], ids=["direct", "table"])
@pytest.mark.parametrize("pooling", ["mean", "sum"])
@pytest.mark.parametrize("num_tuples", [1, 3])
@pytest.mark.parametrize(("task", "level"), CASES)
def test_outcome_rewards_equal_making_each_move(task, level, num_tuples, pooling, table):
    packed = make_packed(task, level)
    environment, state = make_environment(task, level, pooling), make_state(packed, num_tuples)
    if table:
        assert environment.tabulate_if_cheaper(packed, ALL, 2, 10**9) == (level == "graph")
    mover = torch.arange(5) % num_tuples
    outcome, present = environment.outcome_rewards(state, mover), environment.loss(state)  # [B, V, k] and [B]
    assert outcome.shape == (5, max(SIZES), 2)
    for b, node, slot in itertools.product(range(5), range(max(SIZES)), range(2)):
        if node < state.graphs.num_nodes[b]:
            tuples = state.tuples.clone()
            tuples[b, mover[b], slot] = node
            expected = (present - environment.loss(replace(state, tuples=tuples)))[b]
            torch.testing.assert_close(outcome[b, node, slot], expected, atol=1e-5, rtol=1e-5)
    assert outcome.isfinite().all()


@pytest.mark.parametrize("options", [{}, {"read_marked": True}, {"read_marked": True, "whiten": True}], ids=str)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_table_equals_the_direct_way(task, options):
    packed = make_packed(task, "graph")
    direct, tabulated = (make_environment(task, "graph", **options) for _ in range(2))
    assert tabulated.tabulate_if_cheaper(packed, ALL, 2, 10**9)
    for seed in range(5):
        state = make_state(packed, 3, seed)
        torch.testing.assert_close(tabulated.loss(state), direct.loss(state), atol=1e-5, rtol=1e-5)
        unknown = replace(state, ids=None)  # graphs from elsewhere are embedded, not looked up
        torch.testing.assert_close(tabulated.loss(unknown), direct.loss(state))
        mover = torch.arange(5) % 3
        rewards = [one.outcome_rewards(state, mover) for one in (tabulated, direct)]
        torch.testing.assert_close(*rewards, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("num_tuples", [1, 3])
def test_graphs_outside_the_table_are_embedded_and_never_mistaken_for_others(num_tuples):
    packed = make_packed("classification", "graph")
    direct, tabulated = (make_environment("classification", "graph") for _ in range(2))
    assert tabulated.tabulate_if_cheaper(packed, torch.tensor([0, 1]), 2, 10**9)
    state = make_state(packed, num_tuples)  # graphs 2 and 3 too
    mover = torch.zeros(5, dtype=torch.long)
    unknown = replace(state, ids=None)
    torch.testing.assert_close(tabulated.loss(unknown), direct.loss(state), atol=1e-5, rtol=1e-5)
    rewards = [tabulated.outcome_rewards(unknown, mover), direct.outcome_rewards(state, mover)]
    torch.testing.assert_close(*rewards, atol=1e-5, rtol=1e-5)
    with pytest.raises(IndexError):  # ids say which graphs of the table
        tabulated.loss(state)
    with pytest.raises(IndexError):
        tabulated.outcome_rewards(state, mover)


def test_the_table_is_made_only_where_it_saves_work():
    packed = make_packed("classification", "graph")
    tuples = sum(size**2 for size in SIZES)
    assert not make_environment("classification", "graph").tabulate_if_cheaper(packed, ALL, 2, tuples - 1)
    assert make_environment("classification", "graph").tabulate_if_cheaper(packed, ALL, 2, tuples)
    assert not make_environment("classification", "node").tabulate_if_cheaper(packed, ALL, 2, 10**9)


def test_no_gradient_leaves_the_judge():
    environment = make_environment("classification", "graph")
    state = make_state(make_packed("classification", "graph"), 1)
    assert not environment.loss(state).requires_grad
    assert not environment.outcome_rewards(state, torch.zeros(5, dtype=torch.long)).requires_grad
