"""One mark separates two triangles from a hexagon, which no plain GIN can."""

import networkx as nx
import pytest
import torch

from maggnn.config import Config
from maggnn.data.registry import Dataset
from maggnn.data.splits import all_in_all
from maggnn.graphs.conversions import pack_networkx
from maggnn.model.runtime import make_generator
from maggnn.training.evaluate import evaluate
from maggnn.training.paradigms import Ord


def triangles_or_hexagon():
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    graphs = pack_networkx([triangles, nx.cycle_graph(6)], torch.tensor([0, 1]))
    return Dataset("triangles", graphs, "classification", 2, lambda dataset, generator: [all_in_all(2)])


def accuracy(tuple_order, steps=150, **encoder):
    """Percent right after training f_p on random tuples; nothing moves."""
    config = Config().replaced(
        encoder={"num_layers": 3, "hidden": 16} | encoder,
        agent={"tuple_order": tuple_order, "num_moves": 0},
        training={"predictor_steps": steps, "agent_steps": 0, "batch_size": 8, "learning_rate": 0.01},
    )
    dataset = triangles_or_hexagon()
    paradigm = Ord(config, dataset, dataset.splits(0)[0], torch.device("cpu"))
    for step in range(steps):
        paradigm.predictor_step(step)
    ids = torch.arange(2)
    result = evaluate(paradigm.model, dataset.graphs, ids, "classification", 0, 50, 0.0, make_generator(0))
    return float(result.last.mean())


@pytest.mark.parametrize("tuple_order", [1, 2])
def test_marks_separate_them(tuple_order):
    assert accuracy(tuple_order) == 100.0


@pytest.mark.parametrize("conv", ["gine", "GCNConv"])
def test_marks_separate_them_with_other_encoders(conv):
    assert accuracy(1, conv=conv) == 100.0


def test_a_plain_gin_stays_at_chance():
    assert accuracy(0) == 50.0
