"""Checks of graphs before they are used: an `InputError` names the graph or row that violates a rule.

The rules are the same for graphs that are packed and for batches from PyG.

Shapes: G graphs, N nodes and E edges of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import Level, owner_of

MOST_MOVED = 1e-4
"""The largest change of a target by rounding to float32 that is accepted, in units of the column's spread."""

MOST_NODES = 100_000_000
"""The largest number of nodes of one graph: their ids alone take a gigabyte."""

NEEDS_A_NODE = "every graph needs at least one node to mark"


def check_sizes(
    num_nodes: Tensor,
    num_edges: Tensor,
    edge_index: Tensor,
    x: Tensor | None,
    edge_attr: Tensor | None,
    y: Tensor | None,
    level: str,
    missing_targets: bool = False,
) -> None:
    """Check that counts and rows are consistent and numbers are finite; shapes are those of `PackedGraphs.build`."""
    _check_nodes(num_nodes)
    if num_edges.shape != num_nodes.shape:
        raise InputError(f"num_edges has {len(num_edges)} entries for {len(num_nodes)} graphs")
    total_nodes, total_edges = int(num_nodes.sum()), int(num_edges.sum())
    if edge_index.shape != (2, total_edges):
        raise InputError(f"edge_index has shape {tuple(edge_index.shape)}, expected (2, {total_edges})")
    _check_rows("x", x, total_nodes)
    _check_rows("edge_attr", edge_attr, total_edges)
    _check_rows("y", y, total_nodes if level == "node" else len(num_nodes))
    _check_values("x", x, lambda row: _owner(num_nodes, row))
    _check_values("edge_attr", edge_attr, lambda row: _owner(num_edges, row))
    known = _known(y) if missing_targets else y
    _check_values("y", known, lambda row: _owner(num_nodes, row) if level == "node" else row)


def _known(y: Tensor | None) -> Tensor | None:
    """Replace missing values, NaN, by a number."""
    return None if y is None else y.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


def check_graph_attr(values: Tensor, num_graphs: int) -> None:
    """Check features of whole graphs: a row of finite numbers, or NaN for missing ones, for each graph [G, F]."""
    check_tensor("graph_attr", values)
    if values.ndim != 2 or not values.shape[1] or len(values) != num_graphs:
        raise InputError(f"graph_attr has shape {tuple(values.shape)}, expected ({num_graphs}, number of features)")
    if bool(values.isinf().any()):
        graph = int(values.isinf().any(dim=1).nonzero()[0])
        raise InputError(f"graph_attr of graph {graph} is infinite: give finite numbers, or NaN for missing ones")


def check_tensor(name: str, value: object) -> None:
    """Check that a value is a dense tensor of real numbers; PyG's `Data` may contain any object."""
    if not isinstance(value, Tensor):
        raise InputError(f"{name} is of type {type(value).__name__}: give a tensor")
    if value.layout != torch.strided or value.is_complex():
        kind = "complex numbers" if value.is_complex() else "a sparse tensor"
        raise InputError(f"{name} contains {kind}: give a dense tensor of real numbers")


def check_integers(name: str, value: object) -> None:
    """Check that a value has whole numbers, of any type; fractions would be lost silently."""
    check_tensor(name, value)
    assert isinstance(value, Tensor)
    fractions = value.is_floating_point() and not bool((value == value.round()).all())
    if fractions or value.dtype == torch.bool:
        what = "numbers that are not whole" if fractions else "booleans"
        raise InputError(f"{name} contains {what}: give whole numbers")


def check_edge_index(name: str, value: object) -> None:
    """Check that a value has the ends of edges, as whole numbers of any type, [2, E]."""
    check_integers(name, value)
    assert isinstance(value, Tensor)
    if value.dim() != 2 or len(value) != 2:
        raise InputError(f"{name} has shape {tuple(value.shape)}, expected (2, number of edges)")


def check_edges(edge_index: Tensor, edge_graph: Tensor, num_nodes: Tensor) -> None:
    """Check that the ends of edges [2, E] are nodes of their own graph `edge_graph` [E]."""
    if edge_index.numel() == 0:
        return
    bad = ((edge_index < 0) | (edge_index >= num_nodes.index_select(0, edge_graph))).any(dim=0)
    if bad.any():
        edge = int(bad.nonzero()[0])
        graph = int(edge_graph[edge])
        raise InputError(
            f"graph {graph} has {int(num_nodes[graph])} nodes but an edge {tuple(edge_index[:, edge].tolist())}: "
            "node ids run from 0 to the number of nodes minus one, within each graph"
        )


def check_batch(
    num_nodes: Tensor,
    edge_index: Tensor,
    x: Tensor | None,
    edge_attr: Tensor | None,
    y: Tensor | None,
    missing_targets: bool = False,
) -> None:
    """Check a batch, whose edges have node ids of the batch; y has a row for each graph or for each node.

    Shapes:
        num_nodes: [G]; edge_index: [2, E]; x: [N, F]; edge_attr: [E, F]; y: [G, ...] or [N, ...].
    """
    _check_nodes(num_nodes)
    total = int(num_nodes.sum())
    _check_rows("x", x, total)
    _check_rows("edge_attr", edge_attr, edge_index.shape[1])
    _check_rows("y", y, len(num_nodes), total)
    _check_values("x", x, lambda row: _owner(num_nodes, row))
    known = _known(y) if missing_targets else y
    _check_values("y", known, lambda row: row if y is not None and len(y) == len(num_nodes) else _owner(num_nodes, row))
    edge_graph = owner_of(num_nodes, total)[edge_index[0].clamp(0, total - 1)]
    _check_values("edge_attr", edge_attr, lambda row: int(edge_graph[row]))
    check_edges(edge_index - (num_nodes.cumsum(0) - num_nodes)[edge_graph], edge_graph, num_nodes)


def check_sorted(node_graph: Tensor) -> None:
    """Check that the graphs of nodes [N] are in order."""
    check_integers("batch", node_graph)
    if node_graph.ndim != 1:
        raise InputError(f"batch has shape {tuple(node_graph.shape)}, expected one number for each node")
    if node_graph.numel() and int(node_graph[0]) < 0:
        raise InputError(f"batch begins with {int(node_graph[0])}: graphs are numbered from 0")
    if bool((node_graph.diff() < 0).any()):
        raise InputError("batch is not sorted: the nodes of a graph must be consecutive")


def check_columns(name: str, values: Sequence[Tensor]) -> None:
    """Check that the tensors of all graphs have the same columns."""
    for index, value in enumerate(values):
        if value.shape[1:] != values[0].shape[1:]:
            raise InputError(
                f"{name} of graph {index} has rows of shape {tuple(value.shape[1:])}, "
                f"graph 0 has {tuple(values[0].shape[1:])}: all graphs need the same columns"
            )


def level_of(targets: Sequence[Tensor], num_nodes: Sequence[int]) -> Level:
    """Return whether the tensors of targets, one for each graph, have a single row or one row for each node."""
    if all(len(y) == 1 for y in targets):
        return "graph"
    for index, (y, nodes) in enumerate(zip(targets, num_nodes, strict=True)):
        if len(y) != nodes:
            raise InputError(
                f"y of graph {index} has {len(y)} rows: give one row for each graph (shape [1, ...]) "
                f"or for each node (here {nodes})"
            )
    return "node"


def short_floats(values: Tensor) -> Tensor:
    """Return floats [rows, ...] as float32 if this keeps the differences in every column, else in double precision.

    A missing value is NaN and stays NaN.
    """
    rounded, exact = values.float(), values.double()
    if values.dtype != torch.float64 or len(values) < 2:
        return rounded
    centred = exact - exact.nanmean(dim=0)
    spread = (centred**2).nanmean(dim=0).sqrt()
    moved = (exact - rounded.double()).abs().nan_to_num().amax(dim=0)
    return values if bool((moved > MOST_MOVED * spread).any()) else rounded


def _check_nodes(num_nodes: Tensor) -> None:
    """Check that there are graphs, each with at least one node, and none with more nodes than fit into memory."""
    if num_nodes.numel() == 0:
        raise InputError("no graphs: a data set needs at least one graph")
    if bool((num_nodes < 1).any()):
        graph = int((num_nodes < 1).nonzero()[0])
        raise InputError(f"graph {graph} has no nodes: {NEEDS_A_NODE}")
    if bool((num_nodes > MOST_NODES).any()):
        graph = int((num_nodes > MOST_NODES).nonzero()[0])
        raise InputError(f"graph {graph} has {int(num_nodes[graph]):,} nodes: at most {MOST_NODES:,} can be read")


def _check_rows(name: str, value: Tensor | None, *allowed: int) -> None:
    """Check that the number of rows is one of `allowed`."""
    if value is None:
        return
    check_tensor(name, value)
    if value.ndim == 0 or len(value) not in allowed:
        expected = " or ".join(map(str, sorted(set(allowed))))
        raise InputError(f"{name} has shape {tuple(value.shape)}, expected {expected} rows")


def _check_values(name: str, value: Tensor | None, graph_of: Callable[[int], int]) -> None:
    """Check that numbers are finite, also in float32, in which networks compute."""
    if value is None or not value.is_floating_point():
        return
    bad = ~value.float().isfinite()
    if bool(bad.any()):
        row, *columns = bad.nonzero()[0].tolist()
        found = float(value[row, *columns])
        what = f"{found:g}, which is too large for float32," if math.isfinite(found) else "a NaN or infinite value"
        column = f", column {columns[0]}" if columns else ""
        raise InputError(f"{name} has {what} in row {row}{column}, of graph {graph_of(row)}: drop or repair that row")


def _owner(sizes: Tensor, row: int) -> int:
    """Return the graph of a row if graphs have `sizes` rows."""
    return int((sizes.cumsum(0) <= row).sum())
