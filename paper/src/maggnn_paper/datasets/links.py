"""Link prediction that message passing cannot do unless the pair is part of its input: rings of equivalent nodes.

The nodes of a ring are linked to the nodes at distance one and three along the ring; the links at distance two are
hidden. A pair with a hidden link has three common neighbours, and other pairs have at most two, so the pair together
determines the answer. But all nodes of a ring are equivalent, so embeddings that are computed for each node
independently are all equal and carry no information about a pair. If the pair is marked in the input (`links`), any GNN
can solve the task; if only the readout knows it (`links_unmarked`), marks have to break the symmetry. In this case the
Q-network does not see the pair, so it can only find nodes that are informative about many pairs. Sizes in `val` and
`test` do not occur in `train`. All hidden links of one ring are equivalent, so there is one orbit for each size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from maggnn.data.dataset import Dataset, DatasetEntry, Fact
from maggnn.data.own_file import official_split
from maggnn.data.splits import PARTS
from maggnn.data.synthetic.rooted import rooted_at_pairs
from maggnn.data.synthetic.sets import all_equal
from maggnn.graphs.packed import PackedGraphs

SIZES = range(13, 63)
"""From 13 nodes on the second, fourth and sixth next nodes are different ones and no neighbours."""

SHOWN, HIDDEN = (1, 3), 2
PAIRS_A_RING = 16
SEED = 2023


def hidden_links(marked: bool) -> tuple[PackedGraphs, Mapping[str, np.ndarray]]:
    """One graph for each pair, half of which have a hidden link, with the two nodes as roots; then the parts.

    Args:
        marked: whether the two nodes are marked in `x`; otherwise only the readout knows them.
    """
    generator = torch.Generator().manual_seed(SEED)
    rings = [_ring(n, generator) for n in SIZES]
    packed = PackedGraphs.build(
        torch.tensor(SIZES),
        torch.tensor([edges.shape[1] for edges, _, _ in rings]),
        torch.cat([edges for edges, _, _ in rings], dim=1),
        undirected_once=True,
    )
    graph = torch.repeat_interleave(torch.arange(len(rings)), PAIRS_A_RING)
    pairs, y = torch.cat([pairs for _, pairs, _ in rings]), torch.cat([y for _, _, y in rings])
    rooted = rooted_at_pairs(packed, graph, pairs, y)
    part = torch.tensor([{0: 2, 1: 1}.get(number % 5, 0) for number in range(len(rings))])[graph]
    parts = {name: (part == number).nonzero()[:, 0].numpy() for number, name in enumerate(PARTS)}
    return rooted if marked else replace(rooted, x=None), parts


def _ring(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Edges [2, E], pairs [P, 2] and whether each hides a tie [P], with the nodes renamed at random."""
    name = torch.randperm(n, generator=generator)
    node = torch.arange(n)
    edges = torch.cat([torch.stack([node, (node + jump) % n]) for jump in SHOWN], dim=1)
    others = torch.tensor([jump for jump in range(1, n // 2 + 1) if jump not in (*SHOWN, HIDDEN)])
    first = torch.randint(n, (PAIRS_A_RING,), generator=generator)
    jump = others[torch.randint(len(others), (PAIRS_A_RING,), generator=generator)]
    y = torch.arange(PAIRS_A_RING) % 2
    jump = torch.where(y == 1, HIDDEN, jump)
    return name[edges], name[torch.stack([first, (first + jump) % n], dim=1)], y


def _load_links(name: str, marked: bool) -> Dataset:
    graphs, parts = hidden_links(marked)
    names = ("no tie", "hidden tie")
    return Dataset(name, graphs, "classification", 2, official_split, names, metric="auroc", extra=parts)


def _links_facts(dataset: Dataset) -> list[Fact]:
    assert dataset.graphs.roots is not None
    roots = dataset.graphs.roots
    shared = torch.tensor(
        [_common_neighbours(dataset.graphs, number, *roots[number].tolist()) for number in range(len(dataset.graphs))]
    )
    return [
        ("every node has four neighbours", all_equal(dataset.graphs.in_degree, 4)),
        ("half of the pairs hide a tie", int(dataset.y.sum()) * 2 == len(dataset.graphs)),
        ("those have three neighbours in common", all_equal(shared[dataset.y == 1], 3)),
        ("the others at most two", bool((shared[dataset.y == 0] <= 2).all())),
    ]


def _common_neighbours(graphs: PackedGraphs, number: int, first: int, second: int) -> int:
    source, target = graphs.edge_index[:, graphs.edge_offsets[number] : graphs.edge_offsets[number + 1]]
    return len(set(source[target == first].tolist()) & set(source[target == second].tolist()))


def _links_entry(name: str) -> DatasetEntry:
    marked = name == "links"
    how = "marked" if marked else "known to the readout only"
    return DatasetEntry(
        f"hidden links of rings, one graph for each pair, whose nodes are {how}",
        len(SIZES) * PAIRS_A_RING,
        "generated",
        lambda: _load_links(name, marked),
        _links_facts,
    )


ENTRIES: dict[str, DatasetEntry] = {name: _links_entry(name) for name in ("links", "links_unmarked")}
"""Rows of the visible table."""
