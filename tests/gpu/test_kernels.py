"""The Triton kernels equal the plain reference in double precision, on fresh random inputs.

They run on a GPU, or with TRITON_INTERPRET=1 in Triton's interpreter, which checks their logic without one.
"""

import itertools
import secrets

import pytest
import torch
from torch import nn

from builders import packed_edges, random_edges
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.kernels import reference

FORWARD, BACKWARD = 1e-5, 1e-4
MESSAGES = list(itertools.product([False, True], [False, True]))  # relu, edge embeddings


@pytest.fixture
def gpu(device):
    from maggnn.model.kernels import gpu

    return gpu


@pytest.fixture
def generator():
    """Another one each time; a failing test shows the seed."""
    seed = secrets.randbits(31)
    print(f"seed {seed}")
    return torch.Generator().manual_seed(seed)


def random_packed(device, generator, undirected):
    """Random graphs, isolated nodes among them, a hub, a graph without edges and one of one node."""
    many, largest, leaves = (40, 30, 700) if device.type == "cuda" else (3, 7, 15)
    sizes = torch.randint(1, largest, (many,), generator=generator).tolist()
    edges = random_edges(sizes, 0.2, generator)
    hub = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)], dim=1)
    sizes += [leaves + 3, 4, 1]
    edges += [hub if undirected else hub.flip(1), torch.empty(0, 2, dtype=torch.long), torch.empty(0, 2).long()]
    return packed_edges(sizes, edges, undirected).to(device)


def random_batch(device, generator, undirected=True, padding=False):
    packed = random_packed(device, generator, undirected)
    ids = torch.randperm(len(packed), generator=generator)
    return packed.gather(ids.to(device), packed.rounded_size(ids) if padding else packed.size_of(ids))


def random(*shape, device, generator):
    return torch.randn(*shape, generator=generator).to(device).requires_grad_()


def error(ours, theirs):
    """Against the largest value of the reference."""
    ours, theirs = ours.detach(), theirs.detach()
    assert theirs.dtype == torch.float64 and ours.shape == theirs.shape
    if not ours.numel():
        return 0.0
    largest = float(theirs.abs().max())
    return float((ours.double() - theirs).abs().max()) / (largest or 1.0)


def in_double(values):
    return [None if value is None else value.detach().double().requires_grad_() for value in values]


def real(values, graphs):
    return values[: int(graphs.num_nodes.sum())]


def check_aggregate(gpu, graphs, copies, width, relu, with_edges, device, generator):
    h = random(graphs.total_nodes, copies, width, device=device, generator=generator)
    scale = random(1, device=device, generator=generator)
    edges = random(graphs.edge_index.shape[1], width, device=device, generator=generator) if with_edges else None
    out = real(gpu.aggregate(h, scale, graphs, relu, edges), graphs)
    # Along h, so that the gradient of `scale` is no small difference of large numbers.
    weight = (random(*out.shape, device=device, generator=generator) + real(h, graphs) / 2).detach()
    doubles = in_double([h, scale, edges])
    expected = real(reference.aggregate(doubles[0], doubles[1], graphs, relu, doubles[2]), graphs)
    assert error(out, expected) <= FORWARD
    inputs, doubles = ([value for value in values if value is not None] for values in ([h, scale, edges], doubles))
    ours = torch.autograd.grad(out, inputs, weight)
    theirs = torch.autograd.grad(expected, doubles, weight.double())
    for name, grad, expected_grad in zip(("h", "scale", "edges"), ours, theirs, strict=False):
        assert error(grad, expected_grad) <= BACKWARD, name


@pytest.mark.parametrize("padding", [False, True], ids=["exact", "padded"])
@pytest.mark.parametrize("width", [3, 100, 128])
@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize(("relu", "with_edges"), MESSAGES)
def test_aggregate(gpu, relu, with_edges, copies, width, padding, device, generator):
    graphs = random_batch(device, generator, padding=padding)
    check_aggregate(gpu, graphs, copies, width, relu, with_edges, device, generator)


@pytest.mark.parametrize("padding", [False, True], ids=["exact", "padded"])
@pytest.mark.parametrize(("relu", "with_edges"), MESSAGES)
def test_aggregate_on_directed_graphs(gpu, relu, with_edges, padding, device, generator):
    graphs = random_batch(device, generator, undirected=False, padding=padding)
    assert not graphs.symmetric
    check_aggregate(gpu, graphs, 2, 100, relu, with_edges, device, generator)


@pytest.mark.parametrize("padding", [False, True], ids=["exact", "padded"])
@pytest.mark.parametrize("width", [3, 100])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("count", [4, 40, 100])  # one program holds few, some, not all
def test_edges_may_share_rows(gpu, count, relu, width, padding, device, generator):
    """A table of kinds of edge, and each edge's kind."""
    graphs = random_batch(device, generator, padding=padding)
    h = random(graphs.total_nodes, 2, width, device=device, generator=generator)
    scale = random(1, device=device, generator=generator)
    table = random(count, width, device=device, generator=generator)
    kinds = torch.randint(count - 1, (graphs.edge_index.shape[1],), generator=generator).to(device)  # one never comes
    out = real(gpu.aggregate(h, scale, graphs, relu, table, kinds), graphs)
    doubles = in_double([h, scale, table])
    expected = real(reference.aggregate(doubles[0], doubles[1], graphs, relu, doubles[2][kinds]), graphs)
    assert error(out, expected) <= FORWARD
    weight = (torch.randn(out.shape, generator=generator).to(device) + real(h, graphs) / 2).detach()
    ours = torch.autograd.grad(out, [h, scale, table], weight)
    theirs = torch.autograd.grad(expected, doubles, weight.double())
    for name, grad, expected_grad in zip(("h", "scale", "table"), ours, theirs, strict=True):
        assert error(grad, expected_grad) <= BACKWARD, name


@pytest.mark.parametrize("padding", [False, True], ids=["exact", "padded"])
@pytest.mark.parametrize("width", [3, 100])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("count", [0, 4, 40, 100])  # 0: each edge of each copy has a row of its own
def test_edges_may_differ_between_copies(gpu, count, relu, width, padding, device, generator):
    """A table of kinds of edge, and each edge's kind in each copy."""
    graphs = random_batch(device, generator, padding=padding)
    num_edges, copies = graphs.edge_index.shape[1], 3
    h = random(graphs.total_nodes, copies, width, device=device, generator=generator)
    scale = random(1, device=device, generator=generator)
    shape = (count, width) if count else (num_edges, copies, width)
    table = random(*shape, device=device, generator=generator)
    kinds = torch.randint(count - 1, (num_edges, copies), generator=generator).to(device) if count else None
    out = real(gpu.aggregate(h, scale, graphs, relu, table, kinds), graphs)
    doubles = in_double([h, scale, table])
    expected = real(reference.aggregate(doubles[0], doubles[1], graphs, relu, doubles[2], kinds), graphs)
    assert error(out, expected) <= FORWARD
    weight = (torch.randn(out.shape, generator=generator).to(device) + real(h, graphs) / 2).detach()
    ours = torch.autograd.grad(out, [h, scale, table], weight)
    theirs = torch.autograd.grad(expected, doubles, weight.double())
    for name, grad, expected_grad in zip(("h", "scale", "table"), ours, theirs, strict=True):
        if name == "table" and not count:  # the rows of padded edges do not matter
            used = int(graphs.edge_offsets[-1])
            grad, expected_grad = grad[:used], expected_grad[:used]
        assert error(grad, expected_grad) <= BACKWARD, name


@pytest.mark.parametrize(("relu", "with_edges"), MESSAGES)
def test_aggregate_without_any_edge(gpu, relu, with_edges, device, generator):
    packed = PackedGraphs.build(torch.tensor([3, 1]), torch.tensor([0, 0]), torch.empty(2, 0)).to(device)
    check_aggregate(gpu, packed[torch.tensor([1, 0, 0])], 2, 5, relu, with_edges, device, generator)


@pytest.mark.parametrize("padding", [False, True], ids=["exact", "padded"])
@pytest.mark.parametrize("shape", [(1, 3), (2, 100), (3, 128), (7,)], ids=str)
def test_pools(gpu, shape, padding, device, generator):
    graphs = random_batch(device, generator, padding=padding)
    is_real = (torch.arange(graphs.total_nodes, device=device) < graphs.num_nodes.sum()).float()
    is_real = is_real.reshape(-1, *[1] * len(shape))
    for name, rows in (("sum_nodes", graphs.total_nodes), ("spread_to_nodes", graphs.num_graphs)):
        h = random(rows, *shape, device=device, generator=generator)
        (double,) = in_double([h])
        out, expected = getattr(gpu, name)(h, graphs), getattr(reference, name)(double, graphs)
        weight = random(*out.shape, device=device, generator=generator).detach()
        if name == "spread_to_nodes":
            out, expected, weight = out * is_real, expected * is_real, weight * is_real
        assert error(out, expected) <= FORWARD
        (ours,) = torch.autograd.grad(out, h, weight)
        (theirs,) = torch.autograd.grad(expected, double, weight.double())
        assert error(ours, theirs) <= BACKWARD


def test_results_repeat_exactly(gpu, device, generator):
    graphs = random_batch(device, generator)
    h = random(graphs.total_nodes, 2, 100, device=device, generator=generator)
    edges = random(graphs.edge_index.shape[1], 100, device=device, generator=generator)
    scale = torch.ones(1, device=device)
    weight = torch.randn(h.shape, generator=generator).to(device)
    results = []
    for _ in range(3):
        out = gpu.aggregate(h, scale, graphs, True, edges)
        results.append([out, *torch.autograd.grad(out, [h, edges], weight), gpu.sum_nodes(h, graphs)])
    for again in results[1:]:
        assert all(torch.equal(first, second) for first, second in zip(results[0], again, strict=True))


@pytest.mark.parametrize(("relu", "with_edges"), MESSAGES)
def test_rows_need_not_be_contiguous(gpu, relu, with_edges, device, generator):
    graphs = random_batch(device, generator)
    num_nodes, num_edges = graphs.total_nodes, graphs.edge_index.shape[1]
    scale = torch.full((1,), 1.5, device=device)
    shared = torch.randn(num_nodes, 1, 5, generator=generator).to(device).expand(-1, 2, -1)
    turned = torch.randn(5, num_nodes, 2, generator=generator).to(device).permute(1, 2, 0)
    edges = torch.randn(1, 5, generator=generator).to(device).expand(num_edges, -1) if with_edges else None
    for h in (shared, turned):
        expected = reference.aggregate(h.double(), scale, graphs, relu, None if edges is None else edges.double())
        assert error(gpu.aggregate(h, scale, graphs, relu, edges), expected) <= FORWARD
        assert error(gpu.sum_nodes(h, graphs), reference.sum_nodes(h.double(), graphs)) <= FORWARD
    h = shared.contiguous().requires_grad_()
    (double,) = in_double([h])
    (ours,) = torch.autograd.grad(gpu.aggregate(h, scale, graphs, relu, edges), h, turned)
    expected = reference.aggregate(double, scale, graphs, relu, None if edges is None else edges.double())
    assert error(ours, torch.autograd.grad(expected, double, turned.double())[0]) <= BACKWARD


def make_norm(width, device, generator):
    """BatchNorm away from its start, and the same in double precision."""
    norm = nn.BatchNorm1d(width).to(device).train()
    with torch.no_grad():
        norm.weight.copy_(torch.rand(width, generator=generator) + 0.5)
        norm.bias.copy_(torch.randn(width, generator=generator))
    double = nn.BatchNorm1d(width).to(device).double().train()
    double.load_state_dict(norm.state_dict())
    return norm, double


def norm_shapes(device):
    """(rows, real rows, width)."""
    if device.type == "cuda":
        return [(20, 12, 3), (500, 321, 3), (5000, 4321, 100), (5000, 5000, 128), (70_000, 66_000, 33)]
    return [(20, 12, 3), (200, 150, 40), (130, 130, 33), (200, 10, 8)]


def check_norm(gpu, rows, num_real, width, with_residual, device, generator, mean=1.0, forward=FORWARD, relu=True):
    norm, double = make_norm(width, device, generator)
    h = (torch.randn(rows, width, generator=generator) + mean).to(device)
    h[num_real:] = 1e3  # padding, whatever it holds
    h.requires_grad_()
    residual = random(rows, width, device=device, generator=generator) if with_residual else None
    out = gpu.norm_relu(h, norm, torch.tensor(num_real, device=device), residual, relu)[:num_real]
    h_double, residual_double = in_double([h, residual])
    normal = double(h_double[:num_real])
    expected = normal.relu() if relu else normal
    expected = expected if residual_double is None else expected + residual_double[:num_real]
    assert error(out, expected) <= forward
    for name in ("running_mean", "running_var"):
        assert error(getattr(norm, name), getattr(double, name)) <= forward, name
    assert int(norm.num_batches_tracked) == 1
    # No gradient where rounding decides on which side of relu a value lies.
    clear = normal.detach().abs() > 1e-3
    weight = torch.randn(num_real, width, generator=generator).to(device) * clear
    ours = [h, norm.weight, norm.bias, *([] if residual is None else [residual])]
    theirs = [h_double, double.weight, double.bias, *([] if residual_double is None else [residual_double])]
    grads = torch.autograd.grad(out, ours, weight), torch.autograd.grad(expected, theirs, weight.double())
    for name, grad, expected_grad in zip(("h", "weight", "bias", "residual"), *grads, strict=False):
        assert error(grad, expected_grad) <= BACKWARD, name
    assert (grads[0][0][num_real:] == 0).all()


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("with_residual", [False, True])
def test_norm_relu(gpu, with_residual, relu, device, generator):
    for shape in norm_shapes(device):
        check_norm(gpu, *shape, with_residual, device, generator, relu=relu)


def test_norm_of_features_without_a_gradient(gpu, device, generator):
    """Weight and bias learn although nothing asks for the gradient of the rows."""
    norm, double = make_norm(6, device, generator)
    h = torch.randn(50, 6, generator=generator).to(device)
    given = torch.randn(40, 6, generator=generator).to(device)
    out = gpu.norm_relu(h, norm, torch.tensor(40, device=device), relu=False)[:40]
    ours = torch.autograd.grad(out, [norm.weight, norm.bias], given)
    theirs = torch.autograd.grad(double(h[:40].double()), [double.weight, double.bias], given.double())
    for first, second in zip(ours, theirs, strict=True):
        assert error(first, second) <= BACKWARD


def test_large_means_cost_few_digits(gpu, device, generator):
    """E[h^2] - E[h]^2 would lose the variance here."""
    check_norm(gpu, 1000, 900, 40, False, device, generator, mean=300.0, forward=1e-4)


def test_running_statistics_over_several_batches(gpu, device, generator):
    norm, double = make_norm(6, device, generator)
    for step in range(4):
        h = torch.randn(50 + step, 6, generator=generator).to(device)
        gpu.norm_relu(h, norm, torch.tensor(40, device=device))
        double(h[:40].double())
    assert error(norm.running_mean, double.running_mean) <= FORWARD
    assert error(norm.running_var, double.running_var) <= FORWARD
    assert int(norm.num_batches_tracked) == 4


def test_a_residual_may_be_one_row_for_all(gpu, device, generator):
    """As of nodes that all start from one learned constant."""
    norm, double = make_norm(8, device, generator)
    h = torch.randn(70, 8, generator=generator).to(device)
    row = torch.randn(8, generator=generator).to(device).requires_grad_()
    (row_double,) = in_double([row])
    out = gpu.norm_relu(h, norm, torch.tensor(70, device=device), row.expand(70, -1))
    expected = double(h.double()).relu() + row_double.expand(70, -1)
    assert error(out, expected) <= FORWARD
    (ours,), (theirs,) = (torch.autograd.grad(o.sum(), r) for o, r in ((out, row), (expected, row_double)))
    assert error(ours, theirs) <= BACKWARD


def test_one_row_leaves_the_statistics_finite(gpu, device, generator):
    norm, _ = make_norm(8, device, generator)
    out = gpu.norm_relu(torch.randn(4, 8, generator=generator).to(device), norm, torch.tensor(1, device=device))
    assert out[:1].isfinite().all()
    assert norm.running_mean.isfinite().all() and norm.running_var.isfinite().all()
