"""GNNs of PyG's own layers, as their users run them: the usual GIN or GINE, and I2-GNN over marked copies.

Ours run on kernels of our own (`maggnn.model.kernels`); these say what the same networks cost without them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from maggnn.graphs.batch import Level
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.copies import Copies, edge_copies
from maggnn_paper.bench.workloads import HIDDEN, HOPS, NUM_LAYERS, Workload

GRAPHS_AT_ONCE = 256
"""That copies are made of in one go."""


class PygGNN(nn.Module):
    """The usual GIN or GINE of PyG: convolution, BatchNorm, relu, mean pooling, two-layer head.

    Args:
        more_categories: of further columns behind the nodes' own.
    """

    def __init__(
        self,
        workload: Workload,
        num_layers: int = NUM_LAYERS,
        hidden: int = HIDDEN,
        more_categories: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        import torch_geometric.nn as pyg

        graphs = workload.graphs
        self.level: Level = workload.level
        atoms = (*FeatureSpec.of(graphs.x).categories, *more_categories)
        bonds = FeatureSpec.of(graphs.edge_attr).categories
        self.atoms = nn.ModuleList(nn.Embedding(count, hidden) for count in atoms)
        self.bonds = nn.ModuleList(nn.Embedding(count, hidden) for count in bonds)
        self.constant = nn.Parameter(torch.randn(hidden))

        def mlp() -> nn.Sequential:
            return nn.Sequential(
                nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, hidden)
            )

        convolution: Any = pyg.GINEConv if bonds else pyg.GINConv
        self.convolutions = nn.ModuleList(convolution(mlp(), train_eps=True) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(num_layers))
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, workload.num_outputs))
        self.pool: Any = pyg.global_mean_pool

    def forward(self, batch: Any) -> Tensor:
        h = self.embedded(batch)
        return self.head(self.pool(h, batch.batch, batch.num_graphs) if self.level == "graph" else h)

    def embedded(self, batch: Any) -> Tensor:
        """h^(T) of a batch's rows, [N, d]."""
        h = _sum_of(self.atoms, batch.x) if len(self.atoms) else self.constant.expand(batch.num_nodes, -1)
        edges = (_sum_of(self.bonds, batch.edge_attr),) if len(self.bonds) else ()
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            h = norm(convolution(h, batch.edge_index, *edges)).relu()
        return h


def _sum_of(tables: nn.ModuleList, values: Tensor) -> Tensor:
    total = tables[0](values[:, 0])
    for column, table in enumerate(tables):
        if column:
            total = total + table(values[:, column])
    return total


class PygI2GNN(PygGNN):
    """I2-GNN (equation in `baselines.i2gnn`, without x_v) over what `copies_for_pyg` makes."""

    def __init__(self, workload: Workload, num_layers: int = NUM_LAYERS, hidden: int = HIDDEN) -> None:
        distances = (HOPS + 2, HOPS + 2)  # 0 ... HOPS + 1: a neighbour of the root is one edge farther
        super().__init__(workload, num_layers, hidden, more_categories=distances)
        self.read = nn.Linear(3 * hidden, hidden)

    def forward(self, batch: Any) -> Tensor:
        from torch_geometric.utils import scatter

        h = self.embedded(batch)  # [P, d]
        pooled = scatter(h, batch.copy_of_row, dim_size=len(batch.v), reduce="mean")
        copies = self.read(torch.cat([pooled, h[batch.root_rows[:, 0]], h[batch.root_rows[:, 1]]], dim=1))  # [R, d]
        nodes = scatter(copies, batch.v, dim_size=len(batch.graph_of_node), reduce="sum")  # [N, d]
        if self.level == "graph":
            nodes = scatter(nodes, batch.graph_of_node, dim_size=batch.num_graphs, reduce="mean")
        return self.head(nodes)


def copies_for_pyg(workload: Workload) -> list[Any]:
    """What I2-GNN's authors make of each graph when they load data, one `Data` a graph, on the CPU.

    Shapes of one: P rows, Q edges, R copies, N nodes.
        x [P, F + 2], with distances to both roots behind; edge_index [2, Q]; edge_attr [Q, F]; copy_of_row [P];
        root_rows [R, 2]; v [R], each copy's first root; graph_of_node [N].
    """
    packed = workload.graphs.to("cpu")
    found: list[Any] = []
    for ids in torch.arange(len(packed)).split(GRAPHS_AT_ONCE):
        batch = packed[ids]
        found += _separated(edge_copies(batch, HOPS))
    return found


def _separated(copies: Copies) -> list[Any]:
    """The copies of a batch, graph by graph, with ids that begin at 0 in each."""
    base, rows = copies.base, copies.graphs
    graph = base.node_graph[copies.roots[:, 0]]  # [R]
    copies_each = torch.bincount(graph, minlength=base.num_graphs)
    rows_each = torch.zeros_like(copies_each).index_add_(0, graph, rows.num_nodes)
    edge_graph = graph[copies.copy[rows.edge_index[1]]]
    edges_each = torch.bincount(edge_graph, minlength=base.num_graphs)
    first_copy, first_row = copies_each.cumsum(0) - copies_each, rows_each.cumsum(0) - rows_each
    own = [] if rows.x is None else [rows.x]
    parts = {
        "x": torch.cat([*own, copies.distance], dim=1).split(rows_each.tolist()),
        "edge_index": (rows.edge_index - first_row[edge_graph]).split(edges_each.tolist(), dim=1),
        "copy_of_row": (copies.copy - first_copy[graph[copies.copy]]).split(rows_each.tolist()),
        "root_rows": (copies.root_rows - first_row[graph][:, None]).split(copies_each.tolist()),
        "v": base.local_id[copies.roots[:, 0]].split(copies_each.tolist()),
        "graph_of_node": base.node_graph.new_zeros(base.total_nodes).split(base.num_nodes.tolist()),
    }
    if rows.edge_attr is not None:
        parts["edge_attr"] = rows.edge_attr.split(edges_each.tolist())
    data = _data_of_copies()
    return [data(**dict(zip(parts, values, strict=True))) for values in zip(*parts.values(), strict=True)]


@cache
def _data_of_copies() -> type:
    """A `Data` that knows what each of its ids counts; PyG is imported where it is used."""
    from torch_geometric.data import Data

    class CopiesOfGraph(Data):
        def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
            counted = {
                "copy_of_row": len(self.v),
                "root_rows": len(self.copy_of_row),
                "v": len(self.graph_of_node),
                "graph_of_node": 1,
            }
            return counted[key] if key in counted else super().__inc__(key, value, *args, **kwargs)

    return CopiesOfGraph
