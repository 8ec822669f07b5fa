"""Answers as they are sent to the worker that writes them; categories that training has, or not."""

import numpy as np
import pytest

from maggnn.apps.fit.answers.answered_rows import AnsweredRows, Layout, write_answers
from maggnn.apps.fit.categories import are_among
from maggnn.apps.fit.parts import Parts

ANSWERS = AnsweredRows(
    columns=[["=no", "yes", "yes"], np.array([0.1, np.inf, 2.0], dtype=np.float32)],
    places=np.array([0, 2, 3]),
    finite=np.array([True, True, False]),
    reasons=["", "not a SMILES string", "", "no prediction"],
)


def test_cells_of_all_rows():
    label, number, reasons = ANSWERS.cells()
    assert label == ["=no", None, "yes", None] and reasons == ANSWERS.reasons
    assert number == [np.float32(0.1), None, None, None] and ANSWERS.without == 2


def test_rows_without_a_prediction_are_not_below_a_limit():
    assert [ANSWERS.below(limit) for limit in (0.1, 0.2, 3.0, np.inf)] == [0, 1, 1, 1]


def test_a_part_is_written_with_the_own_columns(tmp_path):
    parts = Parts(tmp_path / "out.csv")
    assert parts.begin({}, overwrite=False)
    layout = Layout(".csv", ["smiles", "predicted_y", "p_y", "reason"], [None] * 4)
    assert write_answers(parts, 3, layout, [["C", "=C", "CC", "O"]], ANSWERS, limit=0.2) == (4, 2, 1)
    assert parts.path(3).read_text().splitlines() == [
        "C,'=no,0.1,", "=C,,,not a SMILES string", "CC,yes,,", "O,,,no prediction",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [np.uint8, np.int64])
@pytest.mark.parametrize("found", [(), (3,), (0, 2, 7, 300, -1)])
def test_categories_that_are_among_others(kind, found):
    column = np.array([0, 1, 2, 3, 7, 7], dtype=kind)
    assert are_among(column, found).tolist() == [value in found for value in column.tolist()]


@pytest.mark.parametrize("odd", [-1, 1 << 40])
def test_numbers_that_are_no_categories(odd):
    assert are_among(np.array([odd, 2]), (2, odd)).tolist() == [True, True]
    assert are_among(np.array([odd, 2]), (2,)).tolist() == [False, True]
