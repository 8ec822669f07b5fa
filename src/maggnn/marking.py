"""Marks of Eq. 2: the features X(v) that turn a graph into its marked copy G(v).

The only place where `tuples` [B, m, k] become copies of the graph, and the copies are never materialised:
one [N, m, k] tensor of marks stands beside edges that all copies share.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.graphs import GraphBatch


def marks(graphs: GraphBatch, tuples: Tensor, c_plus: float, c_minus: float, dtype: torch.dtype) -> Tensor:
    """X(v) for each of the m tuples: c+ at [v_j, j], c- elsewhere.

    Shapes:
        tuples: [B, m, k]; result: [N, m, k].
    """
    _, num_tuples, tuple_order = tuples.shape
    shape = (graphs.total_nodes, num_tuples, tuple_order)
    result = torch.full(shape, c_minus, dtype=dtype, device=tuples.device)
    node = tuples + graphs.first_node[:, None, None]  # [B, m, k], ids of the batch
    cell = torch.arange(num_tuples * tuple_order, device=tuples.device).reshape(num_tuples, tuple_order)
    result.view(-1).index_fill_(0, (node * cell.numel() + cell).flatten(), c_plus)
    return result


def mark_sets(graphs: GraphBatch, tuples: Tensor) -> Tensor:
    """Which slots mark each node in each copy, as the bits of one number: slot j is 2^j.

    Shapes:
        tuples: [B, m, k]; result: [N, m].
    """
    _, num_tuples, tuple_order = tuples.shape
    result = torch.zeros(graphs.total_nodes, num_tuples, dtype=torch.long, device=tuples.device)
    copy = torch.arange(num_tuples, device=tuples.device)[:, None]
    place = (tuples + graphs.first_node[:, None, None]) * num_tuples + copy  # [B, m, k]
    bit = (1 << torch.arange(tuple_order, device=tuples.device)).expand_as(place)
    result.view(-1).scatter_add_(0, place.flatten(), bit.flatten())
    return result


def marked_nodes(h: Tensor, graphs: GraphBatch, tuples: Tensor) -> Tensor:
    """The embeddings at the marks, [N, m, d] -> [B, m, k, d]."""
    node = tuples + graphs.first_node[:, None, None]  # [B, m, k]
    copy = torch.arange(tuples.shape[1], device=tuples.device)[None, :, None]
    return h[node, copy]
