"""Scores equal their definitions, ties included."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maggnn.errors import InputError
from maggnn.training.metrics import absolute_errors, auroc, score


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_auroc_is_the_share_of_ordered_pairs(rows):
    values, y = torch.tensor([float(v) for v, _ in rows]), torch.tensor([int(b) for _, b in rows])
    positive, negative = values[y == 1], values[y == 0]
    if not len(positive) or not len(negative):
        with pytest.raises(InputError, match="both classes"):
            auroc(values, y)
        return
    pairs = [(p > n) + 0.5 * (p == n) for p in positive.tolist() for n in negative.tolist()]
    assert float(auroc(values, y)) == pytest.approx(sum(pairs) / len(pairs))
    both = auroc(torch.stack([values, -values]), y)
    assert float(both.sum()) == pytest.approx(1.0)  # turned round, every pair is


def test_scores_of_answers():
    answers = torch.tensor([[[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [[0.1, 0.9], [0.6, 0.4], [0.8, 0.2]]])
    y = torch.tensor([0, 1, 0])
    assert score(answers, y, "accuracy").tolist() == pytest.approx([200 / 3, 100 / 3])
    assert score(answers, y, "auroc").tolist() == pytest.approx([50.0, 50.0])
    values, targets = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.tensor([[0.0, 2.0], [0.0, 5.0]])
    assert absolute_errors(values, targets).tolist() == [[2.0, 0.5]]
    assert score(values, targets, "mae").tolist() == [1.25]
