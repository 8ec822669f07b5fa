"""`agent.start`: the tuples U before the first move, where they are not drawn at random.

Shapes: B graphs; m tuples of order k for each graph, [B, m, k], node ids local to their graph.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.structure import centrality


def central_tuples(graphs: GraphBatch, num_tuples: int, tuple_order: int) -> Tensor:
    """Return the nodes of highest subgraph centrality, assigned slot by slot and tuple by tuple: [B, m, k].

    A graph with fewer nodes repeats them from the first. Nodes of equal centrality are in the order of their ids.
    """
    ranked = graphs.padded(centrality(graphs), float("-inf")).sort(dim=1, descending=True, stable=True).indices
    place = torch.arange(num_tuples * tuple_order, device=graphs.device) % graphs.num_nodes[:, None]  # [B, m * k]
    return ranked.gather(1, place).unflatten(1, (num_tuples, tuple_order))


def neighbour_tuples(graphs: GraphBatch, num_tuples: int, tuple_order: int) -> Tensor:
    """Put all slots of tuple i on the i-th neighbour of the roots, and further tuples on the first root: [B, m, k].

    With k = 1 and m at least the degree of the root, the marks are those of I2-GNN, for any numbering of the nodes.
    """
    roots = graphs.roots
    if roots is None:
        raise InputError("agent.start = neighbours needs rooted graphs (maggnn.data.synthetic.rooted)")
    source, target = graphs.edge_index
    is_root = torch.zeros(graphs.total_nodes, device=graphs.device)
    is_root.index_fill_(0, (roots + graphs.first_node[:, None]).flatten(), 1.0)
    is_near = torch.zeros_like(is_root).index_add_(0, source, is_root[target]).sign() * (1 - is_root)
    near = graphs.padded(is_near, 0.0)  # [B, max_num_nodes]
    place = torch.arange(num_tuples, device=graphs.device).expand(len(near), -1)  # [B, m]
    ranked = near.sort(dim=1, descending=True, stable=True).indices.gather(1, place.clamp(max=near.shape[1] - 1))
    node = torch.where(place < near.sum(dim=1, keepdim=True), ranked, roots[:, :1])
    return node[:, :, None].expand(-1, -1, tuple_order)


def _finest_starts(graphs: GraphBatch, num_tuples: int, tuple_order: int) -> Tensor:
    from maggnn.model.refined.finest import finest_starts  # few models need it

    return finest_starts(graphs, num_tuples, tuple_order)


STARTS: dict[str, Callable[[GraphBatch, int, int], Tensor]] = {
    "central": central_tuples,
    "neighbours": neighbour_tuples,
    "finest": _finest_starts,
}
"""Functions from graphs, m and k to U before the first move, [B, m, k], by their names in `agent.start`; `random` is
drawn by `tuples.sample_tuples`."""
