"""The four linear maps of message passing on marked copies, each the adjoint of another.

Marked copies share their edges, so a sum over neighbours of features [N, m, d] is one product of the sparse
[N, N] adjacency with an [N, m * d] matrix. The same holds for pooling nodes into graphs. Sparse products
are several times faster than gather and scatter on a CPU and, unlike atomics, repeatable on a GPU.

| map | forward | backward |
|---|---|---|
| `sum_neighbours` | A h | A^T g |
| `sum_nodes` | P h | g spread to nodes |
| `spread_to_nodes` | h[graph of node] | P g |
| `sum_edges`, `source_nodes` | messages to targets, nodes to edges | each gathers what the other sums |

Shapes: N nodes, E edges, B graphs; trailing dimensions are free.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from maggnn.graphs import GraphBatch

# Said once a process by torch itself; the products used here are stable and tested against dense ones.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")


def sum_neighbours(h: Tensor, graphs: GraphBatch) -> Tensor:
    """AGGREGATE of Eq. 1 as a sum: for each node the sum of its in-neighbours' rows, [N, ...]."""
    forward = (graphs.edge_offsets, graphs.edge_index[0])
    backward = forward if graphs.symmetric else _by_source(graphs, graphs.edge_index[1])
    return _Product.apply(h, *forward, *backward)


def sum_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """Sum of each graph's rows, [N, ...] -> [B, ...]."""
    return _SumNodes.apply(h, graphs)


def spread_to_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """Each graph's row at each of its nodes, [B, ...] -> [N, ...]."""
    return _SpreadToNodes.apply(h, graphs)


def source_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """The row of each edge's source, [N, ...] -> [E, ...]."""
    return _SourceNodes.apply(h, graphs)


def sum_edges(messages: Tensor, graphs: GraphBatch) -> Tensor:
    """Sum of the messages that arrive at each node, [E, ...] -> [N, ...]."""
    return _SumEdges.apply(messages, graphs)


def _by_source(graphs: GraphBatch, columns: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The edges grouped by source instead of target, as offsets [N + 1] and edge ids (or `columns` of them)."""
    order = torch.argsort(graphs.edge_index[0], stable=True)
    counts = torch.bincount(graphs.edge_index[0], minlength=graphs.total_nodes)
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return offsets, order if columns is None else columns[order]


def _node_groups(graphs: GraphBatch) -> tuple[Tensor, Tensor]:
    offsets = torch.nn.functional.pad(graphs.num_nodes.cumsum(0), (1, 0))
    return offsets, torch.arange(graphs.total_nodes, device=graphs.device)


def _row_sums(h: Tensor, offsets: Tensor, columns: Tensor) -> Tensor:
    """Row r of the result is the sum of h[columns[offsets[r] : offsets[r + 1]]]."""
    rows = len(offsets) - 1
    if h.numel() == 0 or len(columns) == 0:
        return h.new_zeros(rows, *h.shape[1:])
    flat = h.reshape(h.shape[0], -1)
    ones = torch.ones(len(columns), dtype=h.dtype, device=h.device)
    size = (rows, h.shape[0])
    matrix = torch.sparse_csr_tensor(offsets, columns, ones, size=size, check_invariants=False)
    return (matrix @ flat).reshape(rows, *h.shape[1:])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, offsets: Tensor, columns: Tensor, *transposed: Tensor) -> Tensor:
        ctx.save_for_backward(*transposed)
        return _row_sums(h, offsets, columns)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _row_sums(grads[0], *ctx.saved_tensors), None, None, None, None


class _SumNodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return _row_sums(h, *_node_groups(graphs))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0][ctx.graphs.node_graph], None


class _SpreadToNodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return h[graphs.node_graph]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _row_sums(grads[0], *_node_groups(ctx.graphs)), None


class _SourceNodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return h[graphs.edge_index[0]]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _row_sums(grads[0], *_by_source(ctx.graphs)), None


class _SumEdges(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, messages: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return _row_sums(messages, graphs.edge_offsets, torch.arange(len(messages), device=messages.device))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return grads[0][ctx.graphs.edge_index[1]], None
