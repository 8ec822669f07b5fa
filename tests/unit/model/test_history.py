"""The update f_W of the state matrix W."""

import pytest
import torch
from torch import nn

from maggnn.model.history import LSTMHistory, MeanHistory, make_history


def run(update, seen):
    """W after states whose marked nodes embed as seen[0], seen[1], ..."""
    history = torch.zeros(*seen.shape[1:3], update.width)
    for marked in seen:
        history = update(history, marked)
    return history


def test_zero_costs_nothing():
    update = make_history("zero", 8)
    assert update.width == 0
    assert run(update, torch.randn(3, 2, 4, 8)).shape == (2, 4, 0)
    assert not list(update.parameters())


def test_mean_is_the_mean_over_states_seen():
    seen = torch.randn(5, 2, 3, 8)
    history = run(MeanHistory(8), seen)
    torch.testing.assert_close(history[..., :-1], seen.mean(0))
    assert (history[..., -1] == 5).all()


def test_lstm_equals_torch_lstm():
    update = LSTMHistory(8)
    lstm = nn.LSTM(8, 8)
    for name, value in update.cell.named_parameters():
        getattr(lstm, f"{name}_l0").data.copy_(value)
    seen = torch.randn(5, 2, 3, 8)
    _, (hidden, cell) = lstm(seen.flatten(1, 2))
    expected = torch.cat([hidden[0], cell[0]], dim=-1).reshape(2, 3, 16)
    torch.testing.assert_close(run(update, seen), expected)


@pytest.mark.parametrize("kind", ["zero", "mean", "lstm"])
def test_width_is_what_comes_out(kind):
    update = make_history(kind, 8)
    assert run(update, torch.randn(1, 2, 3, 8)).shape == (2, 3, update.width)
