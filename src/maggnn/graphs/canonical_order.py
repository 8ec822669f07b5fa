"""One numbering of a graph's nodes, whatever numbering it came with: isomorphic graphs become equal, edge for edge.

A model whose ties go to the first node then has one answer for a graph. The method is individualisation and refinement
(McKay, "Practical Graph Isomorphism", 1981). Colours are refined; while nodes share a colour, one of them gets a colour
of its own and the colours are refined again. Colours do not depend on the numbering, so once all differ they order the
nodes. All nodes of a shared colour are tried, and the choices whose colours have the smallest hash are kept. Most
shared colours are symmetries, in which case all choices are equivalent and one is enough: two choices are known to be
equivalent when going on from each, in any way, ends in the same colours, because nodes of equal colour then correspond
to each other. Graphs in which too many choices differ get a `NumberingWarning`.

Shapes: a batch has one graph for each colouring that is worked on, the same graph several times where it has several;
colours are [N], a number for each node of the batch.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.colours import Edges, mix, next_colours, row_hashes
from maggnn.graphs.packed import PackedGraphs

NODES_AT_ONCE = 1 << 15
"""Few enough that colours stay in the caches."""

MOST_CELLS = 1 << 20
"""Nodes times choices of one graph that are tried at once."""

LAST = torch.iinfo(torch.long).max
"""Sorts behind every colour: the padding of tables."""


class NumberingWarning(UserWarning):
    """A graph is so regular that no numbering independent of the given one was found."""


def in_canonical_order(packed: PackedGraphs) -> PackedGraphs:
    """The same graphs with the nodes and edges of each in an order that does not depend on the one they came in.

    Structure, rings and distances that were worked out before are left out; the model works them out again.
    """
    on_cpu = packed.to("cpu")
    rows = canonical_rows(on_cpu)  # [total nodes]
    first = torch.repeat_interleave(on_cpu.node_offsets[:-1], on_cpu.num_nodes)
    place = torch.empty_like(rows)
    place[rows] = torch.arange(len(rows)) - first  # each node's new number in its graph
    edge_first = torch.repeat_interleave(on_cpu.node_offsets[:-1], on_cpu.num_edges)
    edge_index, edge_attr = place[on_cpu.edge_index + edge_first], on_cpu.edge_attr
    if edge_attr is not None:  # of parallel edges, which `build` leaves as they are
        graph = torch.repeat_interleave(torch.arange(len(on_cpu)), on_cpu.num_edges)
        order = torch.from_numpy(np.lexsort([row_hashes(edge_attr).numpy(), graph.numpy()]))
        edge_index, edge_attr = edge_index[:, order], edge_attr[order]
    y = on_cpu.y[rows] if on_cpu.y is not None and on_cpu.level == "node" else on_cpu.y
    x = None if on_cpu.x is None else on_cpu.x[rows]
    made = PackedGraphs.build(on_cpu.num_nodes, on_cpu.num_edges, edge_index, x, edge_attr, y, on_cpu.level)
    if on_cpu.roots is not None:
        made = replace(made, roots=place[on_cpu.roots + on_cpu.node_offsets[:-1, None]])
    return made.to(packed.device)


def canonical_rows(packed: PackedGraphs) -> Tensor:
    """The nodes of all graphs (rows of `x`) in canonical order, [total nodes]; for a set on the CPU."""
    rows = torch.empty(len(packed.in_degree), dtype=torch.long)
    by_size = packed.num_nodes.argsort(descending=True)
    first = 0
    while first < len(by_size):
        count = max(1, NODES_AT_ONCE // max(1, int(packed.num_nodes[by_size[first]])))
        ids = by_size[first : first + count]
        _write_order(rows, packed, ids, _canonical_colours(packed, ids))
        first += count
    return rows


def _write_order(rows: Tensor, packed: PackedGraphs, ids: Tensor, colours: Tensor) -> None:
    """Write the nodes of graphs `ids` in the order of their colours into `rows`."""
    batch = packed[ids]
    node = packed.node_offsets[ids][batch.node_graph] + batch.local_id  # rows of the set
    order = np.lexsort([colours.numpy(), batch.node_graph.numpy()])
    rows[node] = node[torch.from_numpy(order)]


def _canonical_colours(packed: PackedGraphs, ids: Tensor) -> Tensor:
    """Colours of the nodes of graphs `ids` that all differ within a graph and do not depend on its numbering, [N]."""
    batch = packed[ids]
    colours = _stable(batch, _first_colours(batch))
    unfinished = ~_is_discrete(batch, colours)
    for graph in unfinished.nonzero()[:, 0].tolist():
        own = batch.node_graph == graph
        colours[own] = _searched(packed, int(ids[graph]), colours[own])
    return colours


def _searched(packed: PackedGraphs, graph: int, colours: Tensor) -> Tensor:
    """The canonical colouring of one graph, [n], from the stable one: a breadth-first search over choices."""
    kept, complete = colours[None], True  # [colourings, n]
    while True:
        batch = packed[torch.full((len(kept),), graph)]
        if bool(_is_discrete(batch, kept.flatten()).all()):  # equal hashes: equally many colours in all
            break
        kept, tried_all = _children(batch, kept)
        batch = packed[torch.full((len(kept),), graph)]
        kept = _stable(batch, kept.flatten()).view_as(kept)
        hashes = _hashes(batch, kept.flatten())
        smallest = hashes == hashes.min()
        kept = _inequivalent(packed, graph, kept[smallest])
        complete &= tried_all or (bool(smallest.all()) and len(kept) == 1)
    if not complete:
        warnings.warn(
            f"graph {graph} is so regular that another numbering of its nodes may get another answer",
            NumberingWarning,
            stacklevel=2,
        )
    return kept[0]


def _children(batch: GraphBatch, kept: Tensor) -> tuple[Tensor, bool]:
    """Each colouring [R, n] with each node of its rarest shared colour given one of its own, and whether all fit."""
    chosen = _rarest_shared(batch, kept.flatten()).view_as(kept)
    parent, node = chosen.nonzero(as_tuple=True)
    most = max(1, MOST_CELLS // kept.shape[1])
    tried_all = len(parent) <= most
    return _with_own_colour(kept[parent[:most]], node[:most]), tried_all


def _inequivalent(packed: PackedGraphs, graph: int, kept: Tensor) -> Tensor:
    """One of the colourings [R, n] for each end that they lead to."""
    ends = kept
    while True:
        batch = packed[torch.full((len(ends),), graph)]
        shared = _rarest_shared(batch, ends.flatten()).view_as(ends)
        if not bool(shared.any()):
            break
        # All have equal hashes when they begin; later some may be finished before others, and stay as they are.
        node = shared.to(torch.uint8).argmax(dim=1)
        further = torch.where(shared.any(dim=1, keepdim=True), _with_own_colour(ends, node), ends)
        ends = torch.where(shared.any(dim=1, keepdim=True), _stable(batch, further.flatten()).view_as(ends), ends)
    first = np.unique(_hashes(batch, ends.flatten()).numpy(), return_index=True)[1]
    return kept[torch.from_numpy(first)]


def _with_own_colour(colours: Tensor, node: Tensor) -> Tensor:
    """Colourings [R, n] in each of which one node, [R], gets a colour of its own."""
    return colours.scatter(1, node[:, None], mix(colours.gather(1, node[:, None]) + 1))


# ---- colours --------------------------------------------------------------------------------------------


def _first_colours(batch: GraphBatch) -> Tensor:
    """Of features and roots, and of a number among twins, [N].

    Twins have the same features and the same neighbours, so that they can be exchanged: any order of them will do.
    """
    colours = torch.zeros(batch.total_nodes, dtype=torch.long) if batch.x is None else row_hashes(batch.x)
    if batch.roots is not None:
        slots = mix(torch.arange(1, batch.roots.shape[1] + 1)).expand_as(batch.roots)
        colours = colours.index_add(0, (batch.roots + batch.first_node[:, None]).flatten(), slots.flatten())
    colours = mix(colours + 1)
    return mix(colours + _number_among_twins(batch, colours))


def _number_among_twins(batch: GraphBatch, colours: Tensor) -> Tensor:
    """0, 1, 2, ... among nodes of one colour with the same neighbours along the same edges, both ways, [N]."""
    source, target = batch.edge_index
    name = mix(torch.arange(1, batch.total_nodes + 1))
    kind = torch.zeros_like(source) if batch.edge_attr is None else row_hashes(batch.edge_attr)
    seen = torch.zeros_like(name).index_add_(0, target, mix(name[source] + kind))
    seen.index_add_(0, source, mix(name[target] + mix(kind + 1)))
    order = np.lexsort([colours.numpy(), seen.numpy()])
    key = torch.stack([seen, colours])[:, torch.from_numpy(order)]
    begins = torch.ones(key.shape[1], dtype=torch.bool)
    begins[1:] = (key[:, 1:] != key[:, :-1]).any(dim=0)
    place = torch.arange(key.shape[1])
    start = torch.where(begins, place, 0).cummax(0).values
    return torch.empty_like(place).scatter_(0, torch.from_numpy(order), place - start)


def _stable(batch: GraphBatch, colours: Tensor) -> Tensor:
    """Colours [N] refined until the number of colours no longer grows, in each graph by itself.

    A graph's colours must not depend on the rounds that others of its batch take.
    """
    edges, count = Edges.of(batch), _num_colours(batch, colours)
    resting = torch.zeros_like(count, dtype=torch.bool)
    while not bool(resting.all()):
        refined = next_colours(edges, colours[:, None])[:, 0]
        new_count = _num_colours(batch, refined)
        colours = torch.where(resting[batch.node_graph], colours, refined)
        resting, count = resting | (new_count == count), torch.where(resting, count, new_count)
    return colours


def _sorted_colours(batch: GraphBatch, colours: Tensor) -> np.ndarray:
    """The colours of each graph in order, [B, V], and `LAST` behind them."""
    return np.sort(batch.padded(colours, LAST).numpy(), axis=1)


def _num_colours(batch: GraphBatch, colours: Tensor) -> Tensor:
    """How many different colours each graph has, [B]; one more where it has fewer nodes than the largest."""
    return torch.from_numpy((np.diff(_sorted_colours(batch, colours), axis=1) != 0).sum(axis=1))


def _is_discrete(batch: GraphBatch, colours: Tensor) -> Tensor:
    """Whether all nodes of a graph have different colours, [B]."""
    ordered = _sorted_colours(batch, colours)
    shared = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != LAST)
    return torch.from_numpy(~shared.any(axis=1))


def _hashes(batch: GraphBatch, colours: Tensor) -> Tensor:
    """The multiset of each graph's colours as a number, [B]."""
    return mix(torch.zeros(batch.num_graphs, dtype=torch.long).index_add_(0, batch.node_graph, mix(colours)))


def _rarest_shared(batch: GraphBatch, colours: Tensor) -> Tensor:
    """The nodes of one shared colour of each graph, [N]: of the rarest such colours the smallest; none if none is."""
    ordered = _sorted_colours(batch, colours)
    place = np.arange(ordered.shape[1])
    edge = np.ones((len(ordered), 1), dtype=bool)
    begins = np.concatenate([edge, ordered[:, 1:] != ordered[:, :-1]], axis=1)
    ends = np.concatenate([begins[:, 1:], edge], axis=1)
    start = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    end = np.minimum.accumulate(np.where(ends, place, place[-1])[:, ::-1], axis=1)[:, ::-1]
    size = end - start + 1
    none = len(place) + 1
    size = np.where((size > 1) & (ordered != LAST), size, none)
    at = size.argmin(axis=1)[:, None]
    colour = np.where(np.take_along_axis(size, at, 1) < none, np.take_along_axis(ordered, at, 1), LAST)
    return colours == torch.from_numpy(colour[:, 0])[batch.node_graph]
