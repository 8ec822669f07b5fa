"""Names from a table or from a stranger's model are shown as they are: no HTML, no Markdown, no formula."""

import re

import numpy as np
import pytest
import torch

from maggnn.apps.draw.shapes import Drawing, Words, to_svg
from maggnn.apps.fit.card import model_card
from maggnn.apps.fit.card.intervals import Judged
from maggnn.apps.fit.card.model_card import Origin, plain, write_card
from maggnn.apps.fit.card.picture_of_test import draw_test
from maggnn.apps.fit.card.reported import reports
from maggnn.apps.fit.fitted import Answer, Facts
from maggnn.apps.fit.row_files import cell_text
from maggnn.apps.fit.uncertainty import Spread

NAMES = {
    "<script>alert(1)</script>": "&lt;script&gt;alert(1)&lt;/script&gt;",
    "=1+1": r"\=1+1",
    "+1": r"\+1",
    "-x": r"\-x",
    "@who": r"\@who",
    "a|b": r"a\|b",
    "[a](http://x)": r"\[a\](http\://x)",
    "![a](b)": r"\!\[a\](b)",
    "`code`": r"\`code\`",
    "# title": r"\# title",
    "two\n\nlines": "two lines",
    "&lt;b&gt;": "&amp;lt;b&amp;gt;",
    r"back\slash": r"back\\slash",
    "_it_": r"\_it\_",
    "log_s": "log_s",
    "solubility (mg/l)": "solubility (mg/l)",
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=range(len(NAMES)))
def test_names_in_the_card(name, expected):
    assert plain(name) == expected


def test_long_names_in_the_card():
    assert len(plain("x" * 10_000)) == 100


HOSTILE = ("<img src=x onerror=alert(1)>", "=1+1`|**$\\frac$")


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_card_of_hostile_names(tmp_path, task):
    score = Judged(1.0, torch.ones(10).numpy())
    classes, targets = (HOSTILE, HOSTILE[:1]) if task == "classification" else ((), HOSTILE)
    facts = Facts("smiles", task, "ogb", HOSTILE[1], targets, classes, "accuracy" if classes else "mae", {"train": 1})
    answers = torch.tensor([[0.2, 0.8], [0.6, 0.4]])
    y = torch.tensor([0, 1]) if classes else answers
    each = {} if classes else {name: {model_card.OWN: score} for name in HOSTILE}
    spread = Spread((0.1, 0.0, 0.0), 1.0, tuple(np.linspace(0, 3, 99)))
    answer = Answer(answers, None if classes else np.ones((2, 2)), None, () if classes else (spread, spread))
    parts = {model_card.OWN: model_card.Part(None, 1.0)}
    metrics = reports(facts, y.numpy(), {model_card.OWN: answers.numpy()})
    test = model_card.Test(answer, y, {model_card.OWN: score}, metrics, each, parts)
    balance = {"train": dict.fromkeys(classes, 1)} if classes else {}
    origin = Origin(f"{HOSTILE[0]}.csv", "random", 2, 0, 0, 1.0, f"column {HOSTILE[0]}", balance)
    write_card(tmp_path, facts, origin, test)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "<img" not in card and "&lt;img" in card
    assert not re.search(r"(?<!\\)=1\+1", card)
    draw_test(tmp_path / "test.png", facts, test)  # matplotlib takes $...$ for a formula
    assert (tmp_path / "test.png").stat().st_size > 1000


def test_names_in_drawings():
    drawn = to_svg(Drawing(10, 10, [Words((1, 1), HOSTILE[0])]), HOSTILE[0])
    assert "<img" not in drawn and "&lt;img" in drawn


@pytest.mark.parametrize(
    "text", ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx", "=HYPERLINK(1)", "-1+cmd|' /C calc'!A0"]
)
def test_formulas_in_cells_of_ours(text):
    assert cell_text(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-1", "+1.5", "-1e-05", "+", "-", "++", "toxic", "", None, 1.5, "a=b", "C=O"])
def test_other_cells_stay(value):
    assert cell_text(value) == value
