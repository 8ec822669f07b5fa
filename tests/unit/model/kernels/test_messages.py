"""Message passing equals dense float64 algebra, forward and backward, whichever kernels do it."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.graphs.packed import PackedGraphs
from maggnn.model.kernels import cpu, messages, reference


def packed_of(graphs, undirected=False):
    """A set from (num_nodes, [(source, target), ...]) pairs."""
    sizes, edges = zip(*graphs, strict=True)
    flat = torch.tensor([edge for part in edges for edge in part], dtype=torch.long).reshape(-1, 2).T
    counts = torch.tensor([len(part) for part in edges])
    return PackedGraphs.build(torch.tensor(sizes), counts, flat, undirected_once=undirected)


def batch_of(graphs, undirected=False, padding=False):
    packed, ids = packed_of(graphs, undirected), torch.arange(len(graphs))
    return packed.gather(ids, packed.rounded_size(ids)) if padding else packed[ids]


HUB = (7, [(leaf, 0) for leaf in range(1, 7)])
GRAPHS = {  # name: graphs, undirected
    "directed": ([(3, [(0, 1), (1, 2), (0, 2)]), (2, [(1, 0)])], False),
    "undirected": ([(3, [(0, 1), (1, 2)]), (4, [(0, 3), (1, 2), (0, 2)])], True),
    "isolated nodes": ([(4, [(1, 2)]), (1, []), (3, [])], True),
    "hub": ([HUB, (2, [(0, 1)])], False),
    "undirected hub": ([HUB], True),
    "no edges": ([(2, []), (3, [])], False),
    "one node": ([(1, [])], False),
    "loops and repeated edges": ([(2, [(0, 0), (0, 1), (0, 1)])], False),
}
BATCHES = {name: batch_of(*graphs) for name, graphs in GRAPHS.items()}
CASES = [pytest.param(graphs, id=name) for name, graphs in BATCHES.items()]
PADDED_CASES = [pytest.param(name, id=name) for name in GRAPHS]
KERNELS = [pytest.param(module, id=module.__name__.split(".")[-1]) for module in (cpu, messages, reference)]
MESSAGES = list(itertools.product([False, True], [False, True]))  # relu, edge embeddings


def incidence(graphs):
    """Dense float64: which node each edge leaves [E, N] and reaches [N, E], and which nodes a graph has [B, N]."""
    N, B, E = graphs.total_nodes, graphs.num_graphs, graphs.edge_index.shape[1]
    source, target = torch.zeros(E, N).double(), torch.zeros(N, E).double()
    pool = torch.zeros(B, N).double()
    for edge, (u, v) in enumerate(graphs.edge_index.T.tolist()[: int(graphs.in_degree.sum())]):
        source[edge, u] = target[v, edge] = 1
    first = 0
    for graph, size in enumerate(graphs.num_nodes.tolist()):
        pool[graph, first : first + size] = 1
        first += size
    return source, target, pool


def dense_aggregate(h, scale, graphs, relu, edges):
    source, target, _ = incidence(graphs)
    sent = torch.einsum("en,nmd->emd", source, h)
    if edges is not None:
        sent = sent + (edges[:, None] if edges.ndim == 2 else edges)
    return scale * h + torch.einsum("ne,emd->nmd", target, sent.relu() if relu else sent)


def random(*shape, generator):
    return torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)


def real(values, graphs):
    """The rows [N, ...] that are nodes."""
    return values[: int(graphs.num_nodes.sum())]


def check_aggregate(kernels, graphs, relu, with_edges, seed=0, copies=2):
    generator = torch.Generator().manual_seed(seed)
    h = random(graphs.total_nodes, copies, 3, generator=generator)
    scale = random(1, generator=generator)
    edges = random(graphs.edge_index.shape[1], 3, generator=generator) if with_edges else None
    out = kernels.aggregate(h, scale, graphs, relu, edges)
    expected = dense_aggregate(h, scale, graphs, relu, edges)
    torch.testing.assert_close(real(out, graphs), real(expected, graphs))
    weight = torch.randn(real(out, graphs).shape, dtype=torch.float64, generator=generator)
    inputs = [h, scale] if edges is None else [h, scale, edges]
    ours = torch.autograd.grad(real(out, graphs), inputs, weight)
    theirs = torch.autograd.grad(real(expected, graphs), inputs, weight, materialize_grads=True)
    for grad, expected_grad in zip(ours, theirs, strict=True):
        torch.testing.assert_close(grad, expected_grad)


def check_pools(kernels, graphs, seed=0):
    """Sums over a graph's nodes are a matrix, their adjoints its transpose; rows of padding count nothing."""
    generator = torch.Generator().manual_seed(seed)
    *_, pool = incidence(graphs)
    is_real = pool.sum(0)[:, None, None]
    for function, matrix in ((kernels.sum_nodes, pool), (kernels.spread_to_nodes, pool.T)):
        h = random(matrix.shape[1], 2, 3, generator=generator)
        out = function(h, graphs)
        weight = torch.randn(out.shape, dtype=torch.float64, generator=generator)
        if function is kernels.spread_to_nodes:
            weight = weight * is_real
            torch.testing.assert_close(out * is_real, torch.einsum("rc,cmd->rmd", matrix, h))
        else:
            torch.testing.assert_close(out, torch.einsum("rc,cmd->rmd", matrix, h))
        (grad,) = torch.autograd.grad(out, h, weight)
        torch.testing.assert_close(grad, torch.einsum("rc,rmd->cmd", matrix, weight))


@pytest.mark.parametrize(("relu", "with_edges"), MESSAGES)
@pytest.mark.parametrize("graphs", CASES)
@pytest.mark.parametrize("kernels", KERNELS)
def test_aggregate_equals_dense_algebra(kernels, graphs, relu, with_edges):
    for copies in (1, 3):
        check_aggregate(kernels, graphs, relu, with_edges, copies=copies)


@pytest.mark.parametrize("graphs", CASES)
@pytest.mark.parametrize("kernels", KERNELS)
def test_pools_equal_dense_products(kernels, graphs):
    check_pools(kernels, graphs)


@pytest.mark.parametrize("name", PADDED_CASES)
@pytest.mark.parametrize("kernels", KERNELS)
def test_padding_changes_nothing(kernels, name):
    graphs = batch_of(*GRAPHS[name], padding=True)
    assert graphs.total_nodes > int(graphs.num_nodes.sum())
    for relu, with_edges in MESSAGES:
        check_aggregate(kernels, graphs, relu, with_edges)
    check_pools(kernels, graphs)


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kernels", KERNELS)
def test_edges_may_share_rows(kernels, relu, padding):
    """A table of a few kinds of edge and each edge's kind, as good as a row for each edge."""
    generator = torch.Generator().manual_seed(0)
    graphs = batch_of(*GRAPHS["hub"], padding=padding)
    h, scale = random(graphs.total_nodes, 2, 3, generator=generator), random(1, generator=generator)
    table = random(4, 3, generator=generator)
    kinds = torch.randint(3, (graphs.edge_index.shape[1],), generator=generator)  # the last kind never comes
    out = real(kernels.aggregate(h, scale, graphs, relu, table, kinds), graphs)
    expected = real(dense_aggregate(h, scale, graphs, relu, table[kinds]), graphs)
    torch.testing.assert_close(out, expected)
    weight = torch.randn(out.shape, dtype=torch.float64, generator=generator)
    inputs = [h, scale, table]
    grads = torch.autograd.grad(out, inputs, weight), torch.autograd.grad(expected, inputs, weight)
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("with_table", [False, True])
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kernels", KERNELS)
def test_edges_may_differ_between_copies(kernels, relu, padding, with_table):
    """A row for each edge in each copy, by its number in a table or directly; with gradients and without."""
    generator = torch.Generator().manual_seed(0)
    graphs = batch_of(*GRAPHS["undirected"], padding=padding)
    num_edges = graphs.edge_index.shape[1]
    h, scale = random(graphs.total_nodes, 2, 3, generator=generator), random(1, generator=generator)
    table = random(4, 3, generator=generator) if with_table else random(num_edges, 2, 3, generator=generator)
    kinds = torch.randint(3, (num_edges, 2), generator=generator) if with_table else None
    out = real(kernels.aggregate(h, scale, graphs, relu, table, kinds), graphs)
    expected = real(dense_aggregate(h, scale, graphs, relu, table if kinds is None else table[kinds]), graphs)
    torch.testing.assert_close(out, expected)
    with torch.no_grad():
        torch.testing.assert_close(real(kernels.aggregate(h, scale, graphs, relu, table, kinds), graphs), expected)
    weight = torch.randn(out.shape, dtype=torch.float64, generator=generator)
    inputs = [h, scale, table]
    grads = torch.autograd.grad(out, inputs, weight), torch.autograd.grad(expected, inputs, weight)
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    density=st.floats(0, 1),
    undirected=st.booleans(),
    padding=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_random_graphs_equal_dense_algebra(sizes, density, undirected, padding, seed):
    generator = torch.Generator().manual_seed(seed)
    graphs = [
        (n, (torch.rand(n, n, generator=generator) < density).triu(int(undirected)).nonzero().tolist()) for n in sizes
    ]
    batch = batch_of(graphs, undirected, padding)
    for kernels in (cpu, reference):
        check_pools(kernels, batch, seed)
        for relu, with_edges in MESSAGES:
            check_aggregate(kernels, batch, relu, with_edges, seed)


@pytest.mark.parametrize(("relu", "with_edges"), MESSAGES)
@pytest.mark.parametrize("graphs", CASES)
def test_gradcheck_of_aggregate(graphs, relu, with_edges):
    generator = torch.Generator().manual_seed(0)
    inputs = [random(graphs.total_nodes, 2, 2, generator=generator), random(1, generator=generator)]
    if with_edges:
        inputs.append(random(graphs.edge_index.shape[1], 2, generator=generator))

    def aggregate(h, scale, edges=None):
        return cpu.aggregate(h, scale, graphs, relu, edges)

    assert torch.autograd.gradcheck(aggregate, inputs)


@pytest.mark.parametrize("graphs", CASES)
def test_gradcheck_of_pools(graphs):
    generator = torch.Generator().manual_seed(0)
    for function, rows in ((cpu.sum_nodes, graphs.total_nodes), (cpu.spread_to_nodes, graphs.num_graphs)):
        h = random(rows, 2, generator=generator)
        assert torch.autograd.gradcheck(lambda h, f=function: f(h, graphs), (h,))


@pytest.mark.parametrize(("relu", "with_edges"), MESSAGES)
@pytest.mark.parametrize("kernels", KERNELS)
def test_rows_need_not_be_contiguous(kernels, relu, with_edges):
    graphs = BATCHES["undirected"]
    num_nodes, num_edges = graphs.total_nodes, graphs.edge_index.shape[1]
    scale, edge = torch.ones(1).double(), torch.randn(1, 3).double().expand(num_edges, -1)
    shared = torch.randn(num_nodes, 1, 3, dtype=torch.float64).expand(-1, 2, -1)
    turned = torch.randn(3, num_nodes, 2, dtype=torch.float64).permute(1, 2, 0)
    for h in (shared, turned):
        edges = edge if with_edges else None
        copied = kernels.aggregate(
            h.clone().contiguous(), scale, graphs, relu, edge.contiguous() if with_edges else None
        )
        torch.testing.assert_close(kernels.aggregate(h, scale, graphs, relu, edges), copied)
        torch.testing.assert_close(kernels.sum_nodes(h, graphs), kernels.sum_nodes(h.contiguous(), graphs))
    gradient = torch.randn(3, 2, num_nodes, dtype=torch.float64).permute(2, 1, 0)  # nor need gradients be
    h = torch.randn(num_nodes, 2, 3, dtype=torch.float64, requires_grad=True)
    out = kernels.aggregate(h, scale, graphs, relu, edges)
    grads = [torch.autograd.grad(out, h, g, retain_graph=True)[0] for g in (gradient, gradient.contiguous())]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("kernels", KERNELS)
def test_single_precision_is_kept(kernels):
    graphs = BATCHES["undirected"]
    h, edges = torch.ones(graphs.total_nodes, 2, 3), torch.ones(graphs.edge_index.shape[1], 3)
    for relu, with_edges in MESSAGES:
        out = kernels.aggregate(h, torch.ones(1), graphs, relu, edges if with_edges else None)
        assert out.dtype == torch.float32
    assert kernels.sum_nodes(h, graphs).dtype == torch.float32
    assert kernels.spread_to_nodes(h[: graphs.num_graphs], graphs).dtype == torch.float32


def test_messages_need_no_options():
    graphs = BATCHES["undirected"]
    h, scale = torch.randn(graphs.total_nodes, 2, 3), torch.full((1,), 1.5)
    torch.testing.assert_close(messages.aggregate(h, scale, graphs), reference.aggregate(h, scale, graphs, False, None))


def test_statistics_look_at_the_first_rows_only():
    h = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).double()
    padded = torch.cat([h, torch.full((7, 3), 1e6).double()])
    mean, variance = reference.batch_statistics(padded, torch.tensor(20))
    torch.testing.assert_close(mean, h.mean(0))
    torch.testing.assert_close(variance, h.var(0, correction=0))


@pytest.mark.parametrize("with_bonds", [False, True])
@pytest.mark.parametrize("graphs", CASES)
def test_plain_tables_and_products_are_those_of_the_cpu(graphs, with_bonds):
    """What exported programs run in place of the kernels of frozen layers."""
    generator = torch.Generator().manual_seed(0)
    own, sent = torch.randn(4, 3, generator=generator), torch.randn(4 * 2 if with_bonds else 4, 3, generator=generator)
    kinds = torch.randint(4, (graphs.total_nodes, 2), generator=generator)
    bonds = torch.randint(2, (graphs.edge_index.shape[1],), generator=generator) if with_bonds else None
    given = (own, sent, kinds, graphs, bonds)
    torch.testing.assert_close(reference.sum_kinds(*given), cpu.sum_kinds(*given))
    weight, bias = torch.randn(3, 5, generator=generator), torch.randn(5, generator=generator)
    torch.testing.assert_close(reference.product_relu(own, weight, bias), cpu.product_relu(own, weight, bias))


def test_plain_kernels_are_chosen_while_a_program_is_traced(monkeypatch):
    assert messages._kernels(torch.zeros(1)) is cpu
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    assert messages._kernels(torch.zeros(1)) is reference
