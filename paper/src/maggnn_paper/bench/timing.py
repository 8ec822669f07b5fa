"""How long a function takes: warm, the median of several calls, all queued work done before the clock stops."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch

WARM_UP = 5
"""Calls that are not counted: kernels compile, steps are recorded, caches fill."""


def median_ms(function: Callable[[], object], device: torch.device, repeats: int = 9, warm_up: int = WARM_UP) -> float:
    """The median wall time of a call in milliseconds."""
    return side_by_side({"it": function}, device, repeats, warm_up)["it"]


def side_by_side(
    functions: Mapping[str, Callable[[], object]], device: torch.device, repeats: int = 9, warm_up: int = WARM_UP
) -> dict[str, float]:
    """The median wall time of each function in milliseconds, taken in turns: a slow moment of the machine hits all."""
    for function in functions.values():
        for _ in range(warm_up):
            function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            wait(device)
            began = time.perf_counter()
            function()
            wait(device)
            times[name].append(1000 * (time.perf_counter() - began))
    return {name: sorted(values)[repeats // 2] for name, values in times.items()}


def wait(device: torch.device) -> None:
    """Until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_mb(function: Callable[[], object], device: torch.device) -> float | None:
    """The most GPU memory that a call held beyond what was there before; None on a CPU."""
    if device.type != "cuda":
        return None
    wait(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    function()
    wait(device)
    return (torch.cuda.max_memory_allocated(device) - before) / 1e6
