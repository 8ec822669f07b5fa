"""Cycles of random graphs, counted through each node or each edge, from one packed file with its official split."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from maggnn.data.dataset import Dataset, DatasetEntry
from maggnn.data.own_file import official_split
from maggnn.data.splits import PARTS
from maggnn.data.synthetic.rooted import graphs_of_roots, rooted_at_nodes, rooted_at_pairs
from maggnn_paper.cycles import cycles_through_edges
from maggnn_paper.datasets.packed_sets import facts_of_parts, packed_file, with_targets

CYCLES = (3, 4, 5, 6)
"""Lengths counted, one a column of the file."""


def _cycle(length: int) -> Dataset:
    """Counts through each node, in units of their spread over the training nodes, as the literature reports them."""
    graphs, extra = packed_file("cycle")
    assert graphs.y is not None
    train = graphs_of_roots(graphs, torch.from_numpy(extra["train"]))
    graphs = with_targets(graphs, _standardised(graphs.y[:, CYCLES.index(length)], train))
    return Dataset(f"cycle{length}", graphs, "regression", 1, official_split, metric="mae", extra=extra)


def _cycle_nodes(length: int) -> Dataset:
    """The same targets, one rooted graph for each node, which then has its own tuples and reward."""
    dataset = _cycle(length)
    parts = {name: graphs_of_roots(dataset.graphs, torch.from_numpy(dataset.extra[name])) for name in PARTS}
    extra = {name: ids.numpy() for name, ids in parts.items()}
    graphs = rooted_at_nodes(dataset.graphs)
    return replace(dataset, name=f"cycle{length}_nodes", graphs=graphs, extra=extra)


def _cycle_edges(length: int) -> Dataset:
    """Cycles through each undirected edge, one graph for each edge with its two nodes as roots; standardised too."""
    graphs, extra = packed_file("cycle")
    graph = torch.repeat_interleave(torch.arange(len(graphs)), graphs.num_edges)
    once = graphs.edge_index[0] < graphs.edge_index[1]
    counts, graph, pairs = cycles_through_edges(graphs, length)[once], graph[once], graphs.edge_index[:, once].T
    parts = {name: torch.isin(graph, torch.from_numpy(extra[name])).nonzero()[:, 0] for name in PARTS}
    y = _standardised(counts, parts["train"]).reshape(-1, 1)
    rooted = rooted_at_pairs(graphs, graph, pairs, y)
    extra = {name: ids.numpy() for name, ids in parts.items()}
    return Dataset(f"cycle{length}_edges", rooted, "regression", 1, official_split, metric="mae", extra=extra)


def _standardised(counts: Tensor, train: Tensor) -> Tensor:
    """In units of the spread over the rows `train`."""
    known = counts[train].float()
    return (counts.float() - known.mean()) / known.std(correction=0)


def _cycle_entry(length: int) -> DatasetEntry:
    what = f"{length}-cycles through each node of random graphs, standardised"
    facts = facts_of_parts(1500, 1000, 2500, 18.80, 31.34)
    return DatasetEntry(what, 5000, "data root", lambda: _cycle(length), facts)


def _cycle_nodes_entry(length: int) -> DatasetEntry:
    what = f"the same {length}-cycles, one graph for each node, which is its root"
    facts = facts_of_parts(28_485, 18_820, 46_695, 21.71, 34.75)
    return DatasetEntry(what, 94_000, "data root", lambda: _cycle_nodes(length), facts)


def _cycle_edges_entry(length: int) -> DatasetEntry:
    what = f"{length}-cycles through each edge, one graph for each edge, whose nodes are its roots"
    facts = facts_of_parts(47_385, 31_405, 77_905, 20.85, 33.88)
    return DatasetEntry(what, 156_695, "data root", lambda: _cycle_edges(length), facts)


ENTRIES: dict[str, DatasetEntry] = {
    **{f"cycle{length}": _cycle_entry(length) for length in CYCLES},
    **{f"cycle{length}_nodes": _cycle_nodes_entry(length) for length in CYCLES},
    **{f"cycle{length}_edges": _cycle_edges_entry(length) for length in CYCLES},
}
"""Rows of the visible table."""
