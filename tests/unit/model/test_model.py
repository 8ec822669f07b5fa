"""`MagGNN` as an ordinary module: PyG batches in, answers out, each graph as if it were alone."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Batch, Data

from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig
from maggnn.errors import InputError
from maggnn.graphs.conversions import batch_from_pyg
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import kept_answers
from maggnn.model.features import DataShape, FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples
from maggnn.training.losses import training_loss

SIZES = (6, 1, 9, 3)


def pyg_graphs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for n in SIZES:
        half = (torch.rand(n, n, generator=generator) < 0.4).triu(1).nonzero().T
        edges = torch.cat([half, half.flip(0)], dim=1)
        x = torch.randn(n, 3, generator=generator)
        attr = torch.zeros(edges.shape[1], 1).long()
        graphs.append(Data(x=x, edge_index=edges, edge_attr=attr, num_nodes=n))
    return graphs


def make_model(level="graph", conv="gin", task="classification", **agent):
    torch.manual_seed(0)
    return MagGNN(
        num_outputs=3,
        node_features=FeatureSpec(width=3),
        edge_features=FeatureSpec((1,)),
        encoder=EncoderConfig(conv=conv, num_layers=2, hidden=8),
        agent=AgentConfig(**({"num_tuples": 2, "tuple_order": 2, "num_moves": 2} | agent)),
        task=task,
        level=level,
        without_edges=True,
    ).eval()


@pytest.mark.parametrize(("level", "rows"), [("graph", len(SIZES)), ("node", sum(SIZES))])
@pytest.mark.parametrize("keep", ["last", "confident"])
@pytest.mark.parametrize("history", ["zero", "mean", "lstm"])
def test_a_pyg_batch_in_answers_out(level, rows, keep, history):
    model = make_model(level, keep=keep, history=history)
    assert model(Batch.from_data_list(pyg_graphs())).shape == (rows, 3)
    assert model(pyg_graphs()[0]).shape == (1 if level == "graph" else SIZES[0], 3)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("conv", ["gin", "gine", "GCNConv", "GATConv"])
@pytest.mark.parametrize("state", ["q_network", "predictor"])
def test_each_graph_of_a_batch_is_as_if_alone(level, conv, state):
    model = make_model(level, conv, state=state, history="mean")
    graphs = batch_from_pyg(Batch.from_data_list(pyg_graphs()))
    tuples = sample_tuples(graphs, 2, 2, torch.Generator().manual_seed(0))
    answers = model.predictor(graphs, tuples)
    q_table, history = model.scores(State.start(graphs, tuples, model.history_width))
    rows = list(SIZES) if level == "node" else [1] * len(SIZES)
    parts = zip(pyg_graphs(), tuples, answers.split(rows), q_table.split(list(SIZES)), history, strict=True)
    for graph, own, answer, q, w in parts:
        alone = batch_from_pyg(graph)
        start = State.start(alone, own[None], model.history_width)
        torch.testing.assert_close(model.predictor(alone, own[None]), answer, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(model.scores(start)[0], q, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(model.scores(start)[1][0], w, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("actions", ["simultaneous", "in_turn", "choose"])
def test_a_whole_search_of_a_batch_is_as_if_alone(actions):
    model = make_model(num_moves=3, actions=actions)
    graphs = batch_from_pyg(Batch.from_data_list(pyg_graphs()))
    tuples = sample_tuples(graphs, 2, 2, torch.Generator().manual_seed(0))
    together = model(graphs, tuples=tuples)
    alone = [model(graph, tuples=own[None]) for graph, own in zip(pyg_graphs(), tuples, strict=True)]
    # The one-node graph's moves all tie, and all lead to the same state.
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-5)


def test_same_generator_same_answer():
    model = make_model()
    batch = Batch.from_data_list(pyg_graphs())
    first, again, other = (model(batch, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_search_that_the_agent_makes():
    model = make_model(num_moves=3)
    graphs = batch_from_pyg(Batch.from_data_list(pyg_graphs()))
    states = model.walk(graphs, generator=torch.Generator().manual_seed(0))
    assert len(states) == 4
    assert len(model.walk(graphs, num_moves=0)) == 1
    answer = model(graphs, tuples=states[0].tuples, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(answer, model.predictor(graphs, states[-1].tuples))


@pytest.mark.parametrize("level", ["graph", "node"])
def test_confident_answers_come_from_the_surest_state(level):
    model = make_model(level, num_moves=5, keep="confident")
    graphs = batch_from_pyg(Batch.from_data_list(pyg_graphs()))
    tuples = sample_tuples(graphs, 2, 2, torch.Generator().manual_seed(3))
    states = model.walk(graphs, tuples, generator=torch.Generator().manual_seed(0))
    answers = torch.stack([model.predictor(graphs, state.tuples) for state in states]).detach()
    rows = list(SIZES) if level == "node" else [1] * len(SIZES)
    expected = []
    for part in answers.split(rows, dim=1):  # [t + 1, rows of the graph, out]
        sure = [float(one.softmax(-1).amax(-1).mean()) for one in part]
        expected.append(part[sure.index(max(sure))])
    torch.testing.assert_close(
        model(graphs, tuples=tuples, generator=torch.Generator().manual_seed(0)), torch.cat(expected)
    )
    torch.testing.assert_close(kept_answers(answers, "last", graphs, model.predictor.level), answers[-1])


def test_only_the_predictor_gets_gradients_from_an_answer():
    model = make_model()
    model(Batch.from_data_list(pyg_graphs())).square().sum().backward()
    assert all(weight.grad is not None for weight in model.predictor.parameters())
    assert model.q_network is not None
    assert all(weight.grad is None for weight in model.q_network.parameters())


def test_order_zero_is_a_plain_gnn():
    model = make_model(tuple_order=0, num_moves=0)
    assert model.q_network is None
    batch = Batch.from_data_list(pyg_graphs())
    assert torch.equal(model(batch), model(batch))


def test_confident_needs_a_classifier():
    with pytest.raises(InputError, match="classifier"):
        make_model(task="regression", keep="confident")


def test_order_zero_with_moves_is_refused():
    with pytest.raises(InputError, match="nothing to move"):
        make_model(tuple_order=0, num_moves=2)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"encoder": EncoderConfig(num_layers=0)}, "num_layers is 0, must be at least 1"),
        ({"encoder": EncoderConfig(norm="group")}, "norm is 'group', must be one of batch, layer"),
        ({"encoder": EncoderConfig(hidden=8.0)}, "hidden is 8.0"),
        ({"encoder": EncoderConfig(hidden=float("nan"))}, "hidden is nan"),
        ({"predictor": PredictorConfig(pooling="max")}, "pooling is 'max', must be one of mean, sum"),
        ({"predictor": PredictorConfig(whiten=1)}, "whiten is 1"),
        ({"agent": AgentConfig(num_tuples=0)}, "num_tuples is 0, must be at least 1"),
        ({"agent": AgentConfig(actions="all")}, "actions is 'all'"),
        ({"agent": AgentConfig(num_moves=True)}, "num_moves is True"),
    ],
)
def test_settings_given_directly_are_checked(section, message):
    with pytest.raises(InputError, match=message):
        MagGNN(3, **section)


@pytest.mark.parametrize("shape", [(4, 2, 3), (4, 1, 2), (3, 2, 2), (4, 2)])
def test_tuples_of_another_shape_are_refused(shape):
    graphs = batch_from_pyg(Batch.from_data_list(pyg_graphs()))
    with pytest.raises(InputError, match=r"expected integers \[B, m, k\] = \(4, 2, 2\)"):
        make_model()(graphs, tuples=torch.zeros(shape, dtype=torch.long))


def test_tuples_of_other_integers():
    graphs, tuples = batch_from_pyg(Batch.from_data_list(pyg_graphs())), torch.zeros(4, 2, 2, dtype=torch.long)
    model = make_model().eval()
    expected, found = (model(graphs, tuples=given, ties="first") for given in (tuples, tuples.int()))
    assert torch.equal(found, expected)
    with pytest.raises(InputError, match=r"of torch\.bool, expected integers"):
        model(graphs, tuples=tuples.bool())


def test_a_graph_without_nodes_is_refused():
    empty = torch.empty(0, 1).long()
    nothing = Data(x=torch.empty(0, 3), edge_index=torch.empty(2, 0).long(), edge_attr=empty, num_nodes=0)
    batch = Batch.from_data_list([*pyg_graphs(), nothing])
    with pytest.raises(InputError, match="graph 4 has no nodes"):
        make_model()(batch)


def test_missing_features_are_refused():
    graphs = replace(batch_from_pyg(Batch.from_data_list(pyg_graphs())), x=None)
    with pytest.raises(InputError, match="with x"):
        make_model()(graphs)


def test_features_that_the_model_does_not_read_are_refused():
    """It would answer as if they were not there."""
    batch, bonds = Batch.from_data_list(pyg_graphs()), {"edge_features": FeatureSpec((1,))}
    gine = EncoderConfig(conv="gine", num_layers=2, hidden=8)
    with pytest.raises(InputError, match=r"have x, which .* node_features=FeatureSpec\.of\(x\)"):
        MagGNN(2, encoder=gine, **bonds).eval()(batch)
    model = MagGNN(2, node_features=FeatureSpec(width=3)).eval()
    message = r"have edge_attr, which .* edge_features=FeatureSpec\.of\(edge_attr\) and EncoderConfig\(conv='gine'\)"
    for graphs in (batch, batch_from_pyg(batch)):
        with pytest.raises(InputError, match=message):
            model(graphs)
    del batch.edge_attr
    assert model(batch).shape == (len(SIZES), 2)
    del batch.x
    assert MagGNN(2).eval()(batch).shape == (len(SIZES), 2)


@pytest.mark.parametrize("conv", ["gin", "GCNConv"])
def test_edge_features_that_the_convolution_does_not_read_are_refused(conv):
    encoder, bonds = EncoderConfig(conv=conv, num_layers=2, hidden=8), FeatureSpec((4,))
    with pytest.raises(InputError, match=f"encoder.conv = {conv} does not read them: set conv='gine'"):
        MagGNN(2, edge_features=bonds, encoder=encoder)
    assert MagGNN(2, edge_features=bonds, encoder=encoder, without_edges=True).edge_features == bonds
    config = Config().replaced(encoder={"conv": conv, "num_layers": 2, "hidden": 8})  # a control, chosen by name
    assert MagGNN.from_config(config, DataShape(2, edge_features=bonds)).edge_features == bonds


def test_a_search_in_training_mode_leaves_the_q_network_alone():
    packed = PackedGraphs.build(torch.tensor([4]), torch.tensor([4]), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    model = MagGNN(2).train()
    assert model.q_network is not None
    before = {name: value.clone() for name, value in model.q_network.state_dict().items()}
    model(packed[torch.tensor([0, 0])])
    assert model.training and model.q_network.training
    assert all(torch.equal(value, before[name]) for name, value in model.q_network.state_dict().items())


@pytest.mark.parametrize("tuples", [torch.tensor([[[0, 4]]]), torch.tensor([[[-1, 0]]]), torch.zeros(1, 1, 2)])
def test_tuples_outside_the_graph_are_refused(tuples):
    packed = PackedGraphs.build(torch.tensor([4]), torch.tensor([1]), torch.tensor([[0], [1]]))
    with pytest.raises(InputError, match="tuples"):
        MagGNN(2).eval()(packed[torch.tensor([0])], tuples=tuples)


def test_a_cautious_agent_moves_only_for_more_than_staying_promises():
    graphs = batch_from_pyg(Batch.from_data_list(pyg_graphs()))
    free = make_model(num_tuples=2, tuple_order=2, num_moves=3).eval()
    tuples = sample_tuples(graphs, 2, 2, torch.Generator().manual_seed(1))
    table, _ = free.scores(State.start(graphs, tuples, 0))

    def after(caution):
        free.agent = replace(free.agent, caution=caution)
        return free.walk(graphs, tuples, generator=torch.Generator().manual_seed(2))[1].tuples

    assert not torch.equal(after(0.0), tuples)
    assert torch.equal(after(2 * float(table.max() - table.min())), tuples)
    little = after(0.5 * float(table.max() - table.min()))
    for graph, tuple_ in ((graph, number) for graph in range(len(SIZES)) for number in range(2)):
        own = table[graphs.node_graph == graph, tuple_]  # [V, k]
        gains = own - own.gather(0, tuples[graph, tuple_][None])  # beyond staying, of each slot's moves
        if float(gains.max()) < 0.2 * float(table.max() - table.min()):
            assert torch.equal(little[graph, tuple_], tuples[graph, tuple_])


def test_caution_is_not_negative():
    with pytest.raises(InputError, match=r"caution is -1\.0, must be at least 0"):
        make_model(caution=-1.0)


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16, "autocast"])
@pytest.mark.parametrize("history", ["zero", "mean", "lstm"])
def test_other_precisions(kind, history):
    model, graphs = make_model(history=history), Batch.from_data_list(pyg_graphs())
    tuples = torch.zeros(4, 2, 2, dtype=torch.long)
    expected = model.eval()(graphs, tuples=tuples, ties="first")
    model = model if kind == "autocast" else model.to(kind)
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        found = model(graphs, tuples=tuples, ties="first")
        loss, _ = training_loss(model.train(), graphs, torch.zeros(4, dtype=torch.long))
    loss.backward()
    assert found.dtype == (torch.bfloat16 if kind == "autocast" else kind) and bool(loss.isfinite())
    tolerance = {torch.float64: 1e-5, torch.float16: 0.02}.get(kind, 0.15)
    torch.testing.assert_close(found.float(), expected, atol=tolerance, rtol=tolerance)
