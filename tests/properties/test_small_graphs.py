"""One-node graphs, k above |V|, no edges, mixed sizes, k = 0: forward and training steps work."""

import itertools

import pytest
import torch

from maggnn.config import Config
from maggnn.data.registry import Dataset
from maggnn.data.splits import all_in_all
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.runtime import make_generator
from maggnn.training.evaluate import evaluate
from maggnn.training.paradigms import Ord

GRAPHS = {
    "one node": [(1, [])],
    "several single nodes": [(1, []), (1, [])],
    "no edges": [(3, []), (4, [])],
    "mixed sizes": [(1, []), (2, [(0, 1)]), (6, [(0, 1), (1, 2), (2, 3), (3, 4)])],
}
TINY_STEPS = {"predictor_steps": 2, "agent_steps": 2, "batch_size": 3, "agent_batch_size": 3, "walkers": 3}


def make_dataset(graphs, task="classification", level="graph", edge_features=False):
    sizes, edges = zip(*graphs, strict=True)
    rows = len(graphs) if level == "graph" else sum(sizes)
    flat = torch.tensor([edge for part in edges for edge in part], dtype=torch.long).reshape(-1, 2).T
    packed = PackedGraphs.build(
        torch.tensor(sizes),
        torch.tensor([len(part) for part in edges]),
        flat,
        edge_attr=torch.zeros(flat.shape[1], 1, dtype=torch.long) if edge_features else None,
        y=torch.arange(rows) % 2 if task == "classification" else torch.rand(rows, 2),
        level=level,
        undirected_once=True,
    )
    return Dataset("tiny", packed, task, 2, lambda dataset, generator: [all_in_all(len(graphs))])


def train_and_test(dataset, **sections):
    """Every step of ORD, then a test; weights and results must stay finite."""
    base = {
        "encoder": {"num_layers": 2, "hidden": 8},
        "agent": {"num_tuples": 2, "tuple_order": 2, "num_moves": 2},
        "replay": {"capacity": 20, "warmup": 5, "walk_length": 2},
        "training": TINY_STEPS,
    }
    merged = {name: base.get(name, {}) | sections.get(name, {}) for name in base | sections}
    config = Config().replaced(**merged)
    paradigm = Ord(config, dataset, dataset.splits(0)[0], torch.device("cpu"))
    for phase in paradigm.phases:
        phase.begin()
        for step in range(phase.num_steps):
            assert all(torch.as_tensor(value).isfinite() for value in phase.step(step).values())
    assert all(weight.isfinite().all() for weight in paradigm.model.parameters())
    moves, ids = config.agent.num_moves, torch.arange(len(dataset.graphs))
    result = evaluate(paradigm.model, dataset.graphs, ids, dataset.task, moves, 3, 0.0, make_generator(0))
    assert result.last.shape == (3, moves + 1) and result.last.isfinite().all()


@pytest.mark.parametrize("target", ["dqn", "double_dqn", "lookahead"])
@pytest.mark.parametrize("graphs", GRAPHS.values(), ids=GRAPHS)
def test_training_steps_on_small_graphs(graphs, target):
    train_and_test(make_dataset(graphs), training={"target": target})


@pytest.mark.parametrize("conv", ["gine", "GCNConv", "GATConv"])
@pytest.mark.parametrize("graphs", GRAPHS.values(), ids=GRAPHS)
def test_other_convolutions_on_small_graphs(graphs, conv):
    train_and_test(make_dataset(graphs, edge_features=True), encoder={"conv": conv})


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("graphs", GRAPHS.values(), ids=GRAPHS)
def test_more_marks_than_nodes(graphs, norm):
    train_and_test(make_dataset(graphs), agent={"tuple_order": 9}, encoder={"norm": norm})


@pytest.mark.parametrize(
    ("task", "level", "actions", "history"),
    list(
        itertools.product(
            ["classification", "regression"],
            ["graph", "node"],
            ["simultaneous", "in_turn", "choose"],
            ["zero", "lstm"],
        )
    ),
)
def test_mixed_sizes_for_every_task(task, level, actions, history):
    agent = {"actions": actions, "history": history, "state": "predictor"}
    train_and_test(make_dataset(GRAPHS["mixed sizes"], task, level), agent=agent)


@pytest.mark.parametrize("graphs", GRAPHS.values(), ids=GRAPHS)
def test_order_zero_is_a_plain_gnn(graphs):
    plain = {"tuple_order": 0, "num_moves": 0}
    train_and_test(make_dataset(graphs), agent=plain, training=TINY_STEPS | {"agent_steps": 0})


@pytest.mark.parametrize("pooling", ["mean", "sum"])
@pytest.mark.parametrize("graphs", GRAPHS.values(), ids=GRAPHS)
def test_whitened_and_marked_readouts_on_small_graphs(graphs, pooling):
    agent = {"state": "predictor"}
    train_and_test(
        make_dataset(graphs), predictor={"read_marked": True, "whiten": True, "pooling": pooling}, agent=agent
    )


def test_a_graph_without_nodes_is_refused():
    with pytest.raises(InputError, match="graph 1 has no nodes"):
        make_dataset([(2, [(0, 1)]), (0, [])])
