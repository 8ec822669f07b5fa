"""Pairs of graphs side by side: dense adjacency, padded to the largest graph of the batch, and their relabellings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from maggnn.data import registry
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import adjacency
from maggnn.model.tuples import all_tuples

CATEGORIES = {
    "basic": ("basic",),
    "regular": ("regular", "str", "4vtx", "dr"),
    "extension": ("extension",),
    "cfi": ("cfi",),
    "all": ("basic", "regular", "str", "extension", "cfi", "4vtx", "dr"),
    "regular-simple": ("regular",),
    "regular-strongly": ("str",),
    "regular-4vertex": ("4vtx",),
    "regular-distance": ("dr",),
}
"""Data sets of the ledger by the file's categories. BREC calls 140 pairs regular, of four kinds."""


@dataclass(frozen=True)
class Pairs:
    """P times G graphs; all graphs of one pair have equally many nodes.

    Attributes:
        adjacency: [P, G, n, n], zero in rows and columns of padding, which come last.
        num_nodes: [P].
        marked: tuples that belong to each graph and are renumbered with it, [P, G, C, k]; None where starts are drawn.
    """

    adjacency: Tensor
    num_nodes: Tensor
    marked: Tensor | None = None

    @classmethod
    def of(cls, graphs: PackedGraphs, pairs: Tensor) -> Pairs:
        """Graphs 2i and 2i + 1 for each i of `pairs` [P]."""
        ids = (2 * pairs[:, None] + torch.arange(2)).flatten()
        sizes = graphs.num_nodes[ids].view(-1, 2)
        if bool((sizes[:, 0] != sizes[:, 1]).any()):
            raise InputError("the two graphs of a pair differ in their number of nodes: nothing is left to test")
        joined = adjacency(graphs[ids]) > 0  # [2P, n, n]
        return cls(joined.float().unflatten(0, (len(pairs), 2)), sizes[:, 0])

    @property
    def size(self) -> tuple[int, int, int]:
        """P, G and n."""
        num_pairs, num_graphs, nodes, _ = self.adjacency.shape
        return num_pairs, num_graphs, nodes

    @property
    def device(self) -> torch.device:
        return self.adjacency.device

    @cached_property
    def is_node(self) -> Tensor:
        """Which nodes are no padding, [P, n]."""
        return torch.arange(self.adjacency.shape[-1], device=self.device) < self.num_nodes[:, None]

    @cached_property
    def node_share(self) -> Tensor:
        """1 / |V| at nodes, 0 at padding: the weights of a mean over nodes, [P, n]."""
        return self.is_node.to(self.adjacency.dtype) / self.num_nodes[:, None]

    def is_tuple(self, tuple_order: int) -> Tensor:
        """Which of the n^k tuples of padded node ids, in lexicographic order, have no padding, [P, n^k]."""
        every = all_tuples(self.size[2], tuple_order, self.device)
        return (every < self.num_nodes[:, None, None]).all(dim=-1)

    def to(self, device: torch.device | str) -> Pairs:
        marked = None if self.marked is None else self.marked.to(device)
        return Pairs(self.adjacency.to(device), self.num_nodes.to(device), marked)

    def double(self) -> Pairs:
        return replace(self, adjacency=self.adjacency.double())

    def some_graphs(self, chosen: slice | list[int]) -> Pairs:
        """Some graphs of every pair."""
        marked = None if self.marked is None else self.marked[:, chosen]
        return replace(self, adjacency=self.adjacency[:, chosen], marked=marked)

    def first_twice(self) -> Pairs:
        """The control of each pair: its first graph against itself."""
        return self.some_graphs([0, 0])

    def some_pairs(self, chosen: slice | Tensor) -> Pairs:
        """All graphs of some pairs."""
        marked = None if self.marked is None else self.marked[chosen]
        return Pairs(self.adjacency[chosen], self.num_nodes[chosen], marked)

    def relabelled(self, copies: int, generator: torch.Generator) -> Pairs:
        """Each graph in `copies` random numberings of its nodes, G * copies graphs of a pair."""
        repeated = self.adjacency.repeat_interleave(copies, dim=1)
        noise = torch.rand(repeated.shape[:3], generator=generator, device=self.device)
        order = noise.masked_fill(~self.is_node[:, None], 2.0).argsort(dim=-1)  # padding stays last
        if self.marked is None:
            return replace(self, adjacency=permuted(repeated, order))
        marked = self.marked.repeat_interleave(copies, dim=1)  # [P, G * copies, C, k]
        new_number = order.argsort(dim=-1)  # of each old node, [P, G * copies, n]
        marked = new_number.gather(-1, marked.flatten(2)).view_as(marked)
        return replace(self, adjacency=permuted(repeated, order), marked=marked)

    def sample(self, copies: int, tuple_order: int, generator: torch.Generator) -> Tensor:
        """Tuples drawn uniformly from V^k of each graph, [P, G, C, k]."""
        num_pairs, num_graphs, _ = self.size
        shape = (num_pairs, num_graphs, copies, tuple_order)
        uniform = torch.rand(shape, generator=generator, device=self.device, dtype=torch.float64)
        return (uniform * self.num_nodes[:, None, None, None]).long()


def permuted(adjacency: Tensor, order: Tensor) -> Tensor:
    """New node i is old node order[..., i]: [..., n, n] with [..., n]."""
    rows = adjacency.gather(-2, order[..., None].expand_as(adjacency))
    return rows.gather(-1, order[..., None, :].expand_as(adjacency))


def pair_ids(datasets: Sequence[str]) -> dict[str, Tensor]:
    """Numbers of the pairs of each of the ledger's data sets."""
    extra = registry.load("brec").extra
    names, category = [str(name) for name in extra["category_names"]], torch.from_numpy(extra["pair_category"])
    found = {}
    for dataset in datasets:
        if dataset not in CATEGORIES:
            raise InputError(f"BREC has no part {dataset!r}: there are {', '.join(CATEGORIES)}")
        wanted = torch.tensor([names.index(name) for name in CATEGORIES[dataset]])
        found[dataset] = torch.isin(category, wanted).nonzero()[:, 0]
    return found


def like_sized(num_nodes: Tensor, pairs: Tensor, most_cells: int, slack: float = 1.25) -> list[Tensor]:
    """Split `pairs` into groups whose largest is at most `slack` times their smallest, of at most `most_cells` = P n.

    Args:
        num_nodes: of each pair of the set.
    """
    groups: list[list[int]] = []
    smallest = 0
    for pair in sorted(pairs.tolist(), key=lambda pair: (int(num_nodes[pair]), pair)):
        size = int(num_nodes[pair])
        if not groups or size > slack * smallest or (len(groups[-1]) + 1) * size > most_cells:
            groups.append([])
            smallest = size
        groups[-1].append(pair)
    return [torch.tensor(group) for group in groups]
