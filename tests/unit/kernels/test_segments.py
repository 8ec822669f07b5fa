"""The linear maps of message passing equal dense float64 references, forward and backward."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.graphs import PackedGraphs
from maggnn.kernels.segments import source_nodes, spread_to_nodes, sum_edges, sum_neighbours, sum_nodes

torch.set_num_threads(1)


def batch_of(graphs, undirected=False):
    """A batch from (num_nodes, [(source, target), ...]) pairs."""
    sizes, edges = zip(*graphs, strict=True)
    flat = torch.tensor([edge for part in edges for edge in part], dtype=torch.long).reshape(-1, 2).T
    packed = PackedGraphs.build(
        torch.tensor(sizes), torch.tensor([len(part) for part in edges]), flat, undirected_once=undirected
    )
    return packed[torch.arange(len(graphs))]


HUB = (7, [(leaf, 0) for leaf in range(1, 7)])
BATCHES = {
    "directed": batch_of([(3, [(0, 1), (1, 2), (0, 2)]), (2, [(1, 0)])]),
    "undirected": batch_of([(3, [(0, 1), (1, 2)]), (4, [(0, 3), (1, 2), (0, 2)])], undirected=True),
    "isolated nodes": batch_of([(4, [(1, 2)]), (1, []), (3, [])], undirected=True),
    "hub": batch_of([HUB, (2, [(0, 1)])]),
    "undirected hub": batch_of([HUB], undirected=True),
    "no edges": batch_of([(2, []), (3, [])]),
    "one node": batch_of([(1, [])]),
    "loops and repeated edges": batch_of([(2, [(0, 0), (0, 1), (0, 1)])]),
}
CASES = [pytest.param(graphs, id=name) for name, graphs in BATCHES.items()]


def dense_maps(graphs):
    """Each map with the matrix it stands for."""
    N, B, E = graphs.total_nodes, graphs.num_graphs, graphs.edge_index.shape[1]
    source, target = torch.zeros(E, N).double(), torch.zeros(N, E).double()
    pool = torch.zeros(B, N).double()
    for edge, (u, v) in enumerate(graphs.edge_index.T.tolist()):
        source[edge, u] = target[v, edge] = 1
    first = 0
    for graph, size in enumerate(graphs.num_nodes.tolist()):
        pool[graph, first : first + size] = 1
        first += size
    return {
        sum_neighbours: target @ source,
        sum_nodes: pool,
        spread_to_nodes: pool.T,
        source_nodes: source,
        sum_edges: target,
    }


def check_maps(graphs, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for function, matrix in dense_maps(graphs).items():
        h = torch.randn(matrix.shape[1], 2, 3, dtype=torch.float64, generator=generator, requires_grad=True)
        out = function(h, graphs)
        torch.testing.assert_close(out, torch.einsum("rc,cmd->rmd", matrix, h))
        weight = torch.randn(out.shape, dtype=torch.float64, generator=generator)
        (grad,) = torch.autograd.grad(out, h, weight)
        torch.testing.assert_close(grad, torch.einsum("rc,rmd->cmd", matrix, weight))


@pytest.mark.parametrize("graphs", CASES)
def test_maps_equal_dense_products(graphs):
    check_maps(graphs)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    density=st.floats(0, 1),
    undirected=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_maps_equal_dense_products_on_random_graphs(sizes, density, undirected, seed):
    generator = torch.Generator().manual_seed(seed)
    graphs = [
        (n, (torch.rand(n, n, generator=generator) < density).triu(int(undirected)).nonzero().tolist()) for n in sizes
    ]
    batch = batch_of(graphs, undirected)
    check_maps(batch, seed)


@pytest.mark.parametrize("graphs", CASES)
def test_gradcheck(graphs):
    for function, matrix in dense_maps(graphs).items():
        h = torch.randn(matrix.shape[1], 2, dtype=torch.float64, requires_grad=True)
        function(h, graphs)
        if h.numel():
            assert torch.autograd.gradcheck(lambda h, f=function: f(h, graphs), (h,))


def test_rows_need_not_be_contiguous():
    graphs = BATCHES["undirected"]
    row = torch.randn(graphs.total_nodes, 1, 3, dtype=torch.float64)
    expanded = row.expand(-1, 2, -1)
    torch.testing.assert_close(sum_neighbours(expanded, graphs), sum_neighbours(expanded.clone(), graphs))


def test_single_precision_is_kept():
    graphs = BATCHES["undirected"]
    for function, matrix in dense_maps(graphs).items():
        assert function(torch.ones(matrix.shape[1], 2), graphs).dtype == torch.float32
