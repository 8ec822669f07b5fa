"""The whole search as one module that `torch.export` can write down: graphs in, start tuples, t moves, answers out.

It is the frozen model itself. While it is traced, message passing is plain torch (`maggnn.model.kernels.reference`) and
nothing looks at values; the size of the largest graph is read off the batch when the program runs, so numbers of
graphs, nodes and edges are all free.

A program has no generator. Starts at central nodes are worked out inside; random starts, those on the neighbours of
roots and the finest tuples are an input. Of ties in Q, where the agent draws one if its starts are random, the first is
taken: the node of the smallest id, and of that the first slot.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, largest, sum_rows
from maggnn.graphs.packed import edges_by_source
from maggnn.inference.frozen import frozen
from maggnn.model.encoder import Encoder, GINELayer, GINLayer
from maggnn.model.mag_gnn import MagGNN


class ExportedSearch(nn.Module):
    """Answers [rows, out]: probabilities of classes, or values in the targets' own units.

    Args:
        seen_nodes, seen_edges: the categories of each column that training saw, the commonest first; any other is
            taken for the commonest. Empty: categories are as the model knows them, and others are an error.

    Shapes of inputs:
        edge_index: [2, E] (source, target), ids of the batch, the edges of a graph together; node_graph: [N], in
        order; num_nodes: [B]; x: [N, F]; edge_attr: [E, F]; tuples: [B, m, k], ids within each graph; roots: [B, r].
    """

    def __init__(
        self, model: MagGNN, seen_nodes: Sequence[Sequence[int]] = (), seen_edges: Sequence[Sequence[int]] = ()
    ) -> None:
        super().__init__()
        check_exportable(model)
        self.node_categories = SeenCategories(model.node_features.categories, seen_nodes)
        self.edge_categories = SeenCategories(model.edge_features.categories, seen_edges)
        self.model = frozen(model).cpu()

    @property
    def inputs(self) -> list[str]:
        """The names of the tensors that this model reads, in the order of `forward`."""
        model = self.model
        read = {
            "x": not model.node_features.empty,
            "edge_attr": not model.edge_features.empty,
            "tuples": model.agent.tuple_order > 0 and model.agent.start != "central",
            "roots": model.predictor.num_roots > 0,
        }
        return ["edge_index", "node_graph", "num_nodes", *(name for name, is_read in read.items() if is_read)]

    def forward(
        self,
        edge_index: Tensor,
        node_graph: Tensor,
        num_nodes: Tensor,
        x: Tensor | None = None,
        edge_attr: Tensor | None = None,
        tuples: Tensor | None = None,
        roots: Tensor | None = None,
    ) -> Tensor:
        x = None if x is None else self.node_categories(x)
        edge_attr = None if edge_attr is None else self.edge_categories(edge_attr)
        graphs = batch_of_inputs(edge_index, node_graph, num_nodes, x, edge_attr, roots)
        agent = self.model.agent
        if not agent.tuple_order:  # nothing is marked, so nothing is drawn
            tuples = num_nodes.new_zeros(num_nodes.shape[0], agent.num_tuples, 0)
        outputs = self.model(graphs, tuples=tuples, ties="first")
        # A regression's outputs are in the targets' own units already.
        return outputs if self.model.task == "regression" else self.model.answers(outputs, graphs).float()


class SeenCategories(nn.Module):
    """Features [rows, F] with every category one that training saw: others become the commonest of their column."""

    def __init__(self, categories: Sequence[int], seen: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.counts = tuple(categories)
        tables = []
        for count, known in zip(categories, seen, strict=bool(seen)):
            table = torch.full((count + 1,), known[0])  # the last row: out of range
            table[list(known)] = torch.tensor(known)
            tables.append(table)
        self.tables = nn.ParameterList(nn.Parameter(table, requires_grad=False) for table in tables)

    def forward(self, values: Tensor) -> Tensor:
        columns = []
        for column, table in enumerate(self.tables):
            count, value = self.counts[column], values[:, column].long()
            columns.append(table[torch.where((value >= 0) & (value < count), value, count)])
        return torch.stack(columns, dim=1) if columns else values


def check_exportable(model: MagGNN) -> None:
    """Whether every part of the model can be traced."""
    for encoder in (model.predictor.encoder, None if model.q_network is None else model.q_network.encoder):
        if encoder is not None and not isinstance(encoder, Encoder):
            raise InputError(f"a baseline ({type(encoder).__name__}) cannot be exported, only MAG-GNN and GIN")
        marking = None if encoder is None else encoder.mark_embedding
        if encoder is not None and marking is not None and marking.looks_at_values:
            raise InputError(
                f"encoder.marking = {encoder.config.marking} cannot be exported, only binary and distance: the rounds "
                "of colour refinement depend on the graph. Where the agent reads it, choose another agent"
            )
        layers = [] if encoder is None else encoder.layers
        if any(type(layer) not in (GINLayer, GINELayer) for layer in layers):
            conv = model.predictor.encoder.config.conv
            raise InputError(f"encoder.conv = {conv} cannot be exported, only gin and gine")


def batch_of_inputs(
    edge_index: Tensor,
    node_graph: Tensor,
    num_nodes: Tensor,
    x: Tensor | None = None,
    edge_attr: Tensor | None = None,
    roots: Tensor | None = None,
) -> GraphBatch:
    """The batch that a program's inputs describe; their shapes are those of `ExportedSearch`."""
    if not torch.compiler.is_exporting():  # kernels go by target; the plain sums of a program need no order
        order = edge_index[1].argsort(stable=True)
        edge_index, edge_attr = edge_index[:, order], None if edge_attr is None else edge_attr[order]
    source, target, total = edge_index[0], edge_index[1], node_graph.shape[0]
    batch = GraphBatch(
        num_nodes=num_nodes,
        edge_index=edge_index,
        in_degree=sum_rows(torch.ones_like(target), target, total),
        out_degree=sum_rows(torch.ones_like(source), source, total),
        by_source=edges_by_source(source, target, total),
        max_num_nodes=largest(num_nodes),
        total_nodes=total,
        x=x,
        edge_attr=edge_attr,
        roots=roots,
    )
    batch.__dict__["node_graph"] = node_graph
    return batch
