"""Differentiable sums over all processes of a run, for norms of which each process sees only a part of a batch.

The gradient of a sum over processes with respect to one process's share is the sum of all processes' gradients. So the
mean over processes of their parameters' gradients is the gradient of the mean loss, as if one process had all rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _Summed.forward(ctx, gradients[0])


def summed(values: Tensor) -> Tensor:
    """Return the sum of `values` over all processes; all of them must call this."""
    return torch.as_tensor(_Summed.apply(values))


def shared_statistics(h: Tensor, num_rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and (biased) variance over the first `num_rows` rows of [rows, d] of all processes, and their number.

    Processes may have different numbers of rows; padding does not count.
    """
    is_row = (torch.arange(len(h), device=h.device) < num_rows)[:, None]
    count = num_rows.to(h.dtype).reshape(1)
    total = summed(torch.cat([torch.where(is_row, h, 0).sum(dim=0), count]))
    mean, rows = total[:-1] / total[-1], total[-1].detach()
    # Two passes, as in one process: a sum of squares would lose the digits of a small variance.
    variance = summed(torch.where(is_row, (h - mean) ** 2, 0).sum(dim=0)) / rows
    return mean, variance, rows
