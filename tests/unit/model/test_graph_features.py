"""Features of whole graphs: standardised, bounded, gathered with their graphs, and read by every form of a model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from builders import all_of, random_molecules, renumbered, seeded
from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig
from maggnn.data.dataset import Dataset
from maggnn.data.mapped import read_mapped, write_mapped
from maggnn.data.packing import save_packed, smallest
from maggnn.data.splits import Split
from maggnn.errors import InputError
from maggnn.graphs.canonical_order import in_canonical_order
from maggnn.graphs.conversions import to_pyg
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.engine import Engine
from maggnn.inference.export.program import program_inputs
from maggnn.inference.export.search import ExportedSearch
from maggnn.model.features import DataShape
from maggnn.model.graph_features import BOUND, GraphFeatures
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.normalise import Whitening
from maggnn.model.saving import load_model
from maggnn.training.run import train

SIZES = [5, 7, 3, 9, 6, 4, 8, 5]
COLUMNS = 4


def graphs(seed: int = 0) -> PackedGraphs:
    """Molecules with four numbers each, of which some are missing and one column is constant."""
    values = torch.randn(len(SIZES), COLUMNS, generator=seeded(seed)) * torch.tensor([1.0, 100.0, 0.01, 0.0]) + 5.0
    values[2, 0] = values[3, 1] = torch.nan
    return random_molecules(SIZES, 0.4, seeded(seed)).with_graph_attr(values)


def make_model(packed: PackedGraphs, optional: bool = False, num_tuples: int = 2) -> MagGNN:
    torch.manual_seed(0)
    model = MagGNN.from_config(
        Config().replaced(
            encoder={"conv": "gine", "num_layers": 2, "hidden": 8},
            predictor={"graph_attr_optional": optional, "read_marked": True},
            agent={"num_tuples": num_tuples, "tuple_order": 1, "num_moves": 1, "start": "central"},
        ),
        DataShape.of(packed, 2, "regression"),
    )
    assert model.q_network is not None and model.predictor.graph_features is not None
    model.q_network.trained = True
    model.predictor.graph_features.fit(packed, torch.arange(len(packed)))
    return model.eval()


# ---- standardisation ------------------------------------------------------------------------------------


def test_features_have_mean_0_and_deviation_1_over_the_known_values_of_training_graphs():
    packed = graphs()
    features, ids = GraphFeatures(COLUMNS), torch.tensor([0, 1, 2, 3, 4, 5])
    features.fit(packed, ids)
    assert packed.graph_attr is not None
    known, found = packed.graph_attr[ids].double().numpy(), features(packed[ids]).double().numpy()
    expected = np.nan_to_num((known - np.nanmean(known, axis=0))[:, :3] / np.nanstd(known, axis=0)[:3])
    assert np.allclose(found[:, :3], expected, atol=1e-4)
    assert found[2, 0] == found[3, 1] == 0  # missing
    assert not found[:, 3].any()  # constant, and also on graphs where it is another number
    other = packed.with_graph_attr(torch.full((len(SIZES), COLUMNS), 7.0))
    assert not features(all_of(other))[:, 3].any()


def test_extreme_values_of_new_graphs_are_bounded():
    packed = graphs()
    features = GraphFeatures(COLUMNS)
    features.fit(packed, torch.arange(4))
    wild = packed.with_graph_attr(torch.tensor([[1e30, -1e30, 1e30, 1e30]]).expand(len(SIZES), -1))
    assert features(all_of(wild))[0].tolist() == [BOUND, -BOUND, BOUND, 0.0]


def test_a_column_without_any_known_value_is_0():
    packed = graphs().with_graph_attr(torch.full((len(SIZES), COLUMNS), torch.nan))
    features = GraphFeatures(COLUMNS)
    features.fit(packed, torch.arange(len(packed)))
    assert not features(all_of(packed)).any() and not features(all_of(graphs())).any()


@pytest.mark.parametrize("starts", [1, 3])
def test_training_reads_each_set_with_and_without(starts):
    packed = graphs()
    model, batch = make_model(packed, optional=True), all_of(packed)
    for norm in model.predictor.modules():
        if isinstance(norm, torch.nn.BatchNorm1d):
            norm.momentum = 0.0
    tuples = torch.zeros(len(SIZES), starts * 2, 1, dtype=torch.long)
    tuples[:, 2:] = 1
    expected = [model.predictor(one, tuples, starts) for one in (batch, replace(batch, graph_attr=None))]
    assert expected[0].shape == (len(SIZES), starts, 2)
    model.predictor.training = True  # all its norms remain as they answer
    torch.testing.assert_close(model.predictor(batch, tuples, starts), torch.cat(expected, dim=1))
    assert model.predictor(batch, tuples).shape == (len(SIZES), 2)


def test_whitening_settles_on_both_readings():
    packed = graphs()
    whitened = Config().replaced(
        encoder={"conv": "gine", "num_layers": 1, "hidden": 8},
        predictor={"graph_attr_optional": True, "whiten": True},
        agent={"num_tuples": 1, "tuple_order": 1, "num_moves": 1},
    )
    predictor = MagGNN.from_config(whitened, DataShape.of(packed, 2, "regression")).eval().predictor
    read: list[torch.Size] = []
    predictor.scale.register_forward_pre_hook(lambda _, given: read.append(given[0].shape))
    assert isinstance(predictor.scale, Whitening)
    tuples = torch.zeros(len(SIZES), 1, 1, dtype=torch.long)
    with predictor.scale.settling():
        predictor(all_of(packed), tuples, 1)
    predictor(all_of(packed), tuples, 1)
    assert [shape[1] for shape in read] == [2, 1]


# ---- graphs ---------------------------------------------------------------------------------------------


def test_features_stay_with_their_graphs(tmp_path):
    packed, ids = graphs(), torch.tensor([4, 0, 0, 6])
    assert packed.graph_attr is not None
    expected = packed.graph_attr[ids]
    moved = (packed[ids], packed.gather(ids, packed.common_size(ids)), packed.select(ids), packed.select(ids).to("cpu"))
    for found in (*moved, in_canonical_order(packed.select(ids))):
        assert torch.equal(torch.nan_to_num(found.graph_attr), torch.nan_to_num(expected))
    once = packed.edge_index[0] < packed.edge_index[1]  # files list each undirected edge once
    arrays = {
        "num_nodes": packed.num_nodes,
        "num_edges": packed.num_edges // 2,
        "edge_index": packed.edge_index[:, once],
    }
    save_packed(tmp_path / "a.npz", smallest({name: value.numpy() for name, value in arrays.items()}))
    write_mapped([tmp_path / "a.npz"], tmp_path / "a.graphs")
    mapped = read_mapped(tmp_path / "a.graphs")[0].with_graph_attr(packed.graph_attr)
    assert torch.equal(torch.nan_to_num(mapped[ids].graph_attr), torch.nan_to_num(expected))
    assert "graph_attr=[4, 4] float32" in repr(packed[ids]) and packed.with_graph_attr(None).graph_attr is None


def test_a_table_that_does_not_fit_is_refused():
    for values, words in (
        (torch.zeros(3, 2), r"shape \(3, 2\), expected \(8, number of features\)"),
        (torch.zeros(8), r"shape \(8,\)"),
        (torch.full((8, 1), torch.inf), "graph_attr of graph 0 is infinite"),
        ([1.0], "give a tensor"),
    ):
        with pytest.raises(InputError, match=words):
            graphs().with_graph_attr(values)  # pyright: ignore[reportArgumentType]


# ---- models ---------------------------------------------------------------------------------------------


@torch.no_grad()
def test_padding_and_numbering_change_nothing():
    packed, ids = graphs(), torch.arange(len(SIZES))
    model = make_model(packed)
    tuples = torch.zeros(len(SIZES), 2, 1, dtype=torch.long)
    expected = model.predictor(packed[ids], tuples)
    padded = packed.gather(ids, packed.rounded_size(ids))
    torch.testing.assert_close(model.predictor(padded, tuples), expected, atol=1e-5, rtol=1e-5)
    other = renumbered(packed, seed=3).with_graph_attr(packed.graph_attr)
    answers = [model(all_of(in_canonical_order(one))) for one in (packed, other)]
    torch.testing.assert_close(*answers, atol=1e-5, rtol=1e-5)
    apart = model(all_of(in_canonical_order(packed.with_graph_attr(packed.graph_attr.flip(0)))))
    assert float((answers[0] - apart).abs().max()) > 1e-3  # the features matter


@torch.no_grad()
def test_the_engine_answers_in_chunks_as_the_model_does():
    packed = in_canonical_order(graphs())
    model = make_model(packed)
    expected = model(all_of(packed))
    for memory_mb in (1000.0, 0.001):
        torch.testing.assert_close(Engine(model, "cpu", memory_mb).predict(packed), expected, atol=1e-5, rtol=1e-5)
    engine = Engine(model, "cpu")
    found = engine.predict(packed, tuples=engine.search(packed))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_an_exported_program_takes_them_as_an_input_or_does_without():
    packed = graphs()
    model, batch = make_model(packed, optional=True), all_of(packed)
    search = ExportedSearch(model)
    assert search.inputs[-1] == "graph_attr"
    entry = {"shape": ["graphs", COLUMNS], "dtype": "float32"}
    plain = {name: {"shape": [], "dtype": "int64"} for name in ("edge_index", "node_graph", "num_nodes")}
    features = {"x": {"shape": ["nodes", 2], "dtype": "int64"}, "edge_attr": {"shape": ["edges", 1], "dtype": "int64"}}
    description = {"inputs": plain | features | {"graph_attr": entry}, "search": {"start": "central"}}
    torch.testing.assert_close(search(**program_inputs(description, batch)), model(batch), atol=1e-5, rtol=1e-5)
    with pytest.raises(
        InputError, match="the program takes 4 columns of float32 as graph_attr, these graphs have none"
    ):
        program_inputs(description, replace(batch, graph_attr=None))
    without = ExportedSearch(model, reads_graph_attr=False)
    description["inputs"].pop("graph_attr")
    assert "graph_attr" not in without.inputs
    expected = model(replace(batch, graph_attr=None))
    torch.testing.assert_close(without(**program_inputs(description, batch)), expected, atol=1e-5, rtol=1e-5)


def test_features_that_are_missing_or_that_nothing_reads_are_one_line():
    packed = graphs()
    model, batch = make_model(packed), all_of(packed)
    for wrong in (None, torch.zeros(len(SIZES), 3)):
        with pytest.raises(InputError, match="the model reads 4 features of each graph"):
            model(replace(batch, graph_attr=wrong))
    plain = make_model_without(packed)
    with pytest.raises(InputError, match="these graphs have graph_attr, which this model does not read"):
        plain(batch)
    with pytest.raises(InputError, match="graph_features are for targets of graphs"):
        MagGNN(2, level="node", graph_features=4)


def test_they_are_read_from_pyg_graphs():
    packed = graphs()
    model, plain = make_model(packed).eval(), make_model_without(packed)
    batch = Batch.from_data_list(to_pyg(packed))
    assert torch.allclose(model(batch), model(all_of(packed)), atol=1e-5)
    assert MagGNN.for_data(to_pyg(packed), 2, task="regression").graph_features == COLUMNS
    with pytest.raises(InputError, match="these graphs have graph_attr, which this model does not read"):
        plain(batch)


def make_model_without(packed: PackedGraphs) -> MagGNN:
    shape = DataShape.of(packed.with_graph_attr(None), 2, "regression")
    return MagGNN(
        2, shape.node_features, shape.edge_features, EncoderConfig(conv="gine", num_layers=1, hidden=8),
        PredictorConfig(), AgentConfig(tuple_order=0, num_moves=0),
    )  # fmt: skip


@pytest.mark.parametrize("baseline", ["", "ngnn"])
def test_a_trained_model_comes_back_as_it_was(baseline, tmp_path):
    packed = graphs()
    assert packed.graph_attr is not None
    packed = replace(packed, y=packed.graph_attr[:, [2]].nan_to_num(5.0))
    ids = torch.arange(len(packed))
    dataset = Dataset("mine", packed, "regression", 1, lambda *_: [Split(ids, ids[:0], ids[:0])], metric="mae")
    config = Config().replaced(
        encoder={"conv": "gine", "num_layers": 1, "hidden": 8},
        predictor={"graph_attr_optional": True},
        agent={"tuple_order": 0, "num_moves": 0},
        baseline={"name": baseline},
        training={"predictor_steps": 4, "agent_steps": 0, "batch_size": 4},
        runtime={"device": "cpu"},
    )
    trained = train(config, tmp_path, quiet=True, dataset=dataset).model.eval()
    loaded, _ = load_model(tmp_path / "model.safetensors")
    assert loaded.data_shape == trained.data_shape and loaded.graph_features == COLUMNS
    with torch.no_grad():
        assert torch.equal(loaded(all_of(packed)), trained(all_of(packed)))
    assert float(loaded.predictor.graph_features.mean[1]) == pytest.approx(float(np.nanmean(packed.graph_attr[:, 1])))
