"""Maps from nodes to graphs and back: two linear maps, adjoint to each other, on a device's function to sum rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch

SumRows = Callable[[Tensor, GraphBatch], Tensor]
"""The sum of each graph's rows, [N, ...] -> [B, ...], without gradients."""


class SumNodes(torch.autograd.Function):
    """Sum of each graph's rows, [N, ...] -> [B, ...]."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch, sum_rows: SumRows) -> Tensor:
        ctx.graphs = graphs
        return sum_rows(h, graphs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        graphs: GraphBatch = ctx.graphs
        spread = grads[0].index_select(0, graphs.node_graph)
        if graphs.is_real is not None:
            spread = spread * graphs.is_real.reshape(-1, *[1] * (spread.ndim - 1))
        return spread, None, None


class SpreadToNodes(torch.autograd.Function):
    """Each graph's row at each of its nodes, [B, ...] -> [N, ...]."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch, sum_rows: SumRows) -> Tensor:
        ctx.graphs, ctx.sum_rows = graphs, sum_rows
        return h.index_select(0, graphs.node_graph)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.sum_rows(grads[0], ctx.graphs), None, None
