"""Triangles through each node of random graphs: a GNN cannot count them, the same GNN with a root at the node can."""

from dataclasses import replace

import networkx
import torch

from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.data.splits import Split
from maggnn.data.synthetic.rooted import graphs_of_roots, rooted_at_nodes
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.runtime import make_generator
from maggnn.training.evaluate import evaluate
from maggnn.training.run import train
from maggnn_paper.cycles import cycles_through_edges

TRAIN, TEST = torch.arange(120), torch.arange(120, 160)


def triangle_counts() -> PackedGraphs:
    """Random 4-regular graphs, so that degrees tell nothing."""
    packed = pack_networkx([networkx.random_regular_graph(4, 12, seed=seed) for seed in range(160)])
    graph = torch.repeat_interleave(torch.arange(len(packed)), packed.num_edges)
    node = packed.edge_index[1] + packed.node_offsets[graph]
    twice = torch.zeros(len(packed.in_degree)).index_add(0, node, cycles_through_edges(packed, 3).float())
    return replace(packed, y=twice[:, None] / 2, level="node")


def error_on_test(graphs: PackedGraphs, split: Split, batch_size: int, read_roots: bool) -> float:
    """In units of the counts' spread."""
    dataset = Dataset("triangles", graphs, "regression", 1, lambda *_: [split], metric="mae")
    config = Config().replaced(
        encoder={"num_layers": 3, "hidden": 24, "residual": True},
        predictor={"read_roots": read_roots},
        agent={"num_tuples": 1, "tuple_order": 0, "num_moves": 0},
        training={"predictor_steps": 250, "agent_steps": 0, "batch_size": batch_size, "learning_rate": 1e-2},
        runtime={"device": "cpu"},
    )
    trained = train(config, quiet=True, dataset=dataset)
    result = evaluate(trained.model, graphs, split.test, "regression", 0, 1, 1.0, make_generator(0))
    return float(result.loss)


def test_a_root_lets_a_gnn_count_triangles():
    plain = triangle_counts()
    rooted = rooted_at_nodes(plain)
    roots = [graphs_of_roots(plain, ids) for ids in (TRAIN, TRAIN[:0], TEST)]
    without = error_on_test(plain, Split(TRAIN, TRAIN[:0], TEST), 8, read_roots=False)
    assert without > 0.5  # all nodes look alike: the best is one number for all
    assert error_on_test(rooted, Split(*roots), 96, read_roots=True) < 0.2 * without
