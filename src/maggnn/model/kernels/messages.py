"""The interface of the kernels: the device of `h` selects the implementation.

`torch.export` gets plain torch, and so do half precision and autocast on a CPU, for which torch has no sparse product.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch
from maggnn.model.kernels import cpu, reference

SPARSE = (torch.float32, torch.float64)
"""The types of numbers for which torch has products of sparse matrices on a CPU."""


def aggregate(
    h: Tensor,
    scale: Tensor,
    graphs: GraphBatch,
    relu: bool = False,
    edges: Tensor | None = None,
    kinds: Tensor | None = None,
) -> Tensor:
    """Compute AGGREGATE of Eq. 1 with the node's own part: scale h_v + sum over edges (u, v) of f(h_u + e_uv).

    Args:
        scale: one number, (1 + eps) of GIN.
        relu: whether f is relu (GINE) instead of the identity (GIN).
        edges: e, [E, d], shared by the m copies, or [E, m, d]; None adds nothing.
        kinds: each edge's row in `edges` [kinds, d], [E], or its row in each copy, [E, m]; None means that edge i has
            row i.
    """
    return _kernels(h).aggregate(h, scale, graphs, relu, edges, kinds)


def sum_kinds(own: Tensor, sent: Tensor, kinds: Tensor, graphs: GraphBatch, bonds: Tensor | None) -> Tensor:
    """Compute relu(own[kind of v] + sum over edges (u, v) of sent[kind of u, kind of edge]), without gradients.

    Shapes:
        own: [kinds, d]; sent: [kinds * bond kinds, d]; kinds: [N, m]; bonds: each edge's kind, [E], or None.
    """
    return _kernels(own).sum_kinds(own, sent, kinds, graphs, bonds)


def product_relu(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute relu(rows @ weight + bias), without gradients: [rows, d], [d, d] as [in, out], [d]."""
    return _kernels(rows).product_relu(rows, weight, bias)


def sum_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """Return the sum of each graph's rows, [N, ...] -> [B, ...]."""
    return _kernels(h).sum_nodes(h, graphs)


def spread_to_nodes(h: Tensor, graphs: GraphBatch) -> Tensor:
    """Return each graph's row at each of its nodes, [B, ...] -> [N, ...]."""
    return _kernels(h).spread_to_nodes(h, graphs)


def _kernels(h: Tensor):  # noqa: ANN202 (a module)
    if torch.compiler.is_exporting():
        return reference
    if h.device.type != "cuda":
        return cpu if h.dtype in SPARSE and not torch.is_autocast_enabled("cpu") else reference
    from maggnn.model.kernels import gpu  # needs Triton, which only GPU builds of torch bring

    return gpu
