"""Device and randomness of a run: all random numbers come from generators that are made here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from maggnn.config import Precision
from maggnn.errors import InputError


def pick_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"runtime.device is {name!r}, must be auto, cpu or cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("runtime.device is cuda but no GPU is visible; use cpu or auto")
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # the default device of kernels and streams
    return device


def make_generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a new generator on `device`, independent of torch's global one."""
    return torch.Generator(device=device).manual_seed(seed)


@contextmanager
def matrix_products(precision: Precision) -> Iterator[None]:
    """Set the precision of torch's matrix products on a GPU within the block; steps recorded in it keep it."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


WORK_A_THREAD = 10_000_000
"""The number of multiplications in a matrix product for which a thread pays off: some tenths of a millisecond."""


def choose_threads(rows: float, width: int) -> int:
    """Return the number of threads that pays off for a network over `rows` marked nodes of width `width`, at least one.

    Threads wait for each other after every operation. If operations are short, or other programs use the cores too,
    several threads are slower than one.
    """
    return max(1, min(torch.get_num_threads(), int(rows * width * width / WORK_A_THREAD)))


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Make torch use `count` threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Randomness:
    """The generators of a run: `host` draws from the buffer, `device` draws tuples and moves.

    Args:
        dropout: whether the run uses dropout, which draws from torch's global generator; it is then seeded too.
    """

    def __init__(self, seed: int, device: torch.device, dropout: bool = False) -> None:
        self.host = make_generator(seed)
        self.device = make_generator(seed + 1, device)
        self.torch: torch.Generator | None = None
        if dropout:
            if device.type == "cuda":
                torch.cuda.init()  # its generators do not exist before
            torch.manual_seed(seed + 2)
            on_gpu = device.type == "cuda"
            self.torch = (
                torch.cuda.default_generators[torch.cuda.current_device()] if on_gpu else torch.default_generator
            )

    def state(self) -> dict[str, torch.Tensor]:
        return {name: generator.get_state() for name, generator in self._generators().items()}

    def load_state(self, state: dict[str, torch.Tensor]) -> None:
        for name, generator in self._generators().items():
            if state[name].shape != generator.get_state().shape:
                raise InputError(
                    "the run was started on another kind of device, whose random state cannot be restored here: "
                    "resume it there, or choose another folder"
                )
            generator.set_state(state[name])

    def _generators(self) -> dict[str, torch.Generator]:
        named = {"host": self.host, "device": self.device, "torch": self.torch}
        return {name: generator for name, generator in named.items() if generator is not None}
