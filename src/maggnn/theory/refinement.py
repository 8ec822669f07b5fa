"""What marks can distinguish at all, by colour refinement (1-WL) of marked copies, before any training.

A message-passing network distinguishes no more marked graphs than colour refinement does (Xu et al., "How Powerful are
Graph Neural Networks?", ICLR 2019). If two graphs have equal multisets of marked copies G(v), v in V^k, every choice of
tuples of order k in one has its equal in the other, and no predictor can infer from the copies which graph they belong
to. If the multisets differ, enough tuples can distinguish the graphs. A tuple whose copy never occurs in the other
graph is *informative* by itself. Features of nodes and edges are included; structural features
(`maggnn.graphs.structure`), which are finer than refinement, are not.

Copies are refined by `maggnn.model.refined.copies`, with the colours of `maggnn.graphs.colours`.

Shapes: B graphs, N nodes, E edges, M tuples of order k; G graphs in a whole set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.colours import Edges, mix, next_colours, readout
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.refined.copies import first_colours, num_copies, refined_in_chunks, tuple_chunks
from maggnn.model.tuples import tuples_at

# ---- whole graphs ---------------------------------------------------------------------------------------


class GraphHashes(NamedTuple):
    """The hashes of graphs for tuples of one order.

    Attributes:
        hashes: equal for graphs with equal multisets of marked copies, [G].
        discrete: whether the marks of some tuple give every node a unique colour, [G]. Equal hashes then mean
            isomorphic graphs: nodes of equal colour correspond to each other.
    """

    hashes: Tensor
    discrete: Tensor


def graph_hashes(graphs: PackedGraphs, order: int) -> GraphHashes:
    """Hash the multiset of all |V|^k marked copies of each graph."""
    hashes, discrete = torch.zeros(len(graphs), dtype=torch.long), torch.zeros(len(graphs), dtype=torch.bool)
    for ids, refined in refined_in_chunks(graphs, order):
        hashes[ids] += mix(refined.hashes).sum(1)
        discrete[ids] |= (refined.num_colours == graphs.num_nodes[ids, None]).any(1)
    return GraphHashes(mix(hashes), discrete)


def all_copy_hashes(graphs: PackedGraphs, order: int) -> Tensor:
    """Return the hashes of all copies of graphs with the same number n of nodes, in lexicographic order, [G, n^k]."""
    hashes = torch.empty(len(graphs), num_copies(int(graphs.num_nodes[0]), order), dtype=torch.long)
    done = torch.zeros(len(graphs), dtype=torch.long)
    for ids, refined in refined_in_chunks(graphs, order):
        start = int(done[ids[0]])
        hashes[ids, start : start + refined.hashes.shape[1]] = refined.hashes
        done[ids] += refined.hashes.shape[1]
    return hashes


# ---- pairs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """The comparison of two graphs by tuples of one order.

    Attributes:
        order: k.
        differ: whether their multisets of marked copies differ.
        witness: the first tuple of one of them whose copy never occurs in the other; None if every copy occurs in
            both, with the same or different frequencies.
        witness_graph: the graph, 0 or 1, that `witness` belongs to.
        share: the share of informative tuples of that graph; None unless requested.
        isomorphic: whether refinement proves that the graphs are isomorphic.
    """

    order: int
    differ: bool
    witness: tuple[int, ...] | None = None
    witness_graph: int = 0
    share: float | None = None
    isomorphic: bool = False


def separating_order(first: PackedGraphs, second: PackedGraphs, max_order: int = 2, shares: bool = False) -> Comparison:
    """Compare two graphs by tuples of order 0, 1, ..., `max_order`, until they differ or are known to be isomorphic.

    What k marks distinguish, k + 1 do too, since several marks may be on one node, so stopping early misses nothing.

    Args:
        first: one graph.
        second: the other graph.
        max_order: the largest number of marks that is tried.
        shares: whether to compute the share of informative tuples too, which needs every copy.

    Returns:
        The smallest order at which they differ, with a tuple that shows it.
    """
    comparison = compare(first, second, 0, shares)
    for order in range(1, max_order + 1):
        if comparison.differ or comparison.isomorphic:
            break
        comparison = compare(first, second, order, shares)
    return comparison


def compare(first: PackedGraphs, second: PackedGraphs, order: int, shares: bool = False) -> Comparison:
    """Compare the multisets of marked copies of two graphs; stops at the first informative tuple unless `shares`."""
    if len(first) != 1 or len(second) != 1:
        raise InputError(f"{len(first)} and {len(second)} graphs to compare: give one graph each")
    size = int(first.num_nodes)
    if size != int(second.num_nodes):  # every tuple of either is informative
        return Comparison(order, True, (0,) * order, share=1.0 if shares else None)
    theirs, ours, discrete = all_copy_hashes(second, order)[0], [], False  # [n^k]
    known = theirs.sort().values
    for _, refined in refined_in_chunks(first, order):
        ours.append(refined.hashes[0])
        discrete |= bool((refined.num_colours == size).any())
        if not shares and not _occur(ours[-1], known).all():
            break
    hashes = torch.cat(ours)
    for witness_graph, is_informative in enumerate((~_occur(hashes, known), ~_occur(theirs, hashes.sort().values))):
        if is_informative.any():
            witness = tuples_at(is_informative.nonzero()[0], size, order)[0].tolist()
            return Comparison(
                order, True, tuple(witness), witness_graph, float(is_informative.double().mean()) if shares else None
            )
    if torch.equal(hashes.sort().values, known):
        return Comparison(order, False, isomorphic=discrete)
    return Comparison(order, True, share=0.0 if shares else None)


def nearest_tuple(first: PackedGraphs, second: PackedGraphs, own: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return the tuple of the second graph whose copy agrees for most rounds with that of the first at `own`.

    A picture shows it next to `own`, as the most similar copy.

    Returns:
        The tuple, and the last round in which the two copies agree; -1 if their marks alone distinguish them.
    """
    best, most = (0,) * len(own), -1
    for tuples in tuple_chunks(int(second.num_nodes), len(own)):
        rounds = _rounds_alike(first, second, own, tuples)
        if int(rounds.max()) > most:
            best, most = tuple(tuples[rounds.argmax()].tolist()), int(rounds.max())
    return best, most


def _rounds_alike(first: PackedGraphs, second: PackedGraphs, own: tuple[int, ...], tuples: Tensor) -> Tensor:
    """Return the last round in which the copy of `first` at `own` and those of `second` at `tuples` agree, [M]."""
    ours, theirs = first[torch.tensor([0])], second[torch.tensor([0])]
    colours = first_colours(ours, torch.tensor(own, dtype=torch.long)[None, None])  # [n, 1]
    others = first_colours(theirs, tuples[None])  # [n', M]
    our_edges, their_edges = Edges.of(ours), Edges.of(theirs)
    alike, rounds = torch.ones(len(tuples), dtype=torch.bool), torch.full((len(tuples),), -1)
    for _ in range(ours.max_num_nodes + 1):
        alike &= readout(theirs, others).hashes[0] == readout(ours, colours).hashes[0]
        rounds += alike
        if not alike.any():
            break
        colours, others = next_colours(our_edges, colours), next_colours(their_edges, others)
    return rounds


def _occur(values: Tensor, known: Tensor) -> Tensor:
    """Return which of `values` are among the sorted `known`."""
    place = torch.searchsorted(known, values).clamp(max=len(known) - 1)
    return known[place] == values


def evenly_spaced(values: Tensor, most: int) -> Tensor:
    """Return at most `most` of the values, evenly spaced from the first to the last."""
    if len(values) <= most:
        return values
    return values[torch.linspace(0, len(values) - 1, most).round().long()]
