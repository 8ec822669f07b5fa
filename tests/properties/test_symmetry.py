"""Relabelling nodes and tuples together permutes the Q-table and leaves predictions unchanged."""

import itertools

import pytest
import torch

from maggnn.config import AgentConfig, EncoderConfig, PredictorConfig
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples

pytestmark = pytest.mark.usefixtures("double_precision")

SIZES = (5, 1, 7, 2)
ALL = torch.arange(len(SIZES))


def random_parts(generator, directed=False):
    """(edges, x, edge_attr) of each graph, undirected edges in both directions."""
    parts = []
    for n in SIZES:
        edges = (torch.rand(n, n, generator=generator) < 0.5).triu(1).nonzero().T
        attr = torch.randint(4, (edges.shape[1], 2), generator=generator)
        if not directed:
            edges, attr = torch.cat([edges, edges.flip(0)], dim=1), attr.repeat(2, 1)
        parts.append((edges, torch.randn(n, 3, generator=generator), attr))
    return parts


def pack(parts):
    edges, x, attr = zip(*parts, strict=True)
    counts = torch.tensor([part.shape[1] for part in edges])
    x, attr = torch.cat(x), torch.cat(attr)
    return PackedGraphs.build(torch.tensor(SIZES), counts, torch.cat(edges, 1), x, attr)


def relabelled(parts, permutations, generator):
    """Node v of a graph becomes permutation[v]; edges come in another order too."""
    result = []
    for (edges, x, attr), permutation in zip(parts, permutations, strict=True):
        order = torch.randperm(edges.shape[1], generator=generator)
        moved = torch.empty_like(x)
        moved[permutation] = x
        result.append((permutation[edges][:, order], moved, attr[order]))
    return result


def make_model(parts, conv="gin", level="graph", readout=None, **agent):
    packed = pack(parts)
    agent = {"num_tuples": 3, "tuple_order": 2, "num_moves": 3} | agent
    return MagGNN(
        num_outputs=2,
        node_features=FeatureSpec.of(packed.x),
        edge_features=FeatureSpec.of(packed.edge_attr),
        encoder=EncoderConfig(conv=conv, num_layers=2, hidden=8),
        predictor=PredictorConfig(**(readout or {})),
        agent=AgentConfig(**agent),
        level=level,
        without_edges=True,
    ).eval()


class Pair:
    """A random batch, the same batch relabelled, and where each node of the batch went."""

    def __init__(self, directed=False, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.parts = random_parts(generator, directed)
        permutations = [torch.randperm(n, generator=generator) for n in SIZES]
        self.first = pack(self.parts)[ALL]
        self.second = pack(relabelled(self.parts, permutations, generator))[ALL]
        self.tuples = sample_tuples(self.first, 3, 2, generator)
        self.moved_tuples = torch.stack([p[t] for p, t in zip(permutations, self.tuples, strict=True)])
        starts = self.first.first_node.tolist()
        self.went_to = torch.cat([p + start for p, start in zip(permutations, starts, strict=True)])  # [N]

    def rows(self, values, level):
        """Values of the second batch in the first one's order."""
        return values[self.went_to] if level == "node" else values


@pytest.mark.parametrize(
    ("conv", "history", "state", "level"),
    list(
        itertools.product(
            ["gin", "gine", "GCNConv", "GATConv"],
            ["zero", "mean", "lstm"],
            ["q_network", "predictor"],
            ["graph", "node"],
        )
    ),
)
def test_q_table_follows_and_prediction_stays(conv, history, state, level):
    pair = Pair()
    model = make_model(pair.parts, conv, level, history=history, state=state)
    past = torch.randn(len(SIZES), 3, model.history_width)
    turn = torch.zeros(len(SIZES), dtype=torch.long)
    q_first, w_first = model.scores(State(pair.first, pair.tuples, past, turn))
    q_second, w_second = model.scores(State(pair.second, pair.moved_tuples, past, turn))
    torch.testing.assert_close(q_second[pair.went_to], q_first)
    torch.testing.assert_close(w_second, w_first)
    answer = model.predictor(pair.second, pair.moved_tuples)
    torch.testing.assert_close(pair.rows(answer, level), model.predictor(pair.first, pair.tuples))


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("options", [{"read_marked": True}, {"whiten": True}, {"read_marked": True, "whiten": True}])
def test_readouts_of_marked_nodes_and_whitened_ones_too(options, level):
    pair = Pair()
    model = make_model(pair.parts, "gine", level, options, state="predictor")
    model.predictor.train()  # a batch of its own statistics, then the running ones
    for _ in range(2):
        answer = model.predictor(pair.first, pair.tuples)
        again = pair.rows(model.predictor(pair.second, pair.moved_tuples), level)
        torch.testing.assert_close(again, answer, atol=1e-6, rtol=1e-6)
        model.predictor.eval()
    start, moved = State.start(pair.first, pair.tuples, 0), State.start(pair.second, pair.moved_tuples, 0)
    torch.testing.assert_close(model.scores(moved)[0][pair.went_to], model.scores(start)[0])


@pytest.mark.parametrize("conv", ["gin", "gine", "GCNConv"])
def test_directed_graphs_too(conv):
    pair = Pair(directed=True)
    assert not pair.first.symmetric
    model = make_model(pair.parts, conv)
    start, moved = State.start(pair.first, pair.tuples, 0), State.start(pair.second, pair.moved_tuples, 0)
    torch.testing.assert_close(model.scores(moved)[0][pair.went_to], model.scores(start)[0])
    answer = model.predictor(pair.second, pair.moved_tuples)
    torch.testing.assert_close(answer, model.predictor(pair.first, pair.tuples))


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("actions", ["simultaneous", "in_turn", "choose"])
def test_a_whole_search_follows(actions, level):
    """Moves are unique here (no two best moves tie), so the walk and its answer follow the relabelling."""
    pair = Pair(seed=8)
    model = make_model(pair.parts, "gine", level, actions=actions, history="mean")
    for keep in ("last", "confident"):
        model.agent = AgentConfig(num_tuples=3, tuple_order=2, num_moves=3, actions=actions, keep=keep)
        answers = [
            model(graphs, tuples=tuples, generator=torch.Generator().manual_seed(seed))
            for seed, (graphs, tuples) in enumerate([(pair.first, pair.tuples), (pair.second, pair.moved_tuples)])
        ]
        torch.testing.assert_close(pair.rows(answers[1], level), answers[0])


@pytest.mark.parametrize("history", ["zero", "mean", "lstm"])
def test_the_order_of_tuples_does_not_matter(history):
    pair = Pair()
    model = make_model(pair.parts, history=history, state="predictor")
    order = torch.tensor([2, 0, 1])
    past = torch.randn(len(SIZES), 3, model.history_width)
    turn = torch.zeros(len(SIZES), dtype=torch.long)
    q_table, w = model.scores(State(pair.first, pair.tuples, past, turn))
    q_other, w_other = model.scores(State(pair.first, pair.tuples[:, order], past[:, order], turn))
    torch.testing.assert_close(q_other, q_table[:, order])
    torch.testing.assert_close(w_other, w[:, order])
    answer = model.predictor(pair.first, pair.tuples[:, order])
    torch.testing.assert_close(answer, model.predictor(pair.first, pair.tuples))


def test_slots_are_not_interchangeable():
    """Marks are ordered: (u, v) and (v, u) are different tuples."""
    pair = Pair()
    model = make_model(pair.parts)
    flipped = model.predictor(pair.first, pair.tuples.flip(-1))
    assert not torch.allclose(flipped, model.predictor(pair.first, pair.tuples))
