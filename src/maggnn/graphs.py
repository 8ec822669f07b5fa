"""Graphs as flat tensors: `PackedGraphs` holds a data set, `GraphBatch` the graphs of one step.

The first station of the line graph -> tuples -> marking -> encoder. A data set is a few flat tensors
that can live on the GPU, and `packed[ids]` gathers a batch without a Python loop over graphs.

Shapes: B graphs, N nodes and E directed edges of the batch; G graphs in the whole set.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal, Self

import torch
from torch import Tensor

from maggnn.errors import InputError

Level = Literal["graph", "node"]
"""Whether there is one target a graph (P = G in Eq. 3) or one a node (P = N)."""

Task = Literal["classification", "regression"]
"""What a target is: a class, or numbers."""


@dataclass(frozen=True)
class GraphBatch:
    """B graphs side by side, edges sorted by target so that a sum over neighbours is one sweep.

    Shapes:
        num_nodes: [B]; edge_index: [2, E] (source, target), ids of the batch; in_degree: [N];
        x: [N, F] or None; edge_attr: [E, F] or None; y: [B, ...] or [N, ...] or None.
    """

    num_nodes: Tensor
    edge_index: Tensor
    in_degree: Tensor
    max_num_nodes: int
    total_nodes: int
    symmetric: bool
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None

    @property
    def num_graphs(self) -> int:
        return self.num_nodes.shape[0]

    @property
    def device(self) -> torch.device:
        return self.num_nodes.device

    @cached_property
    def first_node(self) -> Tensor:
        """The batch id of each graph's node 0, [B]."""
        return self.num_nodes.cumsum(0) - self.num_nodes

    @cached_property
    def node_graph(self) -> Tensor:
        """The graph of each node, [N]."""
        graph = torch.arange(self.num_graphs, device=self.device)
        return torch.repeat_interleave(graph, self.num_nodes, output_size=self.total_nodes)

    @cached_property
    def local_id(self) -> Tensor:
        """Each node's id within its own graph, [N]."""
        return torch.arange(self.total_nodes, device=self.device) - self.first_node[self.node_graph]

    @cached_property
    def is_node(self) -> Tensor:
        """Which cells of a [B, max_num_nodes] table are real nodes."""
        return torch.arange(self.max_num_nodes, device=self.device) < self.num_nodes[:, None]

    @cached_property
    def edge_offsets(self) -> Tensor:
        """Where each target's edges start in `edge_index`, [N + 1]."""
        return torch.nn.functional.pad(self.in_degree.cumsum(0), (1, 0))

    def padded(self, values: Tensor, fill: float) -> Tensor:
        """Node values [N, ...] as a table [B, max_num_nodes, ...], `fill` where a graph has no node."""
        table = values.new_full((self.num_graphs, self.max_num_nodes, *values.shape[1:]), fill)
        return table.index_put((self.node_graph, self.local_id), values)

    def to(self, device: torch.device | str) -> Self:
        return replace(self, **_moved(self, device))


@dataclass(frozen=True)
class PackedGraphs:
    """A whole data set back to back; `packed[ids]` is a `GraphBatch`.

    Node ids in `edge_index` are local to their graph and edges are sorted by (target, source) within it.
    `node_offsets` and `edge_offsets` stay on the CPU: a batch's sizes are then known without waiting
    for the GPU. Graph ids are CPU tensors for the same reason.

    Shapes:
        node_offsets, edge_offsets: [G + 1]; edge_index: [2, total edges]; in_degree: [total nodes];
        x: [total nodes, F]; edge_attr: [total edges, F]; y: [G, ...] or [total nodes, ...].
    """

    node_offsets: Tensor
    edge_offsets: Tensor
    edge_index: Tensor
    in_degree: Tensor
    symmetric: bool
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    level: Level = "graph"

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
    ) -> Self:
        """Pack graphs stored back to back, after checking them.

        Args:
            num_nodes, num_edges: sizes of each graph, [G].
            edge_index: local ids, [2, total edges].
            undirected_once: each undirected edge is stored once and is to be mirrored.
        """
        num_nodes, num_edges, edge_index = num_nodes.long(), num_edges.long(), edge_index.long()
        _check_sizes(num_nodes, num_edges, edge_index, x, edge_attr, y, level)
        edge_graph = torch.repeat_interleave(torch.arange(len(num_edges)), num_edges)
        _check_edges(edge_index, edge_graph, num_nodes)
        if undirected_once:
            mirrored = edge_index[0] != edge_index[1]  # a self-loop is its own mirror image
            edge_index = torch.cat([edge_index, edge_index.flip(0)[:, mirrored]], dim=1)
            edge_graph = torch.cat([edge_graph, edge_graph[mirrored]])
            edge_attr = None if edge_attr is None else torch.cat([edge_attr, edge_attr[mirrored]])
            num_edges = torch.bincount(edge_graph, minlength=len(num_nodes))
        node_offsets, edge_offsets = _offsets(num_nodes), _offsets(num_edges)
        source, target = edge_index + node_offsets[edge_graph]
        total = int(node_offsets[-1])
        order = torch.argsort(target * total + source, stable=True)
        return cls(
            node_offsets=node_offsets,
            edge_offsets=edge_offsets,
            edge_index=edge_index[:, order],
            in_degree=torch.bincount(target, minlength=total),
            symmetric=_is_symmetric(source, target, total),
            x=x,
            edge_attr=None if edge_attr is None else edge_attr[order],
            y=y,
            level=level,
        )

    def __len__(self) -> int:
        return len(self.node_offsets) - 1

    @property
    def device(self) -> torch.device:
        return self.edge_index.device

    @property
    def num_nodes(self) -> Tensor:
        """Nodes of each graph, [G], on the CPU."""
        return self.node_offsets.diff()

    @property
    def num_edges(self) -> Tensor:
        """Directed edges of each graph, [G], on the CPU."""
        return self.edge_offsets.diff()

    def __getitem__(self, ids: Tensor) -> GraphBatch:
        """Gather graphs `ids` [B] (repeats welcome) into one batch on this set's device."""
        nodes, num_nodes, total_nodes = self._gather(self.node_offsets, ids)
        edges, num_edges, total_edges = self._gather(self.edge_offsets, ids)
        host_nodes = self.num_nodes[ids]
        first_node = num_nodes.cumsum(0) - num_nodes
        shift = torch.repeat_interleave(first_node, num_edges, output_size=total_edges)
        y_index = nodes if self.level == "node" else ids.to(self.device, non_blocking=True)
        return GraphBatch(
            num_nodes=num_nodes,
            edge_index=self.edge_index[:, edges] + shift,
            in_degree=self.in_degree[nodes],
            max_num_nodes=int(host_nodes.max()) if len(ids) else 0,
            total_nodes=total_nodes,
            symmetric=self.symmetric,
            x=None if self.x is None else self.x[nodes],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            y=None if self.y is None else self.y[y_index],
        )

    def _gather(self, offsets: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, int]:
        """Rows of the flat tensors that belong to graphs `ids`, with their counts and total."""
        counts = offsets[ids + 1] - offsets[ids]
        total = int(counts.sum())
        starts = offsets[ids] - (counts.cumsum(0) - counts)
        # Not waiting for the copy lets the next launches queue up behind the running ones.
        counts = counts.to(self.device, non_blocking=True)
        starts = starts.to(self.device, non_blocking=True)
        shift = torch.repeat_interleave(starts, counts, output_size=total)
        return torch.arange(total, device=self.device) + shift, counts, total

    def select(self, ids: Tensor) -> PackedGraphs:
        """The data set of graphs `ids` alone."""
        batch = self[ids]
        return PackedGraphs(
            node_offsets=_offsets(batch.num_nodes.cpu()),
            edge_offsets=_offsets(self.num_edges[ids]),
            edge_index=batch.edge_index - batch.first_node[batch.node_graph[batch.edge_index[1]]],
            in_degree=batch.in_degree,
            symmetric=self.symmetric,
            x=batch.x,
            edge_attr=batch.edge_attr,
            y=batch.y,
            level=self.level,
        )

    def to(self, device: torch.device | str) -> Self:
        """The same set with everything but the offsets on `device`."""
        moved = _moved(self, device)
        moved |= {"node_offsets": self.node_offsets, "edge_offsets": self.edge_offsets}
        return replace(self, **moved)


def _moved(record: GraphBatch | PackedGraphs, device: torch.device | str) -> dict[str, Tensor]:
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)}


def _offsets(counts: Tensor) -> Tensor:
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


def _is_symmetric(source: Tensor, target: Tensor, total: int) -> bool:
    """Whether every edge is there in both directions: then the adjacency is its own transpose."""
    forward, backward = target * total + source, source * total + target
    return bool(torch.equal(forward.sort().values, backward.sort().values))


def _check_sizes(
    num_nodes: Tensor,
    num_edges: Tensor,
    edge_index: Tensor,
    x: Tensor | None,
    edge_attr: Tensor | None,
    y: Tensor | None,
    level: Level,
) -> None:
    if num_nodes.numel() == 0:
        raise InputError("no graphs: a data set needs at least one graph")
    if (num_nodes < 1).any():
        graph = int((num_nodes < 1).nonzero()[0])
        raise InputError(f"graph {graph} has no nodes: every graph needs at least one node to mark")
    if num_edges.shape != num_nodes.shape:
        raise InputError(f"num_edges has {len(num_edges)} entries for {len(num_nodes)} graphs")
    total_nodes, total_edges = int(num_nodes.sum()), int(num_edges.sum())
    if edge_index.shape != (2, total_edges):
        raise InputError(f"edge_index has shape {tuple(edge_index.shape)}, expected (2, {total_edges})")
    rows = {"x": (x, total_nodes), "edge_attr": (edge_attr, total_edges)}
    rows["y"] = (y, total_nodes if level == "node" else len(num_nodes))
    for name, (value, expected) in rows.items():
        if value is not None and (value.ndim == 0 or value.shape[0] != expected):
            raise InputError(f"{name} has shape {tuple(value.shape)}, expected {expected} rows")
        if value is not None and value.is_floating_point() and not bool(value.isfinite().all()):
            row = int((~value.isfinite()).nonzero()[0][0])
            raise InputError(f"{name} has a NaN or infinite value in row {row}: drop or repair that row")


def _check_edges(edge_index: Tensor, edge_graph: Tensor, num_nodes: Tensor) -> None:
    if edge_index.numel() == 0:
        return
    bad = ((edge_index < 0) | (edge_index >= num_nodes[edge_graph])).any(dim=0)
    if bad.any():
        edge = int(bad.nonzero()[0])
        graph = int(edge_graph[edge])
        raise InputError(
            f"graph {graph} has {int(num_nodes[graph])} nodes but an edge {tuple(edge_index[:, edge].tolist())}: "
            "node ids run from 0 to the number of nodes minus one, within each graph"
        )
