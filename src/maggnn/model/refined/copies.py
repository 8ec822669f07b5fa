"""Colour refinement (1-WL) of marked copies G(v): the number of stable colours of each copy, and a hash of them.

Copies with equal hashes cannot be distinguished by message-passing networks that read the same features (Xu et al.,
"How Powerful are Graph Neural Networks?", ICLR 2019). `maggnn.theory.refinement` compares graphs by these hashes, and
`maggnn.model.refined.finest` chooses tuples by them. Colours are those of `maggnn.graphs.colours`; as in the encoder
all copies share their edges, and colours are [N, M].

Shapes: B graphs, N nodes, M tuples of order k.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.colours import Edges, Refined, mix, next_colours, readout, row_hashes
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.marking import mark_sets
from maggnn.model.tuples import tuples_at

CELLS = 1 << 18
"""The number of colours (nodes times copies) at a time: few enough for the caches, enough to outweigh a call's cost."""

MOST_COPIES = 1 << 26
"""The largest number of copies of one graph: their hashes take half a gigabyte, their refinement minutes."""


def refine(graphs: GraphBatch, tuples: Tensor) -> Refined:
    """Refine every copy until its own number of colours no longer grows.

    Copies that refinement cannot distinguish gain colours in the same rounds and become stable in the same round. If
    the hashes of two copies agree in the round in which both are stable, they agree in all later rounds: each colour's
    neighbourhood is then a function of the colour, the same in both. So every copy can stop in its own round.

    Shapes:
        tuples: [B, M, k].
    """
    hashes = torch.zeros(tuples.shape[:2], dtype=torch.long, device=tuples.device)
    counts = torch.zeros_like(hashes)
    for copies, _, refined in stable_copies(graphs, tuples):
        hashes[:, copies], counts[:, copies] = refined
    return Refined(hashes, counts)


def refine_in_parts(graphs: GraphBatch, tuples: Tensor) -> Refined:
    """Apply `refine` to a few copies at a time, for any number M of tuples [B, M, k]."""
    parts = [refine(graphs, part) for part in tuples.split(max(CELLS // max(graphs.total_nodes, 1), 1), dim=1)]
    return Refined(*(torch.cat(values, dim=1) for values in zip(*parts, strict=True)))


def refine_one(graph: PackedGraphs, tuples: Tensor) -> Refined:
    """Return hashes and numbers of colours of some copies of one graph, tuples [M, k]: [M] each."""
    return Refined(*(values[0] for values in refine_in_parts(graph[torch.tensor([0])], tuples[None])))


def stable_copies(graphs: GraphBatch, tuples: Tensor) -> Iterator[tuple[Tensor, Tensor, Refined]]:
    """Yield copies as soon as they are stable in all graphs of the batch.

    Yields:
        The indices of these copies [R], the stable colours of their nodes [N, R], and hashes and numbers of colours
        [B, R], each from the round in which the copy of that graph became stable.
    """
    colours, edges = first_colours(graphs, tuples), Edges.of(graphs)  # [N, M]
    hashes, counts = readout(graphs, colours)  # [B, M] each
    resting = torch.zeros_like(hashes, dtype=torch.bool)
    live = torch.arange(tuples.shape[1], device=tuples.device)  # the copies that some graph still refines
    for _ in range(graphs.max_num_nodes):  # a round adds a colour or is the last: there are at most |V|
        colours = next_colours(edges, colours)
        new_hashes, new_counts = readout(graphs, colours)  # [B, live] each
        hashes = torch.where(resting, hashes, new_hashes)
        resting = resting | (new_counts == counts)
        counts = new_counts
        done = resting.all(0)
        if done.any():
            yield live[done], colours[:, done], Refined(hashes[:, done], counts[:, done])
            live, colours, hashes, counts, resting = (
                values[..., ~done] for values in (live, colours, hashes, counts, resting)
            )
        if not len(live):
            break


def first_colours(graphs: GraphBatch, tuples: Tensor) -> Tensor:
    """Return initial colours from node features and marks, slot by slot, [N, M]."""
    marked = mix(mark_sets(graphs, tuples) + 1)
    return marked if graphs.x is None else mix(marked + row_hashes(graphs.x)[:, None])


def refined_in_chunks(graphs: PackedGraphs, order: int) -> Iterator[tuple[Tensor, Refined]]:
    """Yield all copies of all graphs in chunks: ids of graphs [b] of equal size and some of their copies [b, M].

    Graphs of different size differ anyway, and those of equal size share their list of tuples.
    """
    for size in graphs.num_nodes.unique().tolist():
        ids = (graphs.num_nodes == size).nonzero()[:, 0]
        for part in ids.split(max(CELLS // (size * num_copies(size, order)), 1)):
            batch = graphs[part]
            for tuples in tuple_chunks(size, order):
                yield part, refine(batch, tuples.expand(len(part), -1, -1))


def tuple_chunks(size: int, order: int) -> Iterator[Tensor]:
    """Yield V^k in lexicographic order in chunks [M, k], since the whole list might not fit into memory."""
    copies, at_a_time = num_copies(size, order), max(CELLS // size, 1)
    for start in range(0, copies, at_a_time):
        yield tuples_at(torch.arange(start, min(start + at_a_time, copies)), size, order)


def num_copies(size: int, order: int) -> int:
    """Return |V|^k of a graph with `size` nodes; raises an `InputError` if these are too many to try."""
    if order < 0:
        raise InputError(f"tuples of order {order}: give 0 or more")
    if size**order > MOST_COPIES:
        raise InputError(
            f"{size} nodes have {size**order:,} tuples of order {order}, which are too many to try; "
            "`maggnn distinguish --agent greedy` searches for a proof with few of them"
        )
    return size**order
