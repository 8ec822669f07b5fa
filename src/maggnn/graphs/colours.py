"""Colour refinement (1-WL): a node's next colour is a hash of its colour and the multiset of its neighbours' colours.

Colours are 64-bit hashes: a new colour mixes the old one with the sum of the neighbours' colours. Hashes of different
values collide with a probability of about 2^-64 for each comparison. Several colourings of the same graphs are refined
together, [N, M], and share the edges.

Shapes: B graphs, N nodes, E edges, M colourings.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch, values_known
from maggnn.graphs.hashes import ODD, category_hashes, mixed


class Refined(NamedTuple):
    """A colouring of every copy: a hash of its colours, and the number of distinct colours.

    Shapes:
        hashes, num_colours: [B, M].
    """

    hashes: Tensor
    num_colours: Tensor


def mix(values: Tensor) -> Tensor:
    """`mixed` for tensors, with equal results."""
    if values_known(values) and values.ndim:
        return torch.from_numpy(mixed(values.numpy()))  # numpy takes half the time of torch here
    values = values * ODD
    for shift in (32, 29):
        _fold(values, shift)
        values *= ODD
    return _fold(values, 32)


def _fold(values: Tensor, shift: int) -> Tensor:
    """Fold the upper bits onto the lower ones, in place; the sign bits that shifts bring in are masked."""
    upper = values >> shift
    upper &= (1 << (64 - shift)) - 1
    values ^= upper
    return values


def row_hashes(features: Tensor) -> Tensor:
    """Return a hash of each row of features [R, F], [R]."""
    features = features.flatten(1)
    known = category_hashes(features.numpy()) if features.dtype == torch.long and values_known(features) else None
    if known is not None:
        return torch.from_numpy(known)
    column = mix(torch.arange(1, features.shape[1] + 1, device=features.device))
    return mix(mix(_bits(features) + column).sum(1))


def _bits(features: Tensor) -> Tensor:
    """Return the bits of numbers in double precision as integers; adding 0 makes -0 and 0 equal."""
    return (features.double() + 0.0).contiguous().view(torch.long)


class Edges(NamedTuple):
    """The edges in the form in which colours are summed over neighbours.

    A sender sends the same message along all edges with equal features, so there is one message for each pair of a
    sender and a kind of edge. Receivers are sorted by descending degree: the i-th messages then go to the first
    receivers, and a round consists of as many sums as the largest degree instead of a scatter.

    Attributes:
        sender: the node that sends each message, [P]; None if message i is sent by node i.
        kind: the hash of each message's edge features, [P]; None if there are none.
        messages: the messages of the i-th incoming edges, one tensor for each i, of descending length.
        place: the position of each node among the receivers, [N].
    """

    sender: Tensor | None
    kind: Tensor | None
    messages: list[Tensor]
    place: Tensor

    @classmethod
    def of(cls, graphs: GraphBatch) -> Edges:
        sender, kind, message = None, None, graphs.edge_index[0]  # [E]
        if graphs.edge_attr is not None:
            pairs = torch.stack([message, row_hashes(graphs.edge_attr)])
            (sender, kind), message = pairs.unique(dim=1, return_inverse=True)
        degree = graphs.in_degree
        receivers = degree.argsort(descending=True)
        first_edge, falling = graphs.edge_offsets[receivers], degree[receivers]
        most = int(falling[0]) if len(falling) else 0
        # The numbers of receivers with more than 0, 1, ... incoming edges; a GPU is synchronised once for them.
        at_most = torch.searchsorted(falling.flip(0), torch.arange(most, device=falling.device), right=True)
        lengths = len(falling) - at_most
        messages = [message[first_edge[:length] + step] for step, length in enumerate(lengths.tolist())]
        return cls(sender, kind, messages, receivers.argsort())


def next_colours(edges: Edges, colours: Tensor) -> Tensor:
    """Return new colours from old ones and the multisets of neighbours' colours with edge features, [N, M]."""
    messages = colours
    if edges.sender is not None and edges.kind is not None:
        messages = mix(colours.index_select(0, edges.sender) + edges.kind[:, None])  # [P, M]
    sums = torch.zeros_like(colours)
    for step in edges.messages:
        sums[: len(step)] += messages.index_select(0, step)
    return mix(sums.index_select(0, edges.place) + ODD * colours)


def readout(graphs: GraphBatch, colours: Tensor) -> Refined:
    """Return a hash of the multiset of each copy's colours, and the number of distinct colours, [B, M] each.

    Results are the same on a CPU and on a GPU.
    """
    table = graphs.padded(colours, 0)  # [B, V, M]
    if table.device.type == "cpu":
        ordered = np.sort(table.numpy(), axis=1)  # several times as fast as torch
        counts = torch.from_numpy((np.diff(ordered, axis=1) != 0).sum(axis=1) + 1)
    else:
        counts = (table.sort(dim=1).values.diff(dim=1) != 0).sum(dim=1) + 1
    return Refined(mix(table.sum(1)), counts - _has_padding(graphs))


def until_stable(graphs: GraphBatch, colours: Tensor) -> Tensor:
    """Colourings [N, M], refined until none of them gains a colour in any graph: [N, M]."""
    edges, counts = Edges.of(graphs), readout(graphs, colours).num_colours
    for _ in range(graphs.max_num_nodes):  # a round adds a colour or is the last: there are at most |V|
        colours, before = next_colours(edges, colours), counts
        counts = readout(graphs, colours).num_colours
        if torch.equal(counts, before):
            break
    return colours


def class_sizes(graphs: GraphBatch, colours: Tensor) -> Tensor:
    """Return for each node the number of nodes of its graph with the same colour, itself included, [N, M] -> [N, M]."""
    table = graphs.padded(colours, 0).transpose(1, 2).contiguous()  # [B, M, V]
    ordered = table.sort(dim=-1).values
    sizes = torch.searchsorted(ordered, table, right=True) - torch.searchsorted(ordered, table)
    return sizes[graphs.node_graph, :, graphs.local_id.clamp(max=graphs.max_num_nodes - 1)]


def _has_padding(graphs: GraphBatch) -> Tensor:
    """Return 1 for graphs with fewer nodes than the largest, whose table has cells of padding, else 0: [B, 1]."""
    return (graphs.num_nodes < graphs.max_num_nodes).long()[:, None]
