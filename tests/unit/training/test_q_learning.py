"""Q-learning targets equal computations by hand, and a step moves nothing but the Q-network."""

import itertools
from dataclasses import replace

import pytest
import torch

from builders import seeded
from maggnn.config import AgentConfig, EncoderConfig, TrainingConfig
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.state import Move, State
from maggnn.model.tuples import sample_tuples
from maggnn.training.environment import Environment
from maggnn.training.q_learning import QLearner
from maggnn.training.replay import Experience

ACTIONS = ("simultaneous", "in_turn", "choose")
SIZES, M, K, GAMMA = (3, 1, 4), 2, 2, 0.7
PACKED = PackedGraphs.build(  # three paths
    torch.tensor(SIZES),
    torch.tensor(SIZES) - 1,
    torch.tensor([[0, 1, 0, 1, 2], [1, 2, 1, 2, 3]]),
    y=torch.tensor([0, 1, 1]),
    undirected_once=True,
)


def make_learner(target, actions="simultaneous", state="q_network", **training):
    torch.manual_seed(0)
    agent = AgentConfig(num_tuples=M, tuple_order=K, actions=actions, state=state)
    # LayerNorm: the same in training and evaluation, so that a hand computation is exact.
    model = MagGNN(2, encoder=EncoderConfig(num_layers=2, hidden=8, norm="layer"), agent=agent).eval()
    environment = Environment(model.predictor, "classification", "loss")
    config = TrainingConfig(target=target, gamma=0.0 if target == "lookahead" else GAMMA, **training)
    learner = QLearner(model, environment, config, seeded())
    with torch.no_grad():  # the target network lags behind
        for weight in learner.q_network.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=seeded(1)))
    return learner


def make_experience(actions):
    ids, generator = torch.arange(3), seeded(5)
    graphs = PACKED[ids]
    turn = torch.tensor([0, 1, 1])
    state = State(graphs, sample_tuples(graphs, M, K, generator), torch.zeros(3, M, 0), turn, ids)
    slot = torch.randint(K, (3, M), generator=generator)
    node = sample_tuples(graphs, M, 1, generator)[..., 0]
    mover = turn if actions == "in_turn" else torch.tensor([1, 0, 1])
    moved = (torch.arange(M) == mover[:, None]) | (actions == "simultaneous")
    move = Move(slot, node, moved)
    return Experience(state, move, torch.tensor([0.5, -0.2, 0.1]), state.after(move, state.history))


def update(learner, experience, number, count):
    """One whole Q update: its learning rate, its step, and the copy to the target network where it is due."""
    learner.schedule(number, count)
    loss = learner.fit(experience)
    learner.sync(number)
    return loss


def tables(network, state):
    """The Q-table of each graph, [|V|, m, k]."""
    with torch.no_grad():
        return network(state)[0].split(state.graphs.num_nodes.tolist())


def next_actions(table, i, turn, actions):
    """The actions (l, i, j) that compete for the next move of whoever follows tuple i."""
    who = {"simultaneous": [i], "in_turn": [turn], "choose": range(M)}[actions]
    return list(itertools.product(range(len(table)), who, range(K)))


def expected_loss(learner, experience, actions, double):
    online = tables(learner.q_network, experience.next_state)
    target = tables(learner.target_network, experience.next_state)
    present = tables(learner.q_network, experience.state)
    errors = []
    for b, i in itertools.product(range(3), range(M)):
        if not experience.move.moved[b, i]:
            continue
        judge = online[b] if double else target[b]
        candidates = next_actions(judge, i, int(experience.next_state.turn[b]), actions)
        best = max(candidates, key=lambda action: float(judge[action]))
        wanted = experience.reward[b] + GAMMA * target[b][best]
        q = present[b][experience.move.node[b, i], i, experience.move.slot[b, i]]
        errors.append((q - wanted) ** 2)
    return torch.stack(errors).mean()


@pytest.mark.parametrize("actions", ACTIONS)
def test_dqn_target(actions):
    learner, experience = make_learner("dqn", actions), make_experience(actions)
    torch.testing.assert_close(
        learner.loss(experience).detach(), expected_loss(learner, experience, actions, double=False)
    )


@pytest.mark.parametrize("actions", ACTIONS)
def test_double_dqn_target(actions):
    learner, experience = make_learner("double_dqn", actions), make_experience(actions)
    expected = expected_loss(learner, experience, actions, double=True)
    torch.testing.assert_close(learner.loss(experience).detach(), expected)
    assert not torch.allclose(expected, expected_loss(learner, experience, actions, double=False))


def test_n_step_returns_and_huber_loss():
    """Two moves discount twice; a large error counts linearly."""
    one, two = make_experience("simultaneous"), make_experience("simultaneous")
    two = replace(two, steps=torch.full((3,), 2))
    squared, huber = make_learner("dqn"), make_learner("dqn", q_loss="huber")
    nearer = make_learner("dqn")
    nearer.config = replace(nearer.config, gamma=GAMMA**2)
    torch.testing.assert_close(squared.loss(two), nearer.loss(one))
    assert not torch.allclose(squared.loss(two), squared.loss(one))
    assert 0 < 2 * huber.loss(one) < squared.loss(one)  # some errors are beyond 1
    large = replace(one, reward=one.reward + 1e4)
    torch.testing.assert_close(huber.loss(large), squared.loss(large).sqrt(), rtol=1e-3, atol=0.0)


@pytest.mark.parametrize("table", [False, True], ids=["direct", "table"])
@pytest.mark.parametrize("actions", ACTIONS)
def test_lookahead_target(actions, table):
    learner, experience = make_learner("lookahead", actions), make_experience(actions)
    assert not table or learner.environment.tabulate_if_cheaper(PACKED, torch.arange(3), K, 10**9)
    state = experience.state
    loss = learner.loss(experience).detach()
    mover = torch.randint(M, (3,), generator=seeded())  # the learner's generator, drawn again
    present, q_tables, errors = learner.environment.loss(state), tables(learner.q_network, state), []
    for b in range(3):
        for node, slot in itertools.product(range(SIZES[b]), range(K)):
            tuples = state.tuples.clone()
            tuples[b, mover[b], slot] = node
            after = State(state.graphs, tuples, state.history, state.turn)
            reward = present[b] - learner.environment.loss(after)[b]
            errors.append((q_tables[b][node, mover[b], slot] - reward) ** 2)
    torch.testing.assert_close(loss, torch.stack(errors).mean(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("state", ["q_network", "predictor"])
@pytest.mark.parametrize("target", ["dqn", "double_dqn", "lookahead"])
def test_a_step_moves_only_the_q_network(target, state):
    learner = make_learner(target, state=state, schedule="constant", sync_every=100)
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    lagging = {name: value.clone() for name, value in learner.target_network.state_dict().items()}
    loss = update(learner, make_experience("simultaneous"), 0, 10)
    assert not loss.requires_grad
    after = learner.model.state_dict()
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert changed and all(name.startswith("q_network.") for name in changed)
    assert all(torch.equal(v, lagging[name]) for name, v in learner.target_network.state_dict().items())
    assert all(weight.grad is None for weight in learner.model.predictor.parameters())
    assert not learner.q_network.training


def test_the_target_network_follows_on_schedule():
    learner = make_learner("dqn", schedule="constant", sync_every=3)
    experience = make_experience("simultaneous")
    synced = []
    for step in range(7):
        update(learner, experience, step, 7)
        online = learner.q_network.state_dict()
        target = learner.target_network.state_dict()
        synced.append(all(torch.equal(value, target[name]) for name, value in online.items()))
    assert synced == [False, False, True, False, False, True, False]


@pytest.mark.parametrize("target", ["dqn", "double_dqn", "lookahead"])
def test_repeated_steps_fit_the_target(target):
    learner = make_learner(target, schedule="constant", learning_rate=3e-3, sync_every=1000)
    experience = make_experience("simultaneous")
    losses = [float(update(learner, experience, step, 200)) for step in range(200)]
    assert sum(losses[-10:]) < 0.1 * sum(losses[:10])
