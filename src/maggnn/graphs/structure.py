"""What the edges alone say of each node: its subgraph centrality, who is how far, and where random walks return.

All come from powers of small dense matrices, so a data set gets them once (`with_structure`) and a batch that has none
makes its own. Centrality (Estrada and Rodriguez-Velazquez 2005) orders the nodes for deterministic starts; return
probabilities (Dwivedi et al. 2022) are further features: that of a ring's atom tells the ring's size. So are counts of
distances: how far a molecule extends is more than a few layers can see.

Shapes: N nodes of the batch, V the largest graph's, S steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, pairwise

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch, sum_rows, values_known
from maggnn.graphs.packed import TOGETHER, PackedGraphs

CENTRALITY_TERMS = 12
"""Terms of exp(A)_vv = sum of (A^s)_vv / s!: molecules have degrees up to 4, whose 12th term is below a thousandth."""

DECIMALS = 4
"""Of centralities: equal ones must come out equal, whatever the order of sums was."""

CELLS_A_CHUNK = 8_000_000
"""Entries of the dense matrices [B, V, V] that are held at once."""

CELLS_IN_CACHE = 100_000
"""The same on a CPU, whose caches hold no more: several times faster on molecules."""


FARTHEST = 12
"""Distances that are counted one by one; farther nodes count as this far."""

SQUARINGS = 10
"""In exported programs: enough for paths of up to 11 * 2^10 edges."""

WALKS = 1 + FARTHEST
"""The first column of return probabilities: centrality and the counts of distances come before."""


def random_walk(graphs: GraphBatch, steps: int) -> Tensor:
    """The probability that a walk is back where it began after 2, 3, ..., steps + 1 steps, [N, steps]."""
    if _is_stored(graphs, steps):
        return node_structure(graphs, steps)[:, WALKS : WALKS + steps]
    return graphs.derived(f"walks {steps}", lambda: _at_nodes(graphs, _returns(adjacency(graphs), steps)))


def distances_and_walks(graphs: GraphBatch, steps: int) -> Tensor:
    """How many nodes are 1, 2, ..., FARTHEST edges away, then `random_walk`, [N, FARTHEST + steps].

    Nodes that no path leads to are not counted, and which way an edge goes does not matter.
    """
    if _is_stored(graphs, steps):
        return node_structure(graphs, steps)[:, 1 : WALKS + steps]

    def make() -> Tensor:
        edges = adjacency(graphs)
        return _at_nodes(graphs, [*_counts(either_way(edges)), *_returns(edges, steps)])

    return graphs.derived(f"distances and walks {steps}", make)


def centrality(graphs: GraphBatch) -> Tensor:
    """Subgraph centrality of each node, [N]: closed walks through it, short ones counting most."""
    if _is_stored(graphs, 0):
        return node_structure(graphs, 0)[:, 0]
    return graphs.derived("centrality", lambda: _at_nodes(graphs, [_centrality(adjacency(graphs))]))[:, 0]


def with_structure(packed: PackedGraphs, steps: int, distances: bool = True) -> PackedGraphs:
    """The same set with the structure of every node worked out, [total nodes, WALKS + steps].

    Args:
        steps: Of the random walks.
        distances: Whether nodes at each distance are counted, which is a quarter of the work and few models read.
            Without it their columns are NaN: a model that reads them all the same has no answer, rather than a wrong
            one.
    """
    if packed.structure is not None and packed.structure.shape[1] >= WALKS + steps:
        counted = not len(packed.structure) or not bool(packed.structure[0, 1].isnan())
        if counted or not distances:
            return packed
    structure = packed.room((len(packed.in_degree), WALKS + steps), torch.get_default_dtype())
    for chunk in like_sized(packed, packed.num_nodes, lambda size: size**2):
        batch = packed[chunk]
        row = packed.device_offsets[0][chunk.to(packed.device)][batch.node_graph] + batch.local_id
        structure[row] = _from_powers(batch, steps, distances)
    return replace(packed, structure=structure)


def node_structure(graphs: GraphBatch, steps: int) -> Tensor:
    """All columns of each node's structure, [N, WALKS + steps] or more."""
    if graphs.structure is not None and _is_stored(graphs, steps):
        return graphs.structure
    return graphs.derived(f"structure {steps}", lambda: _from_powers(graphs, steps))


def _is_stored(graphs: GraphBatch, steps: int) -> bool:
    return graphs.structure is not None and graphs.structure.shape[1] >= WALKS + steps


def _from_powers(graphs: GraphBatch, steps: int, distances: bool = True) -> Tensor:
    """Centrality, counts of distances (NaN if not asked for) and return probabilities, [N, WALKS + steps]."""
    edges = adjacency(graphs)  # [B, V, V]
    counts = _counts(either_way(edges)) if distances else [torch.full_like(edges[:, :, 0], torch.nan)] * FARTHEST
    return _at_nodes(graphs, [_centrality(edges), *counts, *_returns(edges, steps)])


def _at_nodes(graphs: GraphBatch, columns: list[Tensor]) -> Tensor:
    """Tables [B, V] as columns of the nodes, [N, columns]."""
    local = graphs.local_id.clamp(max=graphs.max_num_nodes - 1)  # of padding: any node
    cell = graphs.node_graph * graphs.max_num_nodes + local
    return torch.stack(columns, dim=-1).flatten(0, 1).index_select(0, cell)


def _centrality(edges: Tensor) -> Tensor:
    """Subgraph centrality from dense edges [B, V, V], in double precision and then rounded: [B, V].

    Powers are made up to half the terms, since (A^(h + s))_vv is the sum over u of (A^h)_vu (A^s)_uv.
    """
    powers = [edges if _are_exact(edges) else edges.double()]
    while 2 * len(powers) < CENTRALITY_TERMS:
        powers.append(powers[-1] @ powers[0])
    closed = [power.diagonal(dim1=1, dim2=2) for power in powers]  # (A^s)_vv
    closed += [torch.linalg.vecdot(powers[-1], power.transpose(1, 2)) for power in powers]
    total = torch.ones_like(closed[0], dtype=torch.float64)  # the term of s = 0
    for s, walks in enumerate(closed, start=1):
        total = total + walks.double() / math.factorial(s)
    return ((total * 10**DECIMALS).round() / 10**DECIMALS).float()


def _are_exact(edges: Tensor) -> bool:
    """Whether numbers of walks [B, V, V] are whole numbers that single precision holds, in which it is twice as fast.

    Of walks of s steps no more than d^s begin at a node, where d is the largest degree: up to 4, that of molecules.
    """
    if not values_known(edges) or not edges.numel():
        return False
    return float(edges.sum(dim=2).max()) ** CENTRALITY_TERMS <= 2**24


def _returns(edges: Tensor, steps: int) -> list[Tensor]:
    """Probabilities that a walk is back after 2, 3, ..., steps + 1 steps, `steps` tables [B, V]."""
    walk = power = edges / edges.sum(dim=2, keepdim=True).clamp(min=1)
    columns = []
    for _ in range(steps):
        power = power @ walk
        columns.append(power.diagonal(dim1=1, dim2=2))
    return columns


def _counts(edges: Tensor) -> list[Tensor]:
    """How many nodes are 1, 2, ... steps away, FARTHEST tables [B, V]."""
    within = list(islice(balls(edges), FARTHEST))
    reached = within[-1]
    for _ in range(_squarings(edges.shape[1])):
        reached = (reached @ reached).clamp_(max=1)
    sizes = [ball.sum(dim=2) for ball in (*within, reached)]
    return [larger - smaller for smaller, larger in pairwise(sizes)]


def _squarings(size: int) -> int:
    """How often to square what lies within FARTHEST - 1 steps until every path of a graph with `size` nodes fits.

    A size that is a symbol, in a program that is being traced, is not known: then `SQUARINGS`.
    """
    return ((size - 1) // (FARTHEST - 1)).bit_length() if isinstance(size, int) else SQUARINGS


def like_sized(
    packed: PackedGraphs, sizes: Tensor, cells: Callable[[int], int], in_cache: int = CELLS_IN_CACHE
) -> Iterator[Tensor]:
    """All graphs of a set in chunks of like size, which need little padding: ids, the largest graphs first.

    Those of a mapped set come in blocks of neighbours, so that its pages are read once.

    Args:
        packed: the set; where it is bounds how many entries a chunk may have.
        sizes: of each graph, [G].
        cells: the entries that dense matrices have for a graph, by the size of the largest graph of a chunk.
        in_cache: how many entries a chunk may have on a CPU.
    """
    most = min(CELLS_A_CHUNK, in_cache) if packed.device.type == "cpu" else CELLS_A_CHUNK
    block = max(1, len(sizes) if packed.folder is None else TOGETHER)
    for begin in range(0, len(sizes), block):
        by_size = begin + sizes[begin : begin + block].argsort(descending=True)
        first = 0
        while first < len(by_size):
            count = max(1, most // max(1, cells(int(sizes[by_size[first]]))))
            yield by_size[first : first + count]
            first += count


def balls(edges: Tensor) -> Iterator[Tensor]:
    """Which nodes are within 0, 1, 2, ... steps of each, without end: [B, V, V] of 0 and 1, [from, to] as `edges`."""
    itself = torch.eye(edges.shape[1], dtype=edges.dtype, device=edges.device)
    near, step = itself.expand_as(edges), edges + itself
    while True:
        yield near
        near = (near @ step).clamp_(max=1)


def either_way(edges: Tensor) -> Tensor:
    """Whether two nodes are joined in one direction or the other, [B, V, V]."""
    return ((edges + edges.transpose(1, 2)) > 0).to(edges.dtype)


def adjacency(graphs: GraphBatch) -> Tensor:
    """Dense, [B, V, V] as [target, source]; edges of padding add nothing."""
    source, target = graphs.edge_index[0], graphs.edge_index[1]
    count, size = graphs.num_graphs, graphs.max_num_nodes
    local = graphs.local_id.clamp(max=size - 1)
    weight = torch.ones_like(source, dtype=torch.float32)
    if graphs.is_real is not None:
        weight = graphs.is_real[target].float()
    row = graphs.node_graph * size + local  # of each node in [B V, V]
    cell = row.index_select(0, target) * size + local.index_select(0, source)
    return sum_rows(weight, cell, count * size * size).reshape(count, size, size)


def between(table: Tensor, graphs: GraphBatch, a: Tensor, b: Tensor) -> Tensor:
    """Entries [a, b] of a table [B, V, V], for nodes of one graph by their ids in the batch, of any one shape."""
    return table[graphs.node_graph[a], graphs.local_id[a], graphs.local_id[b]]
