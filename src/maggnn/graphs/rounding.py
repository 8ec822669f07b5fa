"""Which numbers float32 can hold: seven digits are enough for most targets, not for 1e9 and small differences."""

from __future__ import annotations

import torch
from torch import Tensor

MOST_MOVED = 1e-4
"""In units of a column's spread: what rounding may move a value by."""


def short_floats(values: Tensor) -> Tensor:
    """Floats [rows, ...] as float32 where this keeps what distinguishes the rows of every column, else in double."""
    rounded, exact = values.float(), values.double()
    if values.dtype != torch.float64 or len(values) < 2:
        return rounded
    spread = exact.std(dim=0, correction=0)
    moved = (exact - rounded.double()).abs().amax(dim=0)
    return values if bool((moved > MOST_MOVED * spread).any()) else rounded
