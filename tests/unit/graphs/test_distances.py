"""Distances equal those of NetworkX, by breadth first and from the table, and colour refinement knows them already."""

import networkx as nx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import packed_edges, random_edges, seeded
from maggnn.graphs.distances import FARTHEST, breadth_first, distances_from, with_distances
from maggnn.model.tuples import sample_tuples
from maggnn_paper.equivariance import stable_colours


def random_set(sizes, density, directed, seed):
    generator = seeded(seed)
    edges = random_edges(sizes, density, generator)
    if directed:
        flip = [torch.rand(len(part), generator=generator) < 0.5 for part in edges]
        edges = [torch.where(turn[:, None], part.flip(1), part) for turn, part in zip(flip, edges, strict=True)]
    return packed_edges(sizes, edges, undirected=not directed)


def from_networkx(graphs, tuples):
    """The distance from each marked node along the edges, [N, m, k]."""
    result = torch.full((graphs.total_nodes, *tuples.shape[1:]), FARTHEST)
    whole = nx.DiGraph()
    whole.add_nodes_from(range(graphs.total_nodes))
    whole.add_edges_from(graphs.edge_index.T.tolist())
    for graph, own in enumerate(tuples.tolist()):
        for m, marked in enumerate(own):
            for k, node in enumerate(marked):
                start = int(graphs.first_node[graph]) + node
                for target, length in nx.single_source_shortest_path_length(whole, start).items():
                    result[target, m, k] = min(length, FARTHEST)
    return result


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 24), min_size=1, max_size=4),
    density=st.sampled_from([0.0, 0.06, 0.12, 0.4]),
    directed=st.booleans(),
    padded=st.booleans(),
    tuple_order=st.integers(1, 3),
    seed=st.integers(0, 999),
)
def test_distances_equal_networkx(sizes, density, directed, padded, tuple_order, seed):
    packed = random_set(sizes, density, directed, seed)
    ids = torch.tensor([*range(len(sizes)), 0])
    size = packed.rounded_size(ids) if padded else packed.size_of(ids)
    tuples = sample_tuples(packed[ids], 2, tuple_order, torch.Generator().manual_seed(seed))
    real = int(packed.num_nodes[ids].sum())
    expected = from_networkx(packed[ids], tuples)[:real]
    assert torch.equal(breadth_first(packed.gather(ids, size), tuples)[:real], expected)
    stored = with_distances(packed)
    assert stored.pairs is not None
    assert torch.equal(distances_from(stored.gather(ids, size), tuples)[:real], expected)
    alone = stored.select(ids)  # a part of a set still knows its distances
    assert torch.equal(distances_from(alone[torch.arange(len(ids))], tuples), expected)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 16), min_size=1, max_size=3),
    density=st.sampled_from([0.1, 0.25, 0.5]),
    directed=st.booleans(),
    tuple_order=st.integers(1, 2),
    seed=st.integers(0, 999),
)
def test_refinement_of_binary_marks_knows_all_distances(sizes, density, directed, tuple_order, seed):
    """Nodes of equal stable colour in copies with binary marks have equal distances: see `DistanceMarking`."""
    graphs = random_set(sizes, density, directed, seed)[torch.arange(len(sizes))]
    tuples = sample_tuples(graphs, 3, tuple_order, torch.Generator().manual_seed(seed))
    colours = stable_colours(graphs, tuples).flatten()  # [N * m]
    distances = distances_from(graphs, tuples).flatten(0, 1)  # [N * m, k]
    known: dict[int, list[int]] = {}
    for colour, own in zip(colours.tolist(), distances.tolist(), strict=True):
        assert known.setdefault(colour, own) == own
