"""The pictures of the card show what the test says: read off matplotlib's own objects, and drawn for odd tests too."""

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from maggnn.apps.draw import style
from maggnn.apps.fit.card import model_card
from maggnn.apps.fit.card.picture_of_test import draw_test
from maggnn.apps.fit.card.reported import reports
from maggnn.apps.fit.fitted import Answer, Blend, Facts
from maggnn.apps.fit.uncertainty import Spread

SPREAD = Spread((0.3, 0.0, 0.0), 1.0, tuple(np.linspace(0, 3, 99)))


def drawn(facts: Facts, answers: np.ndarray, y: np.ndarray, monkeypatch, path: Path) -> Figure:
    """The figure that was saved as a PNG."""
    figures: list[Figure] = []
    save = style.save
    monkeypatch.setattr(style, "save", lambda figure, file: (figures.append(figure), save(figure, file)))
    numbers = not facts.classes
    errors = np.full(answers.shape, 0.3) if numbers else None
    answer = Answer(torch.from_numpy(answers), errors, None, (SPREAD,) * answers.shape[1] if numbers else ())
    draw_test(
        path,
        facts,
        model_card.Test(answer, torch.from_numpy(y), {}, reports(facts, y, {model_card.OWN: answers}), {}, {}),
    )
    assert path.read_bytes().startswith(b"\x89PNG")
    return figures[0]


def texts(axes) -> str:
    words = [*(text.get_text() for text in axes.texts), axes.get_xlabel(), axes.get_ylabel(), axes.get_title("left")]
    return " | ".join(words)


def said(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_parity_plot_has_equal_axes_errors_and_units(monkeypatch, tmp_path):
    true = np.random.default_rng(0).normal(size=(40, 2)) * [1, 30]
    facts = Facts("smiles", "regression", targets=("logS (mol/L)", "tpsa"), metric="mae", units=("", "nm"))
    figure = drawn(facts, true + np.array([0.5, 1.0]), true, monkeypatch, tmp_path / "test.png")
    first, second, coverage = (axes for axes in figure.axes if axes.axison)
    for axes in (first, second):
        assert axes.get_xlim() == axes.get_ylim() and axes.get_aspect() == 1.0
        assert np.array_equal(axes.get_xticks(), axes.get_yticks())
        assert len(axes.collections[0].get_offsets()) == 40
    assert "n = 40\nRMSE = 0.5\nMAE = 0.5" in texts(first) and "true logS (mol/L)" in texts(first)
    assert (
        "MAE = 1 nm" in texts(second)
        and "predicted tpsa (nm)" in texts(second)
        and "nominal coverage" in texts(coverage)
    )


def test_curves_and_the_matrix_of_two_classes(monkeypatch, tmp_path):
    y = np.array([0, 0, 0, 1, 1, 0, 1, 0])
    likely = np.array([0.1, 0.2, 0.3, 0.4, 0.9, 0.6, 0.7, 0.05])
    blend = Blend(thresholds=(0.35,))
    facts = Facts("smiles", "classification", targets=("t",), classes=("no", "yes"), metric="auroc", blend=blend)
    figure = drawn(facts, np.stack([1 - likely, likely], axis=1), y, monkeypatch, tmp_path / "test.png")
    matrix, roc, recall, _ = figure.axes
    assert [text.get_text() for text in matrix.texts] == ["4\n80 %", "1\n20 %", "0\n0 %", "3\n100 %"]
    assert [text.get_color() for text in matrix.texts] == ["white", style.INK, style.INK, "white"]
    assert "threshold 0.35" in texts(matrix)
    assert said(roc) == ["random guessing", "t = yes: area 0.933", "at the threshold 0.35"]
    assert said(recall) == ["t = yes: area 0.917", "random guessing: 0.375", "at the threshold 0.35"]
    assert all("(n = 8)" in texts(axes) for axes in figure.axes if axes is not matrix)
    x, y = (np.asarray(values) for values in recall.lines[0].get_data())
    assert np.sum(np.diff(x) * y[1:]) == pytest.approx(0.917, abs=1e-3)  # the area of the steps that are drawn
    assert [float(value[0]) for value in roc.lines[-1].get_data()] == pytest.approx([0.2, 1.0])
    assert [float(value[0]) for value in recall.lines[-1].get_data()] == pytest.approx([1.0, 0.75])


@pytest.mark.parametrize("count", [3, 12, 30])
def test_several_classes(monkeypatch, tmp_path, count):
    rng = np.random.default_rng(0)
    said = rng.dirichlet(np.ones(count), size=50)
    names = tuple(f"a class with a long name, {number}" for number in range(count))
    facts = Facts("smiles", "classification", targets=("t",), classes=names, metric="accuracy")
    figure = drawn(facts, said, rng.integers(count, size=50), monkeypatch, tmp_path / "test.png")
    assert len(figure.axes) == (4 if count == 3 else 2)


def test_a_test_part_of_one_class_and_answers_that_are_no_numbers(monkeypatch, tmp_path):
    facts = Facts("smiles", "classification", targets=("t",), classes=("no", "yes"), metric="auroc")
    drawn(facts, np.full((4, 2), 0.5), np.zeros(4, dtype=int), monkeypatch, tmp_path / "one.png")
    numbers = Facts("smiles", "regression", targets=("y",), metric="mae")
    answers = np.array([[1.0], [np.nan], [3.0]])
    figure = drawn(numbers, answers, np.array([[1.0], [2.0], [3.0]]), monkeypatch, tmp_path / "nan.png")
    assert "n = 2" in texts(figure.axes[0])
