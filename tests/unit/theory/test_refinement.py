"""Colour refinement of marked copies against an exact one without hashes, and against known facts."""

import itertools
from collections import Counter

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.data import load
from maggnn.data.synthetic.expressivity import csl8_pair, shrikhande_rook, sr25, super_graphs
from maggnn.errors import InputError
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.refined.copies import refine
from maggnn.model.tuples import all_tuples, sample_tuples
from maggnn.theory.refinement import (
    all_copy_hashes,
    compare,
    graph_hashes,
    mix,
    nearest_tuple,
    separating_order,
)


def random_graphs(seed, sizes, directed=False, features=True):
    """Small graphs with few features, so that many copies are alike."""
    generator = torch.Generator().manual_seed(seed)
    edges = []
    for n in sizes:
        part = (torch.rand(n, n, generator=generator) < 0.4).nonzero().T
        edges.append(part if directed else part[:, part[0] < part[1]])
    counts = torch.tensor([part.shape[1] for part in edges])
    x = torch.randint(2, (sum(sizes), 1), generator=generator) if features else None
    attr = torch.randint(2, (int(counts.sum()), 2), generator=generator).float() if features else None
    return PackedGraphs.build(
        torch.tensor(sizes), counts, torch.cat(edges, 1), x, attr, undirected_once=not directed
    )  # fmt: skip


def relabelled(packed, permutation):
    """One graph whose node v becomes permutation[v]."""
    x = None if packed.x is None else packed.x[permutation.argsort()]
    edges = permutation[packed.edge_index]
    return PackedGraphs.build(packed.num_nodes, packed.num_edges, edges, x, packed.edge_attr)


def single(packed, index):
    return packed.select(torch.tensor([index]))


def exact_keys(packed, tuples):
    """The reference: colours are numbers handed out by a dictionary, in as many rounds as the largest graph has nodes.

    One key a (graph, copy), equal just where refinement cannot tell copies apart.
    """
    names, keys = {}, {}
    rounds = int(packed.num_nodes.max()) + 1
    for graph in range(len(packed)):
        one = single(packed, graph)
        n, edges = int(one.num_nodes), one.edge_index.T.tolist()
        attr = [()] * len(edges) if one.edge_attr is None else [tuple(row) for row in one.edge_attr.tolist()]
        x = [()] * n if one.x is None else [tuple(row) for row in one.x.tolist()]
        for copy, own in enumerate(tuples[graph].tolist()):
            marks = [tuple(slot for slot, node in enumerate(own) if node == v) for v in range(n)]
            colours = [names.setdefault((x[v], marks[v]), len(names)) for v in range(n)]
            for _ in range(rounds):
                around = [
                    sorted((a, colours[u]) for (u, w), a in zip(edges, attr, strict=True) if w == v) for v in range(n)
                ]
                colours = [names.setdefault((colours[v], tuple(around[v])), len(names)) for v in range(n)]
            keys[graph, copy] = tuple(sorted(colours))
    return keys


def same_pattern(hashes, keys):
    """Whether numbers are equal just where keys are."""
    flat = [int(hashes[place]) for place in keys]
    return len(set(flat)) == len(set(keys.values())) == len(set(zip(flat, keys.values(), strict=True)))


# ---- copies ---------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    order=st.integers(0, 3),
    directed=st.booleans(),
    features=st.booleans(),
)
def test_hashes_equal_just_where_exact_colours_do(seed, sizes, order, directed, features):
    packed = random_graphs(seed, sizes, directed, features)
    batch = packed[torch.arange(len(sizes))]
    tuples = sample_tuples(batch, 8, order, torch.Generator().manual_seed(seed))
    assert same_pattern(refine(batch, tuples).hashes, exact_keys(packed, tuples))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), order=st.integers(0, 3), directed=st.booleans())
def test_relabelling_nodes_and_tuples_together_changes_nothing(seed, n, order, directed):
    packed = random_graphs(seed, [n], directed)
    generator = torch.Generator().manual_seed(seed)
    permutation = torch.randperm(n, generator=generator)
    ids, other = torch.tensor([0]), relabelled(packed, permutation)
    tuples = sample_tuples(packed[ids], 5, order, generator)
    assert refine(packed[ids], tuples).hashes.tolist() == refine(other[ids], permutation[tuples]).hashes.tolist()
    assert graph_hashes(packed, order).hashes == graph_hashes(other, order).hashes
    assert not compare(packed, other, order).differ


def test_other_graphs_other_tuples_and_padding_change_nothing():
    packed = random_graphs(3, [5, 1, 7, 2])
    batch = packed[torch.arange(4)]
    tuples = sample_tuples(batch, 6, 2, torch.Generator().manual_seed(0))
    together = refine(batch, tuples).hashes
    for graph, copy in itertools.product(range(4), range(6)):
        alone = refine(packed[torch.tensor([graph])], tuples[graph : graph + 1, copy : copy + 1]).hashes
        assert alone.item() == together[graph, copy]
    padded = packed.gather(torch.arange(4), packed.rounded_size(torch.arange(4)))
    assert padded.padding and torch.equal(refine(padded, tuples).hashes, together)


def test_slots_and_repeated_marks_count():
    path = pack_networkx([nx.path_graph(3)])[torch.tensor([0])]
    tuples = torch.tensor([[[0, 2], [2, 0], [0, 1], [1, 0], [1, 1], [0, 0]]])
    first, second, *others = refine(path, tuples).hashes[0].tolist()
    assert first == second  # the path read backwards
    assert len({first, *others}) == 5


def test_number_of_colours():
    graphs = pack_networkx([nx.path_graph(4), nx.empty_graph(4), nx.complete_graph(4)])[torch.arange(3)]
    none, one = torch.zeros(3, 1, 0, dtype=torch.long), torch.zeros(3, 1, 1, dtype=torch.long)
    assert refine(graphs, none).num_colours[:, 0].tolist() == [2, 1, 1]
    assert refine(graphs, one).num_colours[:, 0].tolist() == [4, 2, 2]


def test_refinement_goes_as_far_as_a_long_path():
    """The end of a path is felt at the other end only after as many rounds as it has nodes."""
    graphs = [nx.path_graph(60), nx.path_graph(60)]
    for graph, far in zip(graphs, (0, 1), strict=True):
        nx.set_node_attributes(graph, {v: [0] for v in graph}, "x")
        graph.nodes[59]["x"] = [far]
    batch = pack_networkx(graphs)[torch.arange(2)]
    refined = refine(batch, torch.zeros(2, 1, 1, dtype=torch.long))
    assert refined.hashes[0] != refined.hashes[1] and refined.num_colours.tolist() == [[60], [60]]


def test_mixing_is_well_spread():
    numbers = torch.arange(-50_000, 50_000)
    mixed = mix(numbers)
    bits = (mixed[:, None] >> torch.arange(64)) & 1
    assert len(mixed.unique()) == len(numbers)
    assert ((bits.double().mean(0) - 0.5).abs() < 0.01).all()
    flipped = mix(numbers[:1000, None] ^ (1 << torch.arange(64))) ^ mixed[:1000, None]  # [numbers, bit]
    changed = ((flipped[..., None] >> torch.arange(64)) & 1).double()
    assert ((changed.mean((0, 2)) - 0.5).abs() < 0.02).all()


def test_minus_zero_is_zero():
    graph = nx.path_graph(2)
    other = graph.copy()
    nx.set_node_attributes(graph, [0.0], "x")
    nx.set_node_attributes(other, [-0.0], "x")
    hashes = graph_hashes(pack_networkx([graph, other]), 0).hashes
    assert hashes[0] == hashes[1]


# ---- graphs and pairs -----------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), order=st.integers(0, 2), features=st.booleans())
def test_comparison_equals_the_exact_multisets(seed, n, order, features):
    packed = random_graphs(seed, [n, n], features=features)
    tuples = all_tuples(n, order).expand(2, -1, -1)
    keys = exact_keys(packed, tuples)
    first, second = (Counter(keys[graph, copy] for copy in range(n**order)) for graph in (0, 1))
    found = compare(single(packed, 0), single(packed, 1), order, shares=True)
    assert found.differ == (first != second)
    tells = [
        [keys[graph, copy] not in other for copy in range(n**order)] for graph, other in enumerate((second, first))
    ]
    if not any(tells[0]) and not any(tells[1]):
        assert found.witness is None
        return
    own = tells[0 if any(tells[0]) else 1]
    assert found.witness_graph == (0 if any(tells[0]) else 1)
    assert found.witness == tuple(tuples[0, own.index(True)].tolist())
    assert found.share == pytest.approx(sum(own) / len(own))
    hurried = compare(single(packed, 0), single(packed, 1), order)
    assert (hurried.witness, hurried.witness_graph, hurried.share) == (found.witness, found.witness_graph, None)


def test_chunks_change_nothing(monkeypatch):
    packed = random_graphs(7, [4, 6, 4, 5, 6, 4])
    whole, copies = graph_hashes(packed, 2), all_copy_hashes(single(packed, 1), 2)
    monkeypatch.setattr("maggnn.model.refined.copies.CELLS", 50)
    chunked = graph_hashes(packed, 2)
    assert torch.equal(whole.hashes, chunked.hashes) and torch.equal(whole.discrete, chunked.discrete)
    assert torch.equal(all_copy_hashes(single(packed, 1), 2), copies)


def test_all_copies_come_in_lexicographic_order():
    packed = random_graphs(11, [5, 5])
    expected = refine(packed[torch.arange(2)], all_tuples(5, 2).expand(2, -1, -1)).hashes
    assert torch.equal(all_copy_hashes(packed, 2), expected)


def test_all_graphs_of_up_to_six_nodes():
    """One mark tells apart all that no marks confuse: pairs such as two triangles and a hexagon."""
    graphs = [graph for graph in nx.graph_atlas_g() if 1 <= len(graph) <= 6]
    packed = pack_networkx(graphs)
    assert len(graph_hashes(packed, 0).hashes.unique()) < len(graphs)
    assert len(graph_hashes(packed, 1).hashes.unique()) == len(graphs) == 208


@pytest.mark.parametrize(
    ("graphs", "order"),
    [(csl8_pair(), 1), (shrikhande_rook(), 2), (super_graphs(2), 2)],
    ids=["csl8", "srg16", "super"],
)
def test_separating_order(graphs, order):
    found = separating_order(single(graphs, 0), single(graphs, 1), 3)
    assert found.differ and found.order == order and found.witness is not None
    assert not compare(single(graphs, 0), single(graphs, 1), order - 1).differ


def test_strongly_regular_graphs_need_two_marks():
    assert len(graph_hashes(sr25(), 1).hashes.unique()) == 1
    assert len(graph_hashes(sr25(), 2).hashes.unique()) == 15


def test_shrikhande_and_rook_differ_on_adjacent_nodes():
    """Adjacent nodes have two common neighbours in either: joined to each other in the rook's graph alone."""
    first, second = single(shrikhande_rook(), 0), single(shrikhande_rook(), 1)
    found = compare(first, second, 2, shares=True)
    assert found.witness == (0, 1) and 0 < (found.share or 0) < 1
    nearest, rounds = nearest_tuple(first, second, found.witness)
    assert list(nearest) in second.edge_index.T.tolist() and rounds == 1


def test_isomorphic_graphs_are_known_where_marks_name_all_nodes():
    path, star = pack_networkx([nx.path_graph(4)]), pack_networkx([nx.star_graph(5)])
    assert separating_order(path, relabelled(path, torch.tensor([2, 0, 3, 1]))).isomorphic
    unnamed = separating_order(star, star, 2)
    assert not unnamed.differ and not unnamed.isomorphic and unnamed.order == 2


def test_features_tell_without_marks():
    graph, other = nx.path_graph(3), nx.path_graph(3)
    nx.set_edge_attributes(graph, {(0, 1): [1.0], (1, 2): [2.0]}, "edge_attr")
    nx.set_edge_attributes(other, {(0, 1): [1.0], (1, 2): [1.0]}, "edge_attr")
    found = separating_order(pack_networkx([graph]), pack_networkx([other]), shares=True)
    assert found.order == 0 and found.differ and found.witness == () and found.share == 1.0


def test_tiny_graphs():
    one, two = pack_networkx([nx.empty_graph(1)]), pack_networkx([nx.empty_graph(2)])
    assert not compare(one, one, 3).differ  # k > |V|
    assert compare(one, two, 3, shares=True).witness == (0, 0, 0)
    assert not separating_order(two, two, 4).differ
    assert compare(two, pack_networkx([nx.path_graph(2)]), 0).differ


def test_what_cannot_be_compared():
    both = csl8_pair()
    with pytest.raises(InputError, match="2 and 1 graphs"):
        compare(both, single(both, 0), 1)
    with pytest.raises(InputError, match="too many to try"):
        compare(single(both, 0), single(both, 1), 12)
    with pytest.raises(InputError, match="order -1"):
        graph_hashes(both, -1)


# ---- data sets ------------------------------------------------------------------------------------------


def brec_pairs(packed_data, categories=None):
    """(category, first, second) of each pair."""
    brec = load("brec")
    names = [str(brec.extra["category_names"][number]) for number in brec.extra["pair_category"]]
    return [
        (name, single(brec.graphs, 2 * pair), single(brec.graphs, 2 * pair + 1))
        for pair, name in enumerate(names)
        if categories is None or name in categories
    ]


@pytest.mark.dataset
def test_one_mark_solves_brec_basic_and_regular_and_no_strongly_regular_pair(packed_data):
    found = Counter()
    for name, first, second in brec_pairs(packed_data, {"basic", "regular", "str"}):
        found[name, separating_order(first, second, 1).differ] += 1
    assert found == {("basic", True): 60, ("regular", True): 50, ("str", False): 50}


@pytest.mark.slow
@pytest.mark.dataset
def test_ceilings_of_brec(packed_data):
    """Pairs told apart by k marks: 0, 251 and 378 of 400, 377 of them by a single tuple of order two."""
    told, telling = Counter(), 0
    for name, first, second in brec_pairs(packed_data):
        found = separating_order(first, second, 2)
        told.update((k, name) for k in range(found.order, 3) if found.differ)
        telling += found.witness is not None
    assert sum(count for (k, _), count in told.items() if k == 0) == 0
    assert {name: told[1, name] for k, name in told if k == 1} == {
        "basic": 60, "regular": 50, "extension": 100, "cfi": 41
    }  # fmt: skip
    assert {name: told[2, name] for k, name in told if k == 2} == {
        "basic": 60, "regular": 50, "str": 50, "extension": 100, "cfi": 80, "4vtx": 20, "dr": 18
    }  # fmt: skip
    assert telling == 377


@pytest.mark.dataset
def test_one_mark_tells_the_pairs_of_exp_apart(packed_data):
    graphs = load("exp").graphs
    none, one = (graph_hashes(graphs, order).hashes.view(-1, 2) for order in (0, 1))
    assert (none[:, 0] == none[:, 1]).all() and (one[:, 0] != one[:, 1]).all()
