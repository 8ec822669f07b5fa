"""The refinement game: a move is worth what it adds to the fineness of the stable colouring of the marked copy.

A state is a tuple of marked nodes, its value the fineness of the stable colouring of its copy G(v): the number of
colours as a share of |V|, or the entropy of the colour classes as a share of log |V|. Both are 1 where every node has a
colour of its own, and neither needs a label. What marks say does not depend on the order of the slots, so the value
does not either.

Everything runs where the graphs are, on a CPU or a GPU.

Shapes: B graphs, N nodes, V nodes of the largest graph, m tuples of order k, M tuples of one graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.model.refined.copies import refine
from maggnn.model.tuples import all_tuples, one_move_away
from maggnn_paper.universal.entropy import stable_entropy

Fineness = Literal["colours", "entropy"]
"""How fine a colouring is: its number of colours over |V|, or the entropy of its classes over log |V|."""

CELLS = {"cpu": 1 << 18, "cuda": 1 << 26}
"""Colours (nodes times copies) that are refined at a time: few enough for a CPU's caches or a GPU's memory."""

MOST_TUPLES = 1 << 20
"""Of one graph, in a table of values: k = 2 up to 1,024 nodes, k = 3 up to 101."""


def values_of(graphs: GraphBatch, tuples: Tensor, fineness: Fineness = "colours") -> Tensor:
    """The value of every tuple, between 0 and 1.

    Shapes:
        tuples: [B, M, k]; result: [B, M], float32.
    """
    parts = [_values(graphs, part, fineness) for part in _split(graphs, tuples)]
    return torch.cat(parts, dim=1) if parts else torch.zeros(tuples.shape[:2], device=tuples.device)


def _values(graphs: GraphBatch, tuples: Tensor, fineness: Fineness) -> Tensor:
    num_nodes = graphs.num_nodes[:, None].double()
    if fineness == "colours":
        return (refine(graphs, tuples).num_colours / num_nodes).float()
    # A single node has a colour of its own, although there is no entropy in it.
    share = stable_entropy(graphs, tuples) / num_nodes.log().clamp(min=1e-12)
    return torch.where(num_nodes == 1, 1.0, share).float()


def _split(graphs: GraphBatch, tuples: Tensor) -> Iterator[Tensor]:
    at_a_time = max(1, CELLS[tuples.device.type] // max(graphs.total_nodes, 1))
    yield from tuples.split(at_a_time, dim=1) if tuples.shape[1] else ()


def outcome_values(graphs: GraphBatch, tuples: Tensor, fineness: Fineness = "colours") -> Tensor:
    """The value of every one-move outcome of every tuple, by refinement; 0 at padding.

    Shapes:
        tuples: [B, m, k]; result: [B, m, V, k], entry [b, i, l, j] for node l in slot j of tuple i.
    """
    num_graphs, num_tuples, order = tuples.shape
    width = graphs.max_num_nodes
    outcomes = one_move_away(tuples.flatten(0, 1), width).unflatten(0, (num_graphs, num_tuples))  # [B, m, V, k, k]
    inside = outcomes.minimum((graphs.num_nodes - 1)[:, None, None, None, None])
    values = values_of(graphs, inside.flatten(1, 3), fineness).view(num_graphs, num_tuples, width, order)
    return values * graphs.is_node[:, None, :, None]


# ---- tables over V^k ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ValueTable:
    """The values of all tuples of order k of some graphs.

    Attributes:
        values: [B, V, ..., V], one dimension for each slot, 0 at padding.
        num_nodes: [B].
    """

    values: Tensor
    num_nodes: Tensor

    @classmethod
    def of(cls, graphs: GraphBatch, order: int, fineness: Fineness = "colours") -> ValueTable:
        """By refinement of every set of marks once: the order of the slots does not matter."""
        width = graphs.max_num_nodes
        if width**order > MOST_TUPLES:
            raise InputError(f"{width} nodes have {width**order:,} tuples of order {order}: more than are tabulated")
        every = all_tuples(width, order, graphs.device)  # [V^k, k]
        powers = width ** torch.arange(order - 1, -1, -1, device=graphs.device)
        keys, same = (every.sort(dim=1).values * powers).sum(1).unique(return_inverse=True)
        distinct = every[keys].expand(graphs.num_graphs, -1, -1)
        inside = distinct.minimum((graphs.num_nodes - 1)[:, None, None])
        values = values_of(graphs, inside, fineness)[:, same]
        is_tuple = (every < graphs.num_nodes[:, None, None]).all(dim=-1)
        return cls((values * is_tuple).view(-1, *[width] * order), graphs.num_nodes)

    @property
    def order(self) -> int:
        """k."""
        return self.values.ndim - 1

    @property
    def is_node(self) -> Tensor:
        """Which of the V nodes are no padding, [B, V]."""
        return torch.arange(self.values.shape[1], device=self.values.device) < self.num_nodes[:, None]

    def at(self, tuples: Tensor) -> Tensor:
        """The values of tuples [B, ..., k]: [B, ...]."""
        width = self.values.shape[1]
        place = torch.zeros(tuples.shape[:-1], dtype=torch.long, device=tuples.device)
        for node in tuples.unbind(dim=-1):
            place = place * width + node
        return self.values.flatten(1).gather(1, place.flatten(1)).view(place.shape)

    def outcomes(self, tuples: Tensor) -> Tensor:
        """The values of all one-move outcomes of tuples [B, m, k], as `outcome_values`: [B, m, V, k]."""
        moved = one_move_away(tuples.flatten(0, 1), self.values.shape[1])
        return self.at(moved.unflatten(0, tuples.shape[:2])) * self.is_node[:, None, :, None]

    def finest(self, tolerance: float = 1e-6) -> Tensor:
        """Which tuples have the largest value of their graph, the shape of `values`."""
        most = self.values.flatten(1).amax(dim=1).view(-1, *[1] * self.order)
        is_tuple = self.is_node
        for slot in range(1, self.order):
            is_tuple = is_tuple[..., None] & self.is_node.view(len(most), *[1] * slot, -1)
        return (self.values >= most - tolerance) & is_tuple

    def foreseen(self, gamma: float, num_moves: int) -> ValueTable:
        """The value of each tuple together with the values that best moves from it lead to.

            V_0 = V,   V_i(v) = (1 - gamma) V(v) + gamma max over moves v -> v' of V_(i-1)(v')

        Where only tuples of certain nodes are finest, the move that brings the first of them gains nothing by itself.
        """
        after = self.values
        for _ in range(num_moves):
            best = torch.stack([after.amax(dim=1 + slot, keepdim=True).expand_as(after) for slot in range(self.order)])
            after = (1 - gamma) * self.values + gamma * best.amax(dim=0)
        return replace(self, values=after)
