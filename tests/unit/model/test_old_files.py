"""Model files written before the package was reorganised still load and answer as they did.

`tests/fixtures/first_format` holds tiny models of `shrikhande_rook` and their answers for its two graphs, from the
revision 7daf4a2: ORD, whitening with an LSTM history, LayerNorm with summed layers, and the baseline NGNN.
"""

import json
from pathlib import Path

import pytest
import torch

from maggnn import load_model
from maggnn.data import registry

FOLDER = Path(__file__).parents[2] / "fixtures" / "first_format"
ANSWERS = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ANSWERS)
@torch.no_grad()
def test_an_old_model_answers_as_it_did(name):
    model, _ = load_model(FOLDER / f"{name}.safetensors")
    graphs = registry.load("shrikhande_rook").graphs[torch.tensor([0, 1])]
    answers = model(graphs, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(answers, torch.tensor(ANSWERS[name]))
