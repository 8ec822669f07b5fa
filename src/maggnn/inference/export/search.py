"""The whole search as one module for `torch.export`: from graphs and starting tuples, through t moves, to answers.

It is the frozen model itself. While it is traced, message passing is plain torch (`maggnn.model.kernels.reference`) and
nothing depends on values; the size of the largest graph is computed when the program runs, so the numbers of graphs,
nodes and edges are all variable.

A program has no random generator. Starts at central nodes are computed inside; random starts, those on the neighbours
of roots and the finest tuples are an input. Ties in Q, which the agent breaks at random if its starts are random, are
broken by the smallest node id, and then by the first slot.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, Task, edges_by_source, largest, sum_rows
from maggnn.inference.frozen import frozen
from maggnn.model.encoder import Encoder, GINELayer, GINLayer
from maggnn.model.mag_gnn import MagGNN

LEAST = 1e-12
"""Probability below which a temperature does not distinguish."""


class ExportedSearch(nn.Module):
    """Returns answers [rows, out]: probabilities of classes, or values in the targets' own units.

    Args:
        seen_nodes, seen_edges: the categories of each column that occur in training, the most frequent first, which
            replaces any other. If empty, all categories of the model are valid, and others are an error.
        temperatures: by which probabilities are sharpened or softened, one after the other; each has one value for all
            classes, or one for every two-class target.
        reads_graph_attr: whether `graph_attr` is an input, if the model reads it; a model that was trained with
            `predictor.graph_attr_optional` can be exported without.

    Shapes of inputs:
        edge_index: [2, E] (source, target), node ids of the batch, grouped by graph; node_graph: [N], in order;
        num_nodes: [B]; x: [N, F]; edge_attr: [E, F]; tuples: [B, m, k], ids within each graph; roots: [B, r];
        graph_attr: [B, F], NaN where a value is missing.
    """

    def __init__(
        self,
        model: MagGNN,
        seen_nodes: Sequence[Sequence[int]] = (),
        seen_edges: Sequence[Sequence[int]] = (),
        temperatures: Sequence[Sequence[float]] = (),
        reads_graph_attr: bool = True,
    ) -> None:
        super().__init__()
        check_exportable(model)
        self.temperatures = tuple(map(tuple, temperatures))
        self.reads_graph_attr = reads_graph_attr and model.graph_features > 0
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
            "graph_attr": self.reads_graph_attr,
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
        graph_attr: Tensor | None = None,
    ) -> Tensor:
        x = None if x is None else self.node_categories(x)
        edge_attr = None if edge_attr is None else self.edge_categories(edge_attr)
        graphs = batch_of_inputs(edge_index, node_graph, num_nodes, x, edge_attr, roots, graph_attr)
        agent = self.model.agent
        if not agent.tuple_order:  # there are no marks
            tuples = num_nodes.new_zeros(num_nodes.shape[0], agent.num_tuples, 0)
        outputs = self.model(graphs, tuples=tuples, ties="first")
        if self.model.task == "regression":  # the outputs are in the targets' own units already
            return outputs
        likely = self.model.answers(outputs, graphs).float().double()  # rounded as those of fitted models
        for temperature in self.temperatures:
            likely = _tempered(likely, temperature, self.model.task)
        return likely.float()


def _tempered(likely: Tensor, temperature: Sequence[float], task: Task) -> Tensor:
    """Sharpen (below 1) or soften (above 1) probabilities [rows, out], as fitted models do."""
    power = likely.new_tensor([1.0 / value for value in temperature])
    raised = likely.clamp(LEAST, 1.0) ** power
    if task == "classification":
        return raised / raised.sum(dim=-1, keepdim=True)
    return raised / ((1.0 - likely).clamp(LEAST, 1.0) ** power + raised)


class SeenCategories(nn.Module):
    """Replaces categories of features [rows, F] that do not occur in training by the most frequent of their column."""

    def __init__(self, categories: Sequence[int], seen: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.counts = tuple(categories)
        tables = []
        for count, known in zip(categories, seen, strict=bool(seen)):
            table = torch.full((count + 1,), known[0])  # the last row is for categories out of range
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
    """Check that every part of the model can be traced."""
    for encoder in (model.predictor.encoder, None if model.q_network is None else model.q_network.encoder):
        if encoder is not None and not isinstance(encoder, Encoder):
            raise InputError(f"a baseline ({type(encoder).__name__}) cannot be exported, only MAG-GNN and GIN")
        marking = None if encoder is None else encoder.mark_embedding
        if encoder is not None and marking is not None and marking.looks_at_values:
            raise InputError(
                f"encoder.marking = {encoder.config.marking} cannot be exported, only binary, distance and directed: "
                "the rounds of colour refinement depend on the graph. Where the agent reads it, choose another agent"
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
    graph_attr: Tensor | None = None,
) -> GraphBatch:
    """Make the batch from a program's inputs; their shapes are those of `ExportedSearch`."""
    if not torch.compiler.is_exporting():  # kernels need edges sorted by target, the plain sums of a program do not
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
        graph_attr=graph_attr,
    )
    batch.__dict__["node_graph"] = node_graph
    return batch
