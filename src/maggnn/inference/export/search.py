"""The whole search as one module that `torch.export` can write down: graphs in, start tuples, t moves, answers out.

The model's own weights and maps, over plain torch instead of kernels by hand, and without looks at values that would
end the tracing. Sizes are never padded: the best move of each graph is a reduction over its rows, so numbers of graphs,
nodes and edges are all free.

A program has no generator. Starts at central nodes are worked out inside; random starts, and those on the neighbours
of roots, are an input. Of ties in Q, where the agent draws one if its starts are random, the first is taken: the node
of the smallest id, and of that the first slot.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from maggnn.inference.export.networks import (
    Familiar,
    check_exportable,
    encoded,
    fold_norms,
    graph_mean,
    pooled,
    q_table_of,
)
from maggnn.inference.export.structure import Batch, batch_of, sum_rows, with_structure
from maggnn.model.agent import TIE, kept_state
from maggnn.model.encoder import Encoder
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.tuples import replace_slot

FAR = 2**62
"""More than any place of a move."""


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
        model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
        self.agent, self.task, self.level = model.agent, model.task, model.predictor.level
        self.reads_nodes, self.reads_edges = not model.node_features.empty, not model.edge_features.empty
        self.familiar_nodes = Familiar(model.node_features.categories, seen_nodes)
        self.familiar_edges = Familiar(model.edge_features.categories, seen_edges)
        self.predictor, self.q_network, self.targets = model.predictor, model.q_network, model.targets
        fold_norms(model)
        encoders = [module.config for module in model.modules() if isinstance(module, Encoder)]
        self.steps = max(config.random_walk for config in encoders)
        self.distances = any(config.distances for config in encoders)
        self.rings = any(config.rings for config in encoders)
        self.central = bool(self.agent.tuple_order) and self.agent.start == "central"

    @property
    def inputs(self) -> list[str]:
        """The names of the tensors that this model reads, in the order of `forward`."""
        read = {
            "x": self.reads_nodes,
            "edge_attr": self.reads_edges,
            "tuples": self.agent.tuple_order > 0 and not self.central,
            "roots": self.predictor.num_roots > 0,
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
        x = None if x is None else self.familiar_nodes(x)
        edge_attr = None if edge_attr is None else self.familiar_edges(edge_attr)
        graphs = batch_of(edge_index, node_graph, num_nodes, x, edge_attr, roots)
        graphs = with_structure(graphs, self.central, self.distances, self.steps, self.rings)
        outputs = self._answers(graphs, self._starts(graphs) if tuples is None else tuples)
        if self.task == "classification":
            return outputs.double().softmax(dim=-1).float()
        return outputs if self.targets is None else self._restored(outputs, graphs)

    def _starts(self, graphs: Batch) -> Tensor:
        """`tuples.central_tuples`: the nodes of highest centrality, dealt out slot by slot, [B, m, k]."""
        m, k = self.agent.num_tuples, self.agent.tuple_order
        if not k:
            return graphs.num_nodes.new_zeros(graphs.num_nodes.shape[0], m, 0)
        assert graphs.rank is not None
        row = graphs.first_node[graphs.node_graph] + graphs.rank
        ranked = sum_rows(graphs.local_id, row, row.shape[0])  # [N], a sum of one number each
        place = torch.arange(m * k, device=ranked.device) % graphs.num_nodes[:, None]  # [B, m * k]
        return ranked[graphs.first_node[:, None] + place].unflatten(1, (m, k))

    def _answers(self, graphs: Batch, tuples: Tensor) -> Tensor:
        """What f_p says of the state that is kept, [rows, out]."""
        answers = []
        history = torch.zeros(*tuples.shape[:2], 0 if self.q_network is None else self.q_network.update_history.width)
        for move in range(self.agent.num_moves + 1):
            last = move == self.agent.num_moves
            if last or self.agent.keep == "confident":
                embeddings = pooled(self.predictor, encoded(self.predictor.encoder, graphs, tuples), graphs, tuples)
                answers.append(self.predictor.read_pooled(embeddings.sum(dim=1), tuples.shape[1], None))
            if not last:
                q_table, history = self._scores(graphs, tuples, history)
                tuples = self._moved(q_table, graphs, tuples, turn=move % tuples.shape[1])
        return answers[0] if len(answers) == 1 else self._kept(torch.stack(answers), graphs)

    def _scores(self, graphs: Batch, tuples: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
        """Q-table [N, m, k] and history [B, m, w] of a state, as `MagGNN.scores`."""
        assert self.q_network is not None
        h = embeddings = None
        if self.agent.encoder == "shared" or self.agent.state == "predictor":
            h = encoded(self.predictor.encoder, graphs, tuples)
        if self.agent.state == "predictor":
            assert h is not None
            embeddings = pooled(self.predictor, h, graphs, tuples)
            embeddings = graph_mean(embeddings, graphs) if self.level == "node" else embeddings
        if self.q_network.encoder is not None:
            h = encoded(self.q_network.encoder, graphs, tuples)
        assert h is not None
        q_table, history = q_table_of(self.q_network, h, embeddings, graphs, tuples, history)
        if self.agent.caution:
            stays = graphs.local_id[:, None, None] == tuples[graphs.node_graph]  # [N, m, k]
            q_table = q_table + torch.where(stays, self.agent.caution, 0.0)
        return q_table, history

    def _moved(self, q_table: Tensor, graphs: Batch, tuples: Tensor, turn: int) -> Tensor:
        """U after the best move of whoever moves, [B, m, k]."""
        node, slot, best = _best_moves(q_table, graphs)
        changed = replace_slot(tuples, slot, node)
        if self.agent.actions == "simultaneous":
            return changed
        tuple_id = torch.arange(tuples.shape[1], device=tuples.device)
        mover = turn if self.agent.actions == "in_turn" else _first_of_best(best)[:, None]
        return torch.where((tuple_id == mover)[..., None], changed, tuples)

    def _kept(self, answers: Tensor, graphs: Batch) -> Tensor:
        """The surest of [t + 1, rows, out]."""
        confidence = answers.softmax(dim=-1).amax(dim=-1)  # [t + 1, rows]
        if self.level == "node":
            confidence = torch.stack([graph_mean(sure, graphs) for sure in confidence.unbind()])
        kept = kept_state(confidence, self.agent.keep)  # [B]
        kept = kept[graphs.node_graph] if self.level == "node" else kept
        return answers.gather(0, kept[None, :, None].expand(1, -1, answers.shape[-1]))[0]

    def _restored(self, outputs: Tensor, graphs: Batch) -> Tensor:
        """In the targets' own units, as `targets.TargetScale`."""
        assert self.targets is not None
        restored = outputs * self.targets.std + self.targets.mean
        if self.targets.per_node is None:
            return restored
        assert graphs.x is not None
        added = self.targets.per_node[graphs.x[:, 0].long()]  # [N, out]
        return restored + sum_rows(added, graphs.node_graph, graphs.num_nodes.shape[0])


def _best_moves(q_table: Tensor, graphs: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Eq. 10, the first of ties: node, slot and Q-value of each tuple's best move, [B, m] each."""
    num_graphs, (_, num_tuples, tuple_order) = graphs.num_nodes.shape[0], q_table.shape
    index = graphs.node_graph[:, None].expand(-1, num_tuples)  # [N, m]
    lowest = q_table.new_full((num_graphs, num_tuples), float("-inf"))
    best = lowest.scatter_reduce(0, index, q_table.amax(dim=-1), "amax")
    slots = torch.arange(tuple_order, device=index.device)
    place = graphs.local_id[:, None, None] * tuple_order + slots  # [N, 1, k]
    is_tie = q_table >= best[graphs.node_graph][..., None] - TIE
    first = torch.where(is_tie, place, FAR).amin(dim=-1)  # [N, m]
    choice = index.new_full((num_graphs, num_tuples), FAR).scatter_reduce(0, index, first, "amin")
    node, slot = choice // tuple_order, choice % tuple_order
    chosen = q_table[graphs.first_node[:, None] + node, torch.arange(num_tuples, device=index.device), slot]
    return node, slot, chosen


def _first_of_best(values: Tensor) -> Tensor:
    """Which of [B, m] is largest, the first of ties, [B]."""
    is_tie = values >= values.amax(dim=1, keepdim=True) - TIE
    place = torch.arange(values.shape[1], device=values.device)
    return torch.where(is_tie, place, FAR).amin(dim=1)
