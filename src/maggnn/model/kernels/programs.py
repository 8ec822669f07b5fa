"""The Triton programs behind `gpu`: each handles one tile of the result.

Triton has its own types, so Python's type checkers skip this file (see pyproject.toml).
"""

import torch
import triton
import triton.language as tl

WIDE = {torch.bfloat16: tl.float32, torch.float32: tl.float32, torch.float64: tl.float64}
"""The types in which sums over neighbours are computed."""


@triton.jit
def kind_of(
    kinds, edge, column, row, inside, width: tl.constexpr, has_kinds: tl.constexpr, by_copy: tl.constexpr
):  # fmt: skip
    """The row of `edges` that an edge adds: one for all copies, or one in each column's copy."""
    kind = edge
    if by_copy:
        kind = edge * (row // width) + column // width
        if has_kinds:
            kind = tl.load(kinds + kind, mask=inside, other=0)
    elif has_kinds:
        kind = tl.load(kinds + edge)
    return kind


@triton.jit
def aggregate(
    h, edges, kinds, scale, offsets, source, out,
    row, width: tl.constexpr, has_edges: tl.constexpr, has_kinds: tl.constexpr, by_copy: tl.constexpr,
    relu: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < row
    total = tl.load(scale) * tl.load(h + node * row + column, mask=inside, other=0.0).to(wide)
    for position in range(tl.load(offsets + node), tl.load(offsets + node + 1)):
        message = tl.load(h + tl.load(source + position) * row + column, mask=inside, other=0.0).to(wide)
        if has_edges:
            kind = kind_of(kinds, position, column, row, inside, width, has_kinds, by_copy)
            message += tl.load(edges + kind * width + column % width, mask=inside, other=0.0)
        if relu:
            message = tl.maximum(message, 0.0)
        total += message
    tl.store(out + node * row + column, total, mask=inside)


@triton.jit
def sum_kinds(
    own, sent, kinds, bonds, offsets, source, out, bond_kinds,
    copies, width: tl.constexpr, has_bonds: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    node, copy = row // copies, row % copies
    column = tl.arange(0, block)
    inside = column < width
    total = tl.load(own + tl.load(kinds + row) * width + column, mask=inside, other=0.0).to(wide)
    for position in range(tl.load(offsets + node), tl.load(offsets + node + 1)):
        kind = tl.load(kinds + tl.load(source + position) * copies + copy)
        if has_bonds:
            kind = kind * bond_kinds + tl.load(bonds + position)
        total += tl.load(sent + kind * width + column, mask=inside, other=0.0).to(wide)
    tl.store(out + row * width + column, tl.maximum(total, 0.0), mask=inside)


@triton.jit
def aggregate_backward(
    h, edges, kinds, scale, grad, offsets, by_source, target, out, products,
    row, width: tl.constexpr, has_edges: tl.constexpr, has_kinds: tl.constexpr, by_copy: tl.constexpr,
    relu: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < row
    own = tl.load(h + node * row + column, mask=inside, other=0.0)
    own_grad = tl.load(grad + node * row + column, mask=inside, other=0.0)
    tl.store(products + node * tl.num_programs(1) + tl.program_id(1), tl.sum(own * own_grad, axis=0))
    total = tl.load(scale) * own_grad
    for position in range(tl.load(offsets + node), tl.load(offsets + node + 1)):
        edge = tl.load(by_source + position)
        arriving = tl.load(grad + tl.load(target + edge) * row + column, mask=inside, other=0.0)
        if relu:
            message = own
            if has_edges:
                kind = kind_of(kinds, edge, column, row, inside, width, has_kinds, by_copy)
                message += tl.load(edges + kind * width + column % width, mask=inside, other=0.0)
            arriving = tl.where(message > 0, arriving, 0.0)
        total += arriving
    tl.store(out + node * row + column, total, mask=inside)


@triton.jit
def edge_gradient(
    h, edges, kinds, grad, source, target, out,
    copies, width: tl.constexpr, has_kinds: tl.constexpr, relu: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    edge = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, block)
    inside = column < width
    from_row = tl.load(source + edge) * copies * width + column
    to_row = tl.load(target + edge) * copies * width + column
    kind = edge
    if has_kinds:
        kind = tl.load(kinds + edge)
    present = tl.load(edges + kind * width + column, mask=inside, other=0.0)
    total = tl.zeros_like(present)
    for copy in range(copies):
        arriving = tl.load(grad + to_row + copy * width, mask=inside, other=0.0)
        if relu:
            message = present + tl.load(h + from_row + copy * width, mask=inside, other=0.0)
            arriving = tl.where(message > 0, arriving, 0.0)
        total += arriving
    tl.store(out + edge * width + column, total, mask=inside)


@triton.jit
def copy_gradient(
    h, edges, kinds, grad, source, target, out,
    copies, width: tl.constexpr, has_kinds: tl.constexpr, relu: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """`edge_gradient` for edges that differ between copies: a row for each edge and copy."""
    place = tl.program_id(0).to(tl.int64)
    edge, copy = place // copies, place % copies
    column = tl.arange(0, block)
    inside = column < width
    arriving = tl.load(grad + (tl.load(target + edge) * copies + copy) * width + column, mask=inside, other=0.0)
    if relu:
        kind = place
        if has_kinds:
            kind = tl.load(kinds + place)
        message = tl.load(edges + kind * width + column, mask=inside, other=0.0)
        message += tl.load(h + (tl.load(source + edge) * copies + copy) * width + column, mask=inside, other=0.0)
        arriving = tl.where(message > 0, arriving, 0.0)
    tl.store(out + place * width + column, arriving, mask=inside)


@triton.jit
def kind_gradient(
    h, edges, kinds, grad, source, target, partial, num_edges, share, num_kinds, copies, width: tl.constexpr,
    by_copy: tl.constexpr, relu: tl.constexpr,
    kind_block: tl.constexpr, tile_edges: tl.constexpr, tile_columns: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    column = (tl.program_id(1) * tile_columns + tl.arange(0, tile_columns))[None, :]
    every = tl.arange(0, kind_block)[:, None]
    total = tl.zeros((kind_block, tile_columns), dtype=tl.float32)
    end = tl.minimum((part + 1) * share, num_edges)
    for first in range(part * share, end, tile_edges):
        edge = first + tl.arange(0, tile_edges)
        known = edge < end
        inside = known[:, None] & (column < width)
        from_row = tl.load(source + edge, mask=known, other=0)[:, None] * copies * width + column
        to_row = tl.load(target + edge, mask=known, other=0)[:, None] * copies * width + column
        if by_copy:
            for copy in range(copies):
                kind = tl.load(kinds + edge * copies + copy, mask=known, other=0)
                arriving = tl.load(grad + to_row + copy * width, mask=inside, other=0.0)
                if relu:
                    message = tl.load(edges + kind[:, None] * width + column, mask=inside, other=0.0)
                    message += tl.load(h + from_row + copy * width, mask=inside, other=0.0)
                    arriving = tl.where(message > 0, arriving, 0.0)
                one_hot = ((kind[None, :] == every) & known[None, :]).to(tl.float32)
                total += tl.dot(one_hot, arriving, input_precision="ieee")
        else:
            kind = tl.load(kinds + edge, mask=known, other=0)
            present = tl.load(edges + kind[:, None] * width + column, mask=inside, other=0.0)
            passed = tl.zeros((tile_edges, tile_columns), dtype=tl.float32)
            for copy in range(copies):
                arriving = tl.load(grad + to_row + copy * width, mask=inside, other=0.0)
                if relu:
                    message = present + tl.load(h + from_row + copy * width, mask=inside, other=0.0)
                    arriving = tl.where(message > 0, arriving, 0.0)
                passed += arriving
            one_hot = ((kind[None, :] == every) & known[None, :]).to(tl.float32)
            total += tl.dot(one_hot, passed, input_precision="ieee")
    tl.store(partial + (part * num_kinds + every) * width + column, total, mask=(every < num_kinds) & (column < width))


@triton.jit
def sum_graphs(h, offsets, out, row, rows: tl.constexpr, block: tl.constexpr):
    graph = tl.program_id(0).to(tl.int64)
    column = (tl.program_id(1) * block + tl.arange(0, block))[None, :]
    start, end = tl.load(offsets + graph), tl.load(offsets + graph + 1)
    total = tl.zeros((rows, block), dtype=out.dtype.element_ty)
    for first in range(start, end, rows):
        node = (first + tl.arange(0, rows))[:, None]
        total += tl.load(h + node * row + column, mask=(node < end) & (column < row), other=0.0)
    tl.store(out + graph * row + column, tl.sum(total, axis=0)[None, :], mask=column < row)


@triton.jit
def tile_statistics(
    h, num_rows, partial, rows, width: tl.constexpr, tiles, tile_rows: tl.constexpr, tile_columns: tl.constexpr
):
    tile = tl.program_id(0)
    row = (tile * tile_rows + tl.arange(0, tile_rows).to(tl.int64))[:, None]
    column = (tl.program_id(1) * tile_columns + tl.arange(0, tile_columns))[None, :]
    count = tl.load(num_rows)
    inside = (row < count) & (column < width)
    values = tl.load(h + row * width + column, mask=inside, other=0.0)
    present = tl.minimum(tl.maximum(count - tile * tile_rows, 1), tile_rows)
    mean = tl.sum(values, axis=0)[None, :] / present
    spread = tl.where(inside, values - mean, 0.0)
    where = tile * width + column
    tl.store(partial + where, mean, mask=column < width)
    tl.store(partial + tiles * width + where, tl.sum(spread * spread, axis=0)[None, :], mask=column < width)


@triton.jit
def combine_statistics(
    partial, num_rows, running_mean, running_variance, batches, result, momentum, width: tl.constexpr, tiles,
    tile_rows: tl.constexpr, block: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    column = (tl.program_id(0) * columns + tl.arange(0, columns))[None, :]
    known = column < width
    count = tl.load(num_rows)
    mean = tl.zeros((block, columns), dtype=result.dtype.element_ty)
    for first in range(0, tiles, block):
        tile = (first + tl.arange(0, block))[:, None]
        present = tl.minimum(tl.maximum(count - tile * tile_rows, 0), tile_rows)
        inside = (tile < tiles) & known
        mean += present * tl.load(partial + tile * width + column, mask=inside, other=0.0)
    total = tl.sum(mean, axis=0)[None, :] / count
    spread = tl.zeros((block, columns), dtype=result.dtype.element_ty)
    for first in range(0, tiles, block):
        tile = (first + tl.arange(0, block))[:, None]
        present = tl.minimum(tl.maximum(count - tile * tile_rows, 0), tile_rows)
        inside = (tile < tiles) & known
        shift = tl.load(partial + tile * width + column, mask=inside, other=0.0) - total
        within = tl.load(partial + tiles * width + tile * width + column, mask=inside & (present > 0), other=0.0)
        spread += within + tl.where(inside, present * shift * shift, 0.0)
    squares = tl.sum(spread, axis=0)[None, :]
    # A single row has no variance: the running statistics are used instead and do not change.
    old_mean = tl.load(running_mean + column, mask=known, other=0.0)
    old_variance = tl.load(running_variance + column, mask=known, other=0.0)
    several = count > 1
    total = tl.where(several, total, old_mean)
    variance = tl.where(several, squares / count, old_variance)
    unbiased = tl.where(several, squares / tl.maximum(count - 1, 1), old_variance)
    tl.store(result + column, total, mask=known)
    tl.store(result + width + column, variance, mask=known)
    tl.store(running_mean + column, old_mean + momentum * (total - old_mean), mask=known)
    tl.store(running_variance + column, old_variance + momentum * (unbiased - old_variance), mask=known)
    if tl.program_id(0) == 0:
        tl.store(batches, tl.load(batches) + several.to(tl.int64))


@triton.jit
def normalise(
    h, mean, variance, weight, bias, residual, out, eps, rows, width: tl.constexpr,
    has_residual: tl.constexpr, relu: tl.constexpr, tile_rows: tl.constexpr, tile_columns: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * tile_rows + tl.arange(0, tile_rows).to(tl.int64))[:, None]
    column = (tl.program_id(1) * tile_columns + tl.arange(0, tile_columns))[None, :]
    known = column < width
    inside = (row < rows) & known
    normal = tl.load(h + row * width + column, mask=inside, other=0.0) - tl.load(mean + column, mask=known, other=0.0)
    normal *= tl.rsqrt(tl.load(variance + column, mask=known, other=1.0) + eps)
    affine = normal * tl.load(weight + column, mask=known, other=0.0) + tl.load(bias + column, mask=known, other=0.0)
    result = tl.maximum(affine, 0.0) if relu else affine
    if has_residual:
        result += tl.load(residual + row * width + column, mask=inside, other=0.0)
    tl.store(out + row * width + column, result, mask=inside)


@triton.jit
def normalise_sums(
    h, grad, mean, variance, weight, bias, num_rows, partial, eps, rows, width: tl.constexpr, tiles,
    relu: tl.constexpr, tile_rows: tl.constexpr, tile_columns: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    row = (tile * tile_rows + tl.arange(0, tile_rows).to(tl.int64))[:, None]
    column = (tl.program_id(1) * tile_columns + tl.arange(0, tile_columns))[None, :]
    known = column < width
    inside = (row < tl.load(num_rows)) & known
    normal = tl.load(h + row * width + column, mask=inside, other=0.0) - tl.load(mean + column, mask=known, other=0.0)
    normal *= tl.rsqrt(tl.load(variance + column, mask=known, other=1.0) + eps)
    affine = normal * tl.load(weight + column, mask=known, other=0.0) + tl.load(bias + column, mask=known, other=0.0)
    passes = inside & (affine > 0) if relu else inside
    arriving = tl.load(grad + row * width + column, mask=passes, other=0.0)
    where = tile * width + column
    tl.store(partial + where, tl.sum(arriving, axis=0)[None, :], mask=known)
    tl.store(partial + tiles * width + where, tl.sum(arriving * normal, axis=0)[None, :], mask=known)


@triton.jit
def normalise_backward(
    h, grad, mean, variance, weight, bias, num_rows, sums, out, eps, rows, width: tl.constexpr,
    relu: tl.constexpr, tile_rows: tl.constexpr, tile_columns: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * tile_rows + tl.arange(0, tile_rows).to(tl.int64))[:, None]
    column = (tl.program_id(1) * tile_columns + tl.arange(0, tile_columns))[None, :]
    known = column < width
    count = tl.load(num_rows)
    inside = (row < count) & known
    scale = tl.rsqrt(tl.load(variance + column, mask=known, other=1.0) + eps)
    normal = tl.load(h + row * width + column, mask=inside, other=0.0) - tl.load(mean + column, mask=known, other=0.0)
    normal *= scale
    gain = tl.load(weight + column, mask=known, other=0.0)
    affine = normal * gain + tl.load(bias + column, mask=known, other=0.0)
    passes = inside & (affine > 0) if relu else inside
    arriving = tl.load(grad + row * width + column, mask=passes, other=0.0)
    of_batch = tl.where(count > 1, 1.0 / count, 0.0)  # a single row was not normalised by its own statistics
    mean_grad = tl.load(sums + column, mask=known, other=0.0) * of_batch
    mean_product = tl.load(sums + width + column, mask=known, other=0.0) * of_batch
    result = gain * scale * (arriving - mean_grad - normal * mean_product)
    tl.store(out + row * width + column, tl.where(inside, result, 0.0), mask=(row < rows) & known)
