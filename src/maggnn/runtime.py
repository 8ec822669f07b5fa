"""Device and randomness of a run: everything random draws from generators made here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from maggnn.config import Precision
from maggnn.errors import InputError


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"runtime.device is {name!r}, must be auto, cpu or cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("runtime.device is cuda but no GPU is visible; use cpu or auto")
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # kernels and streams go where no device is named
    return device


def make_generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of its own on `device`, independent of torch's global one."""
    return torch.Generator(device=device).manual_seed(seed)


@contextmanager
def matrix_products(precision: Precision) -> Iterator[None]:
    """Precision of torch's own products on a GPU while inside; steps recorded there keep it."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


class Randomness:
    """The two generators of a run: `host` orders the data, `device` draws tuples, moves and weights' noise."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.host = make_generator(seed)
        self.device = make_generator(seed + 1, device)

    def state(self) -> dict[str, torch.Tensor]:
        return {"host": self.host.get_state(), "device": self.device.get_state()}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        self.host.set_state(state["host"])
        self.device.set_state(state["device"])
