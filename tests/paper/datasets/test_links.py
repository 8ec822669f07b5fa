"""Hidden ties: what is known of the set, and that embeddings of single nodes say nothing of them."""

import pytest
import torch

from maggnn.config import AgentConfig, EncoderConfig, PredictorConfig
from maggnn.data.registry import check, load
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn_paper.datasets.links import hidden_links


@pytest.mark.parametrize("name", ["links", "links_unmarked"])
def test_what_is_known_of_them(name):
    assert [fact for fact, holds in check(name) if not holds] == []
    parts = load(name).split(0, 0)
    sizes = [set(load(name).graphs.num_nodes[part].tolist()) for part in (parts.train, parts.val, parts.test)]
    assert [len(part) for part in sizes] == [30, 10, 10]
    assert not (sizes[0] & sizes[1] or sizes[0] & sizes[2] or sizes[1] & sizes[2])


def test_equal_every_time():
    ours, theirs = hidden_links(marked=True)[0], hidden_links(marked=True)[0]
    assert torch.equal(ours.edge_index, theirs.edge_index) and torch.equal(ours.roots, theirs.roots)


@pytest.mark.parametrize(("marked", "differs"), [(True, True), (False, False)])
def test_a_plain_mpnn_answers_every_pair_of_a_ring_alike(marked, differs):
    """Unless the ends are told apart in its input; its readout may know them all the same."""
    torch.manual_seed(0)
    graphs = hidden_links(marked)[0]
    model = MagGNN(
        2,
        node_features=FeatureSpec.of(graphs.x),
        encoder=EncoderConfig(num_layers=4, hidden=16),
        predictor=PredictorConfig(read_roots=True),
        agent=AgentConfig(tuple_order=0, num_moves=0),
        num_roots=2,
    ).eval()
    with torch.no_grad():
        answers = model(graphs[torch.arange(16)])  # all pairs of the smallest ring
    assert (bool(answers.std(dim=0).max() > 1e-4)) == differs
