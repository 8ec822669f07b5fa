"""Colour refinement (1-WL): each node's colour and the multiset of its neighbours' colours become its next colour.

Colours are 64-bit hashes: a new colour mixes the old one with the sum of the neighbours' colours. Hashes of equal
things are equal always, those of different things but for a chance of about 2^-64 a comparison. Several colourings of
the same graphs are refined side by side, [N, M], and share the edges.

Shapes: B graphs, N nodes, E edges, M colourings.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch

ODD = -0x61C8864680B583EB
"""2^64 over the golden ratio, as a signed number: multiplying by it is one to one and spreads low bits upwards."""


class Refined(NamedTuple):
    """The stable colouring of every copy: a hash of its colours, and how many different ones there are.

    Shapes:
        hashes, num_colours: [B, M].
    """

    hashes: Tensor
    num_colours: Tensor


def mix(values: Tensor) -> Tensor:
    """A one-to-one scrambling of 64-bit numbers in which every bit in changes about half the bits out.

    Multiply and fold the upper half onto the lower one, twice, in arithmetic that wraps around; the idea is that of
    SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
    """
    values = values * ODD
    for shift in (32, 29):
        # Shifts keep the sign; without the mask the fold would lose a bit.
        values ^= (values >> shift) & ((1 << (64 - shift)) - 1)
        values *= ODD
    return values ^ ((values >> 32) & 0xFFFFFFFF)


def row_hashes(features: Tensor) -> Tensor:
    """A number for each row of features [R, F], equal for equal rows, [R]."""
    bits = (features.flatten(1).double() + 0.0).contiguous().view(torch.long)  # adding 0 makes -0 and 0 one
    column = mix(torch.arange(1, bits.shape[1] + 1))
    return mix(mix(bits + column).sum(1))


class Edges(NamedTuple):
    """The edges in the form in which colours are summed over neighbours.

    A sender says the same thing along all edges with equal features, so there is one message for each pair of a
    sender and a kind of edge. Receivers come in order of falling degree: the i-th messages of all that have one then
    go to the first so many receivers, and a round is as many sums as the largest degree, not a scatter.

    Attributes:
        sender: the node that sends each message, [P]; None where it is each node in turn.
        kind: the hash of each message's edge features, [P]; None where there are none.
        messages: of the i-th incoming edges, one tensor for each i, of falling length.
        place: where each node is among the receivers, [N].
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
        messages = [message[first_edge[: int((falling > step).sum())] + step] for step in range(most)]
        return cls(sender, kind, messages, receivers.argsort())


def next_colours(edges: Edges, colours: Tensor) -> Tensor:
    """A node's new colour: its old one and the multiset of its neighbours' with the features in between, [N, M]."""
    messages = colours
    if edges.sender is not None and edges.kind is not None:
        messages = mix(colours.index_select(0, edges.sender) + edges.kind[:, None])  # [P, M]
    sums = torch.zeros_like(colours)
    for step in edges.messages:
        sums[: len(step)] += messages.index_select(0, step)
    return mix(sums.index_select(0, edges.place) + ODD * colours)


def readout(graphs: GraphBatch, colours: Tensor) -> Refined:
    """The multiset of each copy's colours as a hash, and how many different ones there are, [B, M] each."""
    table = graphs.padded(colours, 0)  # [B, V, M]
    ordered = np.sort(table.numpy(), axis=1)  # several times as fast as torch's
    return Refined(mix(table.sum(1)), torch.from_numpy((np.diff(ordered, axis=1) != 0).sum(axis=1) + 1))
