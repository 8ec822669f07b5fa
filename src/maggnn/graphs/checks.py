"""What stored graphs must be before they are packed: one clear line names the graph or row that is not."""

from __future__ import annotations

from torch import Tensor

from maggnn.errors import InputError


def check_sizes(
    num_nodes: Tensor,
    num_edges: Tensor,
    edge_index: Tensor,
    x: Tensor | None,
    edge_attr: Tensor | None,
    y: Tensor | None,
    level: str,
) -> None:
    """Counts and rows that fit together, and finite numbers; shapes as in `PackedGraphs.build`."""
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


def check_edges(edge_index: Tensor, edge_graph: Tensor, num_nodes: Tensor) -> None:
    """Endpoints [2, E] that are nodes of their own graph `edge_graph` [E]."""
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
