"""Records a step as a CUDA graph and replays it, so that the host launches one graph instead of hundreds of kernels.

A step of a small GNN is some hundred kernels of a few microseconds each, and launching them takes longer than running
them. Recorded tensors have fixed shapes, so batches are padded to a few sizes (`PackedGraphs.room_for`), and each size
is recorded once. On a CPU nothing is recorded, and the function is called directly.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

Shape = TypeVar("Shape", bound=Hashable)

WARM_UP = 3
"""The number of direct calls of a shape before it is recorded, in which kernels are compiled and optimisers create
their state. They are ordinary steps and count as such, so nothing has to be undone."""


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    output: Tensor


class Captured(Generic[Shape]):
    """`function(shape, *tensors) -> tensor` with everything that is not a tensor fixed by `shape`.

    The function may change tensors in place (weights, buffers, generators' states) but must not synchronise the device
    or read values on the host. Its result is copied, so it stays valid after the next call.

    Args:
        generators: the generators that the function draws from, which a recording must know.
        recordable: False for a function that does synchronise; it is then called directly.
        share_memory: whether all recordings use the same memory, for functions that keep nothing between calls: the
            next recording may overwrite everything except the copied result.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        device: torch.device,
        generators: Sequence[torch.Generator] = (),
        recordable: bool = True,
        share_memory: bool = False,
    ) -> None:
        self.function = function
        self.records = recordable and device.type == "cuda"
        self.generators = generators
        self._calls: dict[Shape, int] = {}
        self._recordings: dict[Shape, _Recording] = {}
        self._stream = torch.cuda.Stream(device) if self.records else None
        self._pool = torch.cuda.graph_pool_handle() if self.records and share_memory else None

    def __call__(self, shape: Shape, *inputs: Tensor) -> Tensor:
        if self._stream is None:
            return self.function(shape, *inputs)
        calls = self._calls[shape] = self._calls.get(shape, 0) + 1
        if calls <= WARM_UP:
            return self._on_side_stream(shape, inputs)
        recording = self._recordings.get(shape)
        if recording is None:
            recording = self._recordings[shape] = self._record(shape, inputs)
        if inputs:  # one launch for many tensors
            torch._foreach_copy_(recording.inputs, inputs, non_blocking=True)  # pyright: ignore[reportPrivateImportUsage]
        recording.graph.replay()
        return recording.output.clone()

    def _on_side_stream(self, shape: Shape, inputs: Sequence[Tensor]) -> Tensor:
        """Call the function on the stream that records later: gradients must be created on that stream."""
        assert self._stream is not None
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            output = self.function(shape, *inputs)
        torch.cuda.current_stream().wait_stream(self._stream)
        return output

    def _record(self, shape: Shape, inputs: Sequence[Tensor]) -> _Recording:
        static = tuple(value.clone() for value in inputs)
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        with _no_collection(), torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            output = self.function(shape, *static)
        return _Recording(graph, static, output)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause Python's garbage collector: if it freed an earlier model's recording, the current one would fail."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
