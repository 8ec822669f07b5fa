"""The graphs of one step side by side, as flat tensors: the first station of graph -> tuples -> marking -> encoder.

Shapes: B graphs, N nodes and E directed edges of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor

Level = Literal["graph", "node"]
"""Whether there is one target a graph (P = G in Eq. 3) or one a node (P = N)."""

Task = Literal["classification", "multilabel", "regression"]
"""What a target is: a class, or numbers."""


class BatchSize(NamedTuple):
    """How many rows a batch has room for: known on the CPU, so that gathering never waits for a GPU."""

    graphs: int
    nodes: int
    edges: int
    max_num_nodes: int
    padding: bool = False


class PairTable(NamedTuple):
    """Distances between the nodes of each graph of a set; a batch looks its own up in the whole set's table.

    Shapes:
        table: [pairs of the set], the distances from a graph's node 0 to all its nodes, then from node 1, ...;
        first: [G] for a set and [B] for a batch, where each graph's distances begin.
    """

    table: Tensor
    first: Tensor

    def to(self, device: torch.device | str) -> PairTable:
        return PairTable(self.table.to(device), self.first.to(device))


@dataclass(frozen=True)
class GraphBatch:
    """B graphs side by side, edges sorted by target so that a sum over neighbours is one sweep.

    A batch may have room for more nodes and edges than its graphs have (`padding`), so that batches share a few
    shapes. Rows of padding come last, belong to no graph, and padded edges join the last row of padding to itself.

    Attributes:
        num_nodes: nodes of each graph, [B].
        edge_index: source and target of each edge as ids of the batch, [2, E].
        in_degree: edges that end at each node, [N].
        out_degree: edges that begin at each node, [N].
        by_source: the edges in order of (source, target), [E].
        max_num_nodes: size of the largest graph.
        total_nodes: N.
        padding: whether there are rows that belong to no graph.
        x: features of nodes, [N, F] or None.
        edge_attr: features of edges, [E, F] or None.
        y: targets, [B, ...] or [N, ...] or None.
        structure: numbers made from the edges alone (see `maggnn.graphs.structure`), [N, S] or None.
        rings: the smallest ring of each edge (see `maggnn.graphs.rings`), [E] or None.
        roots: the nodes (local ids) that a rooted graph is about (see `maggnn.data.synthetic.rooted`), [B, r] or None.
        pairs: the set's table of distances, or None (see `maggnn.graphs.distances`).
        finest: the tuples with the finest colouring (see `maggnn.model.refined.finest`), [B, m, k] or None.
    """

    num_nodes: Tensor
    edge_index: Tensor
    in_degree: Tensor
    out_degree: Tensor
    by_source: Tensor
    max_num_nodes: int
    total_nodes: int
    padding: bool = False
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    structure: Tensor | None = None
    rings: Tensor | None = None
    roots: Tensor | None = None
    pairs: PairTable | None = None
    finest: Tensor | None = None

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
        """The graph of each node, [N]; of a row of padding, the last graph."""
        return owner_of(self.num_nodes, self.total_nodes)

    @cached_property
    def num_real(self) -> Tensor | None:
        """How many rows are nodes, one number on the device; None where all are."""
        return self.num_nodes.sum() if self.padding else None

    @cached_property
    def is_real(self) -> Tensor | None:
        """Which rows are nodes, [N]; None where all are."""
        return None if self.num_real is None else torch.arange(self.total_nodes, device=self.device) < self.num_real

    @cached_property
    def local_id(self) -> Tensor:
        """Each node's id within its own graph, [N]."""
        return torch.arange(self.total_nodes, device=self.device) - self.first_node.index_select(0, self.node_graph)

    @cached_property
    def is_node(self) -> Tensor:
        """Which cells of a [B, max_num_nodes] table are real nodes."""
        return torch.arange(self.max_num_nodes, device=self.device) < self.num_nodes[:, None]

    @cached_property
    def edge_offsets(self) -> Tensor:
        """Where each target's edges start in `edge_index`, [N + 1]."""
        return offsets_of(self.in_degree)

    @cached_property
    def source_offsets(self) -> Tensor:
        """Where each source's edges start in `by_source`, [N + 1]."""
        return offsets_of(self.out_degree)

    @cached_property
    def node_offsets(self) -> Tensor:
        """Where each graph's nodes start, [B + 1]."""
        return offsets_of(self.num_nodes)

    @cached_property
    def symmetric(self) -> bool:
        """Whether every edge is there in both directions: then by source is by target, turned round."""
        return torch.equal(self.edge_index[:, self.by_source].flip(0), self.edge_index)

    def derived(self, name: str, make: Callable[[], Tensor], of: Tensor | None = None) -> Tensor:
        """What `make` returns, made once for this batch (and for `of`, where it depends on that): layers share it."""
        assert name not in self.__dataclass_fields__, f"{name} is a field of its own"
        held = self.__dict__.get(name)
        if held is None or held[0] is not of:
            held = self.__dict__[name] = (of, make())
        return held[1]

    def padded(self, values: Tensor, fill: float) -> Tensor:
        """Node values [N, ...] as a table [B, max_num_nodes, ...], `fill` where a graph has no node."""
        local = torch.arange(self.max_num_nodes, device=self.device)
        row = (self.first_node[:, None] + local).clamp(max=self.total_nodes - 1)  # [B, max_num_nodes]
        is_node = self.is_node.reshape(*row.shape, *[1] * (values.ndim - 1))
        table = values.index_select(0, row.flatten()).unflatten(0, row.shape)
        return torch.where(is_node, table, fill)

    def to(self, device: torch.device | str) -> Self:
        """The same batch on another device.

        Args:
            device: such as "cuda".

        Returns:
            A copy.
        """
        return replace(self, **tensors_on(self, device))

    def __repr__(self) -> str:
        size = [f"graphs={self.num_graphs}", f"nodes={self.total_nodes}{' with padding' if self.padding else ''}"]
        return f"GraphBatch({', '.join([*size, *shapes_of(self)])})"


GIVEN = ("num_nodes", "edge_index", "in_degree", "out_degree", "by_source")
OPTIONAL = ("x", "edge_attr", "structure", "rings", "roots", "finest")
WORKED_OUT = ("first_node", "node_graph", "num_real", "edge_offsets", "source_offsets", "node_offsets")


def batch_tensors(batch: GraphBatch) -> dict[str, Tensor]:
    """All tensors of a batch that an answer reads, by name: targets are left out, what fields determine comes along.

    `batch_from_tensors` is the inverse. A recorded search takes its batch in this form.
    """
    names = [*GIVEN, *OPTIONAL, *WORKED_OUT]
    tensors = {name: value for name in names if (value := getattr(batch, name)) is not None}
    return (
        tensors if batch.pairs is None else tensors | {"pair_table": batch.pairs.table, "pair_first": batch.pairs.first}
    )


def batch_from_tensors(tensors: dict[str, Tensor], size: BatchSize) -> GraphBatch:
    """The batch whose tensors `batch_tensors` gave."""
    fields = {name: tensors[name] for name in (*GIVEN, *OPTIONAL) if name in tensors}
    pairs = PairTable(tensors["pair_table"], tensors["pair_first"]) if "pair_table" in tensors else None
    batch = GraphBatch(
        **fields, max_num_nodes=size.max_num_nodes, total_nodes=size.nodes, padding=size.padding, pairs=pairs
    )
    batch.__dict__.update({name: tensors.get(name) for name in WORKED_OUT})
    return batch


def tensors_on(record: Any, device: torch.device | str) -> dict[str, Tensor | PairTable]:
    """The tensors among a dataclass's fields, on `device`."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {name: value.to(device) for name, value in values.items() if isinstance(value, Tensor | PairTable)}


def shapes_of(record: Any) -> list[str]:
    """What a batch or a set holds, for its repr: directed edges, the optional tensors that are there, the device."""
    values = {name: getattr(record, name) for name in ("x", "edge_attr", "y", "structure", "rings", "roots", "finest")}
    optional = [
        f"{name}={list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        for name, value in values.items()
        if value is not None
    ]
    return [f"edges={record.edge_index.shape[1]}", *optional, f"device={record.device}"]


def values_known(values: Tensor) -> bool:
    """Whether looking at values is free: a GPU would have to be waited for, and a program being traced has none yet."""
    return values.device.type == "cpu" and not torch.compiler.is_exporting()


def largest(counts: Tensor) -> int:
    """The largest of counts [B], at least 2: a size that only values tell, so a GPU is waited for.

    An exported program learns it when it runs; compilers treat the sizes 0 and 1 as cases of their own.
    """
    most = counts.max().clamp(min=2).item()
    torch._check(most >= 2)
    return most  # pyright: ignore[reportReturnType] (a whole number, or the symbol of one)


def sum_rows(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """The sum of each owner's rows, [rows, ...] -> [count, ...].

    Not `index_add`, whose ONNX form adds without waiting for other threads.
    """
    index = owner.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
    return values.new_zeros(count, *values.shape[1:]).scatter_add(0, index, values)


def offsets_of(counts: Tensor) -> Tensor:
    """Where each owner's rows start, [owners + 1]."""
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


def owner_of(counts: Tensor, total: int) -> Tensor:
    """Whose each of `total` rows is when owner i has `counts[i]` of them in a row; the last one's beyond all."""
    if counts.device.type == "cpu":
        owner = torch.repeat_interleave(counts)
        return torch.nn.functional.pad(owner, (0, total - len(owner)), value=len(counts) - 1)
    # A GPU would have to be waited for to know how many there are; a search needs no such number.
    row = torch.arange(total, device=counts.device)
    return torch.searchsorted(counts.cumsum(0), row, right=True).clamp(max=len(counts) - 1)


def expanded(first: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The rows first, first + 1, ... of each owner, `counts` of them, and whose each is: [total] both."""
    owner = torch.repeat_interleave(counts)
    within = torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[owner]
    return first[owner] + within, owner
