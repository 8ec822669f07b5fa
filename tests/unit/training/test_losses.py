"""Losses for loops of one's own: exact rewards, gradients where they belong, masked targets, and a loop that learns."""

import copy
import itertools
import warnings
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.utils import from_networkx

from builders import seeded
from maggnn import AgentConfig, EncoderConfig, MagGNN, agent_loss, predictor_loss, training_loss
from maggnn.errors import InputError, UntrainedAgentWarning
from maggnn.graphs.conversions import batch_from_pyg
from maggnn.model.pretrained import pretrained_agent
from maggnn.training.environment import individual_loss

ENCODER = EncoderConfig(num_layers=2, hidden=8, norm="layer")  # LayerNorm: the same in training and evaluation
ACTIONS = ("simultaneous", "in_turn", "choose")


def graphs(level="graph", task="classification"):
    """A path, a star and a ring, with targets."""
    parts = []
    for label, graph in enumerate([nx.path_graph(3), nx.star_graph(3), nx.cycle_graph(5)]):
        data = from_networkx(graph)
        rows = 1 if level == "graph" else len(graph)
        data.y = (
            torch.full((rows,), label) if task == "classification" else torch.randn(rows, 2, generator=seeded(label))
        )
        parts.append(data)
    return parts


def make_model(level="graph", task="classification", gnn=ENCODER, **agent):
    torch.manual_seed(0)
    settings = AgentConfig(**({"num_tuples": 2, "tuple_order": 2, "num_moves": 1} | agent))
    return MagGNN.for_data(graphs(level, task), 3 if task == "classification" else 2, encoder=gnn, agent=settings)


@torch.no_grad()
def loss_of(model, batch, tuples, reward):
    """Of each graph, however many rows it has."""
    loss = individual_loss(model.predictor(batch, tuples), batch.y, model.task, reward)
    if model.predictor.level == "graph":
        return loss
    return torch.stack([part.mean() for part in loss.split(batch.num_nodes.tolist())])


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize(
    ("task", "reward"), [("classification", "error"), ("classification", "loss"), ("regression", "loss")]
)
def test_the_agents_loss_is_the_error_of_q_over_every_move(level, task, reward):
    model = make_model(level, task, num_tuples=1).eval()
    batch = batch_from_pyg(Batch.from_data_list(graphs(level, task)))
    found = agent_loss(model, batch, reward=reward, generator=seeded(3))
    tuples = model.starts(batch, seeded(3))  # one move: the walk is its start alone
    before = loss_of(model, batch, tuples, reward)
    q_table = model.scores(model.walk(batch, tuples, 0)[0])[0].split(batch.num_nodes.tolist())
    errors = []
    for graph, table in enumerate(q_table):
        for node, slot in itertools.product(range(len(table)), range(2)):
            after = tuples.clone()
            after[graph, 0, slot] = node
            gain = before[graph] - loss_of(model, batch, after, reward)[graph]
            errors.append((table[node, 0, slot] - gain) ** 2)
    torch.testing.assert_close(found, torch.stack(errors).mean())


def test_drawn_moves_estimate_the_loss_over_all_moves():
    model, batch = make_model(), batch_from_pyg(Batch.from_data_list([graphs()[2]] * 4))  # equal sizes: equal weights
    model.q_network.eval()
    exact = agent_loss(model, batch, generator=seeded(1)).item()
    drawn = agent_loss(model, batch, outcomes=5_000, generator=seeded(1)).item()
    assert drawn == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("history", ["zero", "lstm"])
@pytest.mark.parametrize("encoder", ["own", "shared"])
def test_one_loss_trains_every_part(actions, history, encoder):
    model = make_model(actions=actions, history=history, encoder=encoder, num_moves=2).train()
    batch = Batch.from_data_list(graphs())
    loss, parts = training_loss(model, batch, batch.y, generator=seeded(2))
    loss.backward()
    assert set(parts) == {"predictor", "agent"} and not any(value.requires_grad for value in parts.values())
    assert loss.item() == pytest.approx(sum(value.item() for value in parts.values()), rel=1e-6)
    missing = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert missing == []
    assert model.training and model.predictor.training


def test_each_term_has_its_own_network():
    model, batch = make_model(num_moves=2), Batch.from_data_list(graphs())
    agent_loss(model, batch).backward()
    assert all(weight.grad is None for weight in model.predictor.parameters())
    model.zero_grad(set_to_none=True)
    predictor_loss(model, batch, starts=3).backward()
    assert all(weight.grad is None for weight in model.q_network.parameters())
    assert all(weight.grad is not None for weight in model.predictor.parameters())


def test_the_agents_loss_leaves_the_predictor_as_it_is():
    model = make_model(gnn=replace(ENCODER, norm="batch")).train()
    before = copy.deepcopy(model.predictor.state_dict())
    agent_loss(model, Batch.from_data_list(graphs())).backward()
    assert all(torch.equal(value, before[name]) for name, value in model.predictor.state_dict().items())


def test_targets_outside_the_mask_are_not_read():
    model, batch = make_model("node", num_moves=2), Batch.from_data_list(graphs("node"))
    mask = torch.arange(batch.num_nodes) % 3 == 0
    other = torch.where(mask, batch.y, (batch.y + 1) % 3)
    first, again, unmasked = (
        training_loss(model, batch, y, mask=shown, generator=seeded(4))[0].item()
        for y, shown in ((batch.y, mask), (other, mask), (other, None))
    )
    assert first == again != unmasked


def test_numbers_are_learned_in_units_of_their_spread_where_it_is_known():
    model, batch = make_model(task="regression"), Batch.from_data_list(graphs(task="regression"))
    plain = predictor_loss(model, batch, generator=seeded(1))
    model.targets.std.fill_(10.0)
    scaled = predictor_loss(model, batch, 10 * batch.y, generator=seeded(1))
    torch.testing.assert_close(plain, scaled)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, batch: training_loss(model, batch, batch.y[:2]), "y has 2 rows"),
        (lambda model, batch: training_loss(model, batch, batch.y.float()), "one integer class"),
        (lambda model, batch: training_loss(model, batch, mask=torch.ones(3).bool()), "at node level"),
        (lambda model, batch: training_loss(model, graphs_without_y()), "the batch has no y"),
        (lambda model, batch: agent_loss(make_model(num_moves=0), batch), "no agent to train"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call(make_model(), Batch.from_data_list(graphs()))


def graphs_without_y():
    return Batch.from_data_list([from_networkx(nx.path_graph(3))])


def test_without_moves_only_the_predictor_has_a_loss():
    for agent in ({"num_moves": 0}, {"num_moves": 0, "tuple_order": 0}):
        loss, parts = training_loss(make_model(**agent), Batch.from_data_list(graphs()))
        assert set(parts) == {"predictor"} and loss.requires_grad


# ---- the warning ----------------------------------------------------------------------------------------


def test_an_untrained_agent_that_moves_marks_is_said():
    batch = Batch.from_data_list(graphs())
    with pytest.warns(UntrainedAgentWarning, match="maggnn.training_loss"):
        make_model()(batch)


@pytest.mark.parametrize("way", ["trained", "loaded", "no moves", "no marks", "pretrained"])
def test_other_agents_are_not(way):
    model, batch = make_model(), Batch.from_data_list(graphs())
    if way == "trained":
        agent_loss(model, batch).backward()
    elif way == "loaded":
        model.load_state_dict(make_model().state_dict())
        model = copy.deepcopy(model)
    elif way == "pretrained":
        agent = pretrained_agent("cycles6")
        settings = AgentConfig(num_tuples=1, tuple_order=agent.tuple_order, num_moves=1)
        model = MagGNN(3, agent=settings, pretrained=agent.shape)
        model.q_network.load_state_dict(agent.weights)
    else:
        model = make_model(num_moves=0, tuple_order=2 if way == "no moves" else 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrainedAgentWarning)
        model(batch)


# ---- a loop of one's own learns -------------------------------------------------------------------------


def test_a_plain_loop_trains_the_agent():
    """Triangles or a hexagon hide beside a star: only marks on them tell, and random moves mostly miss them."""
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    pairs = itertools.product((8, 10, 12, 14), enumerate((triangles, nx.cycle_graph(6))))
    data = []
    for leaves, (label, part) in pairs:
        data.append(from_networkx(nx.disjoint_union(nx.star_graph(leaves), part)))
        data[-1].y = label
    torch.manual_seed(0)
    model = MagGNN.for_data(
        data,
        encoder=EncoderConfig(num_layers=3, hidden=24),
        agent=AgentConfig(num_tuples=1, tuple_order=1, num_moves=2),
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(150):
        for batch in DataLoader(data * 2, batch_size=16, shuffle=True):
            loss, _ = training_loss(model, batch, batch.y, epsilon=max(0.1, 1 - step / 75))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    batch, model = batch_from_pyg(Batch.from_data_list(data * 40)), model.eval()
    with torch.no_grad():
        walks = {epsilon: model.walk(batch, epsilon=epsilon)[-1] for epsilon in (0.0, 1.0)}
        right = {e: (model.predictor(batch, s.tuples).argmax(-1) == batch.y).float().mean() for e, s in walks.items()}
    assert right[0.0] > 0.97 and right[1.0] < 0.85


@pytest.mark.parametrize(
    "kind", [list, np.asarray, lambda y: torch.tensor(y).int(), lambda y: torch.tensor(y)[:, None]]
)
def test_classes_in_any_form(kind):
    model, batch = make_model(), Batch.from_data_list(graphs())
    expected = predictor_loss(model, batch, generator=seeded(1))
    assert torch.equal(predictor_loss(model, batch, kind([0, 1, 2]), generator=seeded(1)), expected)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0, 1, 3], {}, "y has class 3 in row 2, the model knows 0 to 2"),
        ([0, -1, 2], {}, "y has class -1 in row 1"),
        (1, {}, "y has 1 rows"),
        ([0, 1, 2], {"outcomes": 0}, "outcomes is 0, must be at least 1"),
        ([0, 1, 2], {"epsilon": 2}, "epsilon is 2, must be a probability"),
        ([0, 1, 2], {"reward": "los"}, "unknown reward 'los': did you mean 'loss'"),
    ],
)
@pytest.mark.parametrize("loss_of", [training_loss, agent_loss])
def test_targets_and_options_are_checked(loss_of, y, options, message):
    with pytest.raises(InputError, match=message):
        loss_of(make_model(), Batch.from_data_list(graphs()), y, **options)


def test_starts_are_checked():
    with pytest.raises(InputError, match="starts is 0"):
        predictor_loss(make_model(), Batch.from_data_list(graphs()), starts=0)


def test_classes_outside_the_mask_may_be_unknown():
    model, batch = make_model("node", num_moves=2), Batch.from_data_list(graphs("node"))
    mask = torch.arange(batch.num_nodes) % 3 == 0
    expected = training_loss(model, batch, mask=mask, generator=seeded(4))[0]
    unknown = torch.where(mask, batch.y, -1)
    assert torch.equal(training_loss(model, batch, unknown, mask=mask, generator=seeded(4))[0], expected)
    with pytest.raises(InputError, match="mask has no node"):
        training_loss(model, batch, mask=torch.zeros_like(mask))


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_missing_targets_add_nothing(task):
    torch.manual_seed(0)
    model = MagGNN(2, encoder=ENCODER, agent=AgentConfig(num_tuples=1, tuple_order=1, num_moves=1), task=task)
    batch, nothing = Batch.from_data_list(graphs()), torch.full((3, 2), float("nan"))
    y = torch.tensor([[0.0, 1.0], [float("nan"), 1.0], [1.0, 0.0]])
    loss, _ = training_loss(model, batch, y, generator=seeded(1))
    batch.y = y
    assert torch.equal(training_loss(model, batch, generator=seeded(1))[0], loss) and bool(loss.isfinite())
    assert predictor_loss(model, batch, nothing).item() == 0
    loss.backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in model.predictor.parameters())
    with pytest.raises(InputError, match=r"in row 0, column 1, must be (a finite number|0 or 1), or NaN"):
        training_loss(model, batch, torch.tensor([[0.0, float("inf")]] * 3))


def modes(model):
    return {name: module.training for name, module in model.named_modules()}


@pytest.mark.parametrize("encoder", ["own", "shared"])
@pytest.mark.parametrize("frozen", ["predictor", "q_network", "norms"])
def test_parts_that_were_frozen_stay_frozen(frozen, encoder):
    model = make_model(gnn=replace(ENCODER, norm="batch"), encoder=encoder, num_moves=2).train()
    parts = {"predictor": [model.predictor], "q_network": [model.q_network]}
    for part in parts.get(frozen, [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm1d)]):
        part.eval()
    before, state = modes(model), copy.deepcopy(model.state_dict())
    batch = Batch.from_data_list(graphs())
    for call in (model, lambda given: training_loss(model, given), lambda given: agent_loss(model, given)):
        call(batch)
        assert modes(model) == before
    kept = [name for name in state if not before[name.rpartition(".")[0]]]
    assert kept and all(torch.equal(model.state_dict()[name], state[name]) for name in kept)


def test_a_failed_call_leaves_the_mode():
    model, batch = make_model().train(), Batch.from_data_list(graphs())
    model.predictor.eval()
    before = modes(model)
    model.q_network.forward = lambda *given: 1 / 0
    with pytest.raises(ZeroDivisionError):
        model(batch)
    assert modes(model) == before
