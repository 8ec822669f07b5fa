"""The environment: f_p and its loss judge a state (Eq. 5) and reward a move (Eq. 8).

Under ORD the predictor is frozen while the agent learns, so the embedding of a marked graph never changes: where the
whole set of tuples V^k is smaller than what training would ask for, `tabulate` embeds each once and every later
judgement is a lookup. That turns the paper's stated limit, training time, into a few seconds.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from maggnn.graphs.batch import GraphBatch, Level, Task
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.predictor import Predictor, graph_mean
from maggnn.model.state import State
from maggnn.model.tuples import all_tuples, one_move_away
from maggnn.training.devices import ONE, Devices


def individual_loss(
    outputs: Tensor, y: Tensor, task: Task, reward: str = "loss", weights: Tensor | None = None
) -> Tensor:
    """L of Eq. 5 for each row: cross-entropy or L1; with reward = `error` the bounded 1 - p(y) of a classifier.

    Of several targets, L1 or the cross-entropy of two classes is averaged over the targets. One that is missing (NaN)
    adds nothing, so a row counts by how many of its targets are known.

    Args:
        weights: how much each value counts in training; None for all alike.

    Shapes:
        outputs: [rows, ..., num_outputs]; y: [rows] classes or [rows, num_outputs] values; weights: as y;
        result: [rows, ...].
    """
    if task == "classification":
        log_p = outputs.log_softmax(dim=-1)
        y = y.reshape(len(y), *[1] * (outputs.ndim - 1)).expand(*outputs.shape[:-1], 1)
        log_p_y = log_p.gather(-1, y)[..., 0]
        loss = 1 - log_p_y.exp() if reward == "error" else -log_p_y
        return loss if weights is None else loss * weights.reshape(len(weights), *[1] * (loss.ndim - 1))
    y = y.reshape(len(y), *[1] * (outputs.ndim - 2), outputs.shape[-1])
    counts = (~y.isnan()).to(outputs.dtype)
    counts = counts if weights is None else counts * weights.reshape(y.shape)
    y = y.nan_to_num()  # before the difference: the gradient of a NaN times 0 is NaN
    if task == "regression":
        return ((outputs - y).abs() * counts).mean(dim=-1)
    log_p_y = functional.logsigmoid(torch.where(y > 0.5, outputs, -outputs))
    return ((1 - log_p_y.exp() if reward == "error" else -log_p_y) * counts).mean(dim=-1)


def mean_loss(
    loss: Tensor, graphs: GraphBatch, level: Level, mask: Tensor | None = None, devices: Devices = ONE
) -> Tensor:
    """Mean over the rows [rows, ...] that are no padding, or over those of `mask` [rows].

    On several devices the mean of their results is that of all rows.
    """
    counted = mask if level == "graph" or mask is not None else graphs.is_real
    if counted is not None:
        counted = counted.reshape(-1, *[1] * (loss.ndim - 1))
        return (loss * counted).sum() / devices.mean(counted.expand_as(loss).sum())
    if level == "graph" or devices.size == 1:
        return loss.mean()
    return loss.sum() / devices.mean(torch.full((), loss.numel(), device=loss.device))


class Environment:
    """Judges states with a frozen predictor. Nothing here carries gradients.

    Args:
        predictor: f_p.
        task: classification or regression.
        reward: what L in Eq. 8 is, `loss` or `error` (see `individual_loss`).
        mask: node level: the nodes whose targets count, [N] of the one batch that is judged; None: all.
    """

    def __init__(self, predictor: Predictor, task: Task, reward: str, mask: Tensor | None = None) -> None:
        self.predictor = predictor
        self.mask = mask
        self.task: Task = task
        self.reward = reward
        self._table: Tensor | None = None  # [sum of |V|^k, width], the embedding of every tuple
        self._loss_table: Tensor | None = None  # [sum of |V|^k], the loss where that tuple is all of U
        self._first_row = torch.empty(0, dtype=torch.long)  # [G], where each graph's tuples start in the table

    @torch.no_grad()
    def loss(self, state: State) -> Tensor:
        """L(MLP(f_p(G, U)), y) of each state, [B]."""
        if state.tuples.shape[1] == 1 and self._loss_table is not None and state.ids is not None:
            return self._loss_table[self._rows(state, state.tuples)][:, 0]
        return self._judge(self.predictor.read(self.embed(state, state.tuples), state.graphs), state)

    @torch.no_grad()
    def losses_at(self, state: State, places: Tensor) -> Tensor:
        """L of one graph whose tuples [1, m - 1, k] are joined by each of `places` [1, P, k] in turn, [P]."""
        count = state.tuples.shape[1]
        embeddings = self.embed(state, torch.cat([state.tuples, places], dim=1))  # [rows, m - 1 + P, width]
        total = embeddings[:, count:] + embeddings[:, :count].sum(dim=1, keepdim=True)
        return self._judge(self.predictor.read_pooled(total, count + 1, state.graphs), state)[0]

    @torch.no_grad()
    def outcome_rewards(self, state: State, mover: Tensor) -> Tensor:
        """Eq. 8 for every single move of tuple `mover` [B], the other tuples unmoved: [B, V, k]."""
        num_graphs, _, tuple_order = state.tuples.shape
        graph = torch.arange(num_graphs, device=mover.device)
        outcomes = one_move_away(state.tuples[graph, mover], state.graphs.max_num_nodes)  # [B, V, k, k]
        # A padding node is no node of the graph: any real one stands in, its cells are masked by the caller.
        outcomes = outcomes.clamp(max=(state.graphs.num_nodes - 1)[:, None, None, None]).flatten(1, 2)
        return self.rewards_of(state, mover, outcomes).reshape(num_graphs, -1, tuple_order)

    @torch.no_grad()
    def rewards_of(self, state: State, mover: Tensor, outcomes: Tensor) -> Tensor:
        """Eq. 8 where tuple `mover` [B] becomes each of `outcomes` [B, P, k] in turn, the others unmoved: [B, P]."""
        num_tuples = state.tuples.shape[1]
        tuples = torch.cat([state.tuples, outcomes], dim=1)  # what is there and what could be, judged together
        if num_tuples == 1 and self._loss_table is not None and state.ids is not None:
            present, after = self._loss_table[self._rows(state, tuples)].split([1, outcomes.shape[1]], dim=1)
        else:
            embeddings = self.embed(state, tuples).split([num_tuples, outcomes.shape[1]], dim=1)
            present = self._judge(self.predictor.read(embeddings[0], state.graphs), state)[:, None]
            total = embeddings[1] + self._others(embeddings[0], state, mover)
            after = self._judge(self.predictor.read_pooled(total, num_tuples, state.graphs), state)
        return present - after

    def _others(self, present: Tensor, state: State, mover: Tensor) -> Tensor:
        """The sum of the embeddings [rows, m, width] of all tuples but `mover`, [rows, 1, width]."""
        if present.shape[1] == 1:
            return torch.zeros_like(present)
        row_mover = mover if self.predictor.level == "graph" else mover[state.graphs.node_graph]
        own = present.gather(1, row_mover[:, None, None].expand(-1, 1, present.shape[-1]))
        return present.sum(dim=1, keepdim=True) - own

    @torch.no_grad()
    def embed(self, state: State, tuples: Tensor) -> Tensor:
        """The predictor's embedding of tuples [B, M, k] of the state's graphs, [rows, M, width]."""
        if self._table is None or state.ids is None:
            return self.predictor.embed(state.graphs, tuples)
        return self._table[self._rows(state, tuples)]

    def _rows(self, state: State, tuples: Tensor) -> Tensor:
        """Where tuples [B, M, k] stand in the table, [B, M]: lexicographic within each graph."""
        assert state.ids is not None, "only graphs of the data set are tabulated"
        num_nodes = state.graphs.num_nodes[:, None]
        row = torch.zeros_like(tuples[..., 0])
        for slot in range(tuples.shape[-1]):
            row = row * num_nodes + tuples[..., slot]
        return row + self._first_row[state.ids][:, None]

    def tabulate_if_cheaper(self, packed: PackedGraphs, ids: Tensor, tuple_order: int, judgements: int) -> bool:
        """Embed every tuple of graphs `ids` once if that is less work than `judgements` single embeddings."""
        table_rows = sum(num_nodes**tuple_order for num_nodes in packed.num_nodes[ids].tolist())
        if self.predictor.level == "node" or table_rows > min(judgements, MAX_TABLE_ROWS):
            return False
        self._tabulate(packed, ids, tuple_order)
        return True

    @torch.no_grad()
    def _tabulate(self, packed: PackedGraphs, ids: Tensor, tuple_order: int) -> None:
        parts = []
        for graph, num_nodes in zip(ids, packed.num_nodes[ids].tolist(), strict=True):
            batch = packed[graph[None]]
            tuples = all_tuples(num_nodes, tuple_order, packed.device)
            chunks = tuples.split(max(1, MARKED_NODES_A_CHUNK // num_nodes))
            parts += [self.predictor.embed(batch, chunk[None])[0] for chunk in chunks]
        self._table = torch.cat(parts)
        rows = packed.num_nodes[ids] ** tuple_order
        first_row = torch.full((len(packed),), len(self._table))  # past the end: a graph that is not in the table
        first_row[ids] = rows.cumsum(0) - rows
        self._first_row = first_row.to(packed.device)
        assert packed.y is not None, "a state is judged against targets"
        y = packed.y[ids.to(packed.device)].repeat_interleave(rows.to(packed.device), dim=0)
        chunks = zip(self._table.split(MARKED_NODES_A_CHUNK), y.split(MARKED_NODES_A_CHUNK), strict=True)
        read = self.predictor.read_pooled
        self._loss_table = torch.cat(
            [individual_loss(read(part, 1, None), label, self.task, self.reward) for part, label in chunks]
        )

    def _judge(self, outputs: Tensor, state: State) -> Tensor:
        y = state.graphs.y
        assert y is not None, "a state is judged against targets"
        loss = individual_loss(outputs, y, self.task, self.reward)
        if self.predictor.level == "graph":
            return loss
        if self.mask is None:
            return graph_mean(loss, state.graphs)
        counted = self.mask.to(loss.dtype).reshape(-1, *[1] * (loss.ndim - 1))
        share = graph_mean(counted, state.graphs).clamp(min=1e-12)  # a graph without any such node has the loss 0
        return graph_mean(loss * counted, state.graphs) / share


MAX_TABLE_ROWS = 5_000_000
"""Largest table of tuple embeddings: at d = 100 two gigabytes."""

MARKED_NODES_A_CHUNK = 200_000
"""Nodes of marked copies embedded at once: bounds the memory of a tabulation."""
