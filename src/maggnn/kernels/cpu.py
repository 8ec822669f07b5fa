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

from maggnn.graphs import GraphBatch

# Said once a process by torch itself; the products used here are stable and tested against dense ones.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")


def aggregate(
    h: Tensor, scale: Tensor, graphs: GraphBatch, relu: bool, edges: Tensor | None, kinds: Tensor | None = None
) -> Tensor:
    """See `messages.aggregate`."""
    if not relu and edges is None:
        return scale * h + _SumNeighbours.apply(h, graphs)
    messages = _SourceNodes.apply(h, graphs)  # [E, m, d]
    if edges is not None:
        rows = edges if kinds is None else torch.nn.functional.embedding(kinds, edges)
        messages = messages + rows[:, None]
    return scale * h + _SumEdges.apply(messages.relu() if relu else messages, graphs)


def frozen_layer(
    h: Tensor,
    graphs: GraphBatch,
    scale: Tensor,
    first: Tensor,
    first_bias: Tensor,
    second: Tensor,
    second_bias: Tensor,
    relu: bool,
    edges: Tensor | None,
    kinds: Tensor | None,
    residual: bool,
) -> Tensor:
    """See `messages.frozen_layer`."""
    flat = h.reshape(len(h), -1)  # [N, m d]
    matrix, senders = (_adjacency(graphs, h.dtype), flat) if not relu else _senders(flat, graphs, edges, kinds)
    rows = torch.addmm(flat, matrix, senders, beta=float(scale)).reshape(-1, h.shape[-1])
    out = product_relu(product_relu(rows, first, first_bias), second, second_bias).reshape(h.shape)
    return out.add_(h) if residual else out


def product_relu(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """See `messages.product_relu`."""
    if rows.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        # oneDNN adds the bias and takes relu while it writes the product: no further pass over memory.
        return torch.ops.mkldnn._linear_pointwise(rows, weight.T, bias, "relu", [], "")
    return torch.addmm(bias, rows, weight).relu_()


def sum_kinds(own: Tensor, sent: Tensor, kinds: Tensor, graphs: GraphBatch, bonds: Tensor | None) -> Tensor:
    """See `messages.sum_kinds`: for each copy a sparse product with the table."""
    copies = kinds.shape[1]
    out = own.new_empty(*kinds.shape, own.shape[1])
    arriving = kinds.index_select(0, graphs.edge_index[0])  # [E, m]
    if bonds is not None:
        arriving = arriving * (len(sent) // len(own)) + bonds[:, None]
    for copy in range(copies):
        matrix = _matrix(graphs, arriving[:, copy], len(sent), own.dtype)
        out[:, copy] = torch.addmm(own.index_select(0, kinds[:, copy]), matrix, sent).relu_()
    return out


def _senders(flat: Tensor, graphs: GraphBatch, edges: Tensor | None, kinds: Tensor | None) -> tuple[Tensor, Tensor]:
    """The different messages there are, relu(h_u + e), and the matrix that says who receives them.

    A message depends on its source and on the kind of its edge alone: a carbon with four single bonds sends the same
    along all of them, and it is made once.
    """
    if edges is None:
        return _adjacency(graphs, flat.dtype), flat.relu()
    source = graphs.edge_index[0]
    if kinds is None:
        sender, matrix, rows = source, _incidence(graphs, flat.dtype), edges
    else:
        message = graphs.derived("message of each edge", lambda: source * len(edges) + kinds, of=kinds)
        distinct = graphs.derived("distinct messages", lambda: message.unique(), of=kinds)

        def who_receives() -> Tensor:
            return _matrix(graphs, torch.searchsorted(distinct, message), len(distinct), flat.dtype)

        matrix = graphs.derived(f"who receives, {flat.dtype}", who_receives, of=kinds)
        sender, rows = distinct // len(edges), edges.index_select(0, distinct % len(edges))
    messages = flat.index_select(0, sender).reshape(len(sender), -1, edges.shape[1])
    return matrix, messages.add_(rows[:, None]).relu_().reshape(len(sender), -1)


def _adjacency(graphs: GraphBatch, dtype: torch.dtype) -> Tensor:
    def make() -> Tensor:
        return _matrix(graphs, graphs.edge_index[0], graphs.total_nodes, dtype)

    return graphs.derived(f"adjacency, {dtype}", make)


def _incidence(graphs: GraphBatch, dtype: torch.dtype) -> Tensor:
    edge = torch.arange(graphs.edge_index.shape[1])
    return graphs.derived(f"incidence, {dtype}", lambda: _matrix(graphs, edge, len(edge), dtype))


def _matrix(graphs: GraphBatch, columns: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """The sparse [N, width] matrix that sums, for each node, the columns of the edges that arrive there."""
    used = int(graphs.edge_offsets[-1])  # what lies past the last offset is padding
    offsets, columns = graphs.edge_offsets.int(), columns[:used].int()  # what MKL works with
    size, ones = (graphs.total_nodes, width), torch.ones(used, dtype=dtype)
    return torch.sparse_csr_tensor(offsets, columns, ones, size=size, check_invariants=False)


def sum_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """See `messages.sum_nodes`."""
    return _SumNodes.apply(h, graphs)


def spread_to_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """See `messages.spread_to_nodes`."""
    return _SpreadToNodes.apply(h, graphs)


def _row_sums(h: Tensor, offsets: Tensor, columns: Tensor) -> Tensor:
    """Row r of the result is the sum of h[columns[offsets[r] : offsets[r + 1]]]."""
    rows = len(offsets) - 1
    if h.numel() == 0 or len(columns) == 0:
        return h.new_zeros(rows, *h.shape[1:])
    flat = h.reshape(h.shape[0], -1)
    used = int(offsets[-1])  # what lies past the last offset is padding
    ones = torch.ones(used, dtype=h.dtype)
    size = (rows, h.shape[0])
    matrix = torch.sparse_csr_tensor(offsets, columns[:used], ones, size=size, check_invariants=False)
    return (matrix @ flat).reshape(rows, *h.shape[1:])


def _sum_graphs(h: Tensor, graphs: GraphBatch) -> Tensor:
    return _row_sums(h, graphs.node_offsets, torch.arange(graphs.total_nodes))


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
        return h[graphs.edge_index[0]]

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


class _SumNodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return _sum_graphs(h, graphs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        graphs: GraphBatch = ctx.graphs
        spread = grads[0][graphs.node_graph]
        if graphs.is_real is not None:
            spread = spread * graphs.is_real.reshape(-1, *[1] * (spread.ndim - 1))
        return spread, None


class _SpreadToNodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return h[graphs.node_graph]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _sum_graphs(grads[0], ctx.graphs), None
