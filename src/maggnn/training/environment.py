"""The environment: f_p and its loss evaluate a state (Eq. 5) and reward a move (Eq. 8).

With ORD the predictor is frozen while the agent learns, so the embedding of a marked graph never changes: if the whole
set of tuples V^k is smaller than the number of embeddings in training, `tabulate_if_cheaper` embeds each once, and
every later evaluation is a look-up. This reduces the training time, a limit named in the paper, to a few seconds.
"""

from __future__ import annotations

import zlib

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
    """Return L of Eq. 5 for each row: cross-entropy or L1; with reward = `error` the bounded 1 - p(y) of a classifier.

    For several targets, L1 or the cross-entropy of two classes is averaged over the targets. A missing target (NaN)
    adds nothing, so the weight of a row depends on the number of its known targets.

    Args:
        weights: the weight of each value in training; None if all are equal.

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
    y = y.nan_to_num()  # before the difference, because the gradient of NaN times 0 is NaN
    if task == "regression":
        return ((outputs - y).abs() * counts).mean(dim=-1)
    log_p_y = functional.logsigmoid(torch.where(y > 0.5, outputs, -outputs))
    return ((1 - log_p_y.exp() if reward == "error" else -log_p_y) * counts).mean(dim=-1)


def mean_loss(
    loss: Tensor, graphs: GraphBatch, level: Level, mask: Tensor | None = None, devices: Devices = ONE
) -> Tensor:
    """Return the mean over the rows [rows, ...] that are not padding, or over those of `mask` [rows].

    On several devices, the mean of their results is the mean over all rows.
    """
    counted = mask if level == "graph" or mask is not None else graphs.is_real
    if counted is not None:
        counted = counted.reshape(-1, *[1] * (loss.ndim - 1))
        return (loss * counted).sum() / devices.mean(counted.expand_as(loss).sum())
    if level == "graph" or devices.size == 1:
        return loss.mean()
    return loss.sum() / devices.mean(torch.full((), loss.numel(), device=loss.device))


def table_fingerprints(predictor: Predictor, y: Tensor, tuple_order: int, task: Task, reward: str) -> Tensor:
    """Return a number for each graph that changes with what its losses depend on besides the graph, [B].

    A table of losses is only valid for the predictor's weights, the targets, the reward and k with which it was made.
    """
    # Only the losses of classes depend on the reward.
    common = zlib.crc32(f"{tuple_order} {reward if task == 'classification' else ''}".encode())
    for value in predictor.state_dict().values():
        common = zlib.crc32(value.reshape(-1).contiguous().view(torch.uint8).cpu().numpy(), common)
    return torch.tensor([zlib.crc32(row.tobytes(), common) for row in y.cpu().numpy()], device=y.device)


class Environment:
    """Evaluates states with a frozen predictor, without gradients.

    Args:
        predictor: f_p.
        task: classification or regression.
        reward: the kind of L in Eq. 8, `loss` or `error` (see `individual_loss`).
        mask: at node level, the nodes whose targets count, [N] of the one batch that is evaluated; None for all.
    """

    def __init__(self, predictor: Predictor, task: Task, reward: str, mask: Tensor | None = None) -> None:
        self.predictor = predictor
        self.mask = mask
        self.task: Task = task
        self.reward = reward
        self._table: Tensor | None = None  # [sum of |V|^k, width], the embedding of every tuple
        self._loss_table: Tensor | None = None  # [sum of |V|^k], the loss if U consists of that tuple
        self._first_row = torch.empty(0, dtype=torch.long)  # [G], where each graph's tuples start in the table

    @torch.no_grad()
    def loss(self, state: State) -> Tensor:
        """Return L(MLP(f_p(G, U)), y) of each state, [B]."""
        if state.tuples.shape[1] == 1 and self._loss_table is not None and state.ids is not None:
            return self._loss_table[self._rows(state, state.tuples)][:, 0]
        return self._loss_of_outputs(self.predictor.read(self.embed(state, state.tuples), state.graphs), state)

    @torch.no_grad()
    def losses_at(self, state: State, places: Tensor) -> Tensor:
        """Return L of one graph with tuples [1, m - 1, k] and, in turn, each of `places` [1, P, k] added, [P]."""
        count = state.tuples.shape[1]
        embeddings = self.embed(state, torch.cat([state.tuples, places], dim=1))  # [rows, m - 1 + P, width]
        total = embeddings[:, count:] + embeddings[:, :count].sum(dim=1, keepdim=True)
        return self._loss_of_outputs(self.predictor.read_pooled(total, count + 1, state.graphs), state)[0]

    @torch.no_grad()
    def outcome_rewards(self, state: State, mover: Tensor) -> Tensor:
        """Return the rewards (Eq. 8) of all moves of tuple `mover` [B], with the others unchanged: [B, V, k]."""
        num_graphs, _, tuple_order = state.tuples.shape
        graph = torch.arange(num_graphs, device=mover.device)
        outcomes = one_move_away(state.tuples[graph, mover], state.graphs.max_num_nodes)  # [B, V, k, k]
        # Padding nodes are replaced by any real node; the caller masks their cells.
        outcomes = outcomes.clamp(max=(state.graphs.num_nodes - 1)[:, None, None, None]).flatten(1, 2)
        return self.rewards_of(state, mover, outcomes).reshape(num_graphs, -1, tuple_order)

    @torch.no_grad()
    def rewards_of(self, state: State, mover: Tensor, outcomes: Tensor) -> Tensor:
        """Return the rewards (Eq. 8) when tuple `mover` [B] becomes each of `outcomes` [B, P, k] in turn: [B, P]."""
        num_tuples = state.tuples.shape[1]
        tuples = torch.cat([state.tuples, outcomes], dim=1)  # the present and the possible tuples, embedded together
        if num_tuples == 1 and self._loss_table is not None and state.ids is not None:
            present, after = self._loss_table[self._rows(state, tuples)].split([1, outcomes.shape[1]], dim=1)
        else:
            embeddings = self.embed(state, tuples).split([num_tuples, outcomes.shape[1]], dim=1)
            present = self._loss_of_outputs(self.predictor.read(embeddings[0], state.graphs), state)[:, None]
            total = embeddings[1] + self._others(embeddings[0], state, mover)
            after = self._loss_of_outputs(self.predictor.read_pooled(total, num_tuples, state.graphs), state)
        return present - after

    def _others(self, present: Tensor, state: State, mover: Tensor) -> Tensor:
        """Return the sum of the embeddings [rows, m, width] of all tuples except `mover`, [rows, 1, width]."""
        if present.shape[1] == 1:
            return torch.zeros_like(present)
        row_mover = mover if self.predictor.level == "graph" else mover[state.graphs.node_graph]
        own = present.gather(1, row_mover[:, None, None].expand(-1, 1, present.shape[-1]))
        return present.sum(dim=1, keepdim=True) - own

    @torch.no_grad()
    def embed(self, state: State, tuples: Tensor) -> Tensor:
        """Return the predictor's embedding of tuples [B, M, k] of the state's graphs, [rows, M, width]."""
        if self._table is None or state.ids is None:
            return self.predictor.embed(state.graphs, tuples)
        return self._table[self._rows(state, tuples)]

    def _rows(self, state: State, tuples: Tensor) -> Tensor:
        """Return the rows of tuples [B, M, k] in the table, [B, M], which is lexicographic within each graph."""
        assert state.ids is not None, "only graphs of the data set are tabulated"
        num_nodes = state.graphs.num_nodes[:, None]
        row = torch.zeros_like(tuples[..., 0])
        for slot in range(tuples.shape[-1]):
            row = row * num_nodes + tuples[..., slot]
        return row + self._first_row[state.ids][:, None]

    def tabulate_if_cheaper(self, packed: PackedGraphs, ids: Tensor, tuple_order: int, num_embeddings: int) -> bool:
        """Embed every tuple of graphs `ids` once if that is less work than `num_embeddings` single embeddings."""
        table_rows = sum(num_nodes**tuple_order for num_nodes in packed.num_nodes[ids].tolist())
        if self.predictor.level == "node" or table_rows > min(num_embeddings, MAX_TABLE_ROWS):
            return False
        self._tabulate(packed, ids, tuple_order)
        return True

    def look_up(self, losses: Tensor, first_row: Tensor) -> None:
        """Take the losses of single tuples from a table instead of evaluating them.

        Args:
            losses: the loss if U consists of a tuple, of all tuples of all graphs, [sum of |V|^k].
            first_row: where the tuples of each graph begin, [G].
        """
        self._loss_table, self._first_row = losses, first_row

    @torch.no_grad()
    def _tabulate(self, packed: PackedGraphs, ids: Tensor, tuple_order: int) -> None:
        parts = []
        for graph, num_nodes in zip(ids, packed.num_nodes[ids].tolist(), strict=True):
            batch = packed[graph[None]]
            tuples = all_tuples(num_nodes, tuple_order, packed.device)
            chunks = tuples.split(max(1, MARKED_NODES_A_CHUNK[packed.device.type] // num_nodes))
            parts += [self.predictor.embed(batch, chunk[None])[0] for chunk in chunks]
        self._table = torch.cat(parts)
        rows = packed.num_nodes[ids] ** tuple_order
        first_row = torch.full(
            (len(packed),), len(self._table)
        )  # an index past the end for graphs that are not in the table
        first_row[ids] = rows.cumsum(0) - rows
        self._first_row = first_row.to(packed.device)
        assert packed.y is not None, "an evaluation needs targets"
        y = packed.y[ids.to(packed.device)].repeat_interleave(rows.to(packed.device), dim=0)
        size = MARKED_NODES_A_CHUNK[packed.device.type]
        chunks = zip(self._table.split(size), y.split(size), strict=True)
        read = self.predictor.read_pooled
        self._loss_table = torch.cat(
            [individual_loss(read(part, 1, None), label, self.task, self.reward) for part, label in chunks]
        )

    def _loss_of_outputs(self, outputs: Tensor, state: State) -> Tensor:
        y = state.graphs.y
        assert y is not None, "an evaluation needs targets"
        loss = individual_loss(outputs, y, self.task, self.reward)
        if self.predictor.level == "graph":
            return loss
        if self.mask is None:
            return graph_mean(loss, state.graphs)
        counted = self.mask.to(loss.dtype).reshape(-1, *[1] * (loss.ndim - 1))
        share = graph_mean(counted, state.graphs).clamp(min=1e-12)  # a graph without any such node has the loss 0
        return graph_mean(loss * counted, state.graphs) / share


MAX_TABLE_ROWS = 5_000_000
"""The largest table of tuple embeddings: two gigabytes at d = 100."""

MARKED_NODES_A_CHUNK = {"cpu": 4_000, "cuda": 200_000}
"""The number of nodes of marked copies that are embedded at once. It bounds the memory of a tabulation; on a CPU the
features of a chunk stay in its caches, which takes less than a third of the time of chunks that do not."""
