"""Conversions between packed graphs and PyG, NetworkX and graph6, in both directions.

A graph that cannot be used raises an `InputError` that names it (`checks`). PyG and NetworkX are imported only when
they are needed; importing this module needs only torch.

Shapes: B graphs, N nodes and E directed edges of a batch; G graphs in a whole set.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import index as index_of
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from maggnn.errors import InputError, first_line
from maggnn.graphs.batch import GraphBatch, Level, batch_of_edges
from maggnn.graphs.checks import (
    NEEDS_A_NODE,
    check_batch,
    check_columns,
    check_edge_index,
    check_graph_attr,
    check_sorted,
    check_tensor,
    level_of,
)
from maggnn.graphs.packed import PackedGraphs

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Batch, Data

GRAPH6_HEADER = ">>graph6<<"
GRAPH_ATTR = "graph_attr"
"""The attribute of a PyG graph with features of the whole graph."""


# ---- PyG ------------------------------------------------------------------------------------------------


def from_pyg(data: Data | Batch | Sequence[Data]) -> GraphBatch:
    """Convert PyG graphs to one batch.

    Args:
        data: a `Batch`, one `Data`, or a list of them.

    Returns:
        The same graphs as a `GraphBatch`.
    """
    from torch_geometric.data import Data

    if isinstance(data, Data):  # a Batch is a Data too
        return batch_from_pyg(data)
    graphs = list(cast("Sequence[Data]", data))
    return pack_pyg(graphs)[torch.arange(len(graphs))]


def batch_from_pyg(
    batch: Batch | Data, validate: bool = True, targets: bool = True, missing_targets: bool = False
) -> GraphBatch:
    """Convert a PyG batch (or one graph) to a `GraphBatch` on the same device, without a loop over graphs.

    Args:
        batch: nodes grouped by graph, as from PyG's collate. `y` has one row for each graph or for each node.
            `graph_attr`, if there is one, has a row of features for each graph.
        validate: whether to check sizes, edge ids and features, which synchronises a GPU; `False` skips it for
            batches that are known to be valid.
        targets: whether `y` is read; an answer needs none, so a model reads graphs whatever their `y` is.
        missing_targets: whether NaN in `y` is a missing value and not an error.

    Returns:
        The same graphs as a `GraphBatch`.

    Shapes:
        x: [N, F]; edge_index: [2, E]; edge_attr: [E, F]; y: [B, ...] or [N, ...]; graph_attr: [B, F].
    """
    batch = cast("Data", batch)  # a Batch is a Data, which type checkers cannot see
    num_nodes = _pyg_num_nodes(batch)  # [B]
    edge_index = _pyg_edge_index(batch)
    if validate:
        check_edge_index("edge_index", edge_index)
    edge_index = edge_index.long()
    y = targets_of("y", batch.y, num_nodes.device) if targets and batch.y is not None else None
    if validate:
        check_batch(num_nodes, edge_index, batch.x, batch.edge_attr, y, missing_targets)
    order = torch.argsort(edge_index[1] * int(num_nodes.sum()) + edge_index[0], stable=True)
    edge_attr = None if batch.edge_attr is None else _columns(batch.edge_attr[order])
    made = batch_of_edges(num_nodes, edge_index[:, order], _columns(batch.x), edge_attr, y)
    graph_attr = getattr(batch, GRAPH_ATTR, None)
    if graph_attr is None:
        return made
    check_graph_attr(graph_attr, len(num_nodes))
    return replace(made, graph_attr=graph_attr.float())


def pack_pyg(graphs: Sequence[Data], targets: bool = True, missing_targets: bool = False) -> PackedGraphs:
    """Pack a list of PyG graphs. `x` and `edge_attr` are in all graphs or in none; `y` is read if every graph has it.

    A graph without edges needs no `edge_attr`. `y` has one value or row for each graph, or one row for each node (then
    in every graph). `graph_attr` has one row, [1, F], and is in all graphs or in none.

    Args:
        graphs: the graphs.
        targets: whether `y` is read.
        missing_targets: whether NaN in `y` is a missing value and not an error.

    Returns:
        The packed graphs.
    """
    for index, graph in enumerate(graphs):
        _check_pyg(graph, index)
    num_nodes = [_pyg_node_count(graph) for graph in graphs]
    edges = [_pyg_edge_index(graph) for graph in graphs]
    y, level = _pyg_targets(graphs, num_nodes) if targets else (None, "graph")
    packed = PackedGraphs.build(
        num_nodes=torch.tensor(num_nodes, dtype=torch.long),
        num_edges=torch.tensor([edge_index.shape[1] for edge_index in edges], dtype=torch.long),
        edge_index=torch.cat(edges, dim=1) if edges else torch.empty(2, 0, dtype=torch.long),
        x=_columns(_concatenated("x", [graph.x for graph in graphs], num_nodes)),
        edge_attr=_columns(
            _concatenated("edge_attr", [graph.edge_attr for graph in graphs], [e.shape[1] for e in edges])
        ),
        y=y,
        level=level,
        missing_targets=missing_targets,
    )
    found = [getattr(graph, GRAPH_ATTR, None) for graph in graphs]
    return packed.with_graph_attr(_concatenated(GRAPH_ATTR, found, [1] * len(graphs)))


def to_pyg(packed: PackedGraphs) -> list[Data]:
    """Convert packed graphs to PyG graphs; edges are in both directions if the set has them so.

    Args:
        packed: the graphs.

    Returns:
        One `Data` for each graph.
    """
    from torch_geometric.data import Data

    graphs = []
    for index, (nodes, edges) in enumerate(_slices(packed)):
        whole = slice(index, index + 1)
        rows = nodes if packed.level == "node" else whole
        fields = {"x": (packed.x, nodes), "edge_attr": (packed.edge_attr, edges), "y": (packed.y, rows)}
        fields |= {GRAPH_ATTR: (packed.graph_attr, whole)}
        present = {name: value[part] for name, (value, part) in fields.items() if value is not None}
        num_nodes = nodes.stop - nodes.start
        graphs.append(Data(edge_index=packed.edge_index[:, edges], num_nodes=num_nodes, **present))
    return graphs


def _pyg_num_nodes(batch: Data) -> Tensor:
    """Return the number of nodes of each graph, [B], from `ptr`, else from `batch`, else for one graph."""
    ptr, node_graph = getattr(batch, "ptr", None), getattr(batch, "batch", None)
    if isinstance(ptr, Tensor):
        return ptr.diff()
    if isinstance(node_graph, Tensor):
        check_sorted(node_graph)
        return torch.bincount(node_graph.long())
    return torch.tensor([_pyg_node_count(batch)], device=_pyg_edge_index(batch).device)


def _pyg_node_count(graph: Data) -> int:
    try:
        return index_of(graph.num_nodes or 0)
    except TypeError:
        raise InputError(f"num_nodes is {graph.num_nodes!r}: give a whole number") from None


def _check_pyg(graph: Data, index: int) -> None:
    """Reject what would be misread: a batch of several graphs, fractional ids, and values that are not tensors."""
    from torch_geometric.data import Batch

    if isinstance(graph, Batch):
        raise InputError(f"graph {index} is a Batch: give its graphs one by one, as batch.to_data_list() does")
    for name in ("x", "edge_attr", GRAPH_ATTR):
        value = getattr(graph, name, None)
        if value is not None:
            check_tensor(f"{name} of graph {index}", value)
    if graph.edge_index is not None:
        check_edge_index(f"edge_index of graph {index}", graph.edge_index)


def _pyg_edge_index(graph: Data) -> Tensor:
    """Return the edges, [2, E]; a PyG graph without edges may have no `edge_index` at all."""
    if getattr(graph, "edge_weight", None) is not None:  # PyG's layers read it only where it is given to them
        raise InputError(
            "a graph has edge_weight, which nothing would read: give it as edge_attr, [E, 1], or remove it"
        )
    if graph.edge_index is not None:
        return graph.edge_index
    if "adj_t" in graph or "adj" in graph:  # it would silently become a graph without edges
        raise InputError("a graph has its edges as adj_t or adj: give them as edge_index")
    device = graph.x.device if isinstance(graph.x, Tensor) else None
    return torch.empty(2, 0, dtype=torch.long, device=device)


def targets_of(name: str, values: Any, device: torch.device | None = None) -> Tensor:
    """Return targets that are given as numbers, a list, an array or a tensor as a tensor with rows."""
    try:
        return torch.atleast_1d(torch.as_tensor(values, device=device))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot become a tensor ({first_line(error)}): give numbers") from error


def _pyg_targets(graphs: Sequence[Data], num_nodes: Sequence[int]) -> tuple[Tensor | None, Level]:
    """Return all targets in one tensor, and whether they belong to graphs or to nodes."""
    targets = [graph.y for graph in graphs]
    if not targets or any(y is None for y in targets):
        return None, "graph"
    rows = [targets_of("y", y) for y in targets]
    level = level_of(rows, num_nodes)
    return _concatenated("y", rows, [len(row) for row in rows]), level


def _concatenated(name: str, values: Sequence[Tensor | None], sizes: Sequence[int]) -> Tensor | None:
    """Concatenate one field of all graphs, which must have `sizes` rows; None if no graph has it."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    has = next(index for index, value in enumerate(values) if value is not None)
    for index, (value, size) in enumerate(zip(values, sizes, strict=True)):
        if value is None and size:
            raise InputError(f"graph {index} has no {name}, but graph {has} has: give it to all graphs or to none")
    rows = [present[0][:0] if value is None else value for value in values]
    check_columns(name, rows)
    return torch.cat(rows)


# ---- NetworkX -------------------------------------------------------------------------------------------


def pack_networkx(
    graphs: Sequence[nx.Graph], y: Tensor | Sequence[Any] | None = None, targets: bool = True
) -> PackedGraphs:
    """Pack NetworkX graphs; nodes keep the order in which the graph lists them.

    Node attribute `x` and edge attribute `edge_attr` (a number or a list) become features; all nodes or edges of all
    graphs have them, or none. Edges of undirected graphs go both ways. Other attributes are not read; there is a
    warning if edges without `edge_attr` have different `weight`s.

    Args:
        graphs: graphs of any kind, node names of any kind.
        y: one target for each graph. If None, the graph attribute `y` is used, else the node attribute `y`.
        targets: whether these attributes are read.

    Returns:
        The packed graphs.
    """
    edges = [_networkx_edges(graph) for graph in graphs]  # per graph: (source, target, attributes)
    node_data = [[values for _, values in graph.nodes(data=True)] for graph in graphs]
    flat_nodes = [values for part in node_data for values in part]
    flat_edges = [edge for part in edges for edge in part]
    level: Level = "graph"
    found = None if y is None else torch.as_tensor(y)
    if found is None and targets:
        found = _attribute("y", [graph.graph for graph in graphs])
    if found is None and targets:
        found = _attribute("y", flat_nodes)
        level = "graph" if found is None else "node"
    x, edge_attr = _attribute("x", flat_nodes), _attribute("edge_attr", [values for *_, values in flat_edges])
    _check_everywhere("x", "node", node_data)
    _check_everywhere("edge_attr", "edge", [[values for *_, values in part] for part in edges])
    if edge_attr is None and len({str(values.get("weight", 1)) for *_, values in flat_edges}) > 1:
        warnings.warn("edges have different weights, which nothing reads: give them as edge_attr", stacklevel=2)
    ends = [(source, target) for source, target, _ in flat_edges]
    return PackedGraphs.build(
        num_nodes=torch.tensor([len(part) for part in node_data], dtype=torch.long),
        num_edges=torch.tensor([len(part) for part in edges], dtype=torch.long),
        edge_index=torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T,
        x=_columns(x),
        edge_attr=_columns(edge_attr),
        y=found,
        level=level,
    )


def to_networkx(packed: PackedGraphs) -> list[nx.Graph]:
    """Convert packed graphs to NetworkX graphs on nodes 0, 1, ..., with features as `x`, `edge_attr` and `y`.

    Args:
        packed: the graphs.

    Returns:
        Undirected graphs (`nx.Graph`) if both directions exist and agree, else `nx.DiGraph`; with parallel edges
        `nx.MultiDiGraph`.
    """
    import networkx as nx

    parallel = packed.has_parallel_edges
    kind = nx.MultiDiGraph if parallel else nx.Graph if _is_undirected(packed) else nx.DiGraph
    graphs = []
    for index, (nodes, edges) in enumerate(_slices(packed)):
        graph = kind()
        graph.add_nodes_from(range(nodes.stop - nodes.start))
        ends = packed.edge_index[:, edges].T.tolist()
        features = [] if packed.edge_attr is None else packed.edge_attr[edges].tolist()
        attributes = [{"edge_attr": value} for value in features] or [{} for _ in ends]
        graph.add_edges_from((*pair, values) for pair, values in zip(ends, attributes, strict=True))
        _set_node_attribute(graph, "x", packed.x, nodes)
        if packed.y is not None and packed.level == "graph":
            graph.graph["y"] = packed.y[index].tolist()
        elif packed.y is not None:
            _set_node_attribute(graph, "y", packed.y, nodes)
        graphs.append(graph)
    return graphs


def _networkx_edges(graph: nx.Graph) -> list[tuple[int, int, dict[str, Any]]]:
    """Return directed edges by node position; an undirected edge gives both directions, a loop only one."""
    position = {node: index for index, node in enumerate(graph.nodes)}
    edges = [(position[u], position[v], values) for u, v, values in graph.edges(data=True)]
    if graph.is_directed():
        return edges
    return edges + [(v, u, values) for u, v, values in edges if u != v]


def _check_everywhere(name: str, what: str, parts: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Check that all nodes or edges have an attribute or none does; otherwise it would be ignored silently."""
    if not any(name in record for part in parts for record in part):
        return
    for graph, part in enumerate(parts):
        if any(name not in record for record in part):
            raise InputError(
                f"graph {graph} has a {what} without {name!r}, which others have: give it to all or to none"
            )


def _attribute(name: str, records: Sequence[Mapping[str, Any]]) -> Tensor | None:
    """Return attribute `name` of every record as one tensor, or None if one of them lacks it."""
    if not records or any(name not in record for record in records):
        return None
    try:
        return torch.tensor([record[name] for record in records])
    except (TypeError, ValueError, RuntimeError) as error:
        reason = first_line(error)
        raise InputError(
            f"attribute {name!r} cannot become a tensor ({reason}): give numbers, or lists of equal length"
        ) from error


def _columns(values: Tensor | None) -> Tensor | None:
    """Return features as [rows, F]: a single number for each row becomes one column."""
    return values[:, None] if values is not None and values.dim() == 1 else values


def _set_node_attribute(graph: nx.Graph, name: str, values: Tensor | None, nodes: slice) -> None:
    if values is not None:
        for node, value in enumerate(values[nodes].tolist()):
            graph.nodes[node][name] = value


def _is_undirected(packed: PackedGraphs) -> bool:
    """Whether each edge has a reverse edge with equal features."""
    if not packed.symmetric or packed.edge_attr is None:
        return packed.symmetric
    # Edges are sorted by (target, source); when sorted by (source, target), each is at the position of its reverse.
    return torch.equal(packed.edge_attr[packed.edges_by_source()], packed.edge_attr)


# ---- graph6 ---------------------------------------------------------------------------------------------


def pack_graph6(lines: Iterable[str], y: Tensor | Sequence[Any] | None = None) -> PackedGraphs:
    """Pack graphs from graph6 lines (McKay's format, one graph on each line); blank lines are skipped.

    Args:
        lines: an open file, or a list of strings.
        y: one target for each graph, if there are any.

    Returns:
        The packed graphs.
    """
    graphs = [_parse_graph6(text, number) for number, line in enumerate(lines, 1) if (text := line.strip())]
    if not graphs:
        raise InputError("no graphs: the graph6 input has no line with a graph")
    return pack_networkx(graphs, y)


def to_graph6(packed: PackedGraphs) -> list[str]:
    """Convert packed graphs to graph6, which has only edges: no features and no targets.

    Args:
        packed: the graphs.

    Returns:
        One line for each graph, without header or line end.
    """
    import networkx as nx

    if not packed.symmetric:
        raise InputError("graph6 has undirected graphs only, but some edge has no reverse edge")
    source, target = packed.edge_index
    if bool((source == target).any()):
        raise InputError("graph6 has simple graphs only, but some node has an edge to itself")
    if packed.has_parallel_edges:
        raise InputError("graph6 has simple graphs only, but some nodes have two edges between them")
    return [nx.to_graph6_bytes(graph, header=False).decode().strip() for graph in to_networkx(packed)]


OTHER_FORMATS = {":": "sparse6", ">>sparse6<<": "sparse6", "&": "digraph6", ">>digraph6<<": "digraph6"}
"""The beginnings of lines in other formats of nauty, with which no graph6 line begins."""


def _parse_graph6(text: str, number: int) -> nx.Graph:
    import networkx as nx

    for beginning, name in OTHER_FORMATS.items():
        if text.startswith(beginning):
            raise InputError(f"line {number} is {name}, not graph6: convert it, for example with nauty's copyg -g")
    try:
        graph = nx.from_graph6_bytes(text.removeprefix(GRAPH6_HEADER).encode("ascii"))
    except (nx.NetworkXError, ValueError, IndexError) as error:
        reason = (str(error).splitlines() or ["cut short"])[0]
        raise InputError(f"line {number} is not graph6 ({reason}): give one graph6 string on each line") from error
    if graph.number_of_nodes() == 0:
        raise InputError(f"line {number} is a graph without nodes: {NEEDS_A_NODE}")
    return graph


def _slices(packed: PackedGraphs) -> list[tuple[slice, slice]]:
    """Return the slices of each graph's nodes and edges in the flat tensors."""
    nodes, edges = packed.node_offsets.tolist(), packed.edge_offsets.tolist()
    ranges = zip(nodes, nodes[1:], edges, edges[1:], strict=False)
    return [(slice(first, last), slice(start, stop)) for first, last, start, stop in ranges]
