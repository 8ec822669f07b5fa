"""Normalisation: BatchNorm or LayerNorm within the encoder, and whitening before a readout.

Whitening (decorrelated batch normalisation, Huang et al. 2018) exists because a mark changes a pooled embedding in
directions of very small variance: on the super graphs of Theorem 2 the type of a marked block is a few per cent of
what its position is, and a readout that has to combine two such types never finds them. Whitened, every direction
counts alike.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

MEMORY = 0.05
"""Weight of the newest batch in the running covariance."""


class Norm(nn.Module):
    """BatchNorm or LayerNorm over the last dimension of [..., d]; copies count as rows of the batch."""

    def __init__(self, kind: str, hidden: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(hidden) if kind == "batch" else nn.LayerNorm(hidden)

    def forward(self, h: Tensor) -> Tensor:
        flat = h.reshape(-1, h.shape[-1])
        if self.training and len(flat) == 1 and isinstance(self.norm, nn.BatchNorm1d):
            return h  # one row has no variance to normalise by
        return self.norm(flat).reshape(h.shape)


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

    def forward(self, h: Tensor) -> Tensor:
        # Double precision throughout: the small directions are the ones that matter.
        x = self.standardise(h).reshape(-1, h.shape[-1]).double()  # [rows, d]
        covariance = self.covariance
        if self.training and len(x) > 1:
            covariance = x.T @ x / len(x)
            with torch.no_grad():
                self.covariance.lerp_(covariance.to(self.covariance.dtype), MEMORY)
        ridge = self.ridge * torch.eye(len(covariance), device=h.device, dtype=torch.float64)
        factor, _ = torch.linalg.cholesky_ex(covariance.double() + ridge)  # _ex does not wait for the device
        white = torch.linalg.solve_triangular(factor, x.T, upper=False).T
        return white.to(h.dtype).reshape(h.shape)
