"""A search whose result does not depend on how nodes are numbered: an agent proposes, colour refinement breaks ties.

A greedy search depends on the numbering in two places: where it starts, and which of several equally promising moves
it makes. Here both are decided by colour refinement (`maggnn.model.refined.copies`), which no numbering changes:

    starts    all marks on one node; one node for each hash of the copies G(v) with one mark, at most C of them, in
              the order (most colours first, rarest hash first, value of the hash)
    moves     where several moves have equal Q-values, all of them are tried (branches), and the search goes
              on from the outcome that comes first in the same order
    result    of all outcomes on the way, m that come first in that order and have different hashes

The Q-network looks at no more than C * t marked copies, and the predictor at m. Refinement looks at |V| copies to find
the starts and at the tied outcomes, not at all |V|^k tuples as `maggnn.model.refined.finest` does.

The result is a copy with a certain hash. Two tuples of equal hash look the same to every message-passing network, but
moves from them may still lead to different copies; so the result is the same in every numbering except where equal
hashes hide a difference, or where rounding decides between values of Q that are not quite equal.

Shapes: B graphs, V nodes of the largest; C starts, M candidates; k nodes a tuple.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch
from maggnn.model.agent import Scores, q_rows
from maggnn.model.refined.copies import refine_in_parts
from maggnn.model.state import State

TIE = 1e-4
"""Promises that are closer than this are equal: Q is computed in single precision, by many layers of sums."""


@torch.no_grad()
def invariant_search(
    scores: Scores, graphs: GraphBatch, num_tuples: int, tuple_order: int, starts: int, num_moves: int
) -> Tensor:
    """The m tuples that the rule above chooses.

    Args:
        scores: a Q-network that judges each tuple by itself, or anything that acts like one.
        graphs: without padding, prepared for the network's marking.
        num_tuples, tuple_order: m and k.
        starts, num_moves: C and t.

    Returns:
        [B, m, k], node ids local to their graph.
    """
    tuples, real = starting_tuples(graphs, starts, tuple_order)  # [B, C, k], [B, C]
    found = [(tuples, real, refine_in_parts(graphs, tuples))]
    for _ in range(num_moves):
        q_table, _ = scores(State.start(graphs, tuples, history_width=0))
        candidates, owner = tied_outcomes(q_rows(q_table, graphs), tuples)  # [B, M, k], [B, M]
        refined = refine_in_parts(graphs, candidates)
        found.append((candidates, real.gather(1, owner.clamp(min=0)) & (owner >= 0), refined))
        tuples = torch.stack(
            [
                torch.stack(
                    [first_in_order(own, hashes, colours, whose == start, 1)[0] for start in range(real.shape[1])]
                )
                for own, whose, hashes, colours in zip(candidates, owner, *refined, strict=True)
            ]
        )
    every = torch.cat([candidates for candidates, _, _ in found], dim=1)
    eligible = torch.cat([allowed for _, allowed, _ in found], dim=1)
    hashes, colours = (torch.cat(values, dim=1) for values in zip(*(refined for *_, refined in found), strict=True))
    chosen = [first_in_order(*one, num_tuples) for one in zip(every, hashes, colours, eligible, strict=True)]
    return torch.stack(chosen)


def starting_tuples(graphs: GraphBatch, most: int, tuple_order: int) -> tuple[Tensor, Tensor]:
    """All marks on one node, one node for each hash of the copies with one mark, the first `most` of them.

    Returns:
        The tuples [B, C, k], C at most `most`, and which of them are starts [B, C]: graphs with fewer begin again.
    """
    width = graphs.max_num_nodes
    node = torch.arange(width, device=graphs.device).expand(graphs.num_graphs, -1)
    inside = node.minimum((graphs.num_nodes - 1)[:, None])[..., None]  # [B, V, 1]
    refined = refine_in_parts(graphs, inside)
    kinds = [len(hashes[real].unique()) for real, hashes in zip(graphs.is_node, refined.hashes, strict=True)]
    starts = min(most, max(kinds))
    chosen = [
        first_in_order(own, hashes, colours, real, starts)
        for own, real, hashes, colours in zip(inside, graphs.is_node, *refined, strict=True)
    ]
    is_start = torch.arange(starts, device=node.device) < torch.tensor(kinds, device=node.device)[:, None]
    return torch.stack(chosen).expand(-1, -1, tuple_order), is_start


def first_in_order(tuples: Tensor, hashes: Tensor, colours: Tensor, eligible: Tensor, count: int) -> Tensor:
    """Some tuples of one graph, one for each hash: most colours first, then the rarest hash, then its value.

    Where there are fewer hashes than `count`, it begins again.

    Shapes:
        tuples: [M, k]; hashes, colours, eligible: [M], at least one of them eligible; result: [count, k].
    """
    places = eligible.nonzero()[:, 0]
    distinct, which, times = hashes[places].unique(return_inverse=True, return_counts=True)  # in order of value
    first = torch.full_like(distinct, len(hashes)).scatter_reduce(0, which, places, "amin")
    order = times.argsort(stable=True)
    order = order[colours[first[order]].argsort(descending=True, stable=True)]
    return tuples[first[order[torch.arange(count, device=order.device) % len(order)]]]


def tied_outcomes(rows: Tensor, tuples: Tensor) -> tuple[Tensor, Tensor]:
    """What the best moves lead to, all of equally promising ones.

    Args:
        rows: Q of every move, node-major, -inf at padding, [B, C, V * k].
        tuples: that move, [B, C, k].

    Returns:
        The outcomes [B, M, k] and which start each belongs to [B, M]. Graphs with fewer than M outcomes repeat their
        last tuple as an outcome of start -1.
    """
    order = tuples.shape[-1]
    tied = rows >= rows.amax(dim=-1, keepdim=True) - TIE  # [B, C, V * k]
    graph, start, move = tied.nonzero(as_tuple=True)  # in order of graph and start
    moved = tuples[graph, start].scatter(1, (move % order)[:, None], (move // order)[:, None])
    counts = tied.flatten(1).sum(dim=1)  # [B]
    place = torch.arange(len(graph), device=rows.device) - (counts.cumsum(0) - counts)[graph]
    outcomes = tuples[:, -1:].repeat(1, int(counts.max()), 1)
    owner = torch.full(outcomes.shape[:2], -1, device=rows.device)
    outcomes[graph, place], owner[graph, place] = moved, start
    return outcomes, owner
