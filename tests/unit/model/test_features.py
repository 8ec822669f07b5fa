"""Input features: what a set's columns are, and how they become vectors."""

import math

import pytest
import torch

from maggnn.errors import InputError
from maggnn.model.features import FeatureEmbedding, FeatureSpec, _Lookup


def test_spec_is_read_off_the_data():
    assert FeatureSpec.of(None) == FeatureSpec.of(torch.empty(0, 3)) == FeatureSpec()
    assert FeatureSpec.of(torch.rand(4, 3)) == FeatureSpec(width=3)
    assert FeatureSpec.of(torch.tensor([[0, 5], [2, 1]])) == FeatureSpec(categories=(3, 6))
    assert FeatureSpec().empty and not FeatureSpec(width=1).empty


def test_negative_categories_are_refused():
    with pytest.raises(InputError, match="categories from 0 up"):
        FeatureSpec.of(torch.tensor([[-1]]))


def test_categories_equal_one_hot_columns_through_a_linear_map():
    embedding = FeatureEmbedding(FeatureSpec(categories=(3, 2)), hidden=5)
    values = torch.tensor([[0, 1], [2, 0], [1, 1]])
    one_hot = torch.cat([torch.nn.functional.one_hot(values[:, c], n) for c, n in enumerate((3, 2))], dim=1)
    weight = torch.cat([table.weight for table in embedding.embeddings])
    torch.testing.assert_close(embedding(values), one_hot.float() @ weight)


def test_gradients_of_categories_equal_those_of_torch():
    embedding = FeatureEmbedding(FeatureSpec(categories=(3, 4)), hidden=5).double()
    values = torch.tensor([[0, 1], [2, 0], [0, 1], [0, 3]])  # repeats, and categories that never come
    weight = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).double()
    tables = [table.weight for table in embedding.embeddings]
    ours = torch.autograd.grad(embedding(values), tables, weight)
    looked_up = sum(torch.nn.functional.embedding(values[:, c], table) for c, table in enumerate(tables))
    for grad, expected in zip(ours, torch.autograd.grad(looked_up, tables, weight), strict=True):
        torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize("category", [3, -1])
def test_unknown_categories_are_refused(category):
    embedding = FeatureEmbedding(FeatureSpec(categories=(3,)), hidden=4)
    with pytest.raises(InputError, match=f"category {category} in column 0, the model knows 0 to 2"):
        embedding(torch.tensor([[0], [category]]))


def test_more_categories_than_memory_holds_are_refused():
    with pytest.raises(InputError, match="1000000000 is beyond the 1000000 that a column can have: use floats"):
        FeatureSpec.of(torch.tensor([[3, 1], [0, 10**9]]))


def test_floats_go_through_a_linear_map():
    embedding = FeatureEmbedding(FeatureSpec(width=2), hidden=4)
    values = torch.rand(3, 2, dtype=torch.float64)
    assert embedding.linear is not None
    torch.testing.assert_close(embedding(values), values.float() @ embedding.linear.weight.T)


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (FeatureSpec(categories=(3, 2)), torch.zeros(4, 1, dtype=torch.long)),
        (FeatureSpec(categories=(3,)), torch.zeros(4, dtype=torch.long)),
        (FeatureSpec(categories=(3,)), torch.rand(4, 1)),
        (FeatureSpec(width=3), torch.rand(4, 2)),
    ],
)
def test_features_of_another_shape_or_kind_are_refused(spec, values):
    with pytest.raises(InputError, match="the model was made for"):
        FeatureEmbedding(spec, 4)(values)


@pytest.mark.parametrize("values", [[0, 5], [1, -1], [3, 0]])
def test_kinds_of_unknown_categories_are_refused(values):
    """As one number [0, 5] would look like [1, 1]."""
    embedding = FeatureEmbedding(FeatureSpec((3, 4)), 8)
    with pytest.raises(InputError, match="the model knows 0 to"):
        embedding.kinds(torch.tensor([[0, 0], values]))


def test_kinds_are_rows_of_the_table():
    embedding = FeatureEmbedding(FeatureSpec((3, 4)), 8)
    values = torch.tensor([[0, 0], [2, 3], [1, 2]])
    torch.testing.assert_close(embedding.table()[embedding.kinds(values)], embedding(values))


@pytest.mark.parametrize("counts", [(3,), (2, 3), (4, 2, 3)])
def test_the_gradient_of_a_table_is_that_of_its_embeddings(monkeypatch, counts):
    """Through the product with one-hot rows that GPUs use."""
    embedding, weight = FeatureEmbedding(FeatureSpec(categories=counts), 5), torch.randn(math.prod(counts), 5)
    values = torch.cartesian_prod(*(torch.arange(count) for count in counts)).reshape(-1, len(counts))
    (embedding(values) * weight).sum().backward()
    expected = [part.weight.grad.clone() for part in embedding.embeddings]
    monkeypatch.setattr("maggnn.model.features.look_up", lambda *given: _Lookup.apply(*(*given, None)[:3]))
    for answer in (embedding.table, lambda: embedding(values)):
        embedding.zero_grad()
        torch.testing.assert_close(answer(), embedding(values))
        (answer() * weight).sum().backward()
        for part, grad in zip(embedding.embeddings, expected, strict=True):
            torch.testing.assert_close(part.weight.grad, grad)
