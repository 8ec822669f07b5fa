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


def aggregate(h: Tensor, scale: Tensor, graphs: GraphBatch, relu: bool, edges: Tensor | None) -> Tensor:
    """See `messages.aggregate`."""
    if not relu and edges is None:
        return scale * h + _SumNeighbours.apply(h, graphs)
    messages = _SourceNodes.apply(h, graphs)  # [E, m, d]
    if edges is not None:
        messages = messages + edges[:, None]
    return scale * h + _SumEdges.apply(messages.relu() if relu else messages, graphs)


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
