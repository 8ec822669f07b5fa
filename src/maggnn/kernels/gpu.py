"""Message passing and BatchNorm on a GPU, fused in Triton: one pass over memory each, and no [E, m, d] in between.

A row is a node's m copies side by side, F = m d numbers. One program sums what arrives at one row, in the order of
the offsets, so results repeat exactly (atomics would not). Padding costs next to nothing: its rows have no edges.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maggnn.config import Precision
from maggnn.graphs import GraphBatch
from maggnn.kernels import programs as triton_programs
from maggnn.kernels.reference import update_running

programs: Any = triton_programs  # type checkers do not know that a Triton program is launched by indexing

ROWS = 64
"""Rows in a tile of a reduction over rows."""

COLUMNS = 32
"""Columns in a tile of a reduction over rows: enough for full cache lines, few enough for many programs."""

WIDEST = 128
"""Widest layer that one program holds whole: two square matrices of this width in shared memory."""

LAYER_ROWS = 64
"""Rows of a whole layer that one program handles."""


def aggregate(h: Tensor, scale: Tensor, graphs: GraphBatch, relu: bool, edges: Tensor | None) -> Tensor:
    """See `messages.aggregate`."""
    return _Aggregate.apply(h.contiguous(), scale, edges, graphs, relu)


def frozen_layer(
    h: Tensor,
    graphs: GraphBatch,
    scale: Tensor,
    first: Tensor,
    first_bias: Tensor,
    second: Tensor,
    second_bias: Tensor,
    relu: bool,
    table: Tensor | None,
    kinds: Tensor | None,
    residual: bool,
    precision: Precision,
) -> Tensor:
    """See `messages.frozen_layer`."""
    width = h.shape[-1]
    block = max(16, _power_of_two(width))
    if block > WIDEST:
        edges = None if table is None or kinds is None else table[kinds]
        rows = aggregate(h, scale, graphs, relu, edges).reshape(-1, width)
        hidden = torch.addmm(first_bias, rows, first).relu_()
        out = torch.addmm(second_bias, hidden, second).relu_().reshape(h.shape)
        return out.add_(h) if residual else out
    h = h.contiguous()
    out = torch.empty_like(h)
    rows = h.shape[0] * h.shape[1]
    if rows:
        programs.frozen_layer[(_tiles_of(rows, LAYER_ROWS),)](
            h, h if table is None else table, scale, graphs.edge_offsets, graphs.edge_index[0],
            graphs.edge_index[0] if kinds is None else kinds,
            first, first_bias, second, second_bias, out, rows,
            h.shape[1], width, table is not None, relu, residual, precision, LAYER_ROWS, block,
        )  # fmt: skip
    return out


def sum_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """See `messages.sum_nodes`."""
    return _SumNodes.apply(h, graphs)


def spread_to_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """See `messages.spread_to_nodes`."""
    return _SpreadToNodes.apply(h, graphs)


def norm_relu(h: Tensor, norm: torch.nn.BatchNorm1d, num_rows: Tensor, residual: Tensor | None = None) -> Tensor:
    """relu(BatchNorm(h)) (+ residual) in training, over the first `num_rows` rows of h [rows, d]."""
    mean, variance = _batch_statistics(h, num_rows)
    with torch.no_grad():
        update_running(norm, mean, variance, num_rows)
    return _NormReLU.apply(h, norm.weight, norm.bias, residual, mean, (variance + norm.eps).rsqrt(), num_rows)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, scale: Tensor, edges: Tensor | None, graphs: GraphBatch, relu: bool) -> Tensor:
        ctx.graphs, ctx.relu = graphs, relu
        ctx.save_for_backward(h, scale, edges)
        out = torch.empty_like(h)
        if h.numel():
            row = h[0].numel()
            source = graphs.edge_index[0]
            programs.aggregate[_grid(len(h), row)](
                h, edges if edges is not None else h, scale, graphs.edge_offsets, source, out,
                row, h.shape[-1], edges is not None, relu, _block(row),
            )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, scale, edges = ctx.saved_tensors
        graphs, grad = ctx.graphs, grads[0].contiguous()
        grad_h, grad_edges = torch.empty_like(h), None
        source, target = graphs.edge_index
        if h.numel():
            row = h[0].numel()
            present = edges if edges is not None else h
            programs.aggregate_backward[_grid(len(h), row)](
                h, present, scale, grad, graphs.source_offsets, graphs.by_source, target, grad_h,
                row, h.shape[-1], edges is not None, ctx.relu, _block(row),
            )  # fmt: skip
        if edges is not None and ctx.needs_input_grad[2]:
            grad_edges = torch.zeros_like(edges)
            if edges.numel() and h.numel():
                copies, width = h.shape[1], h.shape[2]
                programs.edge_gradient[(len(edges),)](
                    h, edges, grad, source, target, grad_edges, copies, width, ctx.relu,
                    _power_of_two(width),
                )  # fmt: skip
        grad_scale = (grad * h).sum().reshape(scale.shape) if ctx.needs_input_grad[1] else None
        return grad_h, grad_scale, grad_edges, None, None


class _SumNodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: GraphBatch) -> Tensor:
        ctx.graphs = graphs
        return _sum_rows(h, graphs)

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
        return _sum_rows(grads[0], ctx.graphs), None


class _NormReLU(torch.autograd.Function):
    """The derivative includes that of the batch's own mean and variance."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        mean: Tensor,
        rstd: Tensor,
        num_rows: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(h, weight, bias, mean, rstd, num_rows)
        ctx.residual = residual is not None
        out = torch.empty_like(h)
        programs.normalise[_tiles(h)](
            h, mean, rstd, weight, bias, residual if residual is not None else h, out,
            len(h), h.shape[1], residual is not None, ROWS, COLUMNS,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, bias, mean, rstd, num_rows = ctx.saved_tensors
        grad = grads[0].contiguous()
        tiles = _tiles(h)
        partial = h.new_empty(2, tiles[0], h.shape[1])
        programs.normalise_sums[tiles](
            h, grad, mean, rstd, weight, bias, num_rows, partial, len(h), h.shape[1], tiles[0], ROWS, COLUMNS
        )
        sums = partial.sum(dim=1)  # [2, d]: of the gradient, and of the gradient times the normalised rows
        grad_h = torch.empty_like(h)
        programs.normalise_backward[tiles](
            h, grad, mean, rstd, weight, bias, num_rows, sums, grad_h, len(h), h.shape[1], ROWS, COLUMNS
        )
        return grad_h, sums[1], sums[0], grad if ctx.residual else None, None, None, None


@torch.no_grad()
def _batch_statistics(h: Tensor, num_rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance over real rows: tile by tile, each about its own mean, so that large means cost no digits."""
    tiles = _tiles(h)
    partial = h.new_empty(2, tiles[0], h.shape[1])
    programs.tile_statistics[tiles](h, num_rows, partial, len(h), h.shape[1], tiles[0], ROWS, COLUMNS)
    result = h.new_empty(2, h.shape[1])
    columns = 8  # few columns a program: this reduction is short but wants many programs
    programs.combine_statistics[(_tiles_of(h.shape[1], columns),)](
        partial, num_rows, result, h.shape[1], tiles[0], ROWS, 64, columns
    )
    return result[0], result[1]


def _sum_rows(h: Tensor, graphs: GraphBatch) -> Tensor:
    h = h.contiguous()
    out = h.new_empty(graphs.num_graphs, *h.shape[1:])
    if out.numel():
        row = out[0].numel()
        programs.sum_graphs[_grid(len(out), row)](h, graphs.node_offsets, out, row, 8, _block(row))
    return out


def _power_of_two(count: int) -> int:
    """The smallest that is not below `count`."""
    return 1 << (count - 1).bit_length()


def _tiles_of(count: int, tile: int) -> int:
    return -(-count // tile)


def _block(row: int) -> int:
    return min(256, _power_of_two(row))


def _grid(rows: int, row: int) -> tuple[int, int]:
    return rows, _tiles_of(row, _block(row))


def _tiles(h: Tensor) -> tuple[int, int]:
    return _tiles_of(len(h), ROWS), _tiles_of(h.shape[1], COLUMNS)
