"""Relabelled graphs get the same answers from canonical starts."""

import networkx
import pytest
import torch

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.data.synthetic.expressivity import csl, shrikhande_rook, sr25
from maggnn.errors import InputError
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn_paper.equivariance import answer_equivariantly, canonical_starts
from maggnn_paper.tables.relabelling import relabelled

GRAPHS = {
    "random": [networkx.gnp_random_graph(12, 0.3, seed=seed) for seed in range(8)],
    "cubic": [networkx.random_regular_graph(3, 10, seed=seed) for seed in range(5)],
    "symmetric": [networkx.cycle_graph(7), networkx.petersen_graph(), networkx.star_graph(5), networkx.path_graph(1)],
    "apart": [networkx.disjoint_union(networkx.cycle_graph(3), networkx.cycle_graph(4))],
}


def model_of(m, k, t):
    return model_with(AgentConfig(num_tuples=m, tuple_order=k, num_moves=t), seed=0)


def model_with(agent: AgentConfig, seed: int) -> MagGNN:
    torch.manual_seed(seed)
    model = MagGNN(2, encoder=EncoderConfig(num_layers=4, hidden=16, residual=True), agent=agent, task="regression")
    return model.double().eval()  # rounding must not decide between moves


@pytest.mark.parametrize(("m", "k", "t"), [(1, 1, 0), (1, 2, 2), (2, 2, 1), (2, 1, 3)])
@pytest.mark.parametrize("name", GRAPHS)
def test_numbering_changes_nothing(name, m, k, t):
    packed, ids = pack_networkx(GRAPHS[name]), torch.arange(len(GRAPHS[name]))
    model = model_of(m, k, t)
    expected = answer_equivariantly(model, packed, ids)
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        found = answer_equivariantly(model, relabelled(packed, generator), ids)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("m", "k", "t", "actions", "history"),
    [
        (1, 2, 2, "simultaneous", "zero"),
        (2, 1, 2, "simultaneous", "zero"),
        (2, 1, 2, "in_turn", "zero"),
        (2, 1, 2, "choose", "zero"),
        (1, 2, 1, "simultaneous", "mean"),
    ],
)
def test_equal_colours_that_are_no_images(m, k, t, actions, history):
    """In a strongly regular graph nodes look alike to refinement that no symmetry maps to each other."""
    packed, ids = sr25().select(torch.tensor([3, 7])), torch.arange(2)
    agent = AgentConfig(num_tuples=m, tuple_order=k, num_moves=t, actions=actions, history=history)
    generator = torch.Generator().manual_seed(5)
    others = [relabelled(packed, generator) for _ in range(2)]
    for seed in (20, 26):
        model = loud(model_with(agent, seed))
        expected = answer_equivariantly(model, packed, ids)
        for other in others:
            torch.testing.assert_close(answer_equivariantly(model, other, ids), expected, atol=1e-9, rtol=0)


def loud(model: MagGNN) -> MagGNN:
    """With larger weights, so that nodes that are no images get answers that differ by more than rounding."""
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data *= 1.5
    return model


def test_a_thousand_relabellings():
    packed = pack_networkx([networkx.gnp_random_graph(9, 0.35, seed=3)])
    model, generator = model_of(1, 2, 2), torch.Generator().manual_seed(2)
    many = [relabelled(packed, generator) for _ in range(1000)]
    together = PackedGraphs.build(
        torch.cat([one.num_nodes for one in many]),
        torch.cat([one.num_edges for one in many]),
        torch.cat([one.edge_index for one in many], 1),
    )
    answers = answer_equivariantly(model, together, torch.arange(1000))
    assert float((answers - answers[0]).abs().max()) <= 1e-5


def test_starts_of_symmetric_graphs_are_whole_orbits():
    assert len(canonical_starts(pack_networkx([networkx.cycle_graph(5)]), 1, 1)) == 5
    assert len(canonical_starts(csl().select(torch.tensor([0])), 1, 1)) == 41
    pairs = canonical_starts(shrikhande_rook().select(torch.tensor([0])), 1, 2)
    assert len(pairs) % 16 == 0 and len(pairs.unique(dim=0)) == len(pairs)


def test_an_asymmetric_graph_has_one_start():
    graph = networkx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 3)])  # a triangle with two tails
    assert len(canonical_starts(pack_networkx([graph]), 2, 2)) == 1


def test_too_much_symmetry_is_named():
    with pytest.raises(InputError, match="equivalent starts"):
        canonical_starts(pack_networkx([networkx.empty_graph(20)]), 2, 2)
    with pytest.raises(InputError, match="one at a time"):
        canonical_starts(pack_networkx(GRAPHS["cubic"]), 1, 1)
