"""A batch of graphs as flat tensors: the first stage of graph -> tuples -> marking -> encoder.

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
"""Whether there is one target for each graph (P = G in Eq. 3) or for each node (P = N)."""

Task = Literal["classification", "multilabel", "regression"]
"""The kind of targets: one of several classes, several two-class targets, or numbers."""


class BatchSize(NamedTuple):
    """The numbers of rows of a batch, with padding; known on the CPU, so that gathering never synchronises a GPU."""

    graphs: int
    nodes: int
    edges: int
    max_num_nodes: int
    padding: bool = False


def rounded_up(count: int) -> int:
    """Round `count` up to one of 32 numbers between powers of two, which adds at most a 32nd."""
    step = _rounding_step(count)
    return -(-count // step) * step


def rounded_down(count: int) -> int:
    """Round `count` down to one of the numbers of `rounded_up`."""
    step = _rounding_step(count)
    return count // step * step


def _rounding_step(count: int) -> int:
    return 1 << max(0, count.bit_length() - 6)


class PairTable(NamedTuple):
    """Distances between the nodes of each graph of a set; a batch reads its own from the table of the whole set.

    Shapes:
        table: [pairs of the set], the distances from a graph's node 0 to all its nodes, then from node 1, ...;
        first: [G] for a set and [B] for a batch, the position at which each graph's distances begin.
    """

    table: Tensor
    first: Tensor

    def to(self, device: torch.device | str) -> PairTable:
        return PairTable(self.table.to(device), self.first.to(device))


@dataclass(frozen=True)
class GraphBatch:
    """A batch of B graphs, with edges sorted by target, so that a sum over neighbours is one pass over memory.

    A batch may have more rows of nodes and edges than its graphs have (`padding`), so that batches share a few shapes.
    Rows of padding come last and belong to no graph; padded edges join the last row of padding to itself.

    Attributes:
        num_nodes: the number of nodes of each graph, [B].
        edge_index: source and target of each edge as node ids of the batch, [2, E].
        in_degree: the number of incoming edges of each node, [N].
        out_degree: the number of outgoing edges of each node, [N].
        by_source: the order of the edges by (source, target), [E].
        max_num_nodes: the number of nodes of the largest graph.
        total_nodes: N.
        padding: whether there are rows that belong to no graph.
        x: features of nodes, [N, F] or None.
        edge_attr: features of edges, [E, F] or None.
        y: targets, [B, ...] or [N, ...] or None.
        structure: structural features, computed from the edges (see `maggnn.graphs.structure`), [N, S] or None.
        rings: the smallest ring of each edge (see `maggnn.graphs.rings`), [E] or None.
        roots: the roots of rooted graphs, as local ids (see `maggnn.data.synthetic.rooted`), [B, r] or None.
        pairs: the set's table of distances, or None (see `maggnn.graphs.distances`).
        finest: the tuples with the finest colouring (see `maggnn.model.refined.finest`), [B, m, k] or None.
        graph_attr: features of whole graphs, which predictors read besides the pooled nodes, [B, F] or None.
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
    graph_attr: Tensor | None = None

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
        """The graph of each node, [N]; the last graph for rows of padding."""
        return owner_of(self.num_nodes, self.total_nodes)

    @cached_property
    def num_real(self) -> Tensor | None:
        """The number of rows that are nodes, on the device; None without padding."""
        return self.num_nodes.sum() if self.padding else None

    @cached_property
    def is_real(self) -> Tensor | None:
        """Which rows are nodes, [N]; None without padding."""
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
        """The position of each target's first edge in `edge_index`, [N + 1]."""
        return offsets_of(self.in_degree)

    @cached_property
    def source_offsets(self) -> Tensor:
        """The position of each source's first edge in `by_source`, [N + 1]."""
        return offsets_of(self.out_degree)

    @cached_property
    def node_offsets(self) -> Tensor:
        """The position of each graph's first node, [B + 1]."""
        return offsets_of(self.num_nodes)

    @cached_property
    def symmetric(self) -> bool:
        """Whether every edge is present in both directions; then `by_source` maps each edge to its reverse."""
        return torch.equal(self.edge_index[:, self.by_source].flip(0), self.edge_index)

    def derived(self, name: str, make: Callable[[], Tensor], of: Tensor | None = None) -> Tensor:
        """Return the result of `make`, computed once for this batch (and for `of`, if it depends on it) and cached."""
        assert name not in self.__dataclass_fields__, f"{name} is the name of a field"
        held = self.__dict__.get(name)
        if held is None or held[0] is not of:
            held = self.__dict__[name] = (of, make())
        return held[1]

    def padded(self, values: Tensor, fill: float) -> Tensor:
        """Return node values [N, ...] as a table [B, max_num_nodes, ...], with `fill` past the nodes of a graph."""
        local = torch.arange(self.max_num_nodes, device=self.device)
        row = (self.first_node[:, None] + local).clamp(max=self.total_nodes - 1)  # [B, max_num_nodes]
        is_node = self.is_node.reshape(*row.shape, *[1] * (values.ndim - 1))
        table = values.index_select(0, row.flatten()).unflatten(0, row.shape)
        return torch.where(is_node, table, fill)

    def to(self, device: torch.device | str) -> Self:
        """Return the same batch on another device.

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
OPTIONAL = ("x", "edge_attr", "structure", "rings", "roots", "finest", "graph_attr")
DERIVED = ("first_node", "node_graph", "num_real", "edge_offsets", "source_offsets", "node_offsets")


def batch_tensors(batch: GraphBatch) -> dict[str, Tensor]:
    """Return all tensors of a batch that inference reads, by name: without targets, with derived tensors.

    `batch_from_tensors` is the inverse. A recorded search takes its batch in this form.
    """
    names = [*GIVEN, *OPTIONAL, *DERIVED]
    tensors = {name: value for name in names if (value := getattr(batch, name)) is not None}
    return (
        tensors if batch.pairs is None else tensors | {"pair_table": batch.pairs.table, "pair_first": batch.pairs.first}
    )


def batch_from_tensors(tensors: dict[str, Tensor], size: BatchSize) -> GraphBatch:
    """Return the batch for the tensors of `batch_tensors`."""
    fields = {name: tensors[name] for name in (*GIVEN, *OPTIONAL) if name in tensors}
    pairs = PairTable(tensors["pair_table"], tensors["pair_first"]) if "pair_table" in tensors else None
    batch = GraphBatch(
        **fields, max_num_nodes=size.max_num_nodes, total_nodes=size.nodes, padding=size.padding, pairs=pairs
    )
    batch.__dict__.update({name: tensors.get(name) for name in DERIVED})
    return batch


def tensors_on(record: Any, device: torch.device | str) -> dict[str, Tensor | PairTable]:
    """Return the tensors among a dataclass's fields, on `device`; a GPU copies pinned ones while the CPU goes on."""
    on_gpu = torch.device(device).type == "cuda"  # a CPU would read values before they have arrived
    return {
        name: value.to(device, non_blocking=on_gpu) if isinstance(value, Tensor) else value.to(device)
        for name, value in tensors_of(record).items()
    }


def tensors_of(record: Any) -> dict[str, Any]:
    """Return the tensors, and the tables of distances, among a dataclass's fields."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor | PairTable)}


def shapes_of(record: Any) -> list[str]:
    """Describe a batch or a set for its repr: directed edges, the optional tensors that it has, and the device."""
    values = {name: getattr(record, name) for name in (*OPTIONAL, "y")}
    optional = [
        f"{name}={list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        for name, value in values.items()
        if value is not None
    ]
    return [f"edges={record.edge_index.shape[1]}", *optional, f"device={record.device}"]


def values_known(values: Tensor) -> bool:
    """Whether values can be read for free: not on a GPU, which would be synchronised, nor in a program being traced."""
    return values.device.type == "cpu" and not torch.compiler.is_exporting()


def largest(counts: Tensor) -> int:
    """Return the largest of counts [B], at least 2. It depends on values, so a GPU is synchronised.

    An exported program computes it at run time; it is at least 2 because compilers specialise the sizes 0 and 1.
    """
    most = counts.max().clamp(min=2).item()
    torch._check(most >= 2)
    return most  # pyright: ignore[reportReturnType] (a whole number, or the symbol of one)


def sum_rows(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return the sum of each owner's rows, [rows, ...] -> [count, ...].

    `index_add` is not used, because its ONNX form has data races between threads.
    """
    index = owner.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
    return values.new_zeros(count, *values.shape[1:]).scatter_add(0, index, values)


def offsets_of(counts: Tensor) -> Tensor:
    """Return the position of each owner's first row, [owners + 1]."""
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


def owner_of(counts: Tensor, total: int) -> Tensor:
    """Return the owner of each of `total` rows if owner i has `counts[i]` consecutive rows; the last beyond them."""
    if counts.device.type == "cpu":
        owner = torch.repeat_interleave(counts)
        return torch.nn.functional.pad(owner, (0, total - len(owner)), value=len(counts) - 1)
    # `repeat_interleave` would synchronise a GPU to know the number of rows; a binary search does not.
    row = torch.arange(total, device=counts.device)
    return torch.searchsorted(counts.cumsum(0), row, right=True).clamp(max=len(counts) - 1)


def expanded(first: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows first, first + 1, ... of each owner, `counts` of them, and the owner of each: [total] both."""
    owner = torch.repeat_interleave(counts)
    within = torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[owner]
    return first[owner] + within, owner


def edges_by_source(source: Tensor, target: Tensor, total_nodes: int) -> Tensor:
    """Return the order of the edges by (source, target), [E]."""
    return torch.argsort(source * total_nodes + target, stable=True)


def batch_of_edges(
    num_nodes: Tensor,
    edge_index: Tensor,
    x: Tensor | None = None,
    edge_attr: Tensor | None = None,
    y: Tensor | None = None,
    structure: Tensor | None = None,
    rings: Tensor | None = None,
) -> GraphBatch:
    """Make a batch of graphs with `num_nodes` [B] and edges [2, E] of batch ids, by target; synchronises a GPU."""
    total = int(num_nodes.sum())
    source, target = edge_index
    return GraphBatch(
        num_nodes=num_nodes,
        edge_index=edge_index,
        in_degree=torch.bincount(target, minlength=total),
        out_degree=torch.bincount(source, minlength=total),
        by_source=edges_by_source(source, target, total),
        max_num_nodes=int(num_nodes.max()) if len(num_nodes) else 0,
        total_nodes=total,
        x=x,
        edge_attr=edge_attr,
        y=y,
        structure=structure,
        rings=rings,
    )
