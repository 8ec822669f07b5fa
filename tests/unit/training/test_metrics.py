"""Scores equal their definitions, ties included."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maggnn.errors import InputError
from maggnn.training.metrics import absolute_errors, auroc, score, trimmed_error


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


def test_a_trimmed_error_leaves_the_worst_rows_out():
    y = torch.zeros(200, 1)
    answers = torch.linspace(0, 1, 200)[:, None].repeat(1, 1)
    answers[17] = 1e6
    errors = answers.abs().double().flatten().sort().values
    assert float(trimmed_error(answers, y)) == pytest.approx(float(errors[:198].mean()))
    assert float(trimmed_error(answers, y, 0.0)) == pytest.approx(float(errors.mean()))
    stacked = torch.stack([answers, 2 * answers])
    torch.testing.assert_close(trimmed_error(stacked, y)[1], 2 * trimmed_error(answers, y))
    assert float(trimmed_error(answers[:1], y[:1], 1.0)) == 0.0  # one row is always kept
