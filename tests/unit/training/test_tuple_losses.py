"""Losses of all tuples, from which the agent's loss reads its rewards: the same rewards, and mistakes."""

import networkx as nx
import pytest
import torch
from torch_geometric.loader import DataLoader
from torch_geometric.utils import from_networkx

from builders import seeded
from maggnn import AgentConfig, EncoderConfig, MagGNN, agent_loss, training_loss, with_tuple_losses
from maggnn.errors import InputError
from maggnn.training import environment

TARGETS = {
    "classification": [torch.tensor([label]) for label in range(3)],
    "regression": [torch.tensor([[0.5, 1.0]]), torch.tensor([[float("nan"), -2.0]]), torch.tensor([[3.0, 0.0]])],
    "multilabel": [torch.tensor([[1.0, 0.0]]), torch.tensor([[float("nan"), 1.0]]), torch.tensor([[0.0, 0.0]])],
}


def graphs(task="classification"):
    """A path, a star and a ring, with targets."""
    parts = [from_networkx(graph) for graph in (nx.path_graph(3), nx.star_graph(3), nx.cycle_graph(5))]
    for data, y in zip(parts, TARGETS[task], strict=True):
        data.y = y
    return parts


def batch_of(parts):
    return next(iter(DataLoader(parts, batch_size=len(parts))))


def make_model(task="classification", seed=0, **agent):
    torch.manual_seed(seed)
    encoder = EncoderConfig(num_layers=2, hidden=8, marking="distance")
    settings = AgentConfig(**({"num_tuples": 1, "tuple_order": 2, "num_moves": 2} | agent))
    outputs = 3 if task == "classification" else 2
    model = MagGNN.for_data(graphs(task), outputs, task, encoder=encoder, agent=settings)
    if model.targets is not None:
        model.targets.std.fill_(4.0)
    return model


@pytest.mark.parametrize("outcomes", [None, 3])
@pytest.mark.parametrize(
    ("task", "reward"),
    [("classification", "error"), ("classification", "loss"), ("regression", "error"), ("multilabel", "error")],
)
def test_rewards_are_the_same_as_without_a_table(task, reward, outcomes, monkeypatch):
    monkeypatch.setitem(environment.MARKED_NODES_A_CHUNK, "cpu", 20)  # a graph's tuples in several chunks
    model, parts = make_model(task).train(), graphs(task)
    model.q_network.eval()  # equal norms, and so equal walks, in both calls
    known = with_tuple_losses(model, parts, reward)
    assert model.predictor.training and [len(graph.tuple_losses) for graph in known] == [9, 16, 25]
    assert all("tuple_losses" not in graph for graph in parts)  # the given graphs stay as they are
    batch, plain = batch_of(known[::-1] * 2), batch_of(parts[::-1] * 2)
    found, expected = (
        agent_loss(model, given, reward=reward, outcomes=outcomes, generator=seeded(1)) for given in (batch, plain)
    )
    torch.testing.assert_close(found, expected)
    found.backward()
    assert all(weight.grad is None for weight in model.predictor.parameters())


def test_the_predictor_is_not_evaluated(monkeypatch):
    model = make_model().train()
    batch = batch_of(with_tuple_losses(model, graphs()))
    monkeypatch.setattr(model.predictor, "embed", lambda *_: pytest.fail("evaluated"))
    agent_loss(model, batch)
    with pytest.raises(pytest.fail.Exception, match="evaluated"):  # both at once: the predictor changes in each step
        training_loss(model, batch)


def test_mistakes_are_one_line():
    for model in (make_model(num_tuples=2), make_model(tuple_order=0, num_moves=0)):
        with pytest.raises(InputError, match="one tuple"):
            with_tuple_losses(model, graphs())
    with pytest.raises(InputError, match="unknown reward 'eror': did you mean 'error'"):
        with_tuple_losses(make_model(), graphs(), "eror")
    batch = batch_of(with_tuple_losses(make_model(tuple_order=1), graphs()))
    with pytest.raises(InputError, match=r"shape \(12,\), the tuples of these graphs are 50"):
        agent_loss(make_model(), batch)
    with pytest.raises(InputError, match="leave them out of the batch"):
        agent_loss(make_model(num_tuples=2), batch)


@pytest.mark.parametrize("change", ["weights", "statistics", "y", "given y", "reward", "another model", "no mark"])
def test_losses_that_no_longer_hold_are_refused(change):
    """The agent would otherwise learn from rewards of the past."""
    model = make_model().train()
    batch, options = batch_of(with_tuple_losses(model, graphs())), {}
    agent_loss(model, batch, batch.y)
    if change == "weights":
        model.predictor.zero_grad()
        with torch.no_grad():
            model.predictor.second.bias[0] += 0.5
    elif change == "statistics":
        model.predictor.norm.norm.running_mean += 1
    elif change == "y":
        batch.y = batch.y.flip(0)
    elif change == "given y":
        options["y"] = batch.y.flip(0)
    elif change == "reward":
        options["reward"] = "loss"
    elif change == "another model":
        model = make_model(seed=1).train()
    else:
        del batch.tuple_losses_of
    with pytest.raises(InputError, match="make them again with maggnn"):
        agent_loss(model, batch, **options)


def test_batches_in_place_of_graphs_are_refused():
    batch = batch_of(graphs())
    with pytest.raises(InputError, match="one of the graphs is a batch of 3"):
        with_tuple_losses(make_model(), [batch])
    with pytest.raises(InputError, match="not a single Data or Batch"):
        with_tuple_losses(make_model(), batch)


def test_large_graphs_have_too_many_tuples(monkeypatch):
    monkeypatch.setattr("maggnn.training.tuple_losses.MAX_TABLE_ROWS", 20)
    with pytest.raises(InputError, match="a graph of 5 nodes has 25 tuples"):
        with_tuple_losses(make_model(), graphs())
