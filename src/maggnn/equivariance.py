"""Answers that do not depend on how nodes are numbered: deterministic starts, averaged over what symmetry leaves open.

The paper gives up equivariance for efficiency and notes that deterministic starts would grant it. Here a start is found
by individualisation and refinement: the first mark goes into the smallest cell (nodes of equal colour) with more than
one node, colours are refined with that mark, and so on slot by slot. Where a cell has several nodes none is preferred:
all of them are taken, and the answers of all starts are averaged. Asymmetric graphs have one start; a graph with
symmetry has about as many as it has symmetries of the marked places.

Of moves with equal Q-values the one of the first slot and the smallest colour, refined with all marks in place, is
made. Nodes that are still alike then are taken for images of each other, and either does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from maggnn.agent import TIE, q_rows, search
from maggnn.errors import InputError
from maggnn.graphs import GraphBatch
from maggnn.model import MagGNN
from maggnn.packed import PackedGraphs
from maggnn.refinement import stable_colours
from maggnn.state import State

MOST_STARTS = 4096
"""Of one graph: beyond that averaging costs more than it is worth."""


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
        # Cells are numbered by their colour, so equal sizes are told apart by it.
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
    """Mean answer over all canonical starts of graphs `ids` [B], [B, out]: logits or values, one row a graph."""
    if model.predictor.level == "node":
        raise InputError("equivariant answers are for graphs; take rooted graphs for nodes (maggnn.data.rooted)")
    starts = [canonical_starts(packed.select(graph[None]), *_shape(model)) for graph in ids]
    owner = torch.repeat_interleave(torch.arange(len(ids)), torch.tensor([len(part) for part in starts]))
    tuples = torch.cat(starts)
    model.eval()
    chunks = zip(owner.split(batch_size), tuples.split(batch_size), strict=True)
    answers = [answer_from(model, packed[ids[rows]], starts_of, _without_ties) for rows, starts_of in chunks]
    total = torch.zeros(len(ids), model.num_outputs, dtype=torch.float64, device=packed.device)
    total.index_add_(0, owner.to(packed.device), torch.cat(answers).double())
    count = torch.bincount(owner, minlength=len(ids)).to(packed.device)
    return (total / count[:, None]).to(answers[0].dtype)


def answer_from(
    model: MagGNN, graphs: GraphBatch, tuples: Tensor, without_ties: Callable[[Tensor, State], Tensor]
) -> Tensor:
    """The answers of searches from `tuples` [S, m, k], without a random choice, [S, out].

    Args:
        without_ties: the Q-table [N, m, k] of a state with the best moves ruled out that shall not be made.
    """
    if model.agent.keep != "last":
        raise InputError("equivariant answers come from the last state: set agent.keep to last")

    def scores(state: State) -> tuple[Tensor, Tensor]:
        q_table, history = model.scores(state)
        return without_ties(q_table, state), history

    agent = model.agent
    start = State.start(graphs, tuples.to(graphs.device), model.history_width)
    last = search(scores, start, agent.num_moves, agent.actions)[-1]
    return model.restored(model.predictor(graphs, last.tuples), graphs)


def _without_ties(q_table: Tensor, state: State) -> Tensor:
    """The Q-table [N, m, k] with all but one kind of each tuple's best moves ruled out."""
    graphs, (_, num_tuples, order) = state.graphs, state.tuples.shape
    rows = q_rows(q_table, graphs).unflatten(-1, (-1, order))  # [B, m, V, k]
    best = rows >= rows.amax(dim=(2, 3), keepdim=True) - TIE
    slot = best.any(dim=2).int().argmax(dim=-1)[:, :, None, None]  # the first slot with a best move
    best &= torch.arange(order, device=best.device) == slot
    together = state.tuples.reshape(graphs.num_graphs, 1, num_tuples * order)
    colours = graphs.padded(stable_colours(graphs, together)[:, 0], 0)[:, None, :, None]  # [B, 1, V, 1]
    smallest = torch.where(best, colours, torch.iinfo(torch.long).max).amin(dim=(2, 3), keepdim=True)
    kept = best & (colours == smallest)
    return torch.where(kept, rows, float("-inf"))[graphs.node_graph, :, graphs.local_id]  # [N, m, k]


def _shape(model: MagGNN) -> tuple[int, int]:
    return model.agent.num_tuples, model.agent.tuple_order
