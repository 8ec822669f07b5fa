"""All marked copies of a graph (Eq. 3), restricted to what lies near their roots: the object that subgraph GNNs share.

A copy belongs to its roots: one node (v in V, node-rooted methods) or a node and one of its neighbours (edge-rooted
ones). It holds the nodes within `hops` edges of its first root, or all of them, and the edges between them. The copies
of a batch are a batch of graphs of their own, so every encoder runs on them as it is, with the roots as its tuples.

The rows of the copies are pairs (root, node), in the order of roots and then of nodes:

    sum_copy         over the nodes of a copy              [P, d] -> [R, d]
    at_root          the row of a copy's own root          [P, d] -> [R, d]
    pool_node        over the copies that hold a node      [P, d] -> [N, d]
    sum_first_root   over the copies of a root, to nodes   [R, d] -> [N, d]
    transposed       the row (node, root) of each row (root, node)

These sums go by offsets, never by atomics, so that they repeat bit for bit on a GPU. Gradients of rows that are taken
more than once (`parts.at_nodes`) need not.

Shapes: B graphs, N nodes, E edges of the batch; R copies, P rows, Q edges of the copies; V the largest graph's nodes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import TypeVar

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch, batch_of_edges, expanded
from maggnn.graphs.structure import adjacency, as_undirected, balls
from maggnn.model.kernels.messages import sum_nodes

T = TypeVar("T")

WHOLE_GRAPH = 0
"""As `hops`: every node of the graph; where no path leads, the distance is `UNREACHED`."""

REACHABLE = -1
"""As `hops`: every node that a path leads to."""

UNREACHED = -1
"""As a distance."""


@dataclass(frozen=True)
class Copies:
    """The copies of a batch.

    Attributes:
        base_ref: the batch they are copies of, which keeps them (`cached`); weakly, or each would keep the other.
        graphs: the copies as a batch of R graphs; features and structure are those of the nodes and edges copied.
        node: the batch's node that each row copies, [P].
        roots: the batch's nodes that each copy belongs to, [R, k].
        edge: the batch's edge that each edge copies, [Q].
        distance: edges from a row's node to each of its copy's roots, [P, k]; UNREACHED where no path leads.
    """

    base_ref: weakref.ReferenceType[GraphBatch]
    graphs: GraphBatch
    node: Tensor
    roots: Tensor
    edge: Tensor
    distance: Tensor

    @property
    def base(self) -> GraphBatch:
        """The batch they are copies of; whoever reads the copies has it."""
        base = self.base_ref()
        assert base is not None, "copies outlived their batch: keep the batch while they are read"
        return base

    @property
    def copy(self) -> Tensor:
        """The copy that each row belongs to, [P]."""
        return self.graphs.node_graph

    @cached_property
    def tuples(self) -> Tensor:
        """The roots as one tuple a copy, ids local to the copy: [R, 1, k]."""
        rows = torch.stack([self._root_row(slot) for slot in range(self.roots.shape[1])], dim=1)
        return (rows - self.graphs.first_node[:, None])[:, None]

    def _root_row(self, slot: int) -> Tensor:
        is_root = self.node == self.roots[self.copy, slot]
        return is_root.nonzero()[:, 0]

    @cached_property
    def root_rows(self) -> Tensor:
        """The rows of each copy's roots, [R, k]."""
        return self.tuples[:, 0] + self.graphs.first_node[:, None]

    def at_root(self, h: Tensor, slot: int = 0) -> Tensor:
        """The rows of the copies' roots, the first of each or another one, [P, ...] -> [R, ...]."""
        return h.index_select(0, self.root_rows[:, slot])

    def sum_copy(self, h: Tensor) -> Tensor:
        """The sum of each copy's rows, [P, ...] -> [R, ...]."""
        return sum_nodes(h, self.graphs)

    def mean_copy(self, h: Tensor) -> Tensor:
        """The mean of each copy's rows, [P, ...] -> [R, ...]."""
        return self.sum_copy(h) / self.graphs.num_nodes.reshape(-1, *[1] * (h.ndim - 1))

    def pool_copy(self, h: Tensor, pooling: str) -> Tensor:
        """The mean or the sum of each copy's rows, [P, ...] -> [R, ...]."""
        return self.mean_copy(h) if pooling == "mean" else self.sum_copy(h)

    def pool_node(self, h: Tensor, pooling: str = "mean") -> Tensor:
        """The same over all copies that hold a node, [P, ...] -> [N, ...]; 0 for padding, which is in none."""
        other = h.index_select(0, self.transposed)  # being near is mutual
        return self.sum_first_root(self.pool_copy(other, pooling))

    def sum_first_root(self, h: Tensor) -> Tensor:
        """The sum over all copies of a first root, [R, ...] -> [N, ...]; with one root each, its copy's own row."""
        counts = torch.bincount(self.roots[:, 0], minlength=self.base.total_nodes)
        return torch.segment_reduce(h, "sum", lengths=counts, initial=0.0)  # the copies of a root lie together

    @cached_property
    def transposed(self) -> Tensor:
        """Where the row (node, root) of each row (root, node) is, [P]: for node-rooted copies of undirected graphs."""
        assert self.roots.shape[1] == 1, "only pairs of a root and a node can be turned round"
        return torch.argsort(self.node * self.base.total_nodes + self.roots[self.copy, 0])


def node_copies(graphs: GraphBatch, hops: int = WHOLE_GRAPH) -> Copies:
    """One copy for each node, marked there."""
    return cached(graphs, f"copies of nodes within {hops}", lambda: _around_nodes(graphs, hops))


def edge_copies(graphs: GraphBatch, hops: int = WHOLE_GRAPH) -> Copies:
    """One copy for each directed edge (v, w), marked at v and at w; around v."""
    return cached(graphs, f"copies of edges within {hops}", lambda: _around_edges(graphs, hops))


def distances(graphs: GraphBatch, hops: int = WHOLE_GRAPH) -> Tensor:
    """Edges between any two nodes of a graph, [B, V, V]; UNREACHED beyond `hops` and where no path leads."""
    edges = as_undirected(adjacency(graphs))
    bounded = hops > 0
    both_nodes = graphs.is_node[:, None] & graphs.is_node[:, :, None]  # [B, V, V]
    table = torch.where(both_nodes & torch.eye(edges.shape[1], dtype=torch.bool, device=edges.device), 0, UNREACHED)
    farthest = hops if bounded else max(edges.shape[1] - 1, 0)
    for step, (near, wider) in enumerate(islice(pairwise(balls(edges)), farthest), 1):
        reached = wider > near
        if not bounded and not bool(reached.any()):  # a bound is near, and looking would wait for the device
            break
        table = torch.where(reached & both_nodes, step, table)
    return table


def cached(graphs: GraphBatch, name: str, make: Callable[[], T]) -> T:
    """What `make` builds of a batch, kept there: layers, methods and passes that ask for the same share it.

    For objects of a baseline's own; a single tensor is `GraphBatch.derived`.
    """
    held = graphs.__dict__.get(name)
    if held is None:
        held = graphs.__dict__[name] = make()
    return held


def _around_nodes(graphs: GraphBatch, hops: int) -> Copies:
    table = distances(graphs, hops)  # [graph, root, node]
    near = graphs.is_node[:, :, None] & graphs.is_node[:, None] if hops == WHOLE_GRAPH else table >= 0
    graph, root, local = near.nonzero(as_tuple=True)  # in the order of (root, node)
    node = local + graphs.first_node[graph]
    row_of = torch.full_like(table, -1)
    row_of[near] = torch.arange(len(node), device=node.device)
    edge, row = expanded(graphs.edge_offsets[:-1][node], graphs.in_degree[node])
    source = row_of[graph[row], root[row], graphs.local_id[graphs.edge_index[0, edge]]]
    inside = source >= 0  # the edge's other end is in the copy too
    edges = torch.stack([source, row])[:, inside]
    num_nodes = near.sum(dim=2)[graphs.is_node]  # [R]: a copy for each node, in their order
    roots = torch.arange(len(num_nodes), device=node.device)[:, None]
    return _assembled(graphs, roots, node, edge[inside], table[near][:, None], num_nodes, edges)


def _around_edges(graphs: GraphBatch, hops: int) -> Copies:
    """The copy around v once for each of its neighbours w."""
    around = node_copies(graphs, hops)
    w, v = _real_edges(graphs)  # in the order of targets, so the copies of a node v lie together
    num_nodes = around.graphs.num_nodes[v]
    row, copy = expanded(around.graphs.first_node[v], num_nodes)  # [P]: rows of the copies around nodes
    node, second = around.node[row], w[copy]
    table = distances(graphs, hops + 1 if hops > 0 else hops)  # w is one edge from v: no node of the copy is farther
    to_second = table[graphs.node_graph[node], graphs.local_id[second], graphs.local_id[node]]
    distance = torch.stack([around.distance[row, 0], to_second], dim=1)
    inner, target = expanded(around.graphs.edge_offsets[:-1][row], around.graphs.in_degree[row])  # [Q]
    shift = torch.arange(len(row), device=row.device) - row  # from a row around a node to its row here
    source = around.graphs.edge_index[0, inner] + shift[target]
    edges = torch.stack([source, target])
    return _assembled(graphs, torch.stack([v, w], dim=1), node, around.edge[inner], distance, num_nodes, edges)


def _real_edges(graphs: GraphBatch) -> Tensor:
    """Without those of padding, [2, E]; a self-loop leads to no neighbour."""
    edges = graphs.edge_index[:, : int(graphs.edge_offsets[-1])]
    return edges[:, edges[0] != edges[1]]


def _assembled(
    graphs: GraphBatch,
    roots: Tensor,
    node: Tensor,
    edge: Tensor,
    distance: Tensor,
    num_nodes: Tensor,
    edge_index: Tensor,
) -> Copies:
    """The copies as a batch of their own."""
    copies = batch_of_edges(
        num_nodes,
        edge_index,
        x=None if graphs.x is None else graphs.x[node],
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[edge],
        structure=None if graphs.structure is None else graphs.structure[node],
        rings=None if graphs.rings is None else graphs.rings[edge],
    )
    return Copies(weakref.ref(graphs), copies, node, roots, edge, distance)
