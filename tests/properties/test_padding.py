"""Padding changes nothing: a batch with room to spare gives what the exact batch gives, in every part."""

import copy
import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import packed_edges, random_targets, seeded
from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig, TrainingConfig
from maggnn.data.registry import Dataset
from maggnn.data.splits import all_in_all
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.predictor import Predictor, graph_mean
from maggnn.model.state import Move, State
from maggnn.model.tuples import sample_tuples
from maggnn.training.environment import Environment, individual_loss, mean_loss
from maggnn.training.paradigms import Ord
from maggnn.training.q_learning import QLearner
from maggnn.training.replay import Replay

CPU = torch.device("cpu")
M, K, D = 2, 2, 6
GRAPHS = st.fixed_dictionaries(  # always one of five nodes: BatchNorm makes noise of rows that are all alike
    {
        "sizes": st.lists(st.integers(1, 6), max_size=3).map(lambda sizes: [5, *sizes]),
        "picks": st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda picks: [0, *picks]),
        "density": st.sampled_from([0.2, 0.5, 1.0]),
        "directed": st.booleans(),
        "seed": st.integers(0, 2**20),
    }
)
CASES = list(itertools.product(["classification", "regression"], ["graph", "node"]))
FIXED = {"sizes": [4, 1, 6, 3], "picks": [2, 0, 3, 1, 0], "density": 0.5, "directed": False, "seed": 0}


def make_packed(sizes, density, directed, seed, task="classification", level="graph"):
    """A set with features that tell all nodes apart; node 0 has a loop, so that there is always an edge."""
    generator = seeded(seed)
    edges = []
    for n in sizes:
        adjacency = torch.rand(n, n, generator=generator) < density
        adjacency[0, 0] = True
        edges.append((adjacency if directed else adjacency.triu()).nonzero())
    y = random_targets(task, level, sizes, 3, generator)
    x = torch.randn(sum(sizes), 3, generator=generator, dtype=torch.float64)
    edge_attr = torch.randint(4, (sum(map(len, edges)), 2), generator=generator)
    y = y.double() if task == "regression" else y
    return packed_edges(sizes, edges, not directed, x=x, edge_attr=edge_attr, y=y, level=level)


class Pair:
    """The same graphs twice, with and without padding, and tuples for both."""

    def __init__(self, graphs, task="classification", level="graph", num_tuples=M):
        picks = graphs["picks"]
        self.packed = make_packed(**{k: v for k, v in graphs.items() if k != "picks"}, task=task, level=level)
        self.ids = torch.tensor(picks) % len(self.packed)
        self.size = self.packed.rounded_size(self.ids)
        self.exact, self.padded = self.packed[self.ids], self.packed.gather(self.ids, self.size)
        self.generator = torch.Generator().manual_seed(graphs["seed"])
        self.tuples = sample_tuples(self.exact, num_tuples, K, self.generator)
        self.batches = (self.exact, self.padded)

    def real(self, values):
        """The rows [N, ...] of the padded batch that are nodes."""
        return values[: self.exact.total_nodes]

    def rows(self, values, level):
        return self.real(values) if level == "node" else values

    def states(self, history_width=0):
        count = len(self.ids)
        history = torch.randn(count, M, history_width, generator=self.generator, dtype=torch.float64)
        turn = torch.randint(M, (count,), generator=self.generator)
        return [State(batch, self.tuples, history, turn, self.ids) for batch in self.batches]


def random_weights(module, seed=0):
    """Away from zero where relu could tip over, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point() and tensor.ndim < 2:
            tensor.data.uniform_(0.1, 1, generator=generator)
    return module.double()


def make_encoder(packed, conv="gin", **settings):
    torch.manual_seed(0)
    config = EncoderConfig(conv=conv, num_layers=2, hidden=D, **settings)
    return random_weights(Encoder(config, K, FeatureSpec.of(packed.x), FeatureSpec.of(packed.edge_attr)))


def make_model(packed, task, level, **agent):
    torch.manual_seed(0)
    settings = {"num_tuples": M, "tuple_order": K} | agent
    encoder = EncoderConfig(conv="gine", num_layers=2, hidden=D)
    features = FeatureSpec.of(packed.x), FeatureSpec.of(packed.edge_attr)
    model = MagGNN(3, *features, encoder=encoder, agent=AgentConfig(**settings), task=task, level=level)
    return random_weights(model).eval()


def close(ours, theirs, tolerance=1e-7):
    """Close against the largest value."""
    largest = max(1.0, float(theirs.detach().abs().max())) if theirs.numel() else 1.0
    torch.testing.assert_close(ours, theirs, atol=tolerance * largest, rtol=0)


def close_modules(ours, theirs, tolerance=1e-7):
    """The same weights, running statistics and gradients."""
    for name, value in theirs.state_dict().items():
        close(ours.state_dict()[name], value, tolerance)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None)
        if mine.grad is not None:
            close(mine.grad, other.grad, tolerance)


@settings(max_examples=30, deadline=None)
@given(graphs=GRAPHS, level=st.sampled_from(["graph", "node"]))
def test_padded_batches_hold_the_same_graphs(graphs, level):
    pair = Pair(graphs, level=level)
    exact, padded = pair.batches
    nodes, edges = exact.total_nodes, exact.edge_index.shape[1]
    assert (padded.total_nodes, padded.edge_index.shape[1]) == (pair.size.nodes, pair.size.edges)
    assert torch.equal(padded.num_nodes, exact.num_nodes)
    assert torch.equal(padded.edge_index[:, :edges], exact.edge_index)
    assert torch.equal(padded.by_source[:edges], exact.by_source)
    for name in ("in_degree", "out_degree", "x", "node_graph", "local_id"):
        assert torch.equal(getattr(padded, name)[:nodes], getattr(exact, name)), name
    for name in ("first_node", "node_offsets"):
        assert torch.equal(getattr(padded, name), getattr(exact, name)), name
    for name in ("edge_offsets", "source_offsets"):
        assert torch.equal(getattr(padded, name)[: nodes + 1], getattr(exact, name)), name
    assert torch.equal(padded.edge_attr[:edges], exact.edge_attr)
    assert torch.equal(pair.rows(padded.y, level), exact.y)
    # Padding: rows without edges that belong to no graph, and edges from the last of them to itself.
    assert (padded.in_degree[nodes:] == 0).all() and (padded.out_degree[nodes:] == 0).all()
    assert (padded.edge_index[:, edges:] == padded.total_nodes - 1).all() and padded.total_nodes > nodes
    assert torch.equal(padded.by_source[edges:], torch.arange(edges, padded.edge_index.shape[1]))
    assert int(padded.num_real) == nodes and padded.is_real.tolist() == [row < nodes for row in range(pair.size.nodes)]
    assert padded.symmetric == exact.symmetric


@settings(max_examples=20, deadline=None)
@given(graphs=GRAPHS, level=st.sampled_from(["graph", "node"]))
def test_gather_of_the_exact_size_is_the_batch(graphs, level):
    pair = Pair(graphs, level=level)
    batch = pair.packed.gather(pair.ids, pair.packed.size_of(pair.ids))
    names = ("num_nodes", "edge_index", "in_degree", "out_degree", "by_source", "x", "edge_attr", "y")
    for name in names:
        assert torch.equal(getattr(batch, name), getattr(pair.exact, name)), name
    assert (batch.total_nodes, batch.max_num_nodes) == (pair.exact.total_nodes, pair.exact.max_num_nodes)
    assert not batch.padding and batch.num_real is None and batch.is_real is None


@settings(max_examples=20, deadline=None)
@given(graphs=GRAPHS)
def test_tables_and_means_of_node_values(graphs):
    pair = Pair(graphs)
    nodes, longest = pair.exact.total_nodes, pair.exact.max_num_nodes
    values = torch.randn(pair.size.nodes, 3, generator=pair.generator, dtype=torch.float64)
    tables = [batch.padded(values[: batch.total_nodes], -7.0) for batch in pair.batches]
    assert torch.equal(tables[1][:, :longest], tables[0]) and (tables[1][:, longest:] == -7).all()
    assert torch.equal(pair.padded.is_node[:, :longest], pair.exact.is_node)
    assert not pair.padded.is_node[:, longest:].any()
    close(graph_mean(values, pair.padded), graph_mean(values[:nodes], pair.exact))
    for shape in ((), (2,)):
        loss = torch.rand(pair.size.nodes, *shape, generator=pair.generator, dtype=torch.float64)
        close(mean_loss(loss, pair.padded, "node"), loss[:nodes].mean())
        close(mean_loss(loss[:2], pair.padded, "graph"), loss[:2].mean())


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("conv", ["gin", "gine", "GATConv"])
@settings(max_examples=6, deadline=None)
@given(graphs=GRAPHS)
def test_encoder(conv, norm, residual, graphs):
    """Embeddings, BatchNorm's running statistics, and gradients of all weights."""
    pair = Pair(graphs)
    encoder = make_encoder(pair.packed, conv, norm=norm, residual=residual, jk="sum")
    encoders = [encoder, copy.deepcopy(encoder)]
    weight = torch.randn(pair.exact.total_nodes, M, D, generator=pair.generator, dtype=torch.float64)
    for training in (True, False):
        outs = [one.train(training)(batch, pair.tuples) for one, batch in zip(encoders, pair.batches, strict=True)]
        close(pair.real(outs[1]), outs[0])
        for out in outs:
            (pair.real(out) * weight).sum().backward()
        close_modules(encoders[1], encoders[0])


@pytest.mark.parametrize("options", [{}, {"read_marked": True, "whiten": True}], ids=["plain", "whitened"])
@pytest.mark.parametrize("pooling", ["mean", "sum"])
@pytest.mark.parametrize("level", ["graph", "node"])
@settings(max_examples=6, deadline=None)
@given(graphs=GRAPHS, task=st.sampled_from(["classification", "regression"]))
def test_predictor(level, pooling, options, graphs, task):
    """Answers, running statistics, and gradients of the training loss, several starts a graph."""
    pair, starts = Pair(graphs, task, level, num_tuples=3 * M), 3
    encoder = make_encoder(pair.packed, "gine")
    predictor = random_weights(Predictor(PredictorConfig(pooling, **options), encoder, level, 3))
    predictors = [predictor, copy.deepcopy(predictor)]
    # Whitening divides by what little variance a direction has, and multiplies rounding by as much.
    tolerance = 1e-5 if options else 1e-7
    for training in (True, False):
        outs, losses = [], []
        for one, batch in zip(predictors, pair.batches, strict=True):
            embeddings = one.train(training).embed(batch, pair.tuples)
            outs.append(one.read(embeddings.unflatten(1, (starts, -1)), batch))
            losses.append(mean_loss(individual_loss(outs[-1], batch.y, task), batch, level))
            losses[-1].backward()
        close(pair.rows(outs[1], level), outs[0], tolerance)
        close(losses[1], losses[0], tolerance)
        close_modules(predictors[1], predictors[0], tolerance)


@pytest.mark.parametrize("described", ["q_network", "predictor"])
@pytest.mark.parametrize("level", ["graph", "node"])
@settings(max_examples=6, deadline=None)
@given(graphs=GRAPHS, history=st.sampled_from(["zero", "mean", "lstm"]))
def test_q_table(level, described, graphs, history):
    pair = Pair(graphs, level=level)
    model = make_model(pair.packed, "classification", level, history=history, state=described)
    (q_exact, w_exact), (q_padded, w_padded) = (model.scores(state) for state in pair.states(model.history_width))
    close(pair.real(q_padded), q_exact)
    close(w_padded, w_exact)


@pytest.mark.parametrize("table", [False, True], ids=["direct", "table"])
@pytest.mark.parametrize(("task", "level"), CASES)
@settings(max_examples=6, deadline=None)
@given(graphs=GRAPHS, num_tuples=st.sampled_from([1, 3]), reward=st.sampled_from(["loss", "error"]))
def test_environment(task, level, table, graphs, num_tuples, reward):
    """The loss of a state and of everything one move away, so also the reward."""
    pair = Pair(graphs, task, level, num_tuples)
    model = make_model(pair.packed, task, level)
    environment = Environment(model.predictor, task, reward)
    if table and level == "graph":
        assert environment.tabulate_if_cheaper(pair.packed, torch.arange(len(pair.packed)), K, 10**9)
    states = [State.start(batch, pair.tuples, 0, pair.ids) for batch in pair.batches]
    close(*[environment.loss(state) for state in states])
    mover = torch.randint(num_tuples, (len(pair.ids),), generator=pair.generator)
    exact, padded = (environment.outcome_rewards(state, mover) for state in states)
    close(padded[:, : exact.shape[1]][pair.exact.is_node], exact[pair.exact.is_node])
    assert padded.isfinite().all()


@pytest.mark.parametrize("actions", ["simultaneous", "choose"])
@pytest.mark.parametrize("target", ["dqn", "double_dqn", "lookahead"])
@pytest.mark.parametrize("level", ["graph", "node"])
def test_q_updates(level, target, actions):
    """Experiences read from the buffer with room to spare teach the same."""
    pair = Pair(FIXED, level=level)
    replay, generator = Replay(20, M, K, 0, CPU), torch.Generator().manual_seed(1)
    before, _ = pair.states()
    node = sample_tuples(pair.exact, M, 1, generator)[..., 0]
    slot = torch.randint(K, node.shape, generator=generator)
    move = Move(slot, node, torch.ones_like(slot, dtype=torch.bool))
    reward = torch.randn(len(pair.ids), generator=generator)
    replay.write(replay.reserve(pair.ids), before, move, reward, before.after(move, before.history))
    results = []
    for padding in (False, True):
        model = make_model(pair.packed, "classification", level, actions=actions, state="predictor")
        environment = Environment(model.predictor, "classification", "loss")
        config = TrainingConfig(target=target, gamma=0.0 if target == "lookahead" else 0.7, schedule="constant")
        learner = QLearner(model, environment, config, torch.Generator().manual_seed(2))
        losses = []
        for _ in range(3):
            rows = torch.tensor([0, 4, 2, 2])
            size = pair.packed.rounded_size(pair.ids[rows]) if padding else pair.packed.size_of(pair.ids[rows])
            losses.append(learner.fit(replay.read(rows, pair.packed, size)))
        results.append((torch.stack(losses), learner.q_network))
    close(results[1][0], results[0][0])
    close_modules(results[1][1], results[0][1], 1e-7)


class PaddedGraphs(PackedGraphs):
    """Batches as on a GPU."""

    def room_for(self, ids):
        return self.rounded_size(ids)


def train(packed, task, **sections):
    """All steps of ORD in double precision: what they log, and the model."""
    base = {
        "encoder": {"num_layers": 2, "hidden": D, "conv": "gine"},
        "predictor": {},
        "agent": {"num_tuples": M, "tuple_order": K, "num_moves": 2},
        "replay": {"capacity": 30, "warmup": 8, "walk_length": 2},
        "training": {"predictor_steps": 4, "agent_steps": 4, "batch_size": 4, "agent_batch_size": 4, "walkers": 4},
    }
    config = Config().replaced(**{name: base[name] | sections.get(name, {}) for name in base})
    dataset = Dataset("tiny", packed, task, 3, lambda dataset, generator: [all_in_all(len(packed))])
    paradigm = Ord(config, dataset, dataset.splits(0)[0], CPU)
    random_weights(paradigm.model)
    if paradigm.learner is not None:
        random_weights(paradigm.learner.target_network)
    logged = []
    for phase in paradigm.phases:
        phase.begin()
        logged += [phase.step(number) for number in range(phase.num_steps)]
    return [float(value) for scalars in logged for value in scalars.values()], paradigm.model


@pytest.mark.parametrize("target", ["dqn", "double_dqn", "lookahead"])
@pytest.mark.parametrize(("task", "level"), [("classification", "graph"), ("regression", "node")])
def test_whole_training(task, level, target):
    """Graphs of one number of nodes (so that random moves are drawn alike) but of many numbers of edges."""
    exact = make_packed([5] * 7, 0.5, False, 3, task, level)
    assert len(exact.num_edges.unique()) > 2
    padded = PaddedGraphs(**vars(replace(exact)))
    training = {"target": target, "gamma": 0.0 if target == "lookahead" else 0.7, "starts_per_graph": 2}
    training |= {"predictor_steps": 4, "agent_steps": 4, "batch_size": 4, "agent_batch_size": 4, "walkers": 4}
    (logged, model), (padded_logged, padded_model) = (train(p, task, training=training) for p in (exact, padded))
    close(torch.tensor(padded_logged), torch.tensor(logged), 1e-5)  # rewards are kept in single precision
    close_modules(padded_model, model, 1e-5)


@pytest.mark.parametrize("options", [{}, {"whiten": True, "ridge": 1e-2}], ids=["plain", "whitened"])
@pytest.mark.parametrize(("task", "level"), CASES)
def test_predictor_steps_of_mixed_sizes(task, level, options):
    """Lines 2-4 of Algorithm 2, several optimiser steps."""
    exact = make_packed([4, 1, 6, 3, 2], 0.5, False, 1, task, level)
    padded = PaddedGraphs(**vars(replace(exact)))
    training = {"predictor_steps": 6, "agent_steps": 0, "batch_size": 3, "starts_per_graph": 2}
    config = {"training": training, "agent": {"num_moves": 0}}
    config["predictor"] = options
    (logged, model), (padded_logged, padded_model) = (train(p, task, **config) for p in (exact, padded))
    close(torch.tensor(padded_logged), torch.tensor(logged), 1e-7)
    close_modules(padded_model, model, 1e-6)
