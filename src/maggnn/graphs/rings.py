"""The smallest ring that each edge lies in: chemistry's most telling feature of a bond that the edges alone determine.

Which way an edge goes does not matter.

Shapes: B graphs, N nodes, E edges of the batch, V nodes and L edges of its largest graphs.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch, largest, sum_rows
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import adjacency, either_way, like_sized

LARGEST = 8
"""Larger rings count as none: they are rare in molecules, and each size is a row of every layer's bond table."""

NUM_CATEGORIES = LARGEST - 1
"""No ring, then sizes 3, 4, ..., LARGEST."""


def edge_rings(graphs: GraphBatch) -> Tensor:
    """The category of each edge's smallest ring, [E]: 0 for none, else its size less two."""
    if graphs.rings is not None:
        return graphs.rings
    return graphs.derived("rings found", lambda: _search(graphs))


def with_rings(packed: PackedGraphs) -> PackedGraphs:
    """The same set with the rings of every edge worked out, [total edges]."""
    if packed.rings is not None:
        return packed
    rings = torch.zeros(len(packed.by_source), dtype=torch.long, device=packed.device)
    largest = packed.largest_graph
    for chunk in like_sized(packed.num_edges, lambda count: max(count, largest) * largest, packed.device):
        batch = packed[chunk]
        starts = packed.device_offsets[1][chunk.to(packed.device)]
        graph, place = _places(batch)
        rings[starts[graph] + place] = _search(batch)
    return replace(packed, rings=rings)


def _places(graphs: GraphBatch) -> tuple[Tensor, Tensor]:
    """Of each edge its graph and its number there, [E] both; rows of padding come after a graph's own."""
    graph = graphs.node_graph[graphs.edge_index[1]]
    before = graphs.edge_offsets[graphs.first_node]  # [B]
    return graph, torch.arange(graph.shape[0], device=graphs.device) - before[graph]


def _search(graphs: GraphBatch) -> Tensor:
    """Breadth first from each edge's source, all edges at once, until its target is met by another way, [E]."""
    graph, place = _places(graphs)
    if not torch.compiler.is_exporting() and not len(graph):
        return torch.zeros_like(graph)
    count, size = graphs.num_graphs, graphs.max_num_nodes
    most = largest(sum_rows(torch.ones_like(graph), graph, count))
    joined = either_way(adjacency(graphs))  # [B, V, V]
    source, target = graphs.local_id.clamp(max=size - 1)[graphs.edge_index].unbind()  # [E]
    row = (graph * most + place) * size  # where an edge's nodes begin in [B, L, V]
    at_source, at_target = row + source, row + target
    met = sum_rows(torch.ones_like(row, dtype=joined.dtype), at_source, count * most * size)
    ring = torch.zeros_like(graph)
    for length in range(2, LARGEST + 1):  # after `length - 1` steps
        ways = (met.reshape(count, most, size) @ joined).flatten()
        ways.scatter_add_(0, at_target, -met[at_source])  # not along the edge itself
        ring = torch.where((ways[at_target] > 0) & (ring == 0), length, ring)
        met = ((ways + met) > 0).to(joined.dtype)
    ring = torch.where(source == target, 0, ring)  # a self-loop is no ring
    return (ring - 2).clamp(min=0)
