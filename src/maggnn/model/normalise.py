"""Normalisation: BatchNorm or LayerNorm within the encoder, and whitening before a readout.

Whitening (decorrelated batch normalisation, Huang et al. 2018) exists because a mark changes a pooled embedding in
directions of very small variance: on the super graphs of Theorem 2, the type of a marked block changes it by a few per
cent of what its position does, and a readout that has to combine two such types never finds them. After whitening, all
directions have the same variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from maggnn.model.kernels.reference import known_statistics

if TYPE_CHECKING:
    from maggnn.model.frozen_layers import Freezing

MEMORY = 0.05
"""The weight of the newest batch in the running covariance."""


class Norm(nn.Module):
    """BatchNorm or LayerNorm over the last dimension of [rows, ..., d]; copies count as rows of the batch.

    Args of a call:
        num_real: the number of rows that are not padding, on the device; None if there is no padding.
    """

    def __init__(self, kind: str, hidden: int) -> None:
        super().__init__()
        self.norm = BatchNorm(hidden) if kind == "batch" else LayerNorm(hidden)

    def forward(self, h: Tensor, num_real: Tensor | None = None) -> Tensor:
        return self.norm(h, num_real)

    def relu(self, h: Tensor, num_real: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
        """Apply the norm and relu, and add `residual`; in training, a GPU does this in one kernel."""
        return self.norm.relu(h, num_real, residual)

    def folded(self, linear: nn.Linear) -> tuple[Tensor, Tensor] | None:
        """Return weight [in, out] and bias of one linear map that equals `linear` followed by this norm in evaluation.

        Returns None for LayerNorm, which is not a fixed linear map.
        """
        return self.norm.folded(linear)


class BatchNorm(nn.BatchNorm1d):
    """BatchNorm over the rows of [rows, ..., d] that are not padding; parameters and buffers are those of torch.

    Attributes:
        synchronised: whether statistics are over the rows of all processes of a run (`synchronise`).
    """

    synchronised = False

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] (torch calls h `input`)
        self, h: Tensor, num_real: Tensor | None = None
    ) -> Tensor:
        flat = h.reshape(-1, h.shape[-1])
        if not self.training or (num_real is None and len(flat) > 1 and not self.synchronised):
            return super().forward(flat).reshape(h.shape)
        num_rows = _num_rows(h, num_real)
        if h.device.type == "cuda" and not self.synchronised:
            return _gpu().norm_relu(flat, self, num_rows, relu=False).reshape(h.shape)
        mean, variance = known_statistics(self, flat, num_rows)
        return ((flat - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias).reshape(h.shape)

    def relu(self, h: Tensor, num_real: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
        """See `Norm.relu`."""
        if h.device.type == "cuda" and (self.training or not torch.is_grad_enabled()):
            flat = h.reshape(-1, h.shape[-1])
            rest = None if residual is None else residual.reshape(flat.shape)
            if self.training and self.synchronised:
                return _relu_and_sum(self(h, num_real), residual)
            if self.training:
                return _gpu().norm_relu(flat, self, _num_rows(h, num_real), rest).reshape(h.shape)
            return _gpu().fixed_norm_relu(flat, self, rest).reshape(h.shape)
        return _relu_and_sum(self(h, num_real), residual)

    def folded(self, linear: nn.Linear) -> tuple[Tensor, Tensor]:
        """norm(W z + b) = (s W) z + s (b - mean) + beta  with  s = gamma / sqrt(var + eps), in double precision."""
        assert self.running_mean is not None and self.running_var is not None
        scale = self.weight.double() / (self.running_var.double() + self.eps).sqrt()
        shift = -self.running_mean.double()
        if linear.bias is not None:
            shift = shift + linear.bias.double()
        weight = (linear.weight.double() * scale[:, None]).T.contiguous()
        bias = scale * shift + self.bias.double()
        return weight.to(linear.weight.dtype), bias.to(linear.weight.dtype)


class LayerNorm(nn.LayerNorm):
    """LayerNorm normalises each row by itself, so that padding does not matter."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] (torch calls h `input`)
        self, h: Tensor, num_real: Tensor | None = None
    ) -> Tensor:
        return super().forward(h)

    def relu(self, h: Tensor, num_real: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
        """See `Norm.relu`."""
        return _relu_and_sum(self(h), residual)

    def folded(self, linear: nn.Linear) -> None:
        """See `Norm.folded`."""


def _relu_and_sum(h: Tensor, residual: Tensor | None) -> Tensor:
    return h.relu() if residual is None else residual + h.relu()


def fix_statistics(network: nn.Module) -> None:
    """Make the norms of a network in training use their running statistics, until `train()` or `eval()` is called.

    Batch statistics are random. A network that has to be exact, and is evaluated with fixed statistics, therefore ends
    its training with fixed ones.
    """
    for module in network.modules():
        if isinstance(module, Norm | Whitening):
            module.eval()


@contextmanager
def in_evaluation(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode within the block; afterwards each of its parts has its own mode again.

    A user may have frozen a part, such as the norms of a trained predictor, so `module.train()` would not restore it.
    """
    learning = [part for part in module.modules() if part.training]
    for part in learning:
        part.training = False
    try:
        yield
    finally:
        for part in learning:
            part.training = True


def synchronise(network: nn.Module) -> None:
    """Make the norms of a network in training use statistics of the rows of all processes of a run."""
    for module in network.modules():
        if isinstance(module, BatchNorm | Whitening):
            module.synchronised = True


def _gpu():  # noqa: ANN202 (a module)
    from maggnn.model.kernels import gpu  # needs Triton, which only GPU builds of torch bring

    return gpu


def _num_rows(h: Tensor, num_real: Tensor | None) -> Tensor:
    """Return the number of rows without padding, when [rows, ..., d] is flattened to [rows * ..., d], on the device."""
    copies = h[0].numel() // h.shape[-1]
    return torch.full((), copies * len(h), device=h.device) if num_real is None else copies * num_real


class Whitening(nn.Module):
    """z = (C + ridge)^(-1/2) x for standardised features x with covariance C, by Cholesky, over the last dimension.

    Directions with less variance than `ridge` stay small, because they are noise of the batch.

    The running covariance is a mean over batches, each standardised by its own spread and encoded with its own
    statistics. The smallest directions turn a little from batch to batch, so this mean blurs them: on the super graphs
    variances of 1e-7 become 1e-3, and what training enlarged is lost. `settling` takes the covariance of one batch of
    the finished network instead.
    """

    covariance: Tensor

    def __init__(self, width: int, ridge: float) -> None:
        super().__init__()
        self.ridge = ridge
        self.synchronised = False
        self.memory = MEMORY
        self.standardise = Norm("batch", width)
        self.register_buffer("covariance", torch.eye(width))

    def forward(self, h: Tensor, num_real: Tensor | None = None) -> Tensor:
        # Double precision throughout: the small directions are the ones that matter.
        x = self.standardise(h, num_real).reshape(-1, h.shape[-1]).double()  # [rows, d]
        covariance = self.covariance
        if self.training and len(x) > 1:
            covariance = _covariance(x, num_real, len(x) // len(h), self.synchronised)
            with torch.no_grad():
                self.covariance.lerp_(covariance.to(self.covariance.dtype), self.memory)
        ridge = self.ridge * torch.eye(len(covariance), device=h.device, dtype=torch.float64)
        factor, _ = torch.linalg.cholesky_ex(covariance.double() + ridge)  # _ex does not wait for the device
        white = torch.linalg.solve_triangular(factor, x.T, upper=False).T
        return white.to(h.dtype).reshape(h.shape)

    @contextmanager
    def settling(self) -> Iterator[None]:
        """Within the block, the running statistics are those of the last batch instead of an average over batches."""
        norm = self.standardise.norm
        assert isinstance(norm, BatchNorm)
        before = norm.momentum, self.memory
        norm.momentum = self.memory = 1.0
        self.train()
        try:
            yield
        finally:
            self.eval()
            norm.momentum, self.memory = before

    def frozen(self, how: Freezing) -> FrozenWhitening:
        """Return a frozen version, with the inverted factor of the running covariance."""
        return FrozenWhitening(self)


class FrozenWhitening(nn.Module):
    """Whitening by a fixed covariance, as a product with the inverse of its Cholesky factor."""

    inverse: Tensor

    def __init__(self, whitening: Whitening) -> None:
        super().__init__()
        covariance = whitening.covariance.double()
        identity = torch.eye(len(covariance), dtype=torch.float64, device=covariance.device)
        factor, _ = torch.linalg.cholesky_ex(covariance + whitening.ridge * identity)
        self.standardise = whitening.standardise
        self.register_buffer("inverse", torch.linalg.solve_triangular(factor, identity, upper=False))

    def forward(self, h: Tensor, num_real: Tensor | None = None) -> Tensor:
        return (self.standardise(h, num_real).double() @ self.inverse.T).to(h.dtype)


def _covariance(x: Tensor, num_real: Tensor | None, copies: int, synchronised: bool) -> Tensor:
    """Return the covariance of centred rows [rows, d], optionally of all processes, without rows of padding."""
    if num_real is None and not synchronised:
        return x.T @ x / len(x)
    count = torch.full((), len(x), device=x.device) if num_real is None else num_real * copies
    x = torch.where((torch.arange(len(x), device=x.device) < count)[:, None], x, 0)
    if synchronised:
        from maggnn.model.kernels.shared import summed  # only runs on several devices need it

        return summed(x.T @ x) / summed(count.to(x.dtype)).detach()
    return x.T @ x / count
