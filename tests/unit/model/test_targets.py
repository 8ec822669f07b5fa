"""Targets: standardised for the networks, restored for people; composition takes out what counts explain."""

from dataclasses import replace

import pytest
import torch

from maggnn.config import AgentConfig, EncoderConfig, PredictorConfig
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model import targets
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.targets import TargetScale

NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def make(y, sizes=(3, 1, 5, 4, 2, 6), level="graph"):
    torch.manual_seed(0)
    sizes = torch.tensor(sizes)
    x = torch.randint(3, (int(sizes.sum()), 2))
    return PackedGraphs.build(sizes, torch.zeros_like(sizes), NO_EDGES, x=x, y=y, level=level)


def counts(packed):
    owner = torch.repeat_interleave(torch.arange(len(packed)), packed.num_nodes)
    return torch.zeros(len(packed), 3).index_put_((owner, packed.x[:, 0]), torch.tensor(1.0), accumulate=True)


def test_training_targets_have_mean_zero_and_spread_one():
    packed = make(torch.randn(6, 2) * torch.tensor([1e-3, 50.0]) + 7)
    scale, train = TargetScale(2), torch.tensor([0, 2, 3, 5])
    scale.fit(packed, train)
    standardised = scale.standardised(packed)
    torch.testing.assert_close(
        standardised[train].mean(0), torch.zeros(2), atol=1e-3, rtol=0
    )  # 7 has four digits of 0.001
    torch.testing.assert_close(standardised[train].std(0, correction=0), torch.ones(2), atol=1e-3, rtol=0)
    restored = scale(standardised, packed[torch.arange(6)])
    torch.testing.assert_close(restored, packed.y, atol=1e-5, rtol=1e-5)


def test_composition_explains_a_sum_over_nodes():
    packed = make(torch.zeros(6, 1))
    share = torch.tensor([[-1000.0], [3.0], [0.25]])
    y = counts(packed) @ share + torch.tensor([[0.1], [-0.1], [0.1], [-0.1], [0.1], [-0.1]])
    packed = make(y)
    scale = TargetScale(1, num_categories=3)
    scale.fit(packed, torch.arange(6))
    assert float(scale.std) < 0.2  # what is left is the noise
    torch.testing.assert_close(scale(scale.standardised(packed), packed[torch.arange(6)]), y, atol=1e-3, rtol=1e-5)
    padded = packed.gather(torch.arange(6), packed.rounded_size(torch.arange(6)))
    torch.testing.assert_close(scale(scale.standardised(packed), padded), y, atol=1e-3, rtol=1e-5)


def test_fitting_reads_the_targets_alone():
    """Of a set that is larger than memory, nodes and edges are never gathered as a whole."""
    packed, scale = make(torch.arange(6.0)[:, None]), TargetScale(1)
    torn = replace(packed, x=packed.x[:0], in_degree=packed.in_degree[:0], out_degree=packed.out_degree[:0])
    with pytest.raises((IndexError, RuntimeError)):
        torn[torch.arange(6)]
    scale.fit(torn, torch.tensor([1, 3, 5]))
    assert float(scale.mean) == 3.0
    assert torch.equal(scale.standardised(torn), scale.standardised(packed))


def test_categories_are_counted_alike_in_any_portions(monkeypatch):
    packed = make(torch.randn(6, 1))
    whole, scale = TargetScale(1, num_categories=3), TargetScale(1, num_categories=3)
    whole.fit(packed, torch.arange(6))
    expected = whole.standardised(packed)
    monkeypatch.setattr(targets, "GRAPHS_AT_ONCE", 4)
    scale.fit(packed, torch.arange(6))
    assert torch.equal(scale.per_node, whole.per_node) and torch.equal(scale.standardised(packed), expected)


def test_a_constant_target_stays_finite():
    packed = make(torch.full((6, 1), 3.0))
    scale = TargetScale(1)
    scale.fit(packed, torch.arange(6))
    assert torch.equal(scale.standardised(packed), torch.zeros(6, 1))


@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e12])
def test_the_unit_of_a_target_does_not_matter(unit):
    values = torch.randn(6, 1, generator=torch.Generator().manual_seed(0)) + 3
    scale = TargetScale(1)
    scale.fit(make(values * unit), torch.arange(6))
    assert float(scale.standardised(make(values * unit)).std(correction=0)) == pytest.approx(1.0, abs=1e-3)


def test_what_composition_explains_up_to_rounding_counts_as_constant():
    packed = make(torch.zeros(6, 1))
    y = counts(packed) @ torch.tensor([[-1000.0], [3.0], [0.25]])
    scale = TargetScale(1, num_categories=3)
    scale.fit(make(y), torch.arange(6))
    assert float(scale.std) == 1.0


def test_the_model_answers_in_the_targets_units():
    packed = make(torch.randn(6, 1) * 100 + 1000)
    model = MagGNN(
        1,
        node_features=FeatureSpec.of(packed.x),
        encoder=EncoderConfig(num_layers=1, hidden=8),
        predictor=PredictorConfig(composition=True),
        agent=AgentConfig(num_tuples=1, tuple_order=1, num_moves=0),
        task="regression",
    ).eval()
    model.targets.fit(packed, torch.arange(6))
    graphs, tuples = packed[torch.arange(6)], torch.zeros(6, 1, 1, dtype=torch.long)
    with torch.no_grad():
        said, answer = model.predictor(graphs, tuples), model(graphs, tuples=tuples)
    torch.testing.assert_close(answer, model.targets(said, graphs))
    assert float(answer.abs().min()) > 100


def test_composition_where_it_has_no_meaning():
    with pytest.raises(InputError, match="for regression"):
        MagGNN(2, predictor=PredictorConfig(composition=True))
    with pytest.raises(InputError, match="integer categories"):
        MagGNN(1, predictor=PredictorConfig(composition=True), task="regression")


@pytest.mark.parametrize("categories", [0, 3])
def test_large_targets_with_small_differences_keep_them(categories):
    differences = torch.tensor([[0.1], [0.2], [0.3], [-0.4], [0.5], [0.25]], dtype=torch.float64)
    packed = make(1e9 + differences, sizes=(2,) * 6)
    scale = TargetScale(1, categories)
    scale.fit(packed, torch.arange(6))
    standardised = scale.standardised(packed)
    assert standardised.dtype == torch.float32
    if not categories:
        expected = (differences - differences.mean()) / differences.std(correction=0)
        torch.testing.assert_close(standardised, expected.float(), atol=1e-5, rtol=1e-5)
    restored = scale(standardised, packed[torch.arange(6)])
    torch.testing.assert_close(restored - 1e9, differences, atol=1e-5, rtol=0)
    loaded = TargetScale(1, categories)
    loaded.load_state_dict(scale.state_dict())
    assert torch.equal(loaded(standardised, packed[torch.arange(6)]), restored)


def test_targets_that_float32_can_hold_stay_in_it():
    packed = make(1000 + torch.randn(6, 1, dtype=torch.float64))
    scale = TargetScale(1)
    scale.fit(packed, torch.arange(6))
    assert scale(scale.standardised(packed), packed[torch.arange(6)]).dtype == torch.float32
