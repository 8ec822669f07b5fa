"""Gathers a batch on a GPU: three Triton programs instead of about sixty kernels of plain torch.

`PackedGraphs.gather` defines the result and computes it in plain torch on a CPU. A program copies one graph; the last
one fills in the padding. Every training step and every search begins with a gather, and its tensors are small, so that
its cost is the number of kernel launches.

Shapes: B graphs, N nodes and E edges that the batch has room for; everything is int64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64
"""The number of rows that a program copies at a time: one or two molecules."""

MOST_AT_ONCE = 2048
"""The number of graphs whose positions are computed at a time. For twice as many, a program has too few registers."""


class Gathered(NamedTuple):
    """The tensors of a batch; `rows` and `edge_rows` are the rows of the set that its nodes and edges come from."""

    num_nodes: Tensor
    node_offsets: Tensor
    node_graph: Tensor
    rows: Tensor
    in_degree: Tensor
    out_degree: Tensor
    edge_offsets: Tensor
    source_offsets: Tensor
    edge_rows: Tensor
    edge_index: Tensor
    by_source: Tensor


def gather(
    ids: Tensor,
    node_offsets: Tensor,
    edge_offsets: Tensor,
    degrees: tuple[Tensor, Tensor],
    starts: tuple[Tensor, Tensor],
    edge_index: Tensor,
    by_source: Tensor,
    num_nodes: int,
    num_edges: int,
) -> Gathered:
    """Gather graphs `ids` [B] of a set, padded to `num_nodes` and `num_edges`.

    Args:
        node_offsets, edge_offsets: the position of each graph's first node and edge, [G + 1].
        degrees: in- and out-degree of every node of the set.
        starts: the positions of every node's first incoming edge among its graph's edges, and first outgoing by source.
        edge_index, by_source: those of the set, with ids within each graph.
    """
    count = len(ids)

    def new(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.long, device=ids.device)

    own_nodes, first_node, first_edge = new(count), new(count + 1), new(count + 1)
    at_once = min(triton.next_power_of_2(count), MOST_AT_ONCE)
    batch_starts[(1,)](ids, node_offsets, edge_offsets, own_nodes, first_node, first_edge, count, at_once)
    rows, owner, in_degree, out_degree = new(num_nodes), new(num_nodes), new(num_nodes), new(num_nodes)
    edges_in, edges_out = new(num_nodes + 1), new(num_nodes + 1)
    gather_nodes[(count + 1,)](
        ids, node_offsets, first_node, first_edge, *degrees, *starts,
        rows, owner, in_degree, out_degree, edges_in, edges_out, count, num_nodes, len(degrees[0]) - 1, BLOCK,
    )  # fmt: skip
    edge_rows, pairs, order = new(num_edges), new(2, num_edges), new(num_edges)
    if num_edges:
        gather_edges[(count + 1,)](
            ids, edge_offsets, first_node, first_edge, edge_index, by_source,
            edge_rows, pairs, order, count, num_nodes, num_edges, len(by_source), BLOCK,
        )  # fmt: skip
    return Gathered(
        own_nodes, first_node, owner, rows, in_degree, out_degree, edges_in, edges_out, edge_rows, pairs, order
    )


@triton.jit
def batch_starts(ids, node_offsets, edge_offsets, num_nodes, first_node, first_edge, count, block: tl.constexpr):
    nodes_before = tl.full((), 0, tl.int64)
    edges_before = tl.full((), 0, tl.int64)
    for first in range(0, count, block):
        place = first + tl.arange(0, block)
        known = place < count
        graph = tl.load(ids + place, mask=known, other=0)
        nodes = tl.load(node_offsets + graph + 1, mask=known, other=0)
        nodes -= tl.load(node_offsets + graph, mask=known, other=0)
        edges = tl.load(edge_offsets + graph + 1, mask=known, other=0)
        edges -= tl.load(edge_offsets + graph, mask=known, other=0)
        tl.store(num_nodes + place, nodes, mask=known)
        tl.store(first_node + place, nodes_before + tl.cumsum(nodes, axis=0) - nodes, mask=known)
        tl.store(first_edge + place, edges_before + tl.cumsum(edges, axis=0) - edges, mask=known)
        nodes_before += tl.sum(nodes, axis=0)
        edges_before += tl.sum(edges, axis=0)
    tl.store(first_node + count, nodes_before)
    tl.store(first_edge + count, edges_before)


@triton.jit
def gather_nodes(
    ids, node_offsets, first_node, first_edge, set_in_degree, set_out_degree, set_in_start, set_out_start,
    rows, owner, in_degree, out_degree, edges_in, edges_out, count, room, last_row, block: tl.constexpr,
):  # fmt: skip
    graph = tl.program_id(0)
    is_padding = graph == count
    start = tl.load(first_node + graph)
    real_end = tl.load(first_node + tl.minimum(graph + 1, count))  # of the padding: its start
    end = tl.where(is_padding, room, real_end)
    edge = tl.load(first_edge + graph)
    origin = tl.load(node_offsets + tl.load(ids + tl.minimum(graph, count - 1)))
    for first in range(start, end, block):
        node = first + tl.arange(0, block)
        inside = node < end
        real = node < real_end
        row = tl.where(real, origin + node - start, last_row)
        tl.store(rows + node, row, mask=inside)
        tl.store(owner + node, tl.zeros_like(node) + tl.minimum(graph, count - 1), mask=inside)
        tl.store(in_degree + node, tl.load(set_in_degree + row, mask=real, other=0), mask=inside)
        tl.store(out_degree + node, tl.load(set_out_degree + row, mask=real, other=0), mask=inside)
        tl.store(edges_in + node, edge + tl.load(set_in_start + row, mask=real, other=0), mask=inside)
        tl.store(edges_out + node, edge + tl.load(set_out_start + row, mask=real, other=0), mask=inside)
    if is_padding:
        tl.store(edges_in + room, edge)
        tl.store(edges_out + room, edge)


@triton.jit
def gather_edges(
    ids, edge_offsets, first_node, first_edge, set_edge_index, set_by_source, edge_rows, edge_index, by_source,
    count, room, edge_room, set_edges, block: tl.constexpr,
):  # fmt: skip
    graph = tl.program_id(0)
    is_padding = graph == count
    start = tl.load(first_edge + graph)
    real_end = tl.load(first_edge + tl.minimum(graph + 1, count))  # of the padding: its start
    end = tl.where(is_padding, edge_room, real_end)
    shift = tl.load(first_node + graph)
    origin = tl.load(edge_offsets + tl.load(ids + tl.minimum(graph, count - 1)))
    for first in range(start, end, block):
        edge = first + tl.arange(0, block)
        inside = edge < end
        real = edge < real_end
        row = tl.where(real, origin + edge - start, set_edges - 1)
        source = shift + tl.load(set_edge_index + row, mask=real, other=0)
        target = shift + tl.load(set_edge_index + set_edges + row, mask=real, other=0)
        place = start + tl.load(set_by_source + row, mask=real, other=0)
        tl.store(edge_rows + edge, row, mask=inside)
        tl.store(edge_index + edge, tl.where(real, source, room - 1), mask=inside)
        tl.store(edge_index + edge_room + edge, tl.where(real, target, room - 1), mask=inside)
        tl.store(by_source + edge, tl.where(real, place, edge), mask=inside)
