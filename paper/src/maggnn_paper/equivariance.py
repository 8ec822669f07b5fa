"""Predictions that do not depend on the numbering: deterministic starts, averaged over symmetric choices.

The paper gives up equivariance for efficiency and notes that deterministic starts would grant it. Here a start is found
by individualisation and refinement: the first mark goes into the smallest cell (nodes of equal colour) with more than
one node, colours are refined with that mark, and so on slot by slot. Where a cell has several nodes none is preferred:
all of them are taken, and the answers of all starts are averaged. Asymmetric graphs have one start; a graph with
symmetry has about as many as it has symmetries of the marked places.

Of moves with equal Q-values those of the first slot and the smallest colour, refined with all marks in place, are
made. Where several nodes are still alike then, a search branches: nodes of equal colour need not be images of each
other (in a strongly regular graph they often are not), so each of them is taken, and counts its share of the answer.
Branches that meet again go on as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.colours import Edges, next_colours
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import best_move, is_best, q_rows
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.refined.copies import first_colours
from maggnn.model.state import Move, State
from maggnn.theory.canonical import needs_last_state

MOST_STARTS = 4096
"""Of one graph, and of the searches that they branch into: beyond that averaging costs more than it is worth."""


def stable_colours(graphs: GraphBatch, tuples: Tensor) -> Tensor:
    """Return the stable colour of every node of every copy.

    All copies go through as many rounds as the largest graph has nodes, so that colours of different copies and of
    relabelled graphs can be compared.

    Shapes:
        tuples: [B, M, k]; result: [N, M], 64-bit.
    """
    colours, edges = first_colours(graphs, tuples), Edges.of(graphs)
    for _ in range(graphs.max_num_nodes):
        colours = next_colours(edges, colours)
    return colours


def canonical_starts(graph: PackedGraphs, num_tuples: int, tuple_order: int) -> Tensor:
    """The starts of one graph as a set that relabelling maps to itself, [S, m, k]."""
    if len(graph) != 1:
        raise InputError(f"{len(graph)} graphs: starts are found for one at a time")
    batch, num_nodes = graph[torch.tensor([0])], int(graph.num_nodes)
    marked = torch.empty(1, 0, dtype=torch.long)  # [S, slots so far]
    for _ in range(num_tuples * tuple_order):
        colours = stable_colours(batch, marked[None])  # [n, S]
        chosen = torch.stack([_target_cell(colours[:, i], marked[i]) for i in range(len(marked))])  # [S, n]
        branch, node = chosen.nonzero().T
        marked = torch.cat([marked[branch], node[:, None]], dim=1)
        if len(marked) > MOST_STARTS:
            raise InputError(
                f"a graph of {num_nodes} nodes is so symmetric that it has more than {MOST_STARTS} equivalent starts: "
                "use fewer or smaller tuples, or random starts"
            )
    return marked.unflatten(1, (num_tuples, tuple_order)) if tuple_order else marked.reshape(1, num_tuples, 0)


def _target_cell(colours: Tensor, marked: Tensor) -> Tensor:
    """The cell that the next mark goes into, as a mask over nodes: chosen by size and colour alone.

    The smallest cell of several nodes; where all nodes differ, the one of the smallest colour that has no mark yet.
    """
    _, cell, sizes = colours.unique(return_inverse=True, return_counts=True)
    if bool((sizes > 1).any()):
        # Cells are numbered by their colour, so it decides between equal sizes.
        best = torch.where(sizes > 1, sizes, sizes.max() + 1).argmin()
        return cell == best
    free = torch.ones_like(colours, dtype=torch.bool)
    free[marked] = False
    candidates = colours if not bool(free.any()) else torch.where(free, colours, colours.max())
    mask = torch.zeros_like(free)
    mask[candidates.argmin()] = True
    return mask


@torch.no_grad()
def answer_equivariantly(model: MagGNN, packed: PackedGraphs, ids: Tensor, batch_size: int = 512) -> Tensor:
    """Mean answer over all canonical starts of graphs `ids` [B], [B, out]: logits or values, one row for each graph."""
    if model.predictor.level == "node":
        raise InputError(
            "equivariant answers are for graphs; take rooted graphs for nodes (maggnn.data.synthetic.rooted)"
        )
    needs_last_state(model)
    model.eval()
    agent, history = model.agent, model.history_width
    starts = [canonical_starts(packed.select(graph[None]), agent.num_tuples, agent.tuple_order) for graph in ids]
    searches = _Searches.start(starts, history, packed.device)
    for _ in range(agent.num_moves):
        parts = [_branched(model, packed[ids[part.owner.cpu()]], part) for part in searches.split(batch_size)]
        searches = _Searches.together(parts)
    total = torch.zeros(len(ids), model.num_outputs, dtype=torch.float64, device=packed.device)
    for part in searches.split(batch_size):
        graphs = packed[ids[part.owner.cpu()]]
        answers = model.in_target_units(model.predictor(graphs, part.tuples), graphs)
        total.index_add_(0, part.owner, answers.double() * part.weight[:, None])
    return total.to(next(model.parameters()).dtype)


@dataclass(frozen=True)
class _Searches:
    """S searches side by side.

    Attributes:
        owner: the graph that each belongs to, [S].
        weight: its share of that graph's answer, [S].
        tuples, history, turn: where it is, [S, m, k], [S, m, w] and [S].
    """

    owner: Tensor
    weight: Tensor
    tuples: Tensor
    history: Tensor
    turn: Tensor

    @classmethod
    def start(cls, starts: list[Tensor], history_width: int, device: torch.device) -> _Searches:
        """One search for each of the starts [S, m, k] of each graph; those of a graph count alike."""
        counts = torch.tensor([len(part) for part in starts], device=device)
        owner = torch.repeat_interleave(counts)
        tuples = torch.cat(starts).to(device)
        history = torch.zeros(*tuples.shape[:2], history_width, device=device)
        return cls(owner, 1 / counts[owner].double(), tuples, history, torch.zeros_like(owner))

    @classmethod
    def together(cls, parts: list[_Searches]) -> _Searches:
        """All parts' searches; where one graph has too many, that is said."""
        fields = zip(*(part._tensors() for part in parts), strict=True)
        joined = cls(*(torch.cat(field) for field in fields))._merged()
        if int(torch.bincount(joined.owner).max()) > MOST_STARTS:
            raise InputError(
                f"a graph is so symmetric that its searches branch into more than {MOST_STARTS}: "
                "use fewer moves or smaller tuples, or random starts"
            )
        return joined

    def split(self, size: int) -> Iterator[_Searches]:
        """At most `size` searches at a time."""
        for rows in torch.arange(len(self.owner), device=self.owner.device).split(size):
            yield _Searches(*(field[rows] for field in self._tensors()))

    def _merged(self) -> _Searches:
        """Searches of a graph that stand on the same tuples as one; with a history they may have come other ways."""
        if self.history.shape[-1]:
            return self
        keys = torch.cat([self.owner[:, None], self.tuples.flatten(1)], dim=1)
        unique, place = keys.unique(dim=0, return_inverse=True)
        weight = torch.zeros(len(unique), dtype=self.weight.dtype, device=keys.device).index_add(0, place, self.weight)
        tuples = unique[:, 1:].reshape(-1, *self.tuples.shape[1:])
        history = self.history.new_zeros(*tuples.shape[:2], 0)
        return _Searches(unique[:, 0], weight, tuples, history, self.turn[:1].expand(len(unique)))  # all have one turn

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.owner, self.weight, self.tuples, self.history, self.turn


def _branched(model: MagGNN, graphs: GraphBatch, searches: _Searches) -> _Searches:
    """The searches after a move, each as often as it has moves to choose between."""
    state = State(graphs, searches.tuples, searches.history, searches.turn)
    q_table, history = model.scores(state)
    kept = _without_ties(q_table, state)
    _, move = best_move(kept, state, model.agent.actions, ties="first")
    alike = q_rows(kept, graphs).unflatten(-1, (-1, q_table.shape[-1])).isfinite().any(dim=-1)  # [S, m, V]
    row = torch.arange(len(searches.owner), device=graphs.device)  # the search that each branch comes from
    weight, node = searches.weight, move.node
    for number in range(node.shape[1]):
        first = torch.zeros_like(alike[:, number]).index_fill(1, torch.zeros_like(row[:1]), True)
        options = torch.where(move.moved[:, number, None], alike[:, number], first)[row]  # [R, V]; who stays has one
        branch, chosen = options.nonzero().T
        weight = (weight / options.sum(dim=1))[branch]
        row, node = row[branch], node[branch]
        node[:, number] = chosen
    before = replace(state, tuples=searches.tuples[row], turn=searches.turn[row])
    after = before.after(Move(move.slot[row], node, move.moved[row]), history[row])
    return _Searches(searches.owner[row], weight, after.tuples, after.history, after.turn)


def _without_ties(q_table: Tensor, state: State) -> Tensor:
    """The Q-table [N, m, k] with all but one kind of each tuple's best moves ruled out."""
    graphs, (_, num_tuples, order) = state.graphs, state.tuples.shape
    rows = q_rows(q_table, graphs).unflatten(-1, (-1, order))  # [B, m, V, k]
    best = is_best(rows, dim=(2, 3))
    slot = best.any(dim=2).int().argmax(dim=-1)[:, :, None, None]  # the first slot with a best move
    best &= torch.arange(order, device=best.device) == slot
    together = state.tuples.reshape(graphs.num_graphs, 1, num_tuples * order)
    colours = graphs.padded(stable_colours(graphs, together)[:, 0], 0)[:, None, :, None]  # [B, 1, V, 1]
    smallest = torch.where(best, colours, torch.iinfo(torch.long).max).amin(dim=(2, 3), keepdim=True)
    kept = best & (colours == smallest)
    return torch.where(kept, rows, float("-inf"))[graphs.node_graph, :, graphs.local_id]  # [N, m, k]
