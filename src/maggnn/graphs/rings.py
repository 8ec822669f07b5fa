"""The smallest ring that contains each edge, the most informative structural feature of a bond.

The direction of edges does not matter.

Shapes: B graphs, N nodes, E edges of the batch, V nodes and L edges of its largest graphs.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch, largest, sum_rows
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import adjacency, as_undirected, chunks_of_similar_size

LARGEST = 8
"""Larger rings count as no ring: they are rare in molecules, and each size is a row of every layer's bond table."""

NUM_CATEGORIES = LARGEST - 1
"""The categories are no ring, then the sizes 3, 4, ..., LARGEST."""


CELLS_IN_CACHE = 400_000
"""The number of entries of dense matrices at a time on a CPU: a search makes fewer passes over them than powers do."""


def edge_rings(graphs: GraphBatch) -> Tensor:
    """Return the category of each edge's smallest ring, [E]: 0 for none, else its size minus two."""
    if graphs.rings is not None:
        return graphs.rings
    return graphs.derived("rings found", lambda: _search(graphs))


def with_rings(packed: PackedGraphs) -> PackedGraphs:
    """Return the same set with precomputed rings of every edge, [total edges]."""
    if packed.rings is not None:
        return packed
    small = torch.long if packed.folder is None else torch.uint8  # one byte is enough on disk
    rings = packed.room((len(packed.by_source),), small)
    count = packed.num_edges // 2 if packed.symmetric else packed.num_edges  # the edges that are searched from
    sizes = torch.maximum(packed.num_nodes, count)
    for chunk in chunks_of_similar_size(packed, sizes, lambda size: size**2, CELLS_IN_CACHE):
        batch = packed[chunk]
        starts = packed.device_offsets[1][chunk.to(packed.device)]
        graph, place = _places(batch)
        found = _search_one_way(batch) if packed.symmetric else _search(batch)
        rings[starts[graph] + place] = found.to(small)
    return replace(packed, rings=rings)


def _search_one_way(graphs: GraphBatch) -> Tensor:
    """Apply `_search` to one direction of symmetric edges, since the reverse edge has the same ring, [E]."""
    source, target = graphs.edge_index
    once = (source < target).nonzero()[:, 0]
    rings = torch.zeros_like(source)
    rings[once] = _search(graphs, once)
    return rings + rings[graphs.by_source]  # `by_source` maps each edge to its reverse


def _places(graphs: GraphBatch) -> tuple[Tensor, Tensor]:
    """Return each edge's graph and its number there, [E] both; rows of padding come after a graph's own."""
    graph = graphs.node_graph.index_select(0, graphs.edge_index[1])
    before = graphs.edge_offsets[graphs.first_node]  # [B]
    return graph, torch.arange(graph.shape[0], device=graphs.device) - before.index_select(0, graph)


def _search(graphs: GraphBatch, edges: Tensor | None = None) -> Tensor:
    """Search breadth-first from each edge's source, for all edges at once, until another path reaches its target.

    Args:
        edges: the edges to search from, ascending, [E']; all if not given.

    Returns:
        The category of each of these edges, [E'].
    """
    graph, place = _places(graphs)
    edge_index = graphs.edge_index
    if edges is not None:
        graph, edge_index = graph[edges], edge_index[:, edges]
    if not torch.compiler.is_exporting() and not len(graph):
        return torch.zeros_like(graph)
    count, size = graphs.num_graphs, graphs.max_num_nodes
    own = sum_rows(torch.ones_like(graph), graph, count)
    if edges is not None:
        place = torch.arange(len(graph), device=graphs.device) - (own.cumsum(0) - own)[graph]
    most = largest(own)
    joined = as_undirected(adjacency(graphs))  # [B, V, V]
    step = joined + torch.eye(joined.shape[1], dtype=joined.dtype, device=joined.device)
    source, target = graphs.local_id.clamp(max=size - 1)[edge_index].unbind()  # [E']
    row = (graph * most + place) * size  # the position of an edge's first node in [B, L, V]
    at_source, at_target = row + source, row + target
    met = sum_rows(torch.ones_like(row, dtype=joined.dtype), at_source, count * most * size)
    ring = torch.zeros_like(graph)
    for length in range(2, LARGEST + 1):  # after `length - 1` steps
        met = (met.reshape(count, most, size) @ step).flatten()
        ways = (
            met[at_target] - 1
        )  # without the edge itself; until a ring is found, no other path has reached the target
        met.scatter_(0, at_target, ways)
        met.clamp_(0, 1)
        ring = torch.where((ways > 0) & (ring == 0), length, ring)
    ring = torch.where(source == target, 0, ring)  # a self-loop is not a ring
    return (ring - 2).clamp(min=0)
