"""Node tuples: functions that draw, change, enumerate and check the set U of m tuples of order k (Eq. 5).

Shapes: `tuples` is [B, m, k], node ids local to their graph. Repeated nodes are allowed, as in V^k(G), so
k > |V| and one-node graphs need no special case.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, values_known


def sample_tuples(
    graphs: GraphBatch, num_tuples: int, tuple_order: int, generator: torch.Generator | None = None
) -> Tensor:
    """Draw m tuples for each graph uniformly from V^k(G), [B, m, k]."""
    shape = (graphs.num_graphs, num_tuples, tuple_order)
    uniform = torch.rand(shape, device=graphs.device, generator=generator, dtype=torch.float64)
    return (uniform * graphs.num_nodes[:, None, None]).long()


def replace_slot(tuples: Tensor, slot: Tensor, node: Tensor) -> Tensor:
    """Eq. 7: put `node` [B, m] at index `slot` [B, m] of each tuple, [B, m, k]."""
    return tuples.scatter(-1, slot[..., None], node[..., None])


def one_move_away(own_tuple: Tensor, max_num_nodes: int) -> Tensor:
    """Return every tuple that one move can reach: node l at slot j of `own_tuple` [B, k], as [B, V, k, k].

    Row [b, l, j] is the outcome of action a(j, l). Rows of padding nodes (l >= |V|) repeat the tuple itself.
    """
    order = own_tuple.shape[-1]
    node = torch.arange(max_num_nodes, device=own_tuple.device)
    is_slot = torch.eye(order, dtype=torch.bool, device=own_tuple.device)  # [k, k]
    return torch.where(is_slot, node[None, :, None, None], own_tuple[:, None, None, :])


def all_tuples(num_nodes: int, tuple_order: int, device: torch.device | str = "cpu") -> Tensor:
    """Return V^k(G) of one graph in lexicographic order, [|V|^k, k]."""
    return tuples_at(torch.arange(num_nodes**tuple_order, device=device), num_nodes, tuple_order)


def tuples_at(index: Tensor, num_nodes: int, tuple_order: int) -> Tensor:
    """Return the rows `index` [M] of `all_tuples`, [M, k], for lists that do not fit into memory."""
    powers = num_nodes ** torch.arange(tuple_order - 1, -1, -1, device=index.device)
    return index[:, None] // powers % num_nodes


def check_tuples(tuples: Tensor, graphs: GraphBatch, num_tuples: int, tuple_order: int) -> None:
    """Check that tuples are [B, m, k] node ids of their graphs.

    Raises:
        InputError: the shape or type is wrong, or an id is outside its graph.
    """
    expected = (graphs.num_graphs, num_tuples, tuple_order)
    if tuples.shape != expected or tuples.is_floating_point() or tuples.dtype == torch.bool:
        raise InputError(
            f"tuples have shape {tuple(tuples.shape)} of {tuples.dtype}, expected integers [B, m, k] = {expected}"
        )
    if values_known(tuples) and bool(((tuples < 0) | (tuples >= graphs.num_nodes[:, None, None])).any()):
        raise InputError("tuples have a node id outside its graph: ids run from 0 to the number of nodes minus one")
