"""Normalisation: BatchNorm or LayerNorm within the encoder, and whitening before a readout.

Whitening (decorrelated batch normalisation, Huang et al. 2018) exists because a mark changes a pooled embedding in
directions of very small variance: on the super graphs of Theorem 2 the type of a marked block is a few per cent of
what its position is, and a readout that has to combine two such types never finds them. Whitened, every direction
counts alike.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.model.kernels.reference import known_statistics

MEMORY = 0.05
"""Weight of the newest batch in the running covariance."""


class Norm(nn.Module):
    """BatchNorm or LayerNorm over the last dimension of [rows, ..., d]; copies count as rows of the batch.

    Args of a call:
        num_real: how many rows are rows and not padding, a number on the device; None: all are.
    """

    def __init__(self, kind: str, hidden: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(hidden) if kind == "batch" else nn.LayerNorm(hidden)

    def forward(self, h: Tensor, num_real: Tensor | None = None) -> Tensor:
        flat = h.reshape(-1, h.shape[-1])
        if not self.training or not isinstance(self.norm, nn.BatchNorm1d):
            return self.norm(flat).reshape(h.shape)
        if num_real is None and len(flat) > 1:
            return self.norm(flat).reshape(h.shape)
        if h.device.type == "cuda":
            return _gpu().norm_relu(flat, self.norm, _num_rows(h, num_real), relu=False).reshape(h.shape)
        return _padded_batch_norm(flat, self.norm, _num_rows(h, num_real)).reshape(h.shape)

    def relu(self, h: Tensor, num_real: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
        """The norm, relu and the sum with `residual`, which a GPU does in one kernel while training."""
        if h.device.type == "cuda" and isinstance(self.norm, nn.BatchNorm1d):
            flat = h.reshape(-1, h.shape[-1])
            rest = None if residual is None else residual.reshape(flat.shape)
            if self.training:
                return _gpu().norm_relu(flat, self.norm, _num_rows(h, num_real), rest).reshape(h.shape)
            if not torch.is_grad_enabled():
                return _gpu().fixed_norm_relu(flat, self.norm, rest).reshape(h.shape)
        out = self(h, num_real).relu()
        return out if residual is None else residual + out


def fix_statistics(network: nn.Module) -> None:
    """Norms of a network in training use the statistics they have, until it is next told to train or to answer.

    Those of a batch are random: a network that has to be exact, and will answer with fixed ones, ends its training
    with them.
    """
    for module in network.modules():
        if isinstance(module, Norm | Whitening):
            module.eval()


def _gpu():  # noqa: ANN202 (a module)
    from maggnn.model.kernels import gpu  # needs Triton, which only GPU builds of torch bring

    return gpu


def _num_rows(h: Tensor, num_real: Tensor | None) -> Tensor:
    """Rows of [rows, ..., d], laid out as [rows * ..., d], that are no padding: one number on the device."""
    copies = h[0].numel() // h.shape[-1]
    return torch.full((), copies * len(h), device=h.device) if num_real is None else copies * num_real


def _padded_batch_norm(h: Tensor, norm: nn.BatchNorm1d, num_rows: Tensor) -> Tensor:
    """BatchNorm in training with padding after the first `num_rows` rows of [rows, d]."""
    mean, variance = known_statistics(norm, h, num_rows)
    return (h - mean) * (variance + norm.eps).rsqrt() * norm.weight + norm.bias


class Whitening(nn.Module):
    """z = (C + ridge)^(-1/2) x for standardised features x with covariance C, by Cholesky, over the last dimension.

    Directions with less variance than `ridge` stay small: they are the batch's noise.
    """

    covariance: Tensor

    def __init__(self, width: int, ridge: float) -> None:
        super().__init__()
        self.ridge = ridge
        self.standardise = Norm("batch", width)
        self.register_buffer("covariance", torch.eye(width))

    def forward(self, h: Tensor, num_real: Tensor | None = None) -> Tensor:
        # Double precision throughout: the small directions are the ones that matter.
        x = self.standardise(h, num_real).reshape(-1, h.shape[-1]).double()  # [rows, d]
        covariance = self.covariance
        if self.training and len(x) > 1:
            covariance = _covariance(x, num_real, len(x) // len(h))
            with torch.no_grad():
                self.covariance.lerp_(covariance.to(self.covariance.dtype), MEMORY)
        ridge = self.ridge * torch.eye(len(covariance), device=h.device, dtype=torch.float64)
        factor, _ = torch.linalg.cholesky_ex(covariance.double() + ridge)  # _ex does not wait for the device
        white = torch.linalg.solve_triangular(factor, x.T, upper=False).T
        return white.to(h.dtype).reshape(h.shape)


def _covariance(x: Tensor, num_real: Tensor | None, copies: int) -> Tensor:
    """Of centred rows [rows, d]; rows of padding count nothing."""
    if num_real is None:
        return x.T @ x / len(x)
    count = num_real * copies
    x = torch.where((torch.arange(len(x), device=x.device) < count)[:, None], x, 0)
    return x.T @ x / count
