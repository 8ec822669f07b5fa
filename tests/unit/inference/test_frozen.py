"""A frozen model answers as the model it was made from, however it reads its layers off tables."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import packed_edges, random_edges, seeded
from maggnn.config import AgentConfig, EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.frozen import frozen
from maggnn.model.encoder import GINELayer
from maggnn.model.features import FeatureSpec
from maggnn.model.frozen_layers import Freezing, FrozenLayer
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.marking import MARKINGS, BinaryMarking, DistanceMarking, Marking, marks
from maggnn.model.normalise import Whitening
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples


def make_packed(sizes, density=0.4, features=True, undirected=True, seed=0):
    generator = seeded(seed)
    edges = random_edges(sizes, density, generator)
    x = torch.randint(3, (sum(sizes), 2), generator=generator) if features else None
    attr = torch.randint(3, (sum(map(len, edges)), 2), generator=generator) if features else None
    return packed_edges(sizes, edges, undirected, x=x, edge_attr=attr)


def make_model(packed, conv="gine", tuple_order=2, level="graph", **encoder):
    torch.manual_seed(0)
    config = EncoderConfig(conv=conv, num_layers=3, hidden=8, c_minus=-0.5, **encoder)
    agent = AgentConfig(num_tuples=2, tuple_order=tuple_order, num_moves=2 if tuple_order else 0)
    x, attr = FeatureSpec((3, 3)), FeatureSpec((3, 3))
    if packed.x is None:
        x, attr = FeatureSpec(), FeatureSpec()
    model = MagGNN(2, x, attr, config, agent=agent, level=level, without_edges=True).double().eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return model


@torch.no_grad()
def check(model, graphs):
    answering = frozen(model)
    real = int(graphs.num_nodes.sum())
    tuples = sample_tuples(graphs, 2, model.agent.tuple_order, torch.Generator().manual_seed(0))
    for ours, theirs in zip(
        (answering.predictor, answering.q_network), (model.predictor, model.q_network), strict=True
    ):
        if theirs is not None:
            torch.testing.assert_close(ours.encoder(graphs, tuples)[:real], theirs.encoder(graphs, tuples)[:real])
    rows = real if model.predictor.level == "node" else graphs.num_graphs
    torch.testing.assert_close(answering.predictor(graphs, tuples)[:rows], model.predictor(graphs, tuples)[:rows])
    if model.q_network is not None:
        state = State.start(graphs, tuples, 0)
        torch.testing.assert_close(answering.scores(state)[0][:real], model.scores(state)[0][:real])
    return answering


@pytest.mark.parametrize("padded", [False, True], ids=["exact", "padded"])
@pytest.mark.parametrize("features", [False, True], ids=["bare", "features"])
@pytest.mark.parametrize("tuple_order", [0, 1, 3])
@pytest.mark.parametrize("conv", ["gin", "gine"])
@pytest.mark.parametrize(
    "encoder",
    [
        {},
        {"residual": True},
        {"jk": "sum"},
        {"jk": "last"},
        {"norm": "layer"},
        {"marking": "distance"},
        {"marking": "colours"},
        {"mark_every_layer": True},
    ],
    ids=str,
)
def test_a_frozen_model_answers_alike(encoder, conv, tuple_order, features, padded):
    packed = make_packed([4, 1, 7, 3], features=features)
    ids = torch.tensor([2, 0, 0, 1, 3])
    graphs = packed.gather(ids, packed.rounded_size(ids) if padded else packed.size_of(ids))
    model = make_model(packed, conv, tuple_order, **encoder)
    answering = check(model, graphs)
    tables = encoder.get("jk") != "sum" and encoder.get("norm") != "layer"
    if encoder.get("marking") == "distance" and tuple_order == 3 and features and conv == "gine":
        tables = False  # 11^3 ways of being marked times nine atoms and nine bonds are too many rows
    if encoder.get("marking") == "colours" and tuple_order:
        tables = False  # shares of colours are no kinds
    assert (answering.predictor.encoder.start is not None) == tables
    frozen_layers = [isinstance(layer, FrozenLayer) for layer in answering.predictor.encoder.layers]
    assert all(frozen_layers) == any(frozen_layers) == (encoder.get("norm") != "layer")
    assert not any(parameter.requires_grad for parameter in answering.parameters())


@pytest.mark.parametrize("padded", [False, True], ids=["exact", "padded"])
@pytest.mark.parametrize("features", [False, True], ids=["bare", "features"])
@pytest.mark.parametrize("tuple_order", [1, 3])
@pytest.mark.parametrize("encoder", [{}, {"jk": "sum"}, {"norm": "layer"}], ids=str)
def test_a_frozen_model_with_directed_marks_answers_alike(encoder, tuple_order, features, padded):
    packed = make_packed([4, 1, 7, 3], features=features)
    ids = torch.tensor([2, 0, 0, 1, 3])
    graphs = packed.gather(ids, packed.rounded_size(ids) if padded else packed.size_of(ids))
    answering = check(make_model(packed, "gine", tuple_order, marking="directed", **encoder), graphs)
    layers = [isinstance(layer, FrozenLayer) for layer in answering.predictor.encoder.layers]
    assert all(layers) == any(layers) == (encoder.get("norm") != "layer")


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    density=st.floats(0, 1),
    undirected=st.booleans(),
    level=st.sampled_from(["graph", "node"]),
    seed=st.integers(0, 2**20),
)
def test_a_frozen_model_answers_alike_on_random_graphs(sizes, density, undirected, level, seed):
    packed = make_packed(sizes, density, True, undirected, seed)
    check(make_model(packed, level=level), packed[torch.arange(len(sizes))])


def test_marks_on_one_node_add_up():
    packed = make_packed([3, 5])
    graphs, model = packed[torch.arange(2)], make_model(packed, tuple_order=3)
    tuples = torch.tensor([[[1, 1, 1], [0, 2, 0]], [[4, 4, 0], [2, 2, 2]]])
    with torch.no_grad():
        ours = frozen(model).predictor(graphs, tuples)
        torch.testing.assert_close(ours, model.predictor(graphs, tuples))


def test_the_model_itself_stays_as_it_was():
    packed = make_packed([4, 5])
    model = make_model(packed)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    frozen(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert any(parameter.requires_grad for parameter in model.parameters())


def test_float_features_are_not_read_off_tables():
    packed = make_packed([4, 5])
    floats = PackedGraphs(**{**vars(packed), "x": packed.x.double(), "edge_attr": packed.edge_attr.double()})
    torch.manual_seed(0)
    width = FeatureSpec(width=2)
    model = MagGNN(2, width, width, EncoderConfig(conv="gine", num_layers=2, hidden=8)).double().eval()
    graphs = floats[torch.arange(2)]
    tuples = sample_tuples(graphs, 1, 2, torch.Generator().manual_seed(0))
    answering = frozen(model)
    assert answering.predictor.encoder.start is None
    with torch.no_grad():
        torch.testing.assert_close(answering.predictor(graphs, tuples), model.predictor(graphs, tuples))


@pytest.mark.parametrize("missing", ["x", "edge_attr"])
def test_missing_features_are_named(missing):
    packed = make_packed([4, 5])
    bare = PackedGraphs(**{**vars(packed), missing: None})
    with pytest.raises(InputError, match=f"graphs with {missing}"):
        frozen(make_model(packed))(bare[torch.arange(2)])


def test_what_does_not_occur_is_refused_by_a_model_frozen_for_given_graphs():
    packed = make_packed([4, 5, 6], density=1.0)
    model = make_model(packed)
    some = PackedGraphs(**{**vars(packed), "edge_attr": torch.zeros_like(packed.edge_attr)})
    graphs = packed[torch.arange(3)]
    with pytest.raises(InputError, match="does not occur in the graphs"):
        frozen(model, present=some)(graphs)
    tuples = sample_tuples(graphs, 2, 2, torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours = frozen(model, present=packed).predictor(graphs, tuples)
        torch.testing.assert_close(ours, model.predictor(graphs, tuples))


class HiddenMarking(BinaryMarking):
    """A marking that freezing knows nothing of: it has no table."""

    num_kinds = None

    def __init__(self, config, tuple_order):
        super().__init__(config, tuple_order)
        self.num_kinds = None

    def values(self, graphs, tuples):
        return super().values(graphs, tuples) * 2 + graphs.local_id[:, None, None] % 3


def test_a_marking_without_a_table_is_never_taken_for_binary():
    packed = make_packed([4, 1, 7, 3])
    model = make_model(packed)
    for encoder in (model.predictor.encoder, model.q_network.encoder):
        encoder.mark_embedding = HiddenMarking(encoder.config, 2).double()
    answering = check(model, packed[torch.arange(4)])
    assert answering.predictor.encoder.start is None


class LouderBinary(BinaryMarking):
    """Other values than its parent's, and the parent's table."""

    def values(self, graphs, tuples):
        return super().values(graphs, tuples) * 2


class LouderDistance(DistanceMarking):
    """The same by another method, and with half of a table."""

    def forward(self, graphs, tuples):
        return super().forward(graphs, tuples) * 2

    def kind_values(self):
        return super().kind_values() * 2


class ReversedSlots(BinaryMarking):
    """The last slot in the first column, with its own table, and the numbers of its parent's kinds."""

    def values(self, graphs, tuples):
        return super().values(graphs, tuples).flip(-1)

    def kind_values(self):
        return 2 * super().kind_values()


class CountedEdges(DistanceMarking):
    """Marks edges, and keeps the table of nodes."""

    edge_ways = 2


class NoTable(Marking):
    """Neither a table nor a word about it: it is computed as it is."""

    def __init__(self, config, tuple_order):
        super().__init__(config, tuple_order, width=tuple_order)

    def values(self, graphs, tuples):
        return marks(graphs, tuples, 3.0, -1.0, self.weight.dtype)


@pytest.mark.parametrize("kind", [LouderBinary, LouderDistance, ReversedSlots, CountedEdges])
def test_a_marking_with_the_table_of_another_one_is_refused(kind, monkeypatch):
    packed = make_packed([4, 1, 7, 3])
    model = make_model(packed)
    model.predictor.encoder.mark_embedding = kind(model.predictor.encoder.config, 2).double()
    with pytest.raises(InputError, match=f"{kind.__name__} has no table of its own marks"):
        frozen(model)
    monkeypatch.setitem(MARKINGS, "binary", kind)
    with pytest.raises(InputError, match=kind.__name__):
        make_model(packed)


def test_a_new_marking_needs_its_values_alone(monkeypatch):
    monkeypatch.setitem(MARKINGS, "binary", NoTable)
    packed = make_packed([4, 1, 7, 3])
    check(make_model(packed), packed[torch.arange(4)])


class LouderLayer(GINELayer):
    """A layer that computes something else than its parent does."""

    def aggregate(self, h, graphs):
        return 2 * super().aggregate(h, graphs)


def test_a_subclass_of_a_layer_is_not_taken_for_its_parent():
    packed = make_packed([4, 1, 7, 3])
    model = make_model(packed)
    for layer in model.predictor.encoder.layers:
        layer.__class__ = LouderLayer
    answering = check(model, packed[torch.arange(4)])
    assert all(isinstance(layer, LouderLayer) for layer in answering.predictor.encoder.layers)
    assert all(isinstance(layer, FrozenLayer) for layer in answering.q_network.encoder.layers)


@torch.no_grad()
def test_whitening_is_inverted_once():
    whitening = Whitening(4, ridge=1e-5).double()
    rows = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)).double()
    whitening.train()(rows @ torch.triu(torch.ones(4, 4)).double())
    twin = whitening.eval().frozen(Freezing(torch.float64))
    torch.testing.assert_close(twin(rows), whitening(rows))
