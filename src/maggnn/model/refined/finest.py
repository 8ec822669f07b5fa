"""`agent.start = "finest"`: the tuples whose marks give a graph its finest stable colouring, found by trying them all.

Where marks can distinguish two graphs at all, the copies in which colour refinement ends with the most colours nearly
always do. Of these copies the rule takes m whose hashes differ:

    C      = the copies G(v), v in V^k, with the largest number of stable colours
    choice = the first m distinct hashes of C, in the order of (how many copies of C have it, its value),
             one tuple for each, from the first again where C has fewer than m distinct hashes

Hashes do not depend on how nodes are numbered, and copies with equal hashes look the same to every message-passing
network, so neither does the answer of a model that makes no moves (t = 0) and reads the graph's features and marks.
Exceptions: inputs that say more than colour refinement sees (random walks, counts of distances, rings) can differ
between copies with equal hashes, and a later move breaks ties by the numbering.

The rule is exact and expensive: all |V|^k copies of |V| nodes are refined, on the CPU. A graph of 30 nodes takes some
hundredths of a second with k = 2, one of 200 nodes some ten seconds. It is therefore applied once to a data set
(`with_finest`), and refused where a graph has more than `MOST_CELLS` cells.

With three marks and more, a graph of more than some 45 nodes gets its last mark by itself: C is then the set of
tuples (v, u) of order k, where v is one of the finest tuples of order k - 1 with the rarest hash, *all* tuples of
that hash, and u any node. The numbering does not matter to that either.

Shapes: G graphs of a set, B of a batch; M copies of a graph.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.colours import Refined
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.refined.copies import refine_in_parts, refined_in_chunks
from maggnn.model.tuples import tuples_at

MOST_CELLS = 1 << 26
"""Nodes times copies of one graph, |V|^(k + 1): k = 2 up to 406 nodes, for which the search takes minutes."""

SLOT_BY_SLOT = 3
"""From this order on, the finest tuples of one mark less are extended in graphs with more than `FEW_CELLS` cells."""

FEW_CELLS = 1 << 22
"""|V|^(k + 1) up to which all tuples are tried whatever their order: k = 3 up to 45 nodes, some seconds."""

MOST_EXTENDED = 1 << 28
"""Nodes times extended tuples of one graph: minutes."""


def finest_tuples(graphs: PackedGraphs, num_tuples: int, tuple_order: int) -> Tensor:
    """The m tuples of each graph that the rule above chooses.

    Args:
        graphs: a set on any device; the search itself runs on the CPU.
        num_tuples, tuple_order: m and k.

    Returns:
        [G, m, k] on the set's device, node ids local to their graph.
    """
    on_cpu = graphs.to("cpu")
    chosen = torch.zeros(len(on_cpu), num_tuples, tuple_order, dtype=torch.long)
    small = on_cpu.num_nodes ** (tuple_order + 1) <= _most_cells(tuple_order)
    if tuple_order < SLOT_BY_SLOT:
        _check_sizes(on_cpu, tuple_order)
    whole = small.nonzero()[:, 0]
    for graph, refined in zip(whole.tolist(), _all_copies(on_cpu.select(whole), tuple_order), strict=True):
        places = first_of_rarest(*refined, num_tuples)
        chosen[graph] = tuples_at(places, int(on_cpu.num_nodes[graph]), tuple_order)
    for graph in (~small).nonzero()[:, 0]:
        one = on_cpu.select(graph[None])
        tuples = _extended(one, tuple_order)
        chosen[graph] = tuples[first_of_rarest(*_refined(one, tuples), num_tuples)]
    return chosen.to(graphs.device)


def _all_copies(graphs: PackedGraphs, order: int) -> list[Refined]:
    """Hashes and numbers of colours of all copies of each graph, [M] each, in the order of `all_tuples`."""
    copies: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(len(graphs))]
    for ids, refined in refined_in_chunks(graphs, order):
        for graph, hashes, num_colours in zip(ids.tolist(), *refined, strict=True):
            copies[graph].append((hashes, num_colours))
    return [Refined(*(torch.cat(values) for values in zip(*parts, strict=True))) for parts in copies]


def _most_cells(order: int) -> int:
    """|V|^(k + 1) of a graph whose tuples are all tried."""
    return MOST_CELLS if order < SLOT_BY_SLOT else FEW_CELLS


def _extended(graph: PackedGraphs, order: int) -> Tensor:
    """The rarest of the finest tuples of one mark less, with every node as the last mark, [M, k]."""
    size = int(graph.num_nodes[0])
    if order > SLOT_BY_SLOT and size**order > FEW_CELLS:
        tuples = _extended(graph, order - 1)
        rarest = tuples[_rarest(*_refined(graph, tuples))]
    else:
        _check_sizes(graph, order - 1)
        rarest = tuples_at(_rarest(*_all_copies(graph, order - 1)[0]), size, order - 1)
    if len(rarest) * size**2 > MOST_EXTENDED:
        raise InputError(
            f"agent.start = finest: {len(rarest):,} equally fine tuples of order {order - 1} of a graph with {size} "
            f"nodes are too many to extend by every node: use another start or a smaller tuple_order"
        )
    node = torch.arange(size).repeat(len(rarest))
    return torch.cat([rarest.repeat_interleave(size, dim=0), node[:, None]], dim=1)


def _refined(graph: PackedGraphs, tuples: Tensor) -> Refined:
    """Hashes and numbers of colours of some copies of one graph, tuples [M, k]: [M] each."""
    return Refined(*(values[0] for values in refine_in_parts(graph[torch.tensor([0])], tuples[None])))


def _rarest(hashes: Tensor, num_colours: Tensor) -> Tensor:
    """The places of all finest copies of one graph that have the hash which is rarest among these."""
    first = first_of_rarest(hashes, num_colours, 1)
    return (hashes == hashes[first]).nonzero()[:, 0]


def first_of_rarest(hashes: Tensor, num_colours: Tensor, count: int) -> Tensor:
    """Which copies the rule takes, as places among all copies of one graph.

    Args:
        hashes, num_colours: of all copies of one graph, [M].
        count: how many to take.

    Returns:
        [count], of equal copies the first.
    """
    finest = (num_colours == num_colours.max()).nonzero()[:, 0]  # [C]
    distinct, which, times = hashes[finest].unique(return_inverse=True, return_counts=True)  # in order of value
    first = torch.full_like(distinct, len(hashes)).scatter_reduce(0, which, finest, "amin")
    rarest = times.argsort(stable=True)
    return first[rarest[torch.arange(count) % len(rarest)]]


def with_finest(packed: PackedGraphs, num_tuples: int, tuple_order: int) -> PackedGraphs:
    """The same set with the finest tuples of every graph worked out, once for all batches."""
    if packed.finest is not None and packed.finest.shape[1:] == (num_tuples, tuple_order):
        return packed
    return replace(packed, finest=finest_tuples(packed, num_tuples, tuple_order))


def finest_starts(graphs: GraphBatch, num_tuples: int, tuple_order: int) -> Tensor:
    """The finest tuples of a batch, [B, m, k]: those of its set, or worked out here where the set has none."""
    if graphs.finest is not None and graphs.finest.shape[1:] == (num_tuples, tuple_order):
        return graphs.finest

    def make() -> Tensor:
        return finest_tuples(PackedGraphs.of_batch(graphs), num_tuples, tuple_order).to(graphs.device)

    return graphs.derived(f"finest {num_tuples} {tuple_order}", make)


def _check_sizes(graphs: PackedGraphs, order: int) -> None:
    size = graphs.largest_graph if len(graphs) else 0
    if size ** (order + 1) > MOST_CELLS:
        raise InputError(
            f"agent.start = finest tries all {size**order:,} tuples of order {order} of a graph with {size} nodes, "
            f"{size ** (order + 1):,} cells of at most {MOST_CELLS:,}: use another start or a smaller tuple_order"
        )
