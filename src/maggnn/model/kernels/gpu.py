"""Message passing and BatchNorm on a GPU, fused in Triton: one pass over memory each, without [E, m, d] intermediates.

A row is the m concatenated copies of a node, F = m d numbers. One program sums the messages to one row, in the order of
the offsets, so results are deterministic (with atomics they would not be). Padding rows have no edges and cost little.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch
from maggnn.model.kernels import programs as triton_programs
from maggnn.model.kernels.pooling import SpreadToNodes, SumNodes

programs: Any = triton_programs  # type checkers do not know that a Triton program is launched by indexing

ROWS = 64
"""The number of rows in a tile of a reduction over rows."""

PARTS = 128
"""The number of parts into which edges are split when their gradients are summed by kind."""

MOST_KINDS = 64
"""The largest number of kinds of edges whose sums fit into one program."""

COLUMNS = 32
"""The number of columns in such a tile: enough for full cache lines, few enough for many programs."""


def aggregate(
    h: Tensor, scale: Tensor, graphs: GraphBatch, relu: bool, edges: Tensor | None, kinds: Tensor | None = None
) -> Tensor:
    """See `messages.aggregate`."""
    edges = None if edges is None else edges.contiguous()
    kinds = None if kinds is None else kinds.contiguous()
    return _Aggregate.apply(h.contiguous(), scale, edges, kinds, graphs, relu)


def product_relu(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """See `messages.product_relu`: cuBLAS adds the bias and applies relu while it writes the product."""
    return torch.ops.aten._addmm_activation(bias, rows, weight)


def sum_kinds(own: Tensor, sent: Tensor, kinds: Tensor, graphs: GraphBatch, bonds: Tensor | None) -> Tensor:
    """See `messages.sum_kinds`."""
    out = own.new_empty(*kinds.shape, own.shape[1])
    if out.numel():
        source, width = graphs.edge_index[0], own.shape[1]
        programs.sum_kinds[(kinds.numel(),)](
            own, sent, kinds, _or(bonds, source), graphs.edge_offsets, source, out,
            len(sent) // len(own), kinds.shape[1], width, bonds is not None, programs.WIDE[own.dtype],
            _power_of_two(width), num_warps=1,
        )  # fmt: skip
    return out


def sum_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """See `messages.sum_nodes`."""
    return SumNodes.apply(h, graphs, _sum_rows)


def spread_to_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """See `messages.spread_to_nodes`."""
    return SpreadToNodes.apply(h, graphs, _sum_rows)


def norm_relu(
    h: Tensor, norm: torch.nn.BatchNorm1d, num_rows: Tensor, residual: Tensor | None = None, relu: bool = True
) -> Tensor:
    """Apply BatchNorm in training over the first `num_rows` rows of h [rows, d], optional relu, and add `residual`."""
    h, residual = h.contiguous(), None if residual is None else residual.contiguous()
    return _NormReLU.apply(
        h, norm.weight, norm.bias, residual, _known_statistics(norm, h, num_rows), num_rows, norm.eps, relu
    )


def fixed_norm_relu(h: Tensor, norm: torch.nn.BatchNorm1d, residual: Tensor | None = None) -> Tensor:
    """Apply BatchNorm in evaluation mode to h [rows, d] and relu, and add `residual`, without gradients."""
    assert norm.running_mean is not None and norm.running_var is not None
    h, residual = h.contiguous(), None if residual is None else residual.contiguous()
    out = torch.empty_like(h)
    _normalise(h, norm.running_mean, norm.running_var, norm.weight, norm.bias, residual, out, norm.eps)
    return out


def _normalise(
    h: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor,
    bias: Tensor,
    residual: Tensor | None,
    out: Tensor,
    eps: float,
    relu: bool = True,
) -> None:
    if h.numel():
        programs.normalise[_tiles(h)](
            h, mean, variance, weight, bias, _or(residual, h), out, eps,
            len(h), h.shape[1], residual is not None, relu, ROWS, COLUMNS,
        )  # fmt: skip


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, scale: Tensor, edges: Tensor | None, kinds: Tensor | None, graphs: GraphBatch, relu: bool
    ) -> Tensor:
        ctx.graphs, ctx.relu = graphs, relu
        ctx.save_for_backward(h, scale, edges, kinds)
        out = torch.empty_like(h)
        if h.numel():
            row = h[0].numel()
            source = graphs.edge_index[0]
            programs.aggregate[_grid(len(h), row)](
                h, _or(edges, h), _or(kinds, source), scale, graphs.edge_offsets, source, out,
                row, h.shape[-1], edges is not None, kinds is not None, _by_copy(edges, kinds), relu,
                programs.WIDE[h.dtype], _block(row),
            )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, scale, edges, kinds = ctx.saved_tensors
        graphs, grad = ctx.graphs, grads[0].contiguous()
        grad_h, grad_scale, grad_edges = torch.empty_like(h), None, None
        source, target = graphs.edge_index
        if h.numel():
            row = h[0].numel()
            grid = _grid(len(h), row)
            products = h.new_empty(grid)  # products of h and its gradient, whose sum is the derivative by `scale`
            programs.aggregate_backward[grid](
                h, _or(edges, h), _or(kinds, source), scale, grad, graphs.source_offsets, graphs.by_source, target,
                grad_h, products, row, h.shape[-1], edges is not None, kinds is not None, _by_copy(edges, kinds),
                ctx.relu, _block(row),
            )  # fmt: skip
            grad_scale = products.sum().reshape(scale.shape)
        if edges is not None and ctx.needs_input_grad[2]:
            grad_edges = _edge_gradient(h, edges, kinds, grad, graphs, ctx.relu)
        return grad_h, grad_scale, grad_edges, None, None, None


def _edge_gradient(
    h: Tensor, edges: Tensor, kinds: Tensor | None, grad: Tensor, graphs: GraphBatch, relu: bool
) -> Tensor:
    """Return the gradient of each edge or kind of edge, summed in a deterministic order."""
    source, target = graphs.edge_index
    by_copy = _by_copy(edges, kinds)
    if kinds is not None and len(edges) <= MOST_KINDS and h.dtype == torch.float32 and h.numel() and len(source):
        return _kind_gradient(h, edges, kinds, grad, graphs, relu)
    # First for each edge, [E, d], or each edge and copy; then, if they share rows, summed by one-hot rows.
    copies, width = h.shape[1], h.shape[2]
    result = h.new_zeros(len(source) * (copies if by_copy else 1), width)
    if result.numel() and h.numel():
        program = programs.copy_gradient if by_copy else programs.edge_gradient
        program[(len(result),)](
            h, edges, _or(kinds, source), grad, source, target, result, copies, width,
            kinds is not None, relu, _power_of_two(width),
        )  # fmt: skip
    if kinds is None:
        return result.reshape(edges.shape)
    count, dtype = len(edges), result.dtype

    def one_hot() -> Tensor:  # [kinds, rows of result], the same for all layers
        return (kinds.flatten() == torch.arange(count, device=kinds.device)[:, None]).to(dtype)

    return graphs.derived(f"edges of {count} kinds, {dtype}", one_hot, of=kinds) @ result


def _kind_gradient(h: Tensor, edges: Tensor, kinds: Tensor, grad: Tensor, graphs: GraphBatch, relu: bool) -> Tensor:
    """Return the gradient of each kind, [kinds, d], summed over parts of the edges without writing an [E, d] tensor."""
    source, target = graphs.edge_index
    (count, width), num_edges = edges.shape, len(source)
    tile = 32
    share = tile * _tiles_of(_tiles_of(num_edges, PARTS), tile)
    parts = _tiles_of(num_edges, share)
    partial = h.new_empty(parts, count, width)
    programs.kind_gradient[(parts, _tiles_of(width, COLUMNS))](
        h, edges, kinds, grad, source, target, partial, num_edges, share, count, h.shape[1], width,
        _by_copy(edges, kinds), relu, max(16, _power_of_two(count)), tile, COLUMNS,
    )  # fmt: skip
    return partial.sum(dim=0)


def _by_copy(edges: Tensor | None, kinds: Tensor | None) -> bool:
    """Whether what an edge adds differs between copies: rows [E, m, d], or the rows' numbers [E, m]."""
    return edges is not None and (edges.ndim == 3 if kinds is None else kinds.ndim == 2)


def _or(given: Tensor | None, other: Tensor) -> Tensor:
    """Return a placeholder for a missing tensor, since a program needs a tensor even if it does not read it."""
    return other if given is None else given


class _NormReLU(torch.autograd.Function):
    """BatchNorm and relu, with a derivative that includes those of the batch's mean and variance."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        statistics: Tensor,
        num_rows: Tensor,
        eps: float,
        relu: bool,
    ) -> Tensor:
        ctx.save_for_backward(h, weight, bias, statistics, num_rows)
        ctx.residual, ctx.eps, ctx.relu = residual is not None, eps, relu
        out = torch.empty_like(h)
        _normalise(h, statistics[0], statistics[1], weight, bias, residual, out, eps, relu)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, bias, statistics, num_rows = ctx.saved_tensors
        grad, tiles, width = grads[0].contiguous(), _tiles(h), h.shape[1]
        partial = h.new_empty(2, tiles[0], width)
        given = (h, grad, statistics[0], statistics[1], weight, bias, num_rows)
        programs.normalise_sums[tiles](*given, partial, ctx.eps, len(h), width, tiles[0], ctx.relu, ROWS, COLUMNS)
        sums = partial.sum(dim=1)  # [2, d]: sums of the gradient, and of the gradient times the normalised rows
        grad_h = None
        if ctx.needs_input_grad[0]:
            grad_h = torch.empty_like(h)
            programs.normalise_backward[tiles](*given, sums, grad_h, ctx.eps, len(h), width, ctx.relu, ROWS, COLUMNS)
        return grad_h, sums[1], sums[0], grad if ctx.residual else None, None, None, None, None


@torch.no_grad()
def _known_statistics(norm: torch.nn.BatchNorm1d, h: Tensor, num_rows: Tensor) -> Tensor:
    """Return `reference.known_statistics` as [2, d]; each tile is centred, so that large means cost no precision."""
    assert norm.running_mean is not None and norm.num_batches_tracked is not None
    tiles, width = _tiles(h), h.shape[1]
    partial, result = h.new_empty(2, tiles[0], width), h.new_empty(2, width)
    programs.tile_statistics[tiles](h, num_rows, partial, len(h), width, tiles[0], ROWS, COLUMNS)
    columns = 8  # few columns for each program: this reduction is short but needs many programs
    programs.combine_statistics[(_tiles_of(width, columns),)](
        partial, num_rows, norm.running_mean, norm.running_var, norm.num_batches_tracked, result,
        norm.momentum, width, tiles[0], ROWS, 64, columns,
    )  # fmt: skip
    return result


def _sum_rows(h: Tensor, graphs: GraphBatch) -> Tensor:
    h = h.contiguous()
    out = h.new_empty(graphs.num_graphs, *h.shape[1:])
    if out.numel():
        row = out[0].numel()
        programs.sum_graphs[_grid(len(out), row)](h, graphs.node_offsets, out, row, 8, _block(row))
    return out


def _power_of_two(count: int) -> int:
    """Return the smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()


def _tiles_of(count: int, tile: int) -> int:
    return -(-count // tile)


def _block(row: int) -> int:
    return min(256, _power_of_two(row))


def _grid(rows: int, row: int) -> tuple[int, int]:
    return rows, _tiles_of(row, _block(row))


def _tiles(h: Tensor) -> tuple[int, int]:
    return _tiles_of(len(h), ROWS), _tiles_of(h.shape[1], COLUMNS)
