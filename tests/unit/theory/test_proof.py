"""Proofs about two graphs: never wrong on any graphs, compared with networkx and with the search over all tuples."""

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.data import load
from maggnn.data.synthetic.expressivity import csl8_pair, shrikhande_rook, sr25
from maggnn.errors import InputError
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.pretrained import AGENTS
from maggnn.theory import proof as proofs
from maggnn.theory.individualisation import OneGraph, Path, isomorphism
from maggnn.theory.proof import prove
from maggnn.theory.proposals import components, greedy, proposer
from maggnn.theory.refinement import compare
from maggnn.theory.symmetries import Symmetries


def single(packed, index):
    return packed.select(torch.tensor([index]))


def relabelled(packed, seed):
    """The same graph with its nodes in another order."""
    image = torch.randperm(int(packed.num_nodes), generator=torch.Generator().manual_seed(seed))
    x = None if packed.x is None else packed.x[image.argsort()]
    return PackedGraphs.build(packed.num_nodes, packed.num_edges, image[packed.edge_index], x, packed.edge_attr)


def graph(nodes, edges, x=None, edge_attr=None, directed=False):
    edge_index = torch.tensor(sorted(edges), dtype=torch.long).reshape(-1, 2).T
    sizes = torch.tensor([nodes]), torch.tensor([edge_index.shape[1]])
    return PackedGraphs.build(*sizes, edge_index, x, edge_attr, undirected_once=not directed)


def networkx_graph(packed):
    """With features as plain attributes."""
    made = nx.DiGraph()
    for node in range(int(packed.num_nodes)):
        made.add_node(node, x=() if packed.x is None else tuple(packed.x[node].tolist()))
    for number, (source, target) in enumerate(packed.edge_index.T.tolist()):
        attr = () if packed.edge_attr is None else tuple(packed.edge_attr[number].tolist())
        made.add_edge(source, target, attr=attr)
    return made


def same(first, second):
    """Whether networkx finds an isomorphism, features included."""
    return nx.is_isomorphic(
        networkx_graph(first),
        networkx_graph(second),
        node_match=lambda a, b: a["x"] == b["x"],
        edge_match=lambda a, b: a["attr"] == b["attr"],
    )


def assert_maps(first, second, mapping):
    """Whether a mapping takes one graph to the other, worked out with sets."""
    assert sorted(mapping) == list(range(int(first.num_nodes)))
    own, other = networkx_graph(first), networkx_graph(second)
    assert {(mapping[u], mapping[v], data["attr"]) for u, v, data in own.edges(data=True)} == {
        (u, v, data["attr"]) for u, v, data in other.edges(data=True)
    }
    assert all(own.nodes[node]["x"] == other.nodes[mapping[node]]["x"] for node in own)


def random_tuple(seed):
    """A proposer that knows nothing."""
    generator = torch.Generator().manual_seed(seed)
    return lambda packed, order: tuple(torch.randint(int(packed.num_nodes), (order,), generator=generator).tolist())


@st.composite
def graphs(draw, most_nodes=8):
    """All that may be packed: directed or not, self-loops, several components, no edges at all, few features."""
    nodes, directed = draw(st.integers(1, most_nodes)), draw(st.booleans())
    pairs = [(u, v) for u in range(nodes) for v in range(nodes) if directed or u <= v]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=2 * nodes))
    seed = draw(st.integers(0, 99))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(2, (nodes, 1), generator=generator) if draw(st.booleans()) else None
    attr = torch.randint(2, (len(edges), 2), generator=generator).float() if draw(st.booleans()) else None
    return graph(nodes, edges, x, attr, directed)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(0, 99), st.integers(0, 8), st.booleans())
def test_relabelled_graphs_never_differ(packed, seed, order, is_greedy):
    other = relabelled(packed, seed)
    found = prove(packed, other, greedy if is_greedy else random_tuple(seed), order)
    assert found.verdict in (("isomorphic",) if order == 8 else ("isomorphic", "undecided"))
    if found.mapping is not None:
        assert_maps(packed, other, found.mapping)


@settings(max_examples=100, deadline=None)
@given(graphs(6), graphs(6), st.integers(0, 99), st.integers(0, 6))
def test_any_two_graphs_against_networkx(first, second, seed, order):
    if (first.x is None) != (second.x is None) or (first.edge_attr is None) != (second.edge_attr is None):
        return
    check(first, second, prove(first, second, random_tuple(seed), order))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([(2, 8), (3, 8), (3, 10), (4, 9)]), st.integers(0, 10**6), st.integers(0, 3), st.booleans())
def test_regular_graphs_against_networkx(shape, seed, order, is_greedy):
    first, second = (nx.random_regular_graph(*shape, seed=seed + step) for step in (0, 1))
    packed = pack_networkx([first]), pack_networkx([second])
    check(*packed, prove(*packed, greedy if is_greedy else random_tuple(seed), order))
    whole = prove(*packed, random_tuple(seed), 10)  # so many marks always decide
    assert whole.verdict == ("isomorphic" if nx.is_isomorphic(first, second) else "differ")


def check(first, second, found):
    """What a proof says must be true, and what it says differs must differ in the search over all tuples."""
    if found.verdict == "isomorphic":
        assert_maps(first, second, found.mapping)
    elif found.verdict == "differ":
        assert not same(first, second)
        if not found.symmetries and int(first.num_nodes) ** found.order < 10_000:
            assert compare(first, second, found.order).differ


# ---- known pairs ----------------------------------------------------------------------------------------


def furer(base, twisted):
    """The graph of Cai, Fürer and Immerman over a base graph; twisted, one of its nodes takes odd subsets."""
    made, odd = nx.Graph(), {next(iter(base))} if twisted else set()
    for node in base:
        around = [tuple(sorted((node, other))) for other in base[node]]
        for subset in range(1 << len(around)):
            if subset.bit_count() % 2 == (node in odd):
                made.add_edges_from(((node, subset), (edge, subset >> place & 1)) for place, edge in enumerate(around))
    return pack_networkx([nx.convert_node_labels_to_integers(made)])


def test_known_pairs():
    hexagon, triangles = nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    packed = pack_networkx([hexagon, triangles])
    assert prove(single(packed, 0), single(packed, 1), greedy).order == 1
    for pair, order in ((csl8_pair(), 1), (shrikhande_rook(), 2)):
        found = prove(single(pair, 0), single(pair, 1), greedy)
        assert (found.verdict, found.order) == ("differ", order) and found.candidates > 0
        assert prove(single(pair, 0), single(pair, 1), greedy, order - 1).verdict == "undecided"
    path, star = pack_networkx([nx.path_graph(5)]), pack_networkx([nx.star_graph(4)])
    assert (found := prove(path, star, greedy)).verdict == "differ" and found.order == 0
    assert prove(path, pack_networkx([nx.path_graph(6)]), greedy).order == 0


def test_strongly_regular_graphs_with_25_nodes():
    every = sr25()
    for number in range(1, len(every)):
        found = prove(single(every, 0), single(every, number), greedy)
        assert found.verdict == "differ" and found.order == 2


@pytest.mark.parametrize("seed", [1, 2])
def test_survivors_that_multiply_with_every_mark(seed):
    base = nx.random_regular_graph(3, 20, seed=seed)
    plain, twisted = furer(base, twisted=False), relabelled(furer(base, twisted=True), seed)
    found = prove(plain, twisted, greedy, 100)
    assert found.verdict == "differ" and found.symmetries > 0 and found.candidates < 2000
    again = prove(twisted, relabelled(twisted, seed), greedy, 100)
    assert again.verdict == "isomorphic"
    assert_maps(twisted, relabelled(twisted, seed), again.mapping)


def test_which_marks_are_interchangeable():
    """In a cycle all first marks are, and both neighbours at equal distance; a path's end and middle are not."""
    cycle = Path(OneGraph(pack_networkx([nx.cycle_graph(9)])))
    cycle.mark(0)
    cycle.mark(2)
    symmetries = Symmetries(cycle)
    assert symmetries.interchangeable(1) and symmetries.interchangeable(2) and symmetries.found >= 2
    pair = shrikhande_rook()
    edges = torch.cat([single(pair, 0).edge_index, single(pair, 1).edge_index + 16], dim=1)
    both = PackedGraphs.build(torch.tensor([32]), torch.tensor([edges.shape[1]]), edges)
    path = Path(OneGraph(both))
    path.mark(0)  # looks like a node of the other component, but is not equivalent to it
    assert not Symmetries(path).interchangeable(1)


def test_a_rare_component_is_found():
    """One of 20 components differs; one mark looks alike everywhere."""
    shrikhande, rook = (nx.Graph(single(shrikhande_rook(), side).edge_index.T.tolist()) for side in (0, 1))
    equal, odd = (nx.disjoint_union_all([rook] * 19 + [last]) for last in (rook, shrikhande))
    found = prove(pack_networkx([equal]), relabelled(pack_networkx([odd]), 0), greedy)
    assert found.verdict == "differ" and found.order == 2 and found.witness_graph == 1


def test_large_graphs():
    first, second = (pack_networkx([nx.random_regular_graph(3, 3000, seed=seed)]) for seed in (0, 1))
    told: list[tuple[int, int]] = []
    found = prove(first, second, random_tuple(0), progress=lambda *state: told.append(state))
    assert found.verdict == "differ" and found.order == 1 and found.candidates == 3000 and told[-1] == (3000, 3000)
    assert prove(first, relabelled(first, 0), random_tuple(0)).verdict == "isomorphic"


def test_too_many_candidates_are_undecided(monkeypatch):
    monkeypatch.setattr(proofs, "MOST_CELLS", 50)
    pair = shrikhande_rook()
    found = prove(single(pair, 0), single(pair, 1), greedy)
    assert found.verdict == "undecided" and found.exhausted


def test_equal_colours_are_no_proof():
    """Colours that correspond where edges or features do not, as those of a collision of hashes would."""
    colours, path = torch.arange(4), [(0, 1), (1, 2), (2, 3)]
    x, attr = torch.zeros(4, 1), torch.zeros(3, 1)
    first = OneGraph(graph(4, path, x, attr))
    for other in (
        graph(4, [(0, 1), (1, 3), (2, 3)], x, attr),
        graph(4, path, torch.eye(4)[:, :1], attr),
        graph(4, path, x, torch.eye(3)[:, :1]),
        graph(4, path, None, attr),
        graph(4, path, x, None),
    ):
        assert isomorphism(first, colours, OneGraph(other), colours) is None
    assert isomorphism(first, colours, first, colours).tolist() == [0, 1, 2, 3]
    assert isomorphism(first, colours, first, colours.flip(0)).tolist() == [3, 2, 1, 0]
    assert isomorphism(first, colours, first, colours + 1) is None


# ---- proposers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGENTS)
def test_agents_propose(name):
    pair, propose = shrikhande_rook(), proposer(name)
    found = prove(single(pair, 0), single(pair, 1), propose, 2)
    assert found.verdict == "differ" and found.order == 2
    assert propose(single(pair, 0), 2) == propose(single(pair, 0), 2)
    with pytest.raises(InputError, match="order 2"):
        propose(single(pair, 0), 1)


def test_agents_read_no_features():
    other = graph(6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)], torch.ones(6, 3), torch.ones(6, 2))
    assert prove(other, relabelled(other, 0), proposer("rings"), 6).verdict == "isomorphic"


def test_components():
    packed = graph(6, [(4, 2), (2, 0), (5, 3)], directed=True)
    assert components(packed).tolist() == [0, 1, 0, 3, 0, 3]
    assert components(pack_networkx([nx.path_graph(1000)])).unique().tolist() == [0]


def test_bad_input():
    pair = shrikhande_rook()
    with pytest.raises(InputError, match="2 and 1 graphs"):
        prove(pair, single(pair, 0), greedy)
    with pytest.raises(InputError, match="order -1"):
        prove(single(pair, 0), single(pair, 1), greedy, -1)


# ---- published pairs ------------------------------------------------------------------------------------


@pytest.mark.dataset
@pytest.mark.parametrize(("name", "pairs"), [("exp", 12), ("brec", 60)])
def test_published_pairs(name, pairs, packed_data):
    """All of these pairs differ; orders are checked against the search over all tuples."""
    every, told = load(name).graphs, 0
    for number in range(pairs):
        first, second = single(every, 2 * number), single(every, 2 * number + 1)
        found = prove(first, second, greedy)
        told += found.verdict == "differ"
        assert found.verdict != "isomorphic"
        check(first, second, found)
        assert prove(first, relabelled(first, number), greedy).verdict != "differ"
    assert told == pairs
