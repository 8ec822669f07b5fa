"""Structural features of nodes, computed from the edges: subgraph centrality, counts of distances, and random walks.

All come from powers of small dense matrices, so they are computed once for a data set (`with_structure`), or for a
batch that has none. Centrality (Estrada and Rodriguez-Velazquez 2005) orders the nodes for deterministic starts. Return
probabilities of random walks (Dwivedi et al. 2022) are additional features: for an atom in a ring, they show the ring's
size. So are counts of distances, because a few layers cannot see how large a molecule is.

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
"""The number of terms of exp(A)_vv = sum of (A^s)_vv / s!: for degrees up to 4, the 12th term is below a thousandth."""

DECIMALS = 4
"""The decimals of centralities: equal ones must be equal for any order of summation."""

CELLS_A_CHUNK = 8_000_000
"""The number of entries of dense matrices [B, V, V] at a time."""

CELLS_IN_CACHE = 100_000
"""The same on a CPU, where matrices that fit into the caches are several times faster for molecules."""


FARTHEST = 12
"""The largest distance that is counted separately; farther nodes count as this distance."""

SQUARINGS = 10
"""The number of squarings in exported programs: enough for paths of up to 11 * 2^10 edges."""

WALKS = 1 + FARTHEST
"""The first column of return probabilities, after centrality and the counts of distances."""


def random_walk(graphs: GraphBatch, steps: int) -> Tensor:
    """Return the probabilities that a random walk is at its start after 2, 3, ..., steps + 1 steps, [N, steps]."""
    if _is_stored(graphs, steps):
        return node_structure(graphs, steps)[:, WALKS : WALKS + steps]
    return graphs.derived(f"walks {steps}", lambda: _at_nodes(graphs, _returns(adjacency(graphs), steps)))


def distances_and_walks(graphs: GraphBatch, steps: int) -> Tensor:
    """Return the numbers of nodes 1, 2, ..., FARTHEST edges away, then `random_walk`, [N, FARTHEST + steps].

    Unreachable nodes are not counted, and the direction of edges does not matter.
    """
    if _is_stored(graphs, steps):
        return node_structure(graphs, steps)[:, 1 : WALKS + steps]

    def make() -> Tensor:
        edges = adjacency(graphs)
        return _at_nodes(graphs, [*_counts(as_undirected(edges)), *_returns(edges, steps)])

    return graphs.derived(f"distances and walks {steps}", make)


def centrality(graphs: GraphBatch) -> Tensor:
    """Return the subgraph centrality of each node, [N]: closed walks through it, with larger weights of short ones."""
    if _is_stored(graphs, 0):
        return node_structure(graphs, 0)[:, 0]
    return graphs.derived("centrality", lambda: _at_nodes(graphs, [_centrality(adjacency(graphs))]))[:, 0]


def with_structure(packed: PackedGraphs, steps: int, distances: bool = True) -> PackedGraphs:
    """Return the same set with precomputed structural features of every node, [total nodes, WALKS + steps].

    Args:
        steps: The number of steps of the random walks.
        distances: Whether to count nodes at each distance, which is a quarter of the work and rarely read. Otherwise
            these columns are NaN, so that a model that reads them gives NaN and not a wrong answer.
    """
    if packed.structure is not None and packed.structure.shape[1] >= WALKS + steps:
        counted = not len(packed.structure) or not bool(packed.structure[0, 1].isnan())
        if counted or not distances:
            return packed
    structure = packed.room((len(packed.in_degree), WALKS + steps), torch.get_default_dtype())
    for chunk in chunks_of_similar_size(packed, packed.num_nodes, lambda size: size**2):
        batch = packed[chunk]
        row = packed.device_offsets[0][chunk.to(packed.device)][batch.node_graph] + batch.local_id
        structure[row] = _from_powers(batch, steps, distances)
    return replace(packed, structure=structure)


def node_structure(graphs: GraphBatch, steps: int) -> Tensor:
    """Return all structural features of each node, [N, WALKS + steps] or more columns."""
    if graphs.structure is not None and _is_stored(graphs, steps):
        return graphs.structure
    return graphs.derived(f"structure {steps}", lambda: _from_powers(graphs, steps))


def _is_stored(graphs: GraphBatch, steps: int) -> bool:
    return graphs.structure is not None and graphs.structure.shape[1] >= WALKS + steps


def _from_powers(graphs: GraphBatch, steps: int, distances: bool = True) -> Tensor:
    """Compute centrality, counts of distances (or NaN) and return probabilities, [N, WALKS + steps]."""
    edges = adjacency(graphs)  # [B, V, V]
    counts = _counts(as_undirected(edges)) if distances else [torch.full_like(edges[:, :, 0], torch.nan)] * FARTHEST
    return _at_nodes(graphs, [_centrality(edges), *counts, *_returns(edges, steps)])


def _at_nodes(graphs: GraphBatch, columns: list[Tensor]) -> Tensor:
    """Convert tables [B, V] to columns of the nodes, [N, columns]."""
    local = graphs.local_id.clamp(max=graphs.max_num_nodes - 1)  # any node for padding
    cell = graphs.node_graph * graphs.max_num_nodes + local
    return torch.stack(columns, dim=-1).flatten(0, 1).index_select(0, cell)


def _centrality(edges: Tensor) -> Tensor:
    """Compute subgraph centrality from dense edges [B, V, V], in double precision and then rounded: [B, V].

    Powers are computed for half of the terms, since (A^(h + s))_vv is the sum over u of (A^h)_vu (A^s)_uv.
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
    """Whether numbers of walks [B, V, V] are exact in single precision, which is twice as fast.

    At most d^s walks of s steps begin at a node, where d is the largest degree; d up to 4, as in molecules, is exact.
    """
    if not values_known(edges) or not edges.numel():
        return False
    return float(edges.sum(dim=2).max()) ** CENTRALITY_TERMS <= 2**24


def _returns(edges: Tensor, steps: int) -> list[Tensor]:
    """Return the probabilities that a walk is at its start after 2, 3, ..., steps + 1 steps, `steps` tables [B, V]."""
    walk = power = edges / edges.sum(dim=2, keepdim=True).clamp(min=1)
    columns = []
    for _ in range(steps):
        power = power @ walk
        columns.append(power.diagonal(dim1=1, dim2=2))
    return columns


def _counts(edges: Tensor) -> list[Tensor]:
    """Return the numbers of nodes 1, 2, ... steps away, FARTHEST tables [B, V]."""
    within = list(islice(balls(edges), FARTHEST))
    reached = within[-1]
    for _ in range(_squarings(edges.shape[1])):
        reached = (reached @ reached).clamp_(max=1)
    sizes = [ball.sum(dim=2) for ball in (*within, reached)]
    return [larger - smaller for smaller, larger in pairwise(sizes)]


def _squarings(size: int) -> int:
    """Return how often to square reachability within FARTHEST - 1 steps to cover all paths of a graph of `size` nodes.

    For a symbolic size, in a program that is being traced, it is `SQUARINGS`.
    """
    return ((size - 1) // (FARTHEST - 1)).bit_length() if isinstance(size, int) else SQUARINGS


def chunks_of_similar_size(
    packed: PackedGraphs, sizes: Tensor, cells: Callable[[int], int], in_cache: int = CELLS_IN_CACHE
) -> Iterator[Tensor]:
    """Yield the ids of all graphs of a set in chunks of similar size, which need little padding, largest graphs first.

    The chunks of a mapped set are within blocks of neighbours, so that its pages are read once.

    Args:
        packed: the set; its device determines how many entries a chunk may have.
        sizes: the size of each graph, [G].
        cells: the entries of dense matrices for a graph, as a function of the size of a chunk's largest graph.
        in_cache: the largest number of entries of a chunk on a CPU.
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
    """Yield endlessly which nodes are within 0, 1, 2, ... steps of each: 0 or 1, [B, V, V] as [from, to]."""
    itself = torch.eye(edges.shape[1], dtype=edges.dtype, device=edges.device)
    near, step = itself.expand_as(edges), edges + itself
    while True:
        yield near
        near = (near @ step).clamp_(max=1)


def as_undirected(edges: Tensor) -> Tensor:
    """Return whether two nodes are joined in either direction, [B, V, V]."""
    return ((edges + edges.transpose(1, 2)) > 0).to(edges.dtype)


def adjacency(graphs: GraphBatch) -> Tensor:
    """Return the dense adjacency matrices, [B, V, V] as [target, source], without edges of padding."""
    source, target = graphs.edge_index[0], graphs.edge_index[1]
    count, size = graphs.num_graphs, graphs.max_num_nodes
    local = graphs.local_id.clamp(max=size - 1)
    weight = torch.ones_like(source, dtype=torch.float32)
    if graphs.is_real is not None:
        weight = graphs.is_real[target].float()
    row = graphs.node_graph * size + local  # the row of each node in [B V, V]
    cell = row.index_select(0, target) * size + local.index_select(0, source)
    return sum_rows(weight, cell, count * size * size).reshape(count, size, size)
