"""`agent.start = "finest"`: the tuples whose marks give a graph its finest stable colouring, by exhaustive search.

If marks can distinguish two graphs at all, the copies with the largest number of stable colours nearly always do. The
rule takes m of these copies with different hashes:

    C      = the copies G(v), v in V^k, with the largest number of stable colours
    choice = the first m distinct hashes of C, in the order of (how many copies of C have it, its value),
             one tuple for each, repeated from the first if C has fewer than m distinct hashes

Hashes do not depend on the numbering of nodes, and no message-passing network distinguishes copies with equal hashes.
So the answer of a model that makes no moves (t = 0) and reads features and marks does not depend on the numbering.
Exceptions: inputs that are finer than colour refinement (random walks, counts of distances, rings) can differ between
copies with equal hashes, and a later move breaks ties by the numbering.

The rule is exact and expensive: all |V|^k copies of |V| nodes are refined, on the CPU. A graph of 30 nodes takes some
hundredths of a second with k = 2, one of 200 nodes about ten seconds. It is therefore applied once to a data set
(`with_finest`), and a graph with more than `MOST_CELLS` cells is an error.

With three marks or more, the last mark is chosen separately in graphs of more than about 45 nodes: C is then the set of
tuples (v, u) of order k, where v runs over *all* finest tuples of order k - 1 with the rarest hash, and u over all
nodes. This does not depend on the numbering either.

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
from maggnn.model.refined.copies import refine_one, refined_in_chunks
from maggnn.model.tuples import tuples_at

MOST_CELLS = 1 << 26
"""The largest |V|^(k + 1), nodes times copies of one graph: k = 2 up to 406 nodes, for which it takes minutes."""

SLOT_BY_SLOT = 3
"""From this order on, graphs with more than `FEW_CELLS` cells extend the finest tuples with one mark less."""

FEW_CELLS = 1 << 22
"""The largest |V|^(k + 1) for which all tuples of any order are tried: k = 3 up to 45 nodes, some seconds."""

MOST_EXTENDED = 1 << 28
"""The largest number of nodes times extended tuples of one graph, which takes minutes."""


def finest_tuples(graphs: PackedGraphs, num_tuples: int, tuple_order: int) -> Tensor:
    """Return the m tuples of each graph that the rule above chooses.

    Args:
        graphs: a set on any device; the search itself runs on the CPU.
        num_tuples, tuple_order: m and k.

    Returns:
        [G, m, k] on the set's device, node ids local to their graph.
    """
    on_cpu = graphs.to("cpu")
    chosen = torch.zeros(len(on_cpu), num_tuples, tuple_order, dtype=torch.long)
    most = MOST_CELLS if tuple_order < SLOT_BY_SLOT else FEW_CELLS  # for which all tuples are tried
    small = on_cpu.num_nodes ** (tuple_order + 1) <= most
    if tuple_order < SLOT_BY_SLOT:
        _check_sizes(on_cpu, tuple_order)
    whole = small.nonzero()[:, 0]
    for graph, refined in zip(whole.tolist(), _all_copies(on_cpu.select(whole), tuple_order), strict=True):
        places = first_of_rarest(*refined, num_tuples)
        chosen[graph] = tuples_at(places, int(on_cpu.num_nodes[graph]), tuple_order)
    for graph in (~small).nonzero()[:, 0]:
        one = on_cpu.select(graph[None])
        tuples = _extended(one, tuple_order)
        chosen[graph] = tuples[first_of_rarest(*refine_one(one, tuples), num_tuples)]
    return chosen.to(graphs.device)


def _all_copies(graphs: PackedGraphs, order: int) -> list[Refined]:
    """Return hashes and numbers of colours of all copies of each graph, [M] each, in the order of `all_tuples`."""
    copies: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(len(graphs))]
    for ids, refined in refined_in_chunks(graphs, order):
        for graph, hashes, num_colours in zip(ids.tolist(), *refined, strict=True):
            copies[graph].append((hashes, num_colours))
    return [Refined(*(torch.cat(values) for values in zip(*parts, strict=True))) for parts in copies]


def _extended(graph: PackedGraphs, order: int) -> Tensor:
    """Return the rarest of the finest tuples with one mark less, each extended by every node, [M, k]."""
    size = int(graph.num_nodes[0])
    if order > SLOT_BY_SLOT and size**order > FEW_CELLS:
        tuples = _extended(graph, order - 1)
        rarest = tuples[_rarest(*refine_one(graph, tuples))]
    else:
        _check_sizes(graph, order - 1)
        rarest = tuples_at(_rarest(*_all_copies(graph, order - 1)[0]), size, order - 1)
    if len(rarest) * size**2 > MOST_EXTENDED:
        raise InputError(
            f"agent.start = finest: a graph with {size} nodes has {len(rarest):,} equally fine tuples of order "
            f"{order - 1}, too many to extend by every node: use another start or a smaller tuple_order"
        )
    node = torch.arange(size).repeat(len(rarest))
    return torch.cat([rarest.repeat_interleave(size, dim=0), node[:, None]], dim=1)


def _rarest(hashes: Tensor, num_colours: Tensor) -> Tensor:
    """Return the indices of the finest copies of one graph whose hash is the rarest among them."""
    first = first_of_rarest(hashes, num_colours, 1)
    return (hashes == hashes[first]).nonzero()[:, 0]


def first_of_rarest(hashes: Tensor, num_colours: Tensor, count: int) -> Tensor:
    """Return the copies that the rule takes, as indices among all copies of one graph.

    Args:
        hashes, num_colours: hashes and numbers of colours of all copies of one graph, [M].
        count: the number of copies to take.

    Returns:
        The indices, [count]; the first of copies with equal hashes.
    """
    finest = (num_colours == num_colours.max()).nonzero()[:, 0]  # [C]
    distinct, which, times = hashes[finest].unique(return_inverse=True, return_counts=True)  # in order of value
    first = torch.full_like(distinct, len(hashes)).scatter_reduce(0, which, finest, "amin")
    rarest = times.argsort(stable=True)
    return first[rarest[torch.arange(count) % len(rarest)]]


def with_finest(packed: PackedGraphs, num_tuples: int, tuple_order: int) -> PackedGraphs:
    """Return the same set with precomputed finest tuples of every graph, for all batches."""
    if packed.finest is not None and packed.finest.shape[1:] == (num_tuples, tuple_order):
        return packed
    return replace(packed, finest=finest_tuples(packed, num_tuples, tuple_order))


def finest_starts(graphs: GraphBatch, num_tuples: int, tuple_order: int) -> Tensor:
    """Return the finest tuples of a batch, [B, m, k]: those of its set, or computed here if the set has none."""
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
