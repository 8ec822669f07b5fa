"""Colour refinement on a GPU: the same hashes and numbers of colours, bit by bit, as on a CPU."""

import numpy as np
import pytest
import torch

from maggnn.model.refined.copies import refine
from maggnn_paper.equivariance import stable_colours
from maggnn_paper.universal import classical, random_graphs
from maggnn_paper.universal.entropy import stable_entropy
from maggnn_paper.universal.exclusion import packed
from maggnn_paper.universal.game import ValueTable

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible"),
]


def graphs_and_tuples():
    random = np.random.default_rng(0)
    made = [random_graphs.random_regular(20, 3, random) for _ in range(4)]
    made += [
        classical.rook(5),
        classical.hamming(4, 2),
        random_graphs.tree_with_cycles(30, 4, random),
        classical.complete(1),
    ]
    graphs = packed(made)
    batch = graphs[torch.arange(len(graphs))]
    uniform = torch.rand(len(made), 50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return batch, (uniform * batch.num_nodes[:, None, None]).long()


def test_hashes_and_counts_agree():
    graphs, tuples = graphs_and_tuples()
    ours, theirs = refine(graphs, tuples), refine(graphs.to("cuda"), tuples.cuda())
    assert torch.equal(ours.hashes, theirs.hashes.cpu())
    assert torch.equal(ours.num_colours, theirs.num_colours.cpu())
    assert torch.equal(stable_colours(graphs, tuples), stable_colours(graphs.to("cuda"), tuples.cuda()).cpu())


def test_entropies_agree():
    graphs, tuples = graphs_and_tuples()
    theirs = stable_entropy(graphs.to("cuda"), tuples.cuda()).cpu()
    assert torch.allclose(stable_entropy(graphs, tuples), theirs, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_tables_agree(order):
    graphs, _ = graphs_and_tuples()
    assert torch.equal(ValueTable.of(graphs, order).values, ValueTable.of(graphs.to("cuda"), order).values.cpu())


def test_features_count_on_a_gpu_too():
    from dataclasses import replace

    graphs, tuples = graphs_and_tuples()
    features = torch.arange(graphs.total_nodes)[:, None] % 3
    kinds = torch.arange(graphs.edge_index.shape[1])[:, None] % 2
    graphs = replace(graphs, x=features, edge_attr=kinds)
    ours, theirs = refine(graphs, tuples), refine(graphs.to("cuda"), tuples.cuda())
    assert torch.equal(ours.hashes, theirs.hashes.cpu())
