"""The kernels' functions in plain torch, differentiated by autograd: slow and simple, for any dtype and device.

Exported programs use these.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch, sum_rows


def aggregate(
    h: Tensor, scale: Tensor, graphs: GraphBatch, relu: bool, edges: Tensor | None, kinds: Tensor | None = None
) -> Tensor:
    """Return scale h_v plus the sum of the messages to v, [N, m, d]."""
    source, target = graphs.edge_index[0], graphs.edge_index[1]
    messages = h[source]  # [E, m, d]
    if edges is not None:
        rows = edges if kinds is None else edges[kinds]  # [E, d] or [E, m, d]
        messages = messages + (rows[:, None] if rows.ndim == 2 else rows)
    return scale * h + _arriving(messages.relu() if relu else messages, target, graphs)


def sum_kinds(own: Tensor, sent: Tensor, kinds: Tensor, graphs: GraphBatch, bonds: Tensor | None) -> Tensor:
    """Return relu(own[kind of v] + sum of the messages of its neighbours), [N, m, d]."""
    source, target = graphs.edge_index[0], graphs.edge_index[1]
    row = kinds[source]  # [E, m]
    if bonds is not None:
        row = row * (sent.shape[0] // own.shape[0]) + bonds[:, None]
    return (own[kinds] + _arriving(sent[row], target, graphs)).relu()


def _arriving(messages: Tensor, target: Tensor, graphs: GraphBatch) -> Tensor:
    """Return the sum of the messages [E, m, d] to each node, [N, m, d]."""
    if graphs.padding:  # padded edges are past the last offset and do not count
        is_edge = torch.arange(len(target), device=target.device) < graphs.edge_offsets[-1]
        messages = torch.where(is_edge[:, None, None], messages, 0)
    return sum_rows(messages, target, graphs.total_nodes)


def product_relu(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """relu(rows @ weight + bias)."""
    return torch.addmm(bias, rows, weight).relu()


def sum_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """Sum of each graph's rows, [N, ...] -> [B, ...]."""
    if graphs.is_real is not None:
        h = torch.where(graphs.is_real.reshape(-1, *[1] * (h.ndim - 1)), h, 0)
    return sum_rows(h, graphs.node_graph, graphs.num_graphs)


def spread_to_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """Each graph's row at each of its nodes, [B, ...] -> [N, ...]."""
    return h[graphs.node_graph]


def batch_statistics(h: Tensor, num_rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and (biased) variance over the first `num_rows` rows of [rows, d], without the padding."""
    is_row = (torch.arange(len(h), device=h.device) < num_rows)[:, None]
    mean = torch.where(is_row, h, 0).sum(dim=0) / num_rows
    variance = torch.where(is_row, (h - mean) ** 2, 0).sum(dim=0) / num_rows
    return mean, variance


def known_statistics(norm: torch.nn.BatchNorm1d, h: Tensor, num_rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and variance that normalise h [rows, d] in training, and update the running ones as torch does.

    A single row has no variance, so it is normalised by the running statistics and does not change them.
    """
    assert norm.running_mean is not None and norm.running_var is not None and norm.momentum is not None
    if getattr(norm, "synchronised", False):
        from maggnn.model.kernels.shared import shared_statistics  # only runs on several devices need it

        mean, variance, num_rows = shared_statistics(h, num_rows)
    else:
        mean, variance = batch_statistics(h, num_rows)
    several = num_rows > 1
    mean = torch.where(several, mean, norm.running_mean)
    variance = torch.where(several, variance, norm.running_var)
    with torch.no_grad():
        count = num_rows.to(variance.dtype)
        unbiased = torch.where(several, variance * (count / (count - 1)), variance)
        norm.running_mean.lerp_(mean, norm.momentum)
        norm.running_var.lerp_(unbiased, norm.momentum)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(several)
    return mean, variance
