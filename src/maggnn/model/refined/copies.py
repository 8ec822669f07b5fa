"""Marked copies G(v) under colour refinement (1-WL): how many colours each copy ends with, and a hash of them.

Two copies with equal hashes look the same to every message-passing network that reads the same features (Xu et al.,
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
from maggnn.graphs.colours import Edges, Refined, entropy, mix, next_colours, readout, row_hashes
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.marking import mark_sets
from maggnn.model.tuples import tuples_at

CELLS = 1 << 18
"""Colours (nodes times copies) held at a time: few enough to stay in the caches, enough to outweigh a call's cost."""

MOST_COPIES = 1 << 26
"""Of one graph: their hashes take half a gigabyte, their refinement minutes."""


def refine(graphs: GraphBatch, tuples: Tensor) -> Refined:
    """Refine every copy until its own number of colours no longer grows.

    Copies that refinement cannot tell apart gain colours in the same rounds and end in the same one. Copies whose
    hashes agree in the round in which both have come to rest agree ever after: each colour's neighbourhood is then a
    function of the colour, the same one in both. So every copy may stop by itself, and its last round is part of it.

    Shapes:
        tuples: [B, M, k].
    """
    hashes = torch.zeros(tuples.shape[:2], dtype=torch.long, device=tuples.device)
    counts = torch.zeros_like(hashes)
    for copies, _, refined in _stable_copies(graphs, tuples):
        hashes[:, copies], counts[:, copies] = refined
    return Refined(hashes, counts)


def refine_in_parts(graphs: GraphBatch, tuples: Tensor) -> Refined:
    """`refine`, a few copies at a time: for any number M of tuples [B, M, k]."""
    parts = [refine(graphs, part) for part in tuples.split(max(CELLS // max(graphs.total_nodes, 1), 1), dim=1)]
    return Refined(*(torch.cat(values, dim=1) for values in zip(*parts, strict=True)))


def stable_entropy(graphs: GraphBatch, tuples: Tensor) -> Tensor:
    """The entropy of the stable colouring of every copy, in nats, [B, M], double precision.

    Shapes:
        tuples: [B, M, k].
    """
    result = torch.zeros(tuples.shape[:2], dtype=torch.float64, device=tuples.device)
    for copies, colours, _ in _stable_copies(graphs, tuples):
        result[:, copies] = entropy(graphs, colours)
    return result


def _stable_copies(graphs: GraphBatch, tuples: Tensor) -> Iterator[tuple[Tensor, Tensor, Refined]]:
    """The copies as they come to rest in all graphs of the batch.

    Yields:
        Which of the M copies these are [R], the stable colours of their nodes [N, R], and hashes and numbers of
        colours [B, R], each of the round in which its own graph's copy came to rest.
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
    """Node features and marks, slot by slot, [N, M]."""
    marked = mix(mark_sets(graphs, tuples) + 1)
    return marked if graphs.x is None else mix(marked + row_hashes(graphs.x)[:, None])


def refined_in_chunks(graphs: PackedGraphs, order: int) -> Iterator[tuple[Tensor, Refined]]:
    """All copies of all graphs, a few at a time: ids of graphs [b] of equal size and some of their copies [b, M].

    Graphs of different size differ anyway, and those of equal size share their list of tuples.
    """
    for size in graphs.num_nodes.unique().tolist():
        ids = (graphs.num_nodes == size).nonzero()[:, 0]
        for part in ids.split(max(CELLS // (size * num_copies(size, order)), 1)):
            batch = graphs[part]
            for tuples in tuple_chunks(size, order):
                yield part, refine(batch, tuples.expand(len(part), -1, -1))


def tuple_chunks(size: int, order: int) -> Iterator[Tensor]:
    """All of V^k in lexicographic order, some [M, k] at a time: the whole list could outgrow the memory."""
    copies, at_a_time = num_copies(size, order), max(CELLS // size, 1)
    for start in range(0, copies, at_a_time):
        yield tuples_at(torch.arange(start, min(start + at_a_time, copies)), size, order)


def num_copies(size: int, order: int) -> int:
    """|V|^k of a graph with `size` nodes, where that many can be tried."""
    if order < 0:
        raise InputError(f"tuples of order {order}: give 0 or more")
    if size**order > MOST_COPIES:
        raise InputError(
            f"{size} nodes have {size**order:,} tuples of order {order}: more than can be tried; "
            "`maggnn distinguish --agent greedy` looks for a proof with few of them"
        )
    return size**order
