"""The state matrix W and its update f_W: what the agent remembers of the states it has seen.

The paper found W unhelpful in practice and keeps it zero; that is the default and costs nothing. f_W is applied
when a state is scored, W_s = f_W(W, s), so that a trainable f_W gets its gradient from the same Q update.

Shapes: W is [B, m, w]; `marked` is the mean embedding of each tuple's marked nodes, [B, m, d].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ZeroHistory(nn.Module):
    """W = 0 with width 0: the identity update of the paper."""

    width = 0

    def forward(self, history: Tensor, marked: Tensor) -> Tensor:
        return history


class MeanHistory(nn.Module):
    """The running mean of the marked nodes' embeddings over the states seen; the last column counts them."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.width = hidden + 1

    def forward(self, history: Tensor, marked: Tensor) -> Tensor:
        mean, seen = history[..., :-1], history[..., -1:] + 1
        return torch.cat([mean + (marked - mean) / seen, seen], dim=-1)


class LSTMHistory(nn.Module):
    """An LSTM over the states seen; W is the concatenation of its hidden and cell vectors."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(hidden, hidden)
        self.width = 2 * hidden

    def forward(self, history: Tensor, marked: Tensor) -> Tensor:
        hidden, cell = history.flatten(0, 1).chunk(2, dim=-1)
        new = self.cell(marked.flatten(0, 1), (hidden, cell))
        return torch.cat(new, dim=-1).reshape(history.shape)


def make_history(kind: str, hidden: int) -> ZeroHistory | MeanHistory | LSTMHistory:
    """Return f_W for a value of `agent.history`."""
    return {"zero": ZeroHistory, "mean": lambda: MeanHistory(hidden), "lstm": lambda: LSTMHistory(hidden)}[kind]()
