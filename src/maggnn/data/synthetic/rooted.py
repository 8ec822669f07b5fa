"""Targets of nodes and edges as targets of rooted graphs: one graph for each, with one or two marked roots.

The paper's reward is that of a whole graph. Averaged over nodes, it does not show which node a move has helped, which
the paper names as a limitation. A rooted graph has one target, so the reward of a move (Eq. 8) belongs to that node,
and each node has its own tuples. Everything else (marks, agent, paradigms, engine) is as for graphs. The cost is one
graph for each node or edge.

Root i is an additional column of `x`, 1 at that node and 0 elsewhere, and `roots` has its id.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import expanded
from maggnn.graphs.checks import check_integers
from maggnn.graphs.packed import PackedGraphs


def rooted_at_nodes(packed: PackedGraphs) -> PackedGraphs:
    """Make one graph for each node, in the order of the nodes; targets of nodes become targets of graphs."""
    if packed.y is not None and packed.level != "node":
        raise InputError("these targets belong to graphs, but rooted graphs are made for targets of nodes")
    graph = torch.repeat_interleave(torch.arange(len(packed)), packed.num_nodes)
    local = torch.arange(len(graph)) - packed.node_offsets[graph]
    return _rooted(packed, graph, local[:, None], packed.y)


def rooted_at_pairs(packed: PackedGraphs, graph: Tensor, pairs: Tensor, y: Tensor) -> PackedGraphs:
    """Make one graph for each pair of nodes: edges with targets, or the two ends of a possible link.

    Args:
        graph: the graph of each pair, [P].
        pairs: two local node ids, [P, 2]; their order matters.
        y: the target of each pair, [P, ...].
    """
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) != len(graph) or len(y) != len(graph):
        raise InputError(
            f"{len(graph)} graphs, pairs {tuple(pairs.shape)} and {len(y)} targets: give one of each for each pair"
        )
    check_integers("graph", graph)
    check_integers("pairs", pairs)
    graph, pairs = graph.long(), pairs.long()
    if len(graph) and (int(graph.min()) < 0 or int(graph.max()) >= len(packed)):
        raise InputError(f"graph must contain numbers of graphs, from 0 to {len(packed) - 1}")
    outside = (pairs < 0) | (pairs >= packed.num_nodes[graph][:, None])
    if bool(outside.any()):
        pair = int(outside.any(dim=1).nonzero()[0])
        raise InputError(f"pair {pair}, {tuple(pairs[pair].tolist())}, has a node outside its graph")
    return _rooted(packed, graph, pairs, y)


def graphs_of_roots(packed: PackedGraphs, ids: Tensor) -> Tensor:
    """Return which graphs of `rooted_at_nodes` belong to graphs `ids`, to convert a split of graphs to one of roots."""
    return expanded(packed.node_offsets[ids], packed.num_nodes[ids])[0]


def _rooted(packed: PackedGraphs, graph: Tensor, roots: Tensor, y: Tensor | None) -> PackedGraphs:
    """Return graph `graph[i]` of the set with roots `roots[i]` [r], for each i."""
    copies = replace(packed, y=None, finest=None, level="graph").select(graph)
    root_rows = copies.node_offsets[:-1, None] + roots
    flags = torch.zeros(len(copies.in_degree), roots.shape[1], dtype=torch.long)
    for number in range(roots.shape[1]):
        flags[root_rows[:, number], number] = 1
    if copies.x is not None and copies.x.is_floating_point():
        flags = flags.to(copies.x.dtype)
    x = flags if copies.x is None else torch.cat([copies.x, flags], dim=1)
    return replace(copies, x=x, y=y, roots=roots)
