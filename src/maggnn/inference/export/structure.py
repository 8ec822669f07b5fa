"""What the edges alone say of nodes and edges, in operations that `torch.export` can write down.

The same numbers as `maggnn.graphs.structure` and `maggnn.graphs.rings`, which look at values to choose their chunks and
their loops. Here the largest graph's size is read off the batch while the program runs, and every loop has a fixed
length.

Shapes: B graphs, N nodes and E edges of the batch, V nodes and L edges of its largest graphs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from maggnn.graphs.rings import LARGEST
from maggnn.graphs.structure import CENTRALITY_TERMS, DECIMALS, FARTHEST, either_way

SQUARINGS = 10
"""Of the nodes within 11 steps, until every path fits that has up to 11 * 2^10 edges."""


class Batch(NamedTuple):
    """Graphs as an exported program is given them.

    Shapes:
        num_nodes: [B]; node_graph: [N]; edge_index: [2, E], ids of the batch, the edges of a graph together;
        first_node: [B], the batch id of each graph's node 0; local_id: [N], each node's id within its own graph;
        x: [N, F]; edge_attr: [E, F]; roots: [B, r];
        rank: [N], by centrality; distances: [N, FARTHEST]; walks: [N, steps]; rings: [E]: what the edges alone say.
    """

    num_nodes: Tensor
    node_graph: Tensor
    edge_index: Tensor
    first_node: Tensor
    local_id: Tensor
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    roots: Tensor | None = None
    rank: Tensor | None = None
    distances: Tensor | None = None
    walks: Tensor | None = None
    rings: Tensor | None = None


def batch_of(edge_index: Tensor, node_graph: Tensor, num_nodes: Tensor, *rest: Tensor | None) -> Batch:
    """The batch of a program's inputs.

    Args:
        rest: x, edge_attr and roots.
    """
    first_node = num_nodes.cumsum(0) - num_nodes
    local_id = torch.arange(node_graph.shape[0], device=node_graph.device) - first_node[node_graph]
    return Batch(num_nodes, node_graph, edge_index, first_node, local_id, *rest)


def sum_rows(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """The sum of each owner's rows, [rows, ...] -> [count, ...].

    Not `index_add`, whose ONNX form adds without waiting for other threads.
    """
    index = owner.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
    return values.new_zeros(count, *values.shape[1:]).scatter_add(0, index, values)


def _adjacency(graphs: Batch) -> Tensor:
    """Dense, [B, V, V] as [target, source]."""
    count, size = graphs.num_nodes.shape[0], _largest(graphs.num_nodes)
    source, target = graphs.edge_index[0], graphs.edge_index[1]
    local = graphs.local_id
    cell = (graphs.node_graph[target] * size + local[target]) * size + local[source]
    return sum_rows(torch.ones_like(cell, dtype=torch.float32), cell, count * size * size).reshape(count, size, size)


def with_structure(graphs: Batch, central: bool, distances: bool, steps: int, rings: bool) -> Batch:
    """The batch with what is asked for, worked out.

    Args:
        steps: return probabilities of walks of 2, 3, ..., steps + 1 steps.
    """
    if not (central or distances or steps or rings):
        return graphs
    edges = _adjacency(graphs)
    return graphs._replace(
        rank=_at_nodes(graphs, _ranks(graphs.num_nodes, _centrality(edges))) if central else None,
        distances=_at_nodes(graphs, torch.stack(_counts(either_way(edges)), dim=-1)) if distances else None,
        walks=_at_nodes(graphs, torch.stack(_returns(edges, steps), dim=-1)) if steps else None,
        rings=_rings(graphs, edges) if rings else None,
    )


def _at_nodes(graphs: Batch, table: Tensor) -> Tensor:
    """[B, V, ...] -> [N, ...]."""
    return table[graphs.node_graph, graphs.local_id]


def _returns(edges: Tensor, steps: int) -> list[Tensor]:
    """Probabilities that a walk is back after 2, 3, ..., steps + 1 steps, tables [B, V]."""
    walk = power = edges / edges.sum(dim=2, keepdim=True).clamp(min=1)
    identity, columns = _identity(edges), []
    for _ in range(steps):
        power = power @ walk
        columns.append(_diagonal(power, identity))
    return columns


def _centrality(edges: Tensor) -> Tensor:
    """Subgraph centrality, [B, V], in double precision and rounded: equal ones must come out equal."""
    exact = term = edges.double()
    total, identity = torch.ones_like(exact[:, :, 0]), _identity(exact)
    for s in range(1, CENTRALITY_TERMS + 1):
        total = total + _diagonal(term, identity)
        term = term @ exact / (s + 1)
    return ((total * 10**DECIMALS).round() / 10**DECIMALS).float()


def _ranks(num_nodes: Tensor, centrality: Tensor) -> Tensor:
    """How many of a graph's nodes come before each, [B, V]: more central ones, and equal ones of smaller ids."""
    node = torch.arange(centrality.shape[1], device=centrality.device)
    other = torch.where(node < num_nodes[:, None], centrality, -1.0)[:, None, :]  # [B, 1, V]
    own = centrality[:, :, None]
    before = (other > own) | ((other == own) & (node < node[:, None]))
    return before.to(num_nodes.dtype).sum(dim=2)


def _counts(edges: Tensor) -> list[Tensor]:
    """How many nodes are 1, 2, ... steps away, FARTHEST tables [B, V]."""
    near = _identity(edges).expand_as(edges)  # within so many steps
    columns = []
    for _ in range(FARTHEST - 1):
        wider = ((near @ edges + near) > 0).float()
        columns.append((wider - near).sum(dim=2))
        near = wider
    reached = near
    for _ in range(SQUARINGS):
        reached = ((reached @ reached) > 0).float()
    return [*columns, (reached - near).sum(dim=2)]


def _rings(graphs: Batch, edges: Tensor) -> Tensor:
    """The category of each edge's smallest ring, [E]: breadth first, all edges at once, as in `maggnn.graphs.rings`."""
    joined = either_way(edges)  # [B, V, V]
    (source, target), count = graphs.local_id[graphs.edge_index], graphs.num_nodes.shape[0]
    graph, size = graphs.node_graph[graphs.edge_index[1]], edges.shape[1]
    num_edges = sum_rows(torch.ones_like(graph), graph, count)
    most = _largest(num_edges)
    place = torch.arange(graph.shape[0], device=graph.device) - (num_edges.cumsum(0) - num_edges)[graph]
    row = (graph * most + place) * size  # where an edge's nodes begin in [B, L, V]
    begun = sum_rows(torch.ones_like(row, dtype=torch.float32), row + source, count * most * size)
    met = begun.reshape(count, most, size)
    ring = torch.zeros_like(graph)
    for steps in range(2, LARGEST + 1):  # after `steps - 1` steps
        # A step along the edge itself does not count.
        itself = sum_rows(met.flatten()[row + source], row + target, count * most * size)
        ways = met @ joined - itself.reshape(count, most, size)
        closed = ways.flatten()[row + target] > 0
        ring = torch.where(closed & (ring == 0), steps, ring)
        met = ((ways + met) > 0).float()
    ring = torch.where(source == target, 0, ring)  # a self-loop is no ring
    return (ring - 2).clamp(min=0)


def _diagonal(matrices: Tensor, identity: Tensor) -> Tensor:
    """[B, V, V] -> [B, V]."""
    return (matrices * identity).sum(dim=2)


def _identity(matrices: Tensor) -> Tensor:
    node = torch.arange(matrices.shape[1], device=matrices.device)
    return (node[:, None] == node).to(matrices.dtype)


def _largest(counts: Tensor) -> Any:
    """A size that only the values tell: the program learns it when it runs. At least 2, as compilers ask about 1."""
    most = counts.max().clamp(min=2).item()
    torch._check(most >= 2)
    return most
