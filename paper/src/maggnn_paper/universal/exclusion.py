"""Graphs that are excluded from training: those of published tests and of our own test families, however numbered.

A graph is left out where one mark cannot distinguish it from a test graph: the multisets of its copies with one mark,
refined, are equal (`maggnn.theory.refinement.graph_hashes` of order 1). Isomorphic graphs always agree in that, and so
do the graphs of one strongly regular family, distance-regular graphs of one intersection array and the two CFI graphs
over one base graph. So whole families stay out, and a strongly regular family is named by one of its graphs.

A graph and its complement have equal stable colourings, marks or not: seeing one of them is seeing the other. The
complements of regular test graphs are therefore left out as well; the other test graphs are sparse, and their
complements too dense to be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from maggnn.data import registry
from maggnn.graphs.packed import PackedGraphs
from maggnn.theory.refinement import graph_hashes
from maggnn_paper.universal import classical
from maggnn_paper.universal.classical import Adjacency

PUBLISHED = ("brec", "exp", "csl", "shrikhande_rook", "sr26")
"""Data sets whose graphs and their kin stay out."""

REPRESENTATIVES: dict[str, Callable[[], Adjacency]] = {
    "sr25": lambda: classical.paley(25),
    "sr28": lambda: classical.triangular(8),
    "sr29": lambda: classical.paley(29),
    "sr35": lambda: classical.steiner_block_graph(15),
    "sr36": lambda: classical.latin_square_graph([np.add.outer(np.arange(6), np.arange(6)) % 6]),
    "sr40": lambda: classical.symplectic(3, 3),
}
"""One graph of each strongly regular family that stays out: one mark cannot distinguish it from the others."""


def packed(graphs: Sequence[Adjacency]) -> PackedGraphs:
    """Graphs as a set without features."""
    ends = [np.argwhere(np.triu(graph)) for graph in graphs]
    edges = np.concatenate(ends) if ends else np.zeros((0, 2), dtype=int)
    return PackedGraphs.build(
        num_nodes=torch.tensor([len(graph) for graph in graphs], dtype=torch.long),
        num_edges=torch.tensor([len(pairs) for pairs in ends], dtype=torch.long),
        edge_index=torch.from_numpy(edges.T.copy()),
        undirected_once=True,
    )


def unpacked(graphs: PackedGraphs) -> list[Adjacency]:
    """The adjacency of each graph of a set."""
    result = []
    for number in range(len(graphs)):
        begin, end = graphs.edge_offsets[number], graphs.edge_offsets[number + 1]
        adjacency = np.zeros((int(graphs.num_nodes[number]),) * 2, dtype=bool)
        adjacency[tuple(graphs.edge_index[:, begin:end].numpy())] = True
        result.append(adjacency)
    return result


def bare(graphs: PackedGraphs) -> PackedGraphs:
    """The graphs without features and targets."""
    return replace(graphs, x=None, edge_attr=None, y=None, roots=None, structure=None, rings=None, level="graph")


def one_mark_hashes(graphs: Sequence[Adjacency]) -> np.ndarray:
    """One number for each graph, equal for graphs that one mark cannot distinguish, [G]."""
    return graph_hashes(packed(graphs), order=1).hashes.numpy()


def hashes_of(graphs: Iterable[Adjacency]) -> np.ndarray:
    """The hashes that the graphs forbid, sorted: their own and, of regular graphs, those of their complements."""
    own = list(graphs)
    others = [classical.complement(graph) for graph in own if len(set(graph.sum(1))) == 1]
    return np.unique(one_mark_hashes([*own, *others]))


@cache
def published_hashes() -> np.ndarray:
    """What the published test sets forbid, sorted; they are read from the data root or made by code."""
    graphs = [graph for name in PUBLISHED for graph in unpacked(bare(registry.load(name).graphs))]
    return hashes_of([*graphs, *(make() for make in REPRESENTATIVES.values())])


def allowed(graphs: Sequence[Adjacency], forbidden: np.ndarray) -> np.ndarray:
    """Which graphs training may see, [G]."""
    return ~np.isin(one_mark_hashes(graphs), forbidden)
