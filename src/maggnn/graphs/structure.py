"""What the edges alone say of each node: its subgraph centrality, who is how far, and where random walks return.

All come from powers of small dense matrices, so a data set gets them once (`with_structure`) and a batch that has none
makes its own. Centrality (Estrada and Rodriguez-Velazquez 2005) orders the nodes for deterministic starts; return
probabilities (Dwivedi et al. 2022) are further features: that of a ring's atom tells the ring's size. So are counts of
distances: how far a molecule extends is more than a few layers can see.

Shapes: N nodes of the batch, V the largest graph's, S steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, pairwise

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs

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

WALKS = 1 + FARTHEST
"""The first column of return probabilities: centrality and the counts of distances come before."""


def random_walk(graphs: GraphBatch, steps: int) -> Tensor:
    """The probability that a walk is back where it began after 2, 3, ..., steps + 1 steps, [N, steps]."""
    return node_structure(graphs, steps)[:, WALKS : WALKS + steps]


def distances_and_walks(graphs: GraphBatch, steps: int) -> Tensor:
    """How many nodes are 1, 2, ..., FARTHEST edges away, then `random_walk`, [N, FARTHEST + steps].

    Nodes that no path leads to are not counted, and which way an edge goes does not matter.
    """
    return node_structure(graphs, steps)[:, 1 : WALKS + steps]


def centrality(graphs: GraphBatch) -> Tensor:
    """Subgraph centrality of each node, [N]: closed walks through it, short ones counting most."""
    return node_structure(graphs, 0)[:, 0]


def with_structure(packed: PackedGraphs, steps: int) -> PackedGraphs:
    """The same set with the structure of every node worked out, [total nodes, WALKS + steps]."""
    if packed.structure is not None and packed.structure.shape[1] >= WALKS + steps:
        return packed
    structure = torch.empty(len(packed.in_degree), WALKS + steps, device=packed.device)
    for chunk in like_sized(packed.num_nodes, lambda size: size**2, packed.device):
        batch = packed[chunk]
        row = packed.device_offsets[0][chunk.to(packed.device)][batch.node_graph] + batch.local_id
        structure[row] = _from_powers(batch, steps)
    return replace(packed, structure=structure)


def node_structure(graphs: GraphBatch, steps: int) -> Tensor:
    """All columns of each node's structure, [N, WALKS + steps] or more."""
    if graphs.structure is not None and graphs.structure.shape[1] >= WALKS + steps:
        return graphs.structure
    return graphs.derived(f"structure {steps}", lambda: _from_powers(graphs, steps))


def _from_powers(graphs: GraphBatch, steps: int) -> Tensor:
    """Centrality, then the counts of distances, then the return probabilities, [N, WALKS + steps]."""
    edges = adjacency(graphs)  # [B, V, V]
    degree = edges.sum(dim=2, keepdim=True).clamp(min=1)
    exponential = torch.ones(edges.shape[:2], dtype=torch.float64, device=graphs.device)  # the term of s = 0
    exact = term = edges.double()
    for s in range(1, CENTRALITY_TERMS + 1):
        exponential = exponential + term.diagonal(dim1=1, dim2=2)
        term = term @ exact / (s + 1)
    exponential = exponential.round(decimals=DECIMALS).float()
    walk = power = edges / degree
    columns = [exponential, *_counts(either_way(edges))]
    for _ in range(steps):
        power = power @ walk
        columns.append(power.diagonal(dim1=1, dim2=2))
    table = torch.stack(columns, dim=-1)  # [B, V, WALKS + steps]
    return table[graphs.node_graph, graphs.local_id.clamp(max=graphs.max_num_nodes - 1)]


def _counts(edges: Tensor) -> list[Tensor]:
    """How many nodes are 1, 2, ... steps away, FARTHEST tables [B, V]."""
    columns, near = [], edges
    for closer, near in islice(pairwise(balls(edges)), FARTHEST - 1):
        columns.append((near - closer).sum(dim=2))
    squarings = max(1, edges.shape[1].bit_length())  # until every path fits
    reached = near
    for _ in range(squarings):
        reached = ((reached @ reached) > 0).float()
    return [*columns, (reached - near).sum(dim=2)]


def like_sized(sizes: Tensor, cells: Callable[[int], int], device: torch.device) -> Iterator[Tensor]:
    """All graphs of a set in chunks of like size, which need little padding: ids, the largest graphs first.

    Args:
        sizes: of each graph, [G].
        cells: the entries that dense matrices have for a graph, by the size of the largest graph of a chunk.
        device: where the matrices are made, which bounds how many entries a chunk may have.
    """
    most = min(CELLS_A_CHUNK, CELLS_IN_CACHE) if device.type == "cpu" else CELLS_A_CHUNK
    by_size = sizes.argsort(descending=True)
    first = 0
    while first < len(by_size):
        count = max(1, most // max(1, cells(int(sizes[by_size[first]]))))
        yield by_size[first : first + count]
        first += count


def balls(edges: Tensor) -> Iterator[Tensor]:
    """Which nodes are within 0, 1, 2, ... steps of each, without end: [B, V, V] of 0 and 1, [from, to] as `edges`."""
    near = torch.eye(edges.shape[1], dtype=edges.dtype, device=edges.device).expand_as(edges)
    while True:
        yield near
        near = ((near @ edges + near) > 0).to(edges.dtype)


def either_way(edges: Tensor) -> Tensor:
    """Whether two nodes are joined in one direction or the other, [B, V, V]."""
    return ((edges + edges.transpose(1, 2)) > 0).to(edges.dtype)


def adjacency(graphs: GraphBatch) -> Tensor:
    """Dense, [B, V, V] as [target, source]; edges of padding add nothing."""
    source, target = graphs.edge_index
    shape = (graphs.num_graphs, graphs.max_num_nodes, graphs.max_num_nodes)
    dense = torch.zeros(shape, device=graphs.device)
    local = graphs.local_id.clamp(max=graphs.max_num_nodes - 1)
    weight = torch.ones(len(source), device=graphs.device)
    if graphs.is_real is not None:
        weight = graphs.is_real[target].float()
    return dense.index_put_((graphs.node_graph[target], local[target], local[source]), weight, accumulate=True)


def between(table: Tensor, graphs: GraphBatch, a: Tensor, b: Tensor) -> Tensor:
    """Entries [a, b] of a table [B, V, V], for nodes of one graph by their ids in the batch, of any one shape."""
    return table[graphs.node_graph[a], graphs.local_id[a], graphs.local_id[b]]
