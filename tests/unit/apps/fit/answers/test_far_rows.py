"""The limit of similarity that a model stores, and the line about a table with many rows below it."""

import numpy as np
import pytest

from maggnn.apps.fit.answers.far_rows import far_warning, least_similarity


def test_the_limit_is_what_most_test_molecules_have_at_least():
    similarity = np.linspace(0.0, 1.0, 101, dtype=np.float32)
    assert least_similarity(similarity) == 0.05
    assert (similarity >= least_similarity(similarity)).mean() >= 0.95
    assert least_similarity(np.full(3, 0.7, dtype=np.float32)) == 0.69  # rounded down, as its float32 is below .7
    assert least_similarity(None) == least_similarity(np.empty(0)) == 0.0


@pytest.mark.parametrize(
    ("far", "predicted", "warned"), [(0, 0, False), (2, 2, False), (3, 3, True), (20, 100, False), (21, 100, True)]
)
def test_many_far_rows_give_one_line(far, predicted, warned):
    words = far_warning(far, predicted, 0.35)
    assert bool(words) is warned and "\n" not in words
    if warned:
        assert f"{round(100 * far / predicted)} % of these molecules" in words and "(below 0.35)" in words
