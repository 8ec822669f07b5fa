"""Message passing on a CPU as products of sparse matrices.

Marked copies share their edges, so a sum over neighbours of features [N, m, d] is one product of the sparse
[N, N] adjacency with an [N, m * d] matrix. The same holds for pooling nodes into graphs. Such products are several
times faster than gather and scatter.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch
from maggnn.model.kernels.pooling import SpreadToNodes, SumNodes

# Torch warns once in every process; the products used here are stable and tested against dense ones.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")


def aggregate(
    h: Tensor, scale: Tensor, graphs: GraphBatch, relu: bool, edges: Tensor | None, kinds: Tensor | None = None
) -> Tensor:
    """See `messages.aggregate`."""
    learning = torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in (h, scale, edges))
    if not learning and graphs.edge_index.shape[1] and (relu or edges is None):
        return _aggregate_without_gradients(h, scale, graphs, relu, edges, kinds)
    if not relu and edges is None:
        return scale * h + _SumNeighbours.apply(h, graphs)
    messages = _SourceNodes.apply(h, graphs)  # [E, m, d]
    if edges is not None:
        rows = edges if kinds is None else torch.nn.functional.embedding(kinds, edges)  # [E, d] or [E, m, d]
        messages = messages + (rows[:, None] if rows.ndim == 2 else rows)
    return scale * h + _SumEdges.apply(messages.relu() if relu else messages, graphs)


def _aggregate_without_gradients(
    h: Tensor, scale: Tensor, graphs: GraphBatch, relu: bool, edges: Tensor | None, kinds: Tensor | None
) -> Tensor:
    """Do the same in two passes: compute each distinct message once, then add a sparse product to scale h."""
    flat = h.reshape(len(h), -1)  # [N, m d]
    matrix, senders = _senders(flat, graphs, edges, kinds) if relu else (_adjacency(graphs, h.dtype), flat)
    return torch.addmm(flat, matrix, senders, beta=float(scale)).reshape(h.shape)


def product_relu(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """See `messages.product_relu`."""
    if rows.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        # oneDNN adds the bias and applies relu while it writes the product, without another pass over memory.
        return torch.ops.mkldnn._linear_pointwise(rows, weight.T, bias, "relu", [], "")
    return torch.addmm(bias, rows, weight).relu_()


def sum_kinds(own: Tensor, sent: Tensor, kinds: Tensor, graphs: GraphBatch, bonds: Tensor | None) -> Tensor:
    """See `messages.sum_kinds`: a sparse product with the table, with one row for each node and copy."""
    arriving = kinds.index_select(0, graphs.edge_index[0])  # [E, m]
    if bonds is not None:
        arriving = arriving * (len(sent) // len(own)) + bonds[:, None]
    copies = kinds.shape[1]
    place = graphs.derived(f"edges by node and copy, {copies}", lambda: _edges_by_node_and_copy(graphs, copies))
    columns = torch.empty_like(arriving).view(-1).scatter_(0, place.view(-1), arriving.view(-1))
    degree = graphs.in_degree.repeat_interleave(copies)  # [N m]
    matrix = _csr(torch.nn.functional.pad(degree.cumsum(0), (1, 0)), columns, len(sent), own.dtype)
    rows = torch.addmm(own.index_select(0, kinds.reshape(-1)), matrix, sent)
    return rows.relu_().reshape(*kinds.shape, -1)


def _edges_by_node_and_copy(graphs: GraphBatch, copies: int) -> Tensor:
    """Return the position of edge p of copy i when edges are ordered by target, then by copy: [E, m]."""
    target = graphs.edge_index[1]
    start, degree = graphs.edge_offsets[target], graphs.in_degree[target]
    rank = torch.arange(len(target)) - start
    return (copies * start + rank)[:, None] + degree[:, None] * torch.arange(copies)


def _senders(flat: Tensor, graphs: GraphBatch, edges: Tensor | None, kinds: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the distinct messages, relu(h_u + e), and the matrix that assigns them to their receivers.

    A message depends only on its source and on the kind of its edge: a carbon with four single bonds sends the same
    message along all of them, and it is computed once.
    """
    if edges is None:
        return _adjacency(graphs, flat.dtype), flat.relu()
    source, d = graphs.edge_index[0], edges.shape[-1]
    if kinds is None or kinds.ndim == 2:
        rows = edges if kinds is None else torch.nn.functional.embedding(kinds, edges)
        messages = flat.index_select(0, source).reshape(len(source), -1, d)
        messages.add_(rows[:, None] if rows.ndim == 2 else rows)
        return _incidence(graphs, flat.dtype), messages.relu_().reshape(len(source), -1)
    total = graphs.total_nodes
    message = graphs.derived("message of each edge", lambda: kinds * total + source, of=kinds)
    distinct = graphs.derived("distinct messages", lambda: message.unique(), of=kinds)
    sender = graphs.derived("senders", lambda: distinct % total, of=kinds)
    runs = graphs.derived("kinds of messages", lambda: _runs(distinct // total), of=kinds)
    messages = flat.index_select(0, sender).reshape(len(sender), -1, d)
    present, counts = runs.tolist()
    for kind, part in zip(present, messages.split(counts), strict=True):  # they are sorted by kind
        part.add_(edges[kind])

    def receivers() -> Tensor:
        return _matrix(graphs, torch.searchsorted(distinct, message), len(distinct), flat.dtype)

    matrix = graphs.derived(f"receivers, {flat.dtype}", receivers, of=kinds)
    return matrix, messages.relu_().reshape(len(sender), -1)


def _runs(values: Tensor) -> Tensor:
    """Return the distinct values of sorted values, and how often each occurs, [2, distinct values]."""
    return torch.stack(torch.unique_consecutive(values, return_counts=True))


def _adjacency(graphs: GraphBatch, dtype: torch.dtype) -> Tensor:
    def make() -> Tensor:
        return _matrix(graphs, graphs.edge_index[0], graphs.total_nodes, dtype)

    return graphs.derived(f"adjacency, {dtype}", make)


def _incidence(graphs: GraphBatch, dtype: torch.dtype) -> Tensor:
    edge = torch.arange(graphs.edge_index.shape[1])
    return graphs.derived(f"incidence, {dtype}", lambda: _matrix(graphs, edge, len(edge), dtype))


def _matrix(graphs: GraphBatch, columns: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Return the sparse [N, width] matrix that sums, for each node, the columns of its incoming edges."""
    return _csr(graphs.edge_offsets, columns, width, dtype)


def _csr(offsets: Tensor, columns: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Return a sparse matrix of ones; columns past the last offset are padding."""
    used, size = int(offsets[-1]), (len(offsets) - 1, width)
    columns, ones = columns[:used].int(), torch.ones(used, dtype=dtype)  # MKL uses 32 bits
    return torch.sparse_csr_tensor(offsets.int(), columns, ones, size=size, check_invariants=False)


def sum_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """See `messages.sum_nodes`."""
    return SumNodes.apply(h, graphs, _sum_graphs)


def spread_to_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """See `messages.spread_to_nodes`."""
    return SpreadToNodes.apply(h, graphs, _sum_graphs)


def _row_sums(h: Tensor, offsets: Tensor, columns: Tensor) -> Tensor:
    """Return rows whose row r is the sum of h[columns[offsets[r] : offsets[r + 1]]]."""
    rows = len(offsets) - 1
    if h.numel() == 0 or len(columns) == 0:
        return h.new_zeros(rows, *h.shape[1:])
    return (_csr(offsets, columns, len(h), h.dtype) @ h.reshape(len(h), -1)).reshape(rows, *h.shape[1:])


def _sum_graphs(h: Tensor, graphs: GraphBatch) -> Tensor:
    def make() -> Tensor:
        return _csr(graphs.node_offsets, torch.arange(graphs.total_nodes), graphs.total_nodes, h.dtype)

    pool = graphs.derived(f"nodes of graphs, {h.dtype}", make)
    return (pool @ h.reshape(len(h), -1)).reshape(graphs.num_graphs, *h.shape[1:])


class _SumNeighbours(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return _row_sums(h, graphs.edge_offsets, graphs.edge_index[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        graphs: GraphBatch = ctx.graphs
        return _row_sums(grads[0], graphs.source_offsets, graphs.edge_index[1][graphs.by_source]), None


class _SourceNodes(torch.autograd.Function):
    """The row of each edge's source, [N, ...] -> [E, ...]."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return h.index_select(0, graphs.edge_index[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _row_sums(grads[0], ctx.graphs.source_offsets, ctx.graphs.by_source), None


class _SumEdges(torch.autograd.Function):
    """Sum of the messages that arrive at each node, [E, ...] -> [N, ...]."""

    @staticmethod
    def forward(ctx: Any, messages: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return _row_sums(messages, graphs.edge_offsets, torch.arange(len(messages)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0][ctx.graphs.edge_index[1]], None
