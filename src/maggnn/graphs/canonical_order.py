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
from maggnn.graphs.colours import ODD, mix, row_hashes
from maggnn.graphs.packed import PackedGraphs

CELLS_AT_ONCE = 1 << 20
"""Of a chunk of graphs: nodes times nodes, since each node may be a choice."""

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
    return reordered(packed, canonical_rows(packed.to("cpu")))


def reordered(packed: PackedGraphs, rows: Tensor) -> PackedGraphs:
    """The same graphs with their nodes in the order of `rows`.

    Args:
        rows: the nodes of the set as they are to come, those of a graph where they were, [total nodes] on the CPU.
    """
    on_cpu = packed.to("cpu")
    first = torch.repeat_interleave(on_cpu.node_offsets[:-1], on_cpu.num_nodes)
    place = torch.empty_like(rows)
    place[rows] = torch.arange(len(rows)) - first  # each node's new number in its graph
    edge_first = torch.repeat_interleave(on_cpu.node_offsets[:-1], on_cpu.num_edges)
    edge_index, edge_attr = place[on_cpu.edge_index + edge_first], on_cpu.edge_attr
    if edge_attr is not None and _has_parallel_edges(on_cpu):  # which `build` leaves as they are
        graph = torch.repeat_interleave(torch.arange(len(on_cpu)), on_cpu.num_edges)
        order = torch.from_numpy(np.lexsort([row_hashes(edge_attr).numpy(), graph.numpy()]))
        edge_index, edge_attr = edge_index[:, order], edge_attr[order]
    y = on_cpu.y[rows] if on_cpu.y is not None and on_cpu.level == "node" else on_cpu.y
    x = None if on_cpu.x is None else on_cpu.x[rows]
    sizes = on_cpu.num_nodes, on_cpu.num_edges  # targets were checked when the set was made
    made = PackedGraphs.build(*sizes, edge_index, x, edge_attr, y, on_cpu.level, missing_targets=True)
    if on_cpu.roots is not None:
        made = replace(made, roots=place[on_cpu.roots + on_cpu.node_offsets[:-1, None]])
    return made.to(packed.device)


def _has_parallel_edges(packed: PackedGraphs) -> bool:
    """Whether two edges of a graph have the same ends; edges are in order of their ends, so they are neighbours."""
    same = (packed.edge_index[:, 1:] == packed.edge_index[:, :-1]).all(dim=0)
    return bool(same.any())  # also true of graphs that end and begin with the same edge, which does no harm


def canonical_rows(packed: PackedGraphs) -> Tensor:
    """The nodes of all graphs (rows of `x`) in canonical order, [total nodes]; for a set on the CPU."""
    rows, first = torch.empty(len(packed.in_degree), dtype=torch.long), 0
    hashed, by_size = _hashed(packed), packed.num_nodes.argsort(descending=True)
    symmetric = _is_symmetric(hashed)
    while first < len(by_size):
        largest = max(1, int(packed.num_nodes[by_size[first]]))
        ids = by_size[first : first + max(1, CELLS_AT_ONCE // largest**2)]
        batch = hashed[ids]
        _write_order(rows, packed.node_offsets[ids], batch, _canonical_colours(hashed, ids, batch, symmetric))
        first += len(ids)
    return rows


def _hashed(packed: PackedGraphs) -> PackedGraphs:
    """The graphs with one number in place of a node's features and of an edge's, and with nothing else."""
    kind = None if packed.edge_attr is None else row_hashes(packed.edge_attr)
    nothing = {"y": None, "structure": None, "rings": None, "roots": None, "pairs": None, "finest": None}
    colours, edge_attr = _first_colours(packed, kind)[:, None], None if kind is None else kind[:, None]
    return replace(packed, x=colours, edge_attr=edge_attr, level="graph", **nothing)


def _is_symmetric(hashed: PackedGraphs) -> bool:
    """Whether every edge goes both ways and is the same both ways."""
    if not hashed.symmetric or hashed.edge_attr is None:
        return hashed.symmetric
    first_edge = torch.repeat_interleave(hashed.edge_offsets[:-1], hashed.num_edges)
    return torch.equal(hashed.edge_attr[hashed.by_source + first_edge], hashed.edge_attr)


def _write_order(rows: Tensor, first_row: Tensor, batch: GraphBatch, colours: Tensor) -> None:
    """Write the nodes of a batch in the order of their colours [N] into `rows`, from each graph's `first_row` on."""
    order = batch.padded(colours, LAST).numpy().argsort(axis=1)  # [B, V], padding last
    place = torch.from_numpy(order)[batch.node_graph, batch.local_id]
    row = first_row[batch.node_graph]
    rows[row + batch.local_id] = row + place


# ---- the search -----------------------------------------------------------------------------------------


class _Colourings:
    """Stable colourings of some graphs, side by side: none, one or several of each.

    Args:
        ids: the graphs of the search, [G].
        of: which of them each colouring belongs to, [R], in rising order.
        colours: of the nodes of these R graphs, [N].
    """

    def __init__(
        self, packed: PackedGraphs, ids: Tensor, of: Tensor, colours: Tensor, batch: GraphBatch | None = None
    ) -> None:
        self.packed, self.ids, self.of, self.colours = packed, ids, of, colours
        self._batch = batch

    def __len__(self) -> int:
        return len(self.of)

    @property
    def batch(self) -> GraphBatch:
        """The R graphs; gathered where they are read, since gathering costs as much as a round of refinement."""
        if self._batch is None:
            self._batch = self.packed[self.ids[self.of]]
        return self._batch

    def pick(self, rows: Tensor) -> _Colourings:
        """Colourings `rows` [R'], in rising order, as often as they stand there."""
        if len(rows) == len(self) and bool((rows == torch.arange(len(rows))).all()):
            return self
        places = _places(self.packed.num_nodes[self.ids[self.of]], rows)
        return _Colourings(self.packed, self.ids, self.of[rows], self.colours[places])

    def where(self, which: Tensor) -> _Colourings:
        """Those for which `which` [R] holds."""
        return self.pick(which.nonzero()[:, 0])

    def individualised(self, node: Tensor) -> _Colourings:
        """Each with one of its nodes, [R] by number in the graph, given a colour of its own, and refined."""
        place = self.batch.first_node + node
        colours = self.colours.clone()
        colours[place] = mix(colours[place] + 1)
        return _Colourings(self.packed, self.ids, self.of, _stable(self.batch, colours), self.batch)

    def any_node(self, which: Tensor) -> Tensor:
        """Whether `which` [N] holds for a node of a colouring, [R]."""
        return torch.zeros(len(self), dtype=torch.bool).index_fill_(0, self.batch.node_graph[which], True)


def _canonical_colours(packed: PackedGraphs, ids: Tensor, batch: GraphBatch, symmetric: bool) -> Tensor:
    """Colours of the nodes of graphs `ids` (as a `batch`) that differ within a graph and know no numbering, [N].

    A breadth-first search over choices, for all graphs at once. Where edges are the same both ways and no more than two
    nodes share a colour, one choice is enough. Between two such pairs there are no edges, all, or a matching, since
    nodes of one colour have equally many neighbours of another, so exchanging the nodes of all pairs is a symmetry.
    """
    assert batch.x is not None
    colours = _stable(batch, batch.x[:, 0])
    kept = _Colourings(packed, ids, torch.arange(len(ids)), colours.clone(), batch)
    while len(kept):
        shared, size = _rarest_shared(kept.batch, kept.colours)
        is_open = kept.any_node(shared)  # those of one graph have equally many colours
        done = kept.where(~is_open & _is_first(kept.of))
        colours[_places(batch.num_nodes, done.of)] = done.colours
        if symmetric:
            shared &= (size[kept.batch.node_graph] > 2) | _is_first_of_graph(kept.batch, shared)
        kept = _choices(kept, shared)
    return colours


def _places(sizes: Tensor, graphs: Tensor) -> Tensor:
    """The nodes of `graphs` [G'], one graph after the other, among those of all graphs with `sizes` [G]."""
    first, own = sizes.cumsum(0) - sizes, sizes[graphs]
    shift = first[graphs] - (own.cumsum(0) - own)
    return torch.arange(int(own.sum())) + torch.repeat_interleave(shift, own)


def _choices(kept: _Colourings, shared: Tensor) -> _Colourings:
    """Each `shared` [N] node individualised; of each graph the inequivalent choices with the smallest hash."""
    node = shared.nonzero()[:, 0]
    parent = kept.batch.node_graph[node]
    number, most = _number_within(kept.of[parent]), MOST_CELLS // kept.batch.num_nodes[parent]
    fits = number < most.clamp(min=1)
    tried = kept.pick(parent[fits]).individualised(kept.batch.local_id[node[fits]])
    hashes = _hashes(tried.batch, tried.colours)
    smallest = torch.full((len(kept.ids),), LAST).scatter_reduce(0, tried.of, hashes, "amin")
    is_smallest = hashes == smallest[tried.of]
    found = _inequivalent(tried.where(is_smallest))
    cut = kept.of[parent[~fits]].unique()  # all choices may still be known to be equivalent
    unlike = torch.cat([tried.of[~is_smallest], found.of[~_is_first(found.of)]])
    _warn_of(kept.ids[cut[torch.isin(cut, unlike)]].tolist())
    return found


def _inequivalent(found: _Colourings) -> _Colourings:
    """Of the colourings of each graph one for each end that they lead to."""
    several = torch.bincount(found.of, minlength=len(found.ids))[found.of] > 1
    keys = mix(found.of + 1)
    keys[several] += _ends(found.where(several))
    first = np.unique(keys.numpy(), return_index=True)[1]
    return found.pick(torch.from_numpy(np.sort(first)))


def _ends(colourings: _Colourings) -> Tensor:
    """The hash of each colouring after nodes were individualised, in any way, until all colours differ, [R]."""
    ends, row = torch.zeros(len(colourings), dtype=torch.long), torch.arange(len(colourings))
    while len(colourings):
        shared, _ = _rarest_shared(colourings.batch, colourings.colours)
        is_open = colourings.any_node(shared)
        ends[row] = _hashes(colourings.batch, colourings.colours)
        local = torch.full((len(colourings),), LAST).scatter_reduce(
            0, colourings.batch.node_graph[shared], colourings.batch.local_id[shared], "amin"
        )
        row = row[is_open]
        colourings = colourings.where(is_open).individualised(local[is_open])
    return ends


def _is_first(owner: Tensor) -> Tensor:
    """Which of the entries [R] begin a run of equal ones."""
    return torch.cat([owner.new_ones(min(len(owner), 1), dtype=torch.bool), owner[1:] != owner[:-1]])


def _number_within(owner: Tensor) -> Tensor:
    """0, 1, 2, ... within each run of equal entries, [R]."""
    place = torch.arange(len(owner))
    return place - torch.where(_is_first(owner), place, 0).cummax(0).values if len(owner) else place


def _warn_of(graphs: list[int]) -> None:
    for graph in graphs:
        warnings.warn(
            f"graph {graph} is so regular that another numbering of its nodes may get another answer",
            NumberingWarning,
            stacklevel=2,
        )


# ---- colours --------------------------------------------------------------------------------------------


def _first_colours(packed: PackedGraphs, kind: Tensor | None) -> Tensor:
    """Of features and roots, and of a number among twins, for all nodes of a set whose edges are of a `kind` [E].

    Twins have the same features and the same neighbours, so that they can be exchanged: any order of them will do.
    """
    total = len(packed.in_degree)
    colours = torch.zeros(total, dtype=torch.long) if packed.x is None else row_hashes(packed.x)
    if packed.roots is not None:
        slots = mix(torch.arange(1, packed.roots.shape[1] + 1)).expand_as(packed.roots)
        colours = colours.index_add(0, (packed.roots + packed.node_offsets[:-1, None]).flatten(), slots.flatten())
    colours = mix(colours + 1)
    return mix(colours + _number_among_twins(packed, colours, kind))


def _number_among_twins(packed: PackedGraphs, colours: Tensor, kind: Tensor | None) -> Tensor:
    """0, 1, 2, ... among nodes of one colour with the same neighbours along the same edges, both ways."""
    first = torch.repeat_interleave(packed.node_offsets[:-1], packed.num_edges)
    source, target = packed.edge_index + first
    name = mix(torch.arange(1, len(colours) + 1))
    kind = torch.zeros_like(source) if kind is None else kind
    # The graph is part of the key: nodes without neighbours have none to tell graphs by.
    seen = mix(torch.repeat_interleave(torch.arange(len(packed)), packed.num_nodes) + 1)
    seen.index_add_(0, target, mix(name[source] + kind)).index_add_(0, source, mix(name[target] + mix(kind + 1)))
    key = mix(seen) + colours
    order = torch.from_numpy(np.argsort(key.numpy(), kind="stable"))
    return torch.empty_like(key).scatter_(0, order, _number_within(key[order]))


def _stable(batch: GraphBatch, colours: Tensor) -> Tensor:
    """Colours [N] refined until the number of colours no longer grows, in each graph by itself.

    A graph's colours must not depend on the rounds that others of its batch take. The last round, which finds no more
    colours, is part of them: where all differ, it is what says which node has which neighbours.
    """
    count = _num_colours(batch, colours)
    resting = torch.zeros_like(count, dtype=torch.bool)
    while not bool(resting.all()):
        refined = _refined(batch, colours)
        new_count = _num_colours(batch, refined)
        colours = torch.where(resting[batch.node_graph], colours, refined)
        resting, count = resting | (new_count == count), torch.where(resting, count, new_count)
    return colours


def _refined(batch: GraphBatch, colours: Tensor) -> Tensor:
    """One round, [N].

    Edges lie in the order of their targets and sums of 64 bits wrap around, so a difference of running totals is a
    node's exact sum, several times as fast as adding up edge by edge.
    """
    messages = colours[batch.edge_index[0]]
    if batch.edge_attr is not None:
        messages = mix(messages + batch.edge_attr[:, 0])
    totals = torch.cat([messages.new_zeros(1), messages.cumsum(0)])
    return mix(totals[batch.edge_offsets[1:]] - totals[batch.edge_offsets[:-1]] + ODD * colours)


def _sorted_colours(batch: GraphBatch, colours: Tensor) -> np.ndarray:
    """The colours of each graph in order, [B, V], and `LAST` behind them."""
    return np.sort(batch.padded(colours, LAST).numpy(), axis=1)


def _num_colours(batch: GraphBatch, colours: Tensor) -> Tensor:
    """How many different colours each graph has, less one, [B]; with padding, which counts as a colour."""
    return torch.from_numpy((np.diff(_sorted_colours(batch, colours), axis=1) != 0).sum(axis=1))


def _hashes(batch: GraphBatch, colours: Tensor) -> Tensor:
    """The multiset of each graph's colours as a number, [B]."""
    return mix(torch.zeros(batch.num_graphs, dtype=torch.long).index_add_(0, batch.node_graph, mix(colours)))


def _rarest_shared(batch: GraphBatch, colours: Tensor) -> tuple[Tensor, Tensor]:
    """The nodes of one shared colour of each graph, and how many nodes share the commonest one.

    Of the rarest shared colours the smallest is taken; none where all colours differ.

    Shapes:
        colours: [N]; result: [N] of bool, [B].
    """
    ordered = _sorted_colours(batch, colours)
    place = np.arange(ordered.shape[1])
    edge = np.ones((len(ordered), 1), dtype=bool)
    begins = np.concatenate([edge, ordered[:, 1:] != ordered[:, :-1]], axis=1)
    ends = np.concatenate([begins[:, 1:], edge], axis=1)
    start = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    end = np.minimum.accumulate(np.where(ends, place, place[-1])[:, ::-1], axis=1)[:, ::-1]
    size = np.where(ordered != LAST, end - start + 1, 1)
    none = len(place) + 1
    shared = np.where(size > 1, size, none)
    at = shared.argmin(axis=1)[:, None]
    colour = np.where(np.take_along_axis(shared, at, 1) < none, np.take_along_axis(ordered, at, 1), LAST)
    return colours == torch.from_numpy(colour[:, 0])[batch.node_graph], torch.from_numpy(size.max(axis=1))


def _is_first_of_graph(batch: GraphBatch, which: Tensor) -> Tensor:
    """Which nodes are the first of their graph for which `which` [N] holds, [N]."""
    node = which.nonzero()[:, 0]
    return torch.zeros_like(which).index_fill_(0, node[_is_first(batch.node_graph[node])], True)
