"""Cycles of a batch, each found once; checked against NetworkX."""

import networkx as nx
import pytest
import torch

from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs
from maggnn_paper.baselines.gsn import cycle_counts
from maggnn_paper.cycles import chordless_cycles, cycles_through_edges, neighbours, simple_cycles

LARGEST = 6
GRAPHS = [
    nx.gnp_random_graph(8, 0.5, seed=1),
    nx.path_graph(1),
    nx.empty_graph(3),
    nx.cycle_graph(LARGEST + 1),  # too large a ring to be found
    nx.complete_graph(5),
    nx.gnp_random_graph(10, 0.3, seed=2),
    nx.petersen_graph(),
]


def canonical(cycle):
    """From the smallest node on, towards the smaller of its neighbours."""
    at = cycle.index(min(cycle))
    turned = cycle[at:] + cycle[:at]
    return tuple(turned if turned[1] < turned[-1] else turned[:1] + turned[:0:-1])


def expected(cycles):
    cycles = [canonical(list(cycle)) for cycle in cycles if 3 <= len(cycle) <= LARGEST]
    return [sorted(cycle for cycle in cycles if len(cycle) == size) for size in range(3, LARGEST + 1)]


def batches():
    packed, ids = pack_networkx(GRAPHS), torch.arange(len(GRAPHS))
    return {"exact": packed[ids], "padded": packed.gather(ids, packed.rounded_size(ids))}


def rows(found):
    return [sorted(map(tuple, cycles.tolist())) for cycles in found]


@pytest.mark.parametrize("room", ["exact", "padded"])
def test_all_cycles_once(room):
    near, graph = neighbours(batches()[room]), nx.disjoint_union_all(GRAPHS)
    assert rows(simple_cycles(near, LARGEST)) == expected(nx.simple_cycles(graph, LARGEST))
    assert rows(chordless_cycles(near, LARGEST)) == expected(nx.chordless_cycles(graph, LARGEST))


def test_directions_and_loops_do_not_matter():
    once = PackedGraphs.build(torch.tensor([3]), torch.tensor([4]), torch.tensor([[0, 2, 1, 1], [1, 1, 1, 0]]))
    triangle = PackedGraphs.build(torch.tensor([3]), torch.tensor([3]), torch.tensor([[0, 2, 0], [1, 1, 2]]))
    assert [len(cycles) for cycles in simple_cycles(neighbours(once[torch.arange(1)]), 3)] == [0]
    assert rows(simple_cycles(neighbours(triangle[torch.arange(1)]), 3)) == [[(0, 1, 2)]]


@pytest.mark.parametrize("room", ["exact", "padded"])
def test_counts(room):
    graphs, graph = batches()[room], nx.disjoint_union_all(GRAPHS)
    of_nodes, of_edges = (counts.expm1().round().long() for counts in cycle_counts(graphs, LARGEST))
    assert of_nodes.shape == (graphs.total_nodes, LARGEST - 2)
    for column, cycles in enumerate(expected(nx.simple_cycles(graph, LARGEST))):
        assert of_nodes[: len(graph), column].tolist() == [sum(node in cycle for cycle in cycles) for node in graph]
        sides = [{*zip(cycle, cycle[1:] + cycle[:1], strict=True)} for cycle in cycles]
        edges = graphs.edge_index.T.tolist()[: 2 * graph.number_of_edges()]
        through = [sum((u, v) in side or (v, u) in side for side in sides) for u, v in edges]
        assert of_edges[: len(edges), column].tolist() == through


@pytest.mark.parametrize("length", [3, 4, 5, 6, 7])
def test_cycles_through_edges_equal_enumeration(length):
    graphs = [nx.gnp_random_graph(8, 0.4, seed=seed) for seed in range(6)] + [nx.petersen_graph()]
    packed = pack_networkx(graphs)
    counts = cycles_through_edges(packed, length).split(packed.num_edges.tolist())
    edges = packed.edge_index.split(packed.num_edges.tolist(), dim=1)
    for graph, found, pairs in zip(graphs, counts, edges, strict=True):
        expected = dict.fromkeys(map(frozenset, graph.edges), 0)
        for cycle in nx.simple_cycles(graph, length_bound=length):
            if len(cycle) == length:
                for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
                    expected[frozenset((a, b))] += 1
        assert found.tolist() == [expected[frozenset(pair)] for pair in pairs.T.tolist()]
