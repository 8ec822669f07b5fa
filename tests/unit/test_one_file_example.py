"""The example `mag_gnn_in_one_file.py` computes what the package computes: with equal weights, equal numbers.

Everything here is in double precision, so that rounding is far smaller than the difference that still counts as a tie
between two Q-values.
"""

import copy
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from maggnn import AgentConfig, EncoderConfig, MagGNN, PackedGraphs
from maggnn.model.agent import best_move
from maggnn.model.marking import marks
from maggnn.training.environment import Environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "mag_gnn_in_one_file.py"
K, WIDTH, LAYERS = 2, 8, 3


def load_example():
    spec = importlib.util.spec_from_file_location("mag_gnn_in_one_file", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


one_file = load_example()


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# ---- The same graphs for both ----------------------------------------------------------------------------------------


def packed_from_pyg(graphs):
    """PyG graphs as the package packs them."""
    return PackedGraphs.build(
        num_nodes=torch.tensor([graph.num_nodes for graph in graphs]),
        num_edges=torch.tensor([graph.num_edges for graph in graphs]),
        edge_index=torch.cat([graph.edge_index for graph in graphs], dim=1),
        y=torch.cat([graph.y for graph in graphs]),
    )


def packed_from_file(path):
    """The package's own reading of a packed file, so that the example's reading of it is compared too."""
    with np.load(path) as file:
        arrays = {name: torch.from_numpy(file[name].astype(np.int64)) for name in file.files}
    return PackedGraphs.build(**arrays, undirected_once=True)


@pytest.fixture(scope="module", params=["shrikhande_rook", pytest.param("sr25", marks=pytest.mark.dataset)])
def data(request):
    """The graphs of a set as the example holds them, and as the package does."""
    if request.param == "shrikhande_rook":
        torch.manual_seed(0)
        graphs = one_file.shrikhande_and_rook(copies=3)
        return graphs, packed_from_pyg(graphs)
    path = request.getfixturevalue("data_root") / "sr25.npz"
    if not path.is_file():
        pytest.skip(f"no file {path} (set MAGGNN_DATA to the folder that has it)")
    return one_file.sr25(path), packed_from_file(path)


# ---- The same weights for both ---------------------------------------------------------------------------------------


def settle(model, graphs):
    """Weights no two of which are alike, and statistics of the norms as training would leave them."""
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.2 * torch.rand_like(value) - 0.1)
        model.train()
        for _ in range(20):
            state = model.walk(graphs, num_moves=0)[0]
            model.predictor(graphs, state.tuples)
            if model.q_network is not None:
                model.q_network(state)
        model.eval()


def copy_norm(theirs, norm):
    norm.load_state_dict(theirs.norm.state_dict())


def copy_encoder(theirs, encoder):
    marking = theirs.mark_embedding  # the package has no features where the example has a constant one
    if marking is None:
        weight, bias = theirs.constant.data[:, None], torch.zeros_like(theirs.constant)
    else:
        weight, bias = torch.cat([torch.zeros(len(marking.bias), 1), marking.weight.data], dim=1), marking.bias.data
    encoder.first.load_state_dict({"weight": weight, "bias": bias})
    for layer, convolution, norm in zip(theirs.layers, encoder.convolutions, encoder.norms, strict=True):
        first, inner_norm, _, second = convolution.nn
        convolution.eps.data.copy_(layer.eps.data)
        first.load_state_dict(layer.first.state_dict())
        copy_norm(layer.norm, inner_norm)
        second.load_state_dict(layer.second.state_dict())
        copy_norm(layer.last_norm, norm)


def copy_predictor(theirs, predictor):
    copy_encoder(theirs.encoder, predictor.encoder)
    scale, first, norm, _, second = predictor.mlp
    copy_norm(theirs.scale, scale)
    first.load_state_dict(theirs.first.state_dict())
    copy_norm(theirs.norm, norm)
    second.load_state_dict(theirs.second.state_dict())


def copy_q_network(theirs, q_network):
    copy_encoder(theirs.encoder, q_network.encoder)
    first, _, second = q_network.mlp  # the package splits the first linear map into its three inputs
    blocks = [theirs.node.weight.data, theirs.own_tuple.weight.data, theirs.all_tuples.weight.data]
    first.load_state_dict({"weight": torch.cat(blocks, dim=1), "bias": theirs.node.bias.data})
    second.load_state_dict(theirs.head[1].state_dict())


def make_package_model(graphs, num_tuples, k):
    torch.manual_seed(0)
    model = MagGNN(
        num_outputs=int(graphs.y.max()) + 1,
        encoder=EncoderConfig(conv="gin", num_layers=LAYERS, hidden=WIDTH),
        agent=AgentConfig(num_tuples=num_tuples, tuple_order=k, num_moves=2 if k else 0),
    )
    settle(model, graphs)
    return model


@pytest.fixture(scope="module", params=[1, 3], ids=["m=1", "m=3"])
def both(request, data):
    """The package's model and the example's with its weights, and the same states for both: every graph four times."""
    graphs, packed = data
    ids = torch.arange(len(graphs)).repeat(4)
    model = make_package_model(packed[ids], request.param, K)
    predictor = one_file.Predictor(K, WIDTH, LAYERS, model.num_outputs).eval()
    q_network = one_file.QNetwork(K, WIDTH, LAYERS).eval()
    copy_predictor(model.predictor, predictor)
    copy_q_network(model.q_network, q_network)
    batch = one_file.batch_of(graphs, ids)
    torch.manual_seed(2)
    tuples = one_file.random_tuples(batch, request.param, K)
    return SimpleNamespace(
        graphs=graphs,
        model=model,
        predictor=predictor,
        q_network=q_network,
        packed_batch=packed[ids],
        package_state=model.walk(packed[ids], tuples, num_moves=0)[0],
        state=one_file.State(batch, tuples),
    )


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def per_graph(q_table, state):
    """A Q-table of the package [N, m, k] in the layout of the example, [B, m, V, k]."""
    return q_table.unflatten(0, (state.graphs.num_graphs, -1)).transpose(1, 2)


# ---- Equal numbers ---------------------------------------------------------------------------------------------------


def test_graphs(data):
    graphs, packed = data
    batch, theirs = one_file.batch_of(graphs, torch.arange(len(graphs))), packed[torch.arange(len(graphs))]
    by_target = (batch.edge_index[1] * batch.num_nodes + batch.edge_index[0]).argsort()
    assert torch.equal(batch.edge_index[:, by_target], theirs.edge_index)
    assert torch.equal(batch.y, theirs.y)


def test_marks_equation_2(both):
    ours = one_file.marks(*both.state, c_plus=1.5, c_minus=-0.5)
    assert torch.equal(ours, marks(both.packed_batch, both.state.tuples, 1.5, -0.5, torch.float64))


def test_node_embeddings_equation_1(both):
    ours = both.predictor.encoder(*both.state)
    close(ours, both.model.predictor.encoder(both.packed_batch, both.state.tuples))
    assert ours.std(dim=0).max() > 1e-3  # the marks are seen


def test_predictions_equation_5(both):
    ours = both.predictor(*both.state)
    close(ours, both.model.predictor(both.packed_batch, both.state.tuples))
    assert ours.std(dim=0).max() > 1e-3


def test_predictions_and_statistics_in_training(both):
    ours, theirs = copy.deepcopy(both.predictor).train(), copy.deepcopy(both.model.predictor).train()
    close(ours(*both.state), theirs(both.packed_batch, both.state.tuples))
    close(ours.mlp[0].running_var, theirs.scale.norm.running_var)


def test_gin_without_marks(data):
    graphs, packed = data
    ids = torch.arange(len(graphs))
    model = make_package_model(packed[ids], 1, 0)
    gin = one_file.Predictor(0, WIDTH, LAYERS, model.num_outputs).eval()
    copy_predictor(model.predictor, gin)
    batch = one_file.batch_of(graphs, ids)
    close(gin(batch, one_file.random_tuples(batch, 1, 0)), model(packed[ids]))


def test_rewards_of_all_moves_equation_8(both):
    ours = one_file.Environment(both.predictor, both.graphs, K).rewards(both.state)  # [B, m, V, k]
    environment = Environment(both.model.predictor, "classification", "error")
    num_graphs, num_tuples = both.state.tuples.shape[:2]
    for mover in range(num_tuples):
        theirs = environment.outcome_rewards(both.package_state, torch.full((num_graphs,), mover))
        close(ours[:, mover], theirs)
    assert ours.std() > 1e-4


def test_the_environment_is_the_predictor(both):
    environment = one_file.Environment(both.predictor, both.graphs, K)
    close(environment.embed(*both.state), both.predictor.embed(*both.state))


def test_q_tables_equation_9(both):
    theirs, _ = both.model.scores(both.package_state)
    ours = both.q_network(both.state)
    close(ours, per_graph(theirs, both.state))
    assert ours.std() > 1e-3


def test_greedy_moves_equations_7_and_10(both):
    theirs, _ = both.model.scores(both.package_state)
    torch.manual_seed(3)
    _, expected = best_move(theirs, both.package_state, "simultaneous")
    torch.manual_seed(3)
    move = one_file.greedy_move(both.q_network, both.state)
    assert torch.equal(move.slot, expected.slot) and torch.equal(move.node, expected.node)
    after = both.package_state.after(expected, both.package_state.history)
    assert torch.equal(one_file.after(both.state, move).tuples, after.tuples)


def test_searches_of_two_moves(both):
    torch.manual_seed(4)
    expected = both.model.walk(both.packed_batch, both.state.tuples)
    torch.manual_seed(4)
    states = one_file.search(both.q_network, both.state, moves=2)
    assert len(states) == len(expected) == 3
    for ours, theirs in zip(states, expected, strict=True):
        assert torch.equal(ours.tuples, theirs.tuples)
    assert not torch.equal(states[0].tuples, states[2].tuples)
    torch.manual_seed(4)
    close(both.predictor(*states[-1]), both.model(both.packed_batch, tuples=both.state.tuples))
