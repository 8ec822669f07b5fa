"""A data set as a few flat tensors, also on a GPU; `packed[ids]` gathers a batch without a loop over graphs.

Shapes: G graphs in the whole set; B graphs, N nodes and E directed edges of a batch.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Self

import numpy as np
import torch
from torch import Tensor

from maggnn.graphs.batch import (
    OPTIONAL,
    BatchSize,
    GraphBatch,
    Level,
    PairTable,
    edges_by_source,
    offsets_of,
    owner_of,
    rounded_up,
    shapes_of,
    tensors_of,
    tensors_on,
)
from maggnn.graphs.checks import check_edges, check_graph_attr, check_integers, check_sizes

ROUNDING = 16
"""Sizes are padded to multiples of this part of an average batch, so that random batches have two or three sizes."""

TOGETHER = 1 << 16
"""The number of graphs of a mapped set, neighbours on disk, that are processed at a time."""


@dataclass(frozen=True)
class PackedGraphs:
    """A whole data set as concatenated tensors; `packed[ids]` is a `GraphBatch`.

    Node ids in `edge_index` are local to their graph, and edges are sorted by (target, source) within it.
    `node_offsets` and `edge_offsets` stay on the CPU, so that a batch's sizes are known without synchronising the
    GPU. Graph ids are CPU tensors for the same reason.

    Attributes:
        node_offsets: the position of each graph's first node, [G + 1].
        edge_offsets: the position of each graph's first edge, [G + 1].
        edge_index: source and target of each edge, [2, total edges].
        in_degree: the number of incoming edges of each node, [total nodes].
        out_degree: the number of outgoing edges of each node, [total nodes].
        by_source: the order of each graph's edges (counted from 0) by (source, target), [total edges].
        x: features of nodes, [total nodes, F].
        edge_attr: features of edges, [total edges, F].
        y: targets, [G, ...] or [total nodes, ...].
        structure: structural features, computed from the edges (see `maggnn.graphs.structure`), [total nodes, S].
        rings: the smallest ring of each edge (see `maggnn.graphs.rings`), [total edges].
        roots: the roots of rooted graphs, as local ids (see `maggnn.data.synthetic.rooted`), [G, r].
        pairs: distances between all nodes of each graph (see `maggnn.graphs.distances`).
        finest: the tuples with the finest colouring (see `maggnn.model.refined.finest`), [G, m, k].
        graph_attr: features of whole graphs, which predictors read besides the pooled nodes, [G, F].
        level: whether there is one target for each graph or for each node.
        folder: the folder of memory-mapped arrays, which have small types (`maggnn.data.mapped`); else None.
        canonical: whether nodes and edges are known to be in canonical order (`maggnn.graphs.canonical_order`).
    """

    node_offsets: Tensor
    edge_offsets: Tensor
    edge_index: Tensor
    in_degree: Tensor
    out_degree: Tensor
    by_source: Tensor
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    structure: Tensor | None = None
    rings: Tensor | None = None
    roots: Tensor | None = None
    pairs: PairTable | None = None
    finest: Tensor | None = None
    graph_attr: Tensor | None = None
    level: Level = "graph"
    folder: Path | None = None
    canonical: bool = False

    @classmethod
    def of_batch(cls, batch: GraphBatch) -> Self:
        """Return the graphs of a batch as a set on the CPU: edges and features, without padding, targets and roots."""
        num_nodes, edge_index = batch.num_nodes.cpu(), batch.edge_index.cpu()
        total = int(num_nodes.sum())
        edge_index = edge_index[:, edge_index[1] < total]  # padded edges come last
        edge_graph = owner_of(num_nodes, total)[edge_index[1]]
        x, edge_attr = (value if value is None else value.detach().cpu() for value in (batch.x, batch.edge_attr))
        return cls.build(
            num_nodes,
            torch.bincount(edge_graph, minlength=len(num_nodes)),
            edge_index - offsets_of(num_nodes)[edge_graph],
            x=None if x is None else x[:total],
            edge_attr=None if edge_attr is None else edge_attr[: edge_index.shape[1]],
        )

    @classmethod
    def build(
        cls,
        num_nodes: Tensor,
        num_edges: Tensor,
        edge_index: Tensor,
        x: Tensor | None = None,
        edge_attr: Tensor | None = None,
        y: Tensor | None = None,
        level: Level = "graph",
        undirected_once: bool = False,
        missing_targets: bool = False,
    ) -> Self:
        """Check and pack graphs that are given as concatenated tensors.

        Args:
            num_nodes: the number of nodes of each graph, [G].
            num_edges: the number of edges of each graph, [G].
            edge_index: source and target of each edge as local ids, [2, total edges].
            x: features of nodes, [total nodes, F].
            edge_attr: features of edges, [total edges, F].
            y: targets, [G, ...] or [total nodes, ...].
            level: whether `y` has one row for each graph or for each node.
            undirected_once: whether each undirected edge is given once and its reverse is to be added.
            missing_targets: whether NaN in y is a missing value and not an error.

        Returns:
            The packed graphs.
        """
        for name, value in (("num_nodes", num_nodes), ("num_edges", num_edges), ("edge_index", edge_index)):
            check_integers(name, value)
        num_nodes, num_edges, edge_index = num_nodes.long(), num_edges.long(), edge_index.long()
        x, edge_attr = (v.long() if v is not None and v.dtype == torch.bool else v for v in (x, edge_attr))
        check_sizes(num_nodes, num_edges, edge_index, x, edge_attr, y, level, missing_targets)
        edge_graph = torch.repeat_interleave(torch.arange(len(num_edges)), num_edges)
        check_edges(edge_index, edge_graph, num_nodes)
        if undirected_once:
            mirrored = edge_index[0] != edge_index[1]  # a self-loop is its own mirror image
            edge_index = torch.cat([edge_index, edge_index.flip(0)[:, mirrored]], dim=1)
            edge_graph = torch.cat([edge_graph, edge_graph[mirrored]])
            edge_attr = None if edge_attr is None else torch.cat([edge_attr, edge_attr[mirrored]])
            num_edges = torch.bincount(edge_graph, minlength=len(num_nodes))
        node_offsets, edge_offsets = offsets_of(num_nodes), offsets_of(num_edges)
        source, target = edge_index + node_offsets.index_select(0, edge_graph)
        total = int(node_offsets[-1])
        order = torch.argsort(target * total + source, stable=True)
        source, target, edge_graph = (value.index_select(0, order) for value in (source, target, edge_graph))
        by_source = edges_by_source(source, target, total)
        return cls(
            node_offsets=node_offsets,
            edge_offsets=edge_offsets,
            edge_index=edge_index.index_select(1, order),
            in_degree=torch.bincount(target, minlength=total),
            out_degree=torch.bincount(source, minlength=total),
            by_source=by_source - edge_offsets.index_select(0, edge_graph),
            x=x,
            edge_attr=None if edge_attr is None else edge_attr.index_select(0, order),
            y=y,
            level=level,
        )

    def __len__(self) -> int:
        return len(self.node_offsets) - 1

    @property
    def device(self) -> torch.device:
        return self.edge_index.device

    @cached_property
    def num_nodes(self) -> Tensor:
        """The number of nodes of each graph, [G], on the CPU."""
        return self.node_offsets.diff()

    @cached_property
    def num_edges(self) -> Tensor:
        """The number of directed edges of each graph, [G], on the CPU."""
        return self.edge_offsets.diff()

    @cached_property
    def symmetric(self) -> bool:
        """Whether every edge is present in both directions; then `by_source` maps each edge to its reverse."""
        for begin in range(0, len(self), TOGETHER):
            num_edges = self.num_edges[begin : begin + TOGETHER].to(self.device)
            first, last = (int(self.edge_offsets[at]) for at in (begin, min(begin + TOGETHER, len(self))))
            edge_index = self.edge_index[:, first:last]
            first_edge = torch.repeat_interleave(num_edges.cumsum(0) - num_edges, num_edges)
            by_source = self.by_source[first:last] + first_edge
            if not torch.equal(edge_index.index_select(1, by_source).flip(0), edge_index):
                return False
        return True

    @cached_property
    def has_parallel_edges(self) -> bool:
        """Whether two edges of a graph have the same source and target; such edges are neighbours in the order."""
        graph = torch.repeat_interleave(torch.arange(len(self)), self.num_edges).to(self.device)
        same = (self.edge_index[:, 1:] == self.edge_index[:, :-1]).all(dim=0) & (graph[1:] == graph[:-1])
        return bool(same.any())

    @cached_property
    def device_offsets(self) -> tuple[Tensor, Tensor]:
        """Node and edge offsets on the device of the graphs."""
        on_gpu = self.device.type == "cuda"
        offsets = (self.node_offsets, self.edge_offsets)
        node_offsets, edge_offsets = (own.to(self.device, non_blocking=on_gpu) for own in offsets)
        return node_offsets, edge_offsets

    def __getitem__(self, ids: Tensor) -> GraphBatch:
        """Gather graphs `ids` [B] (on the CPU, possibly repeated) into one batch on this set's device."""
        return self.gather(ids.to(self.device, non_blocking=True), self.size_of(ids))

    def size_of(self, ids: Tensor) -> BatchSize:
        """Return the exact size of a batch of graphs `ids` [B]."""
        num_nodes = self.num_nodes.index_select(0, ids)  # takes a third of the time of indexing
        edges = int(self.num_edges.index_select(0, ids).sum())
        return BatchSize(len(ids), int(num_nodes.sum()), edges, int(num_nodes.max()) if len(ids) else 0)

    def room_for(self, ids: Tensor) -> BatchSize:
        """Return the size of a batch; on a GPU rounded up, so that few sizes occur and each can be recorded."""
        return self.size_of(ids) if self._equal_sizes or self.device.type == "cpu" else self.rounded_size(ids)

    def common_size(self, ids: Tensor) -> BatchSize:
        """Return the size of a batch, rounded up to sizes that batches of any set share."""
        exact = self.size_of(ids)
        width = 1 << (exact.max_num_nodes - 1).bit_length()
        # Padded edges need a row of padding to join, so there is always at least one.
        return BatchSize(len(ids), rounded_up(exact.nodes + 1), rounded_up(exact.edges), width, padding=True)

    def rounded_size(self, ids: Tensor) -> BatchSize:
        """Return the size of a batch, rounded up to sixteenths of that of as many average graphs."""
        exact, share = self.size_of(ids), len(ids) / len(self)
        average_nodes, average_edges = share * len(self.in_degree), share * len(self.by_source)
        # Padded edges need a row of padding to join, so there is always at least one.
        need = max((exact.nodes + 1) / average_nodes, exact.edges / average_edges if average_edges else 0.0)
        rounded = math.ceil(ROUNDING * need) / ROUNDING
        nodes, edges = math.ceil(rounded * average_nodes), math.ceil(rounded * average_edges)
        # Tables [B, max_num_nodes] are as wide as the batch needs, up to a power of two.
        width = min(self.largest_graph, 1 << (exact.max_num_nodes - 1).bit_length())
        return BatchSize(len(ids), nodes, edges, width, padding=True)

    @cached_property
    def largest_graph(self) -> int:
        """The number of nodes of the largest graph."""
        return int(self.num_nodes.max())

    @cached_property
    def _equal_sizes(self) -> bool:
        """Whether every graph has the same numbers of nodes and edges."""
        return len(self.num_nodes.unique()) == 1 and len(self.num_edges.unique()) == 1

    def gather(self, ids: Tensor, size: BatchSize) -> GraphBatch:
        """Gather graphs `ids` [B], on this set's device, without synchronising it; additional rows are padding."""
        if self.device.type == "cuda" and len(ids):
            return self._gather_fused(ids, size)
        node_offsets, edge_offsets = self.device_offsets
        num_nodes = node_offsets[ids + 1] - node_offsets[ids]
        num_edges = edge_offsets[ids + 1] - edge_offsets[ids]
        nodes, _ = _rows(node_offsets[ids], num_nodes, size.nodes, len(self.in_degree))
        edges, edge_graph = _rows(edge_offsets[ids], num_edges, size.edges, len(self.by_source))
        first_node, first_edge = num_nodes.cumsum(0) - num_nodes, num_edges.cumsum(0) - num_edges
        # On a CPU, `index_select` takes a quarter of the time of indexing.
        edge_index = self._edges_at(edges) + first_node.index_select(0, edge_graph)
        by_source = self.by_source.index_select(0, edges) + first_edge.index_select(0, edge_graph)
        in_degree, out_degree = (degree.index_select(0, nodes).long() for degree in (self.in_degree, self.out_degree))
        if size.padding:
            is_node = torch.arange(size.nodes, device=self.device) < num_nodes.sum()
            edge = torch.arange(size.edges, device=self.device)
            is_edge = edge < num_edges.sum()
            in_degree, out_degree = in_degree * is_node, out_degree * is_node
            edge_index = torch.where(is_edge, edge_index, size.nodes - 1)
            by_source = torch.where(is_edge, by_source, edge)
        return self._batch(ids, size, nodes, edges, (num_nodes, edge_index, in_degree, out_degree, by_source))

    def _edges_at(self, edges: Tensor) -> Tensor:
        """Return the end nodes of edges [e] as [2, e]. A mapped set has [E, 2] on disk, only these are read."""
        if self.folder is None:
            return self.edge_index.index_select(1, edges)
        return self.edge_index.T.index_select(0, edges).T.contiguous()  # in the other order torch copies all E edges

    def _gather_fused(self, ids: Tensor, size: BatchSize) -> GraphBatch:
        """Gather on a GPU, together with tensors that a batch would otherwise derive."""
        from maggnn.graphs.gather import gather  # needs Triton, which only GPU builds of torch have

        degrees = (self.in_degree, self.out_degree)
        node_offsets, edge_offsets = self.device_offsets
        ids = ids.contiguous()  # a column of the replay buffer is not contiguous, but programs assume it
        found = gather(
            ids, node_offsets, edge_offsets, degrees, self.first_edges, self.edge_index, self.by_source, size.nodes,
            size.edges,
        )  # fmt: skip
        structure = (found.num_nodes, found.edge_index, found.in_degree, found.out_degree, found.by_source)
        batch = self._batch(ids, size, found.rows, found.edge_rows, structure)
        batch.__dict__.update(
            first_node=found.node_offsets[:-1],
            node_offsets=found.node_offsets,
            node_graph=found.node_graph,
            num_real=found.node_offsets[-1] if size.padding else None,
            edge_offsets=found.edge_offsets,
            source_offsets=found.source_offsets,
        )
        return batch

    def _batch(
        self, ids: Tensor, size: BatchSize, nodes: Tensor, edges: Tensor, structure: tuple[Tensor, ...]
    ) -> GraphBatch:
        """Make the batch from gathered tensors, with features and targets.

        Args:
            nodes, edges: the rows of the set that the batch's rows come from.
            structure: the first five fields of a `GraphBatch`.
        """
        return GraphBatch(
            *structure,
            max_num_nodes=size.max_num_nodes,
            total_nodes=size.nodes,
            padding=size.padding,
            x=None if self.x is None else _wide(self.x.index_select(0, nodes)),
            edge_attr=None if self.edge_attr is None else _wide(self.edge_attr.index_select(0, edges)),
            y=None if self.y is None else self.y[nodes if self.level == "node" else ids],
            structure=None if self.structure is None else self.structure.index_select(0, nodes),
            rings=None if self.rings is None else _wide(self.rings.index_select(0, edges)),
            roots=None if self.roots is None else self.roots[ids],
            pairs=None if self.pairs is None else PairTable(self.pairs.table, self.pairs.first[ids]),
            finest=None if self.finest is None else self.finest[ids],
            graph_attr=None if self.graph_attr is None else self.graph_attr[ids],
        )

    def edges_by_source(self) -> Tensor:
        """Return the edges of the set in the order of their sources, graph by graph, [total edges]."""
        first_edge = torch.repeat_interleave(self.edge_offsets[:-1], self.num_edges)
        return self.by_source + first_edge.to(self.device)

    def with_own_pairs(self, batch: GraphBatch, ids: Tensor) -> GraphBatch:
        """Return a batch of graphs `ids` [B] (on the CPU) with the distances of only its own graphs, padded."""
        if self.pairs is None or batch.pairs is None:
            return batch
        squares = batch.num_nodes**2
        total = rounded_up(int((self.num_nodes[ids] ** 2).sum()))
        rows, _ = _rows(batch.pairs.first, squares, total, len(self.pairs.table))
        return replace(batch, pairs=PairTable(self.pairs.table[rows], squares.cumsum(0) - squares))

    @cached_property
    def first_edges(self) -> tuple[Tensor, Tensor]:
        """The position of each node's first edge among its graph's, [total nodes]: incoming, and outgoing by source."""
        node_offsets, edge_offsets = self.device_offsets
        before = edge_offsets[owner_of(node_offsets.diff(), len(self.in_degree))]
        return offsets_of(self.in_degree)[:-1] - before, offsets_of(self.out_degree)[:-1] - before

    def select(self, ids: Tensor) -> PackedGraphs:
        """Select some graphs of the set.

        Args:
            ids: the ids of the graphs, [B] on the CPU.

        Returns:
            A set of only these graphs.
        """
        batch = self[ids]
        edge_graph = batch.node_graph[batch.edge_index[1]]
        return PackedGraphs(
            node_offsets=offsets_of(batch.num_nodes.cpu()),
            edge_offsets=offsets_of(self.num_edges[ids]),
            edge_index=batch.edge_index - batch.first_node[edge_graph],
            in_degree=batch.in_degree,
            out_degree=batch.out_degree,
            by_source=batch.by_source - offsets_of(self.num_edges[ids]).to(self.device)[edge_graph],
            level=self.level,
            **{name: getattr(batch, name) for name in (*OPTIONAL, "y", "pairs")},
        )

    def with_graph_attr(self, values: Tensor | None) -> Self:
        """Return the same graphs with features of whole graphs, such as descriptors of molecules.

        Args:
            values: one row of numbers for each graph, NaN where a value is missing, [G, F]; None removes them.

        Returns:
            A copy that shares all other tensors.
        """
        if values is None:
            return replace(self, graph_attr=None)
        check_graph_attr(values, len(self))
        return replace(self, graph_attr=values.float().to(self.device))

    def to(self, device: torch.device | str) -> Self:
        """Return the same set with everything but the offsets on another device; a GPU gets integers as int64.

        Args:
            device: such as "cuda".

        Returns:
            A copy.
        """
        if self.folder is not None and torch.device(device).type == "cpu":
            return self
        moved = tensors_on(self, device)
        if torch.device(device).type != "cpu":
            moved = {name: _wide(value) if isinstance(value, Tensor) else value for name, value in moved.items()}
        moved |= {"node_offsets": self.node_offsets, "edge_offsets": self.edge_offsets}
        return replace(self, **moved, folder=None)

    def pinned(self) -> Self:
        """Return the same set in pinned memory, from which a GPU copies while the CPU goes on."""
        tensors = {name: value for name, value in tensors_of(self).items() if isinstance(value, Tensor)}
        return replace(self, **{name: value.pin_memory() for name, value in tensors.items()})

    def prefetch(self, ids: Tensor) -> None:
        """Start to read graphs `ids` [B] of a mapped set from disk in a thread, before they are gathered."""
        Thread(target=self.gather, args=(ids, self.size_of(ids)), daemon=True).start()

    def room(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return zeros for precomputed values of a whole set: in memory or, for a mapped set, in an unnamed file."""
        if self.folder is None or not math.prod(shape):
            return torch.zeros(shape, dtype=dtype, device=self.device)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            return torch.from_numpy(np.memmap(file, torch.empty(0, dtype=dtype).numpy().dtype, "w+", shape=shape))

    def __repr__(self) -> str:
        least, most = (int(self.num_nodes.min()), self.largest_graph) if len(self) else (0, 0)
        each = f"{least} a graph" if least == most else f"{least} to {most} a graph"
        size = [f"graphs={len(self)}", f"nodes={len(self.in_degree)} ({each})"]
        return f"PackedGraphs({', '.join([*size, *shapes_of(self)])})"


def _wide(values: Tensor) -> Tensor:
    """Return integers of a small type as int64, which embeddings and sums need."""
    return values if values.is_floating_point() or values.dtype == torch.bool else values.long()


def _rows(starts: Tensor, counts: Tensor, total: int, last: int) -> tuple[Tensor, Tensor]:
    """Return the rows, of a flat tensor with `last` rows, that start at `starts`, and the owner of each, [total]."""
    owner = owner_of(counts, total)
    shift = starts - (counts.cumsum(0) - counts)
    return (torch.arange(total, device=counts.device) + shift.index_select(0, owner)).clamp(max=max(last - 1, 0)), owner
