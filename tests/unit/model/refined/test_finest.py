"""`agent.start = "finest"`: the rule against its definition, and answers that do not depend on the numbering."""

import itertools
from collections import Counter

import networkx as nx
import pytest
import torch

from builders import all_of, hexagon_and_triangles, random_molecules, renumbered, seeded
from maggnn.config import AgentConfig, EncoderConfig
from maggnn.data.synthetic.expressivity import csl, shrikhande_rook, sr25
from maggnn.data.synthetic.rooted import rooted_at_nodes
from maggnn.errors import InputError
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.engine import Engine
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.refined import finest
from maggnn.model.refined.copies import refine
from maggnn.model.refined.finest import finest_starts, finest_tuples, with_finest

REGULAR = pack_networkx([nx.random_regular_graph(degree, 12, seed=degree) for degree in (3, 4, 5)])
MIXED = random_molecules([4, 7, 1, 7, 6], 0.4, seeded(5))


def finest_model(packed: PackedGraphs, m: int, k: int, marking: str = "binary", **agent) -> MagGNN:
    torch.manual_seed(0)
    return MagGNN(
        3,
        node_features=FeatureSpec.of(packed.x),
        edge_features=FeatureSpec.of(packed.edge_attr),
        encoder=EncoderConfig(num_layers=4, hidden=16, marking=marking, conv="gin" if packed.x is None else "gine"),
        agent=AgentConfig(**{"num_tuples": m, "tuple_order": k, "num_moves": 0, "start": "finest", **agent}),
    ).eval()


def by_definition(packed: PackedGraphs, graph: int, m: int, k: int) -> list[int]:
    """The hashes of the m copies that the rule takes, in order."""
    batch = packed[torch.tensor([graph])]
    tuples = torch.tensor(list(itertools.product(range(int(batch.num_nodes)), repeat=k)))
    hashes, colours = (values[0].tolist() for values in refine(batch, tuples[None]))
    times = Counter(value for value, count in zip(hashes, colours, strict=True) if count == max(colours))
    ordered = sorted(times, key=lambda value: (times[value], value))
    return [ordered[place % len(ordered)] for place in range(m)]


@pytest.mark.parametrize(("m", "k"), [(1, 1), (3, 2), (9, 1), (40, 2), (2, 3)])
def test_the_rule_is_its_definition(m, k):
    chosen = finest_tuples(MIXED, m, k)
    assert chosen.shape == (len(MIXED), m, k)
    hashes = refine(all_of(MIXED), chosen).hashes
    assert hashes.tolist() == [by_definition(MIXED, graph, m, k) for graph in range(len(MIXED))]


def test_numbering_does_not_change_what_is_chosen():
    for seed in range(5):
        other = renumbered(MIXED, seed)
        ours, theirs = (refine(all_of(graphs), finest_tuples(graphs, 4, 2)).hashes for graphs in (MIXED, other))
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("marking", ["binary", "distance"])
@pytest.mark.parametrize(
    "graphs", [shrikhande_rook(), sr25().select(torch.arange(4)), REGULAR, csl().select(torch.arange(0, 150, 40))],
    ids=["srg16", "srg25", "regular", "csl"],
)  # fmt: skip
def test_predictions_do_not_depend_on_the_numbering(graphs, marking):
    model = finest_model(graphs, 3, 2, marking)
    with torch.no_grad():
        answers = model(all_of(model.precomputed(graphs)))
        for seed in range(3):
            other = model.precomputed(renumbered(graphs, seed))
            torch.testing.assert_close(model(all_of(other)), answers, rtol=0, atol=1e-5)
    assert len(answers.unique(dim=0)) > 1  # and they do distinguish graphs


def test_a_set_has_its_tuples_once_and_every_batch_finds_them():
    model = finest_model(MIXED, 3, 2)
    prepared, ids = model.precomputed(MIXED), torch.tensor([4, 1, 1])
    assert model.precomputed(prepared) is prepared
    assert with_finest(prepared, 2, 2).finest.shape == (5, 2, 2)  # another m asks anew
    expected = finest_tuples(MIXED, 3, 2)[ids]
    padded = prepared.gather(ids, prepared.rounded_size(ids))
    by_hand = MIXED.gather(ids, MIXED.rounded_size(ids))  # with padding, and nothing worked out
    for batch in (prepared[ids], padded, prepared.select(ids)[torch.arange(3)], MIXED[ids], by_hand):
        assert torch.equal(model.starts(batch), expected)
    assert torch.equal(model.starts(prepared[ids], count=2), expected.repeat(1, 2, 1))
    assert finest_starts(by_hand, 3, 2) is finest_starts(by_hand, 3, 2)  # once for a batch, too


def test_the_engine_answers_as_the_model():
    model = finest_model(MIXED, 3, 2)
    with torch.no_grad():
        expected = model(all_of(MIXED))
    torch.testing.assert_close(Engine(model, device="cpu").predict(MIXED), expected, rtol=1e-4, atol=1e-4)


def test_rooted_graphs_are_marked_by_what_their_roots_make_of_them():
    """Tuples of the graphs without roots would be those of other graphs."""
    rooted = rooted_at_nodes(with_finest(hexagon_and_triangles(), 1, 1))
    assert rooted.finest is None and finest_tuples(rooted, 1, 1).shape == (12, 1, 1)


def test_graphs_that_are_too_large_are_refused_at_once():
    with pytest.raises(InputError, match="tries all 250,000 tuples of order 2 of a graph with 500 nodes"):
        finest_tuples(pack_networkx([nx.cycle_graph(500)]), 1, 2)


def test_answers_for_nodes_are_refused():
    with pytest.raises(InputError, match="use another start for node targets"):
        MagGNN(2, agent=AgentConfig(start="finest"), level="node")


def test_without_marks_there_is_nothing_to_find():
    assert finest_model(REGULAR, 1, 0)(all_of(REGULAR)).shape == (3, 3)


def test_the_last_of_three_marks_of_a_large_graph_is_found_by_itself(monkeypatch):
    """With the limit that small graphs reach, the rule is: all rarest finest pairs, extended by every node."""
    monkeypatch.setattr(finest, "FEW_CELLS", 12**4 - 1)
    chosen = finest_tuples(REGULAR, 2, 3)
    for graph in range(len(REGULAR)):
        one = REGULAR.select(torch.tensor([graph]))
        pairs = [list(pair) for pair in itertools.product(range(12), repeat=2)]
        hashes, colours = (values[0].tolist() for values in refine(all_of(one), torch.tensor([pairs])))
        (rarest,) = by_definition(one, 0, 1, 2)
        prefixes = [pair for pair, value in zip(pairs, hashes, strict=True) if value == rarest]
        triples = torch.tensor([[*pair, node] for pair in prefixes for node in range(12)])
        hashes, colours = (values[0].tolist() for values in refine(all_of(one), triples[None]))
        times = Counter(value for value, count in zip(hashes, colours, strict=True) if count == max(colours))
        ordered = sorted(times, key=lambda value: (times[value], value))
        found = refine(all_of(one), chosen[graph][None]).hashes[0].tolist()
        assert found == [ordered[place % len(ordered)] for place in range(2)]
    for seed in range(2):
        other = renumbered(REGULAR, seed)
        ours, theirs = (refine(all_of(graphs), finest_tuples(graphs, 2, 3)).hashes for graphs in (REGULAR, other))
        assert torch.equal(ours, theirs)


def test_too_many_tuples_to_extend_are_refused(monkeypatch):
    monkeypatch.setattr(finest, "FEW_CELLS", 12**3)
    monkeypatch.setattr(finest, "MOST_EXTENDED", 12**2)
    with pytest.raises(InputError, match="too many to extend by every node"):
        finest_tuples(pack_networkx([nx.cycle_graph(12)]), 1, 3)
