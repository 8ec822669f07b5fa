"""What a notebook shows of the things people hold: counts, shapes, m, k and t, never a wall of tensors."""

from dataclasses import replace

import networkx as nx
import torch

from maggnn import AgentConfig, Config, EncoderConfig, MagGNN, MagRegressor, PackedGraphs, train
from maggnn.apps.fit.fitted import Facts, FittedModel
from maggnn.config import BaselineConfig
from maggnn.data import Dataset, Split
from maggnn.graphs.conversions import pack_networkx
from maggnn.model.features import FeatureSpec
from maggnn.model.named_encoders import make_encoder

SMALL = EncoderConfig(num_layers=1, hidden=4)


def packed() -> PackedGraphs:
    graphs = pack_networkx([nx.path_graph(3), nx.cycle_graph(5)], y=[0, 1])
    return replace(graphs, x=torch.zeros(8, 2, dtype=torch.long), edge_attr=torch.zeros(14, 1))


def small_set() -> Dataset:
    split = Split(torch.tensor([0, 1]), torch.tensor([], dtype=torch.long), torch.tensor([1]))
    return Dataset("two", packed(), "classification", num_outputs=2, protocol=lambda dataset, generator: [split])


def test_graphs():
    assert repr(packed()) == (
        "PackedGraphs(graphs=2, nodes=8 (3 to 5 a graph), edges=14, x=[8, 2] int64, edge_attr=[14, 1] float32, "
        "y=[2] int64, device=cpu)"
    )
    assert repr(pack_networkx([nx.path_graph(3)] * 2)) == (
        "PackedGraphs(graphs=2, nodes=6 (3 a graph), edges=8, device=cpu)"
    )
    assert repr(packed()[torch.tensor([1])]) == (
        "GraphBatch(graphs=1, nodes=5, edges=10, x=[5, 2] int64, edge_attr=[10, 1] float32, y=[1] int64, device=cpu)"
    )


def test_a_padded_batch_says_so():
    graphs = packed()
    ids = torch.tensor([0])
    assert "nodes=4 with padding, " in repr(graphs.gather(ids, graphs.rounded_size(ids)))


def test_a_set_of_no_graphs():
    assert repr(packed().select(torch.tensor([], dtype=torch.long))).startswith("PackedGraphs(graphs=0, nodes=0 ")


def test_data_set():
    assert repr(small_set()) == f"Dataset('two', classification with 2 classes, metric accuracy, {packed()!r})"


def test_a_model_begins_with_one_line_and_still_shows_its_layers():
    model = MagGNN(3, encoder=SMALL, agent=AgentConfig(num_tuples=2, tuple_order=1, num_moves=5), task="regression")
    count = sum(weight.numel() for weight in model.parameters())
    lines = repr(model).splitlines()
    assert lines[:3] == [
        "MagGNN(",
        f"  m=2, k=1, t=5, 3 targets (graph level), {count:,} parameters, on cpu",
        "  (predictor): Predictor(",
    ]
    assert "  (q_network): QNetwork(" in lines


def test_models_without_marks():
    plain = AgentConfig(tuple_order=0, num_moves=0)
    gin = MagGNN(2, encoder=SMALL, agent=plain, level="node")
    assert gin.extra_repr().startswith("no marks (k=0), 2 classes (node level), ")
    g_p = make_encoder(BaselineConfig(name="ngnn"), SMALL, FeatureSpec(), FeatureSpec())
    baseline = MagGNN(2, encoder=SMALL, agent=plain, g_p=g_p)
    assert "no marks (k=0), 2 classes (graph level), " in repr(baseline) and "(encoder): NGNN(" in repr(baseline)


def test_a_finished_run():
    config = Config().replaced(
        encoder=vars(SMALL),
        agent={"num_moves": 1},
        replay={"warmup": 2},
        training={"predictor_steps": 1, "agent_steps": 1, "batch_size": 2, "walkers": 2, "agent_batch_size": 2},
        runtime={"device": "cpu"},
    )
    trained = train(config, quiet=True, dataset=small_set())
    again = replace(trained, seconds={"predictor": 1.26, "agent": 0.5}, best_validation=0.123456)
    assert repr(again) == (
        "Trained('two', 2 train, 0 val, 1 test; predictor 1.3 s, agent 0.5 s; best validation 0.1235;\n"
        f"  MagGNN({trained.model.extra_repr()}))"
    )


def test_a_fitted_model():
    model = MagGNN(1, encoder=SMALL, agent=AgentConfig(num_moves=1), task="regression")
    rows = {"train": 1200, "val": 10, "test": 10}
    facts = Facts(
        "smiles", "regression", targets=("logP",), metric="mae", rows=rows, scores={"test": 0.25}, seen_nodes=((6, 8),)
    )
    assert repr(FittedModel(model, Config(), facts)) == (
        "FittedModel(regression of logP from smiles; 1,200 train, 10 val, 10 test; test mae 0.25;\n"
        f"  MagGNN({model.extra_repr()}))"
    )
    assert "seen" not in repr(facts)  # hundreds of numbers that say nothing to people


def test_estimators_keep_scikit_learns_own():
    assert repr(MagRegressor(steps=5)) == "MagRegressor(steps=5)"
