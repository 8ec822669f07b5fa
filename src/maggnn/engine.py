"""Answers for many graphs: a frozen model, chunks that fit a memory budget, and on a GPU one recording a chunk size.

A search never waits for the device: t moves and the answer of a chunk are one replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from maggnn.capture import Captured
from maggnn.config import Precision
from maggnn.errors import InputError
from maggnn.frozen import frozen
from maggnn.graphs import BatchSize, GraphBatch, PackedGraphs
from maggnn.model import MagGNN
from maggnn.runtime import make_generator, matrix_products

LIVE_COPIES = 6
"""How many [N, m, d] tensors a search holds at once, with some room: features, messages, the layer's hidden part."""

CACHE_MB = 24.0
"""What a chunk may take on a CPU: features that stay in the caches are faster to go over than those in memory."""


class Engine:
    """Answers of `model` for graphs of `packed`, which lie on the device that does the work.

    Args:
        memory_mb: memory that a chunk may take. A single graph that needs more gets a chunk of its own.
        precision: of matrix products on a GPU; a CPU always works in float32.
        seed: of the random starting tuples.
    """

    def __init__(
        self,
        model: MagGNN,
        packed: PackedGraphs,
        memory_mb: float = 1000.0,
        precision: Precision = "float32",
        seed: int = 0,
    ) -> None:
        if memory_mb <= 0:
            raise InputError(f"the memory budget is {memory_mb} MB, must be more than 0")
        self.packed = packed
        precision = precision if packed.device.type == "cuda" else "float32"
        self.model = frozen(model.to(packed.device), precision, packed)
        self.precision: Precision = precision
        self.memory_mb = memory_mb if packed.device.type == "cuda" else min(memory_mb, CACHE_MB)
        self.generator = make_generator(seed, packed.device)
        self._answer = Captured(self._answer_chunk, packed.device, [self.generator])

    @torch.no_grad()
    def predict(self, ids: Tensor, done: Callable[[int], None] | None = None) -> Tensor:
        """One row a graph (or a node) of graphs `ids` [B], in their order: [rows, num_outputs].

        Args:
            done: is told after each chunk how many graphs have been answered so far.
        """
        parts, count = [], 0
        for chunk in self.chunks(ids):
            size = self.packed.room_for(chunk)
            answers = self._answer(size, chunk.to(self.packed.device, non_blocking=True))
            parts.append(answers[: self._rows(chunk)])
            count += len(chunk)
            if done is not None:
                done(count)
        return torch.cat(parts)

    def chunks(self, ids: Tensor) -> Iterator[Tensor]:
        """`ids` in runs of one length, halved where their graphs are too large for the budget."""
        most = self._most_nodes()
        mean_nodes = float(self.packed.num_nodes[ids].double().mean())
        # Below the mean's share, so that most chunks need no halving and all have one length.
        length = max(1, int(0.9 * most / mean_nodes))
        for chunk in ids.split(length):
            yield from self._halved(chunk, most)

    def _halved(self, chunk: Tensor, most: float) -> Iterator[Tensor]:
        if len(chunk) == 1 or int(self.packed.num_nodes[chunk].sum()) <= most:
            yield chunk
        else:
            for half in chunk.split(-(-len(chunk) // 2)):
                yield from self._halved(half, most)

    def _most_nodes(self) -> float:
        """Nodes of a chunk that fill the budget."""
        hidden = self.model.predictor.encoder.config.hidden
        return 1e6 * self.memory_mb / (4 * hidden * self.model.agent.num_tuples * LIVE_COPIES)

    def _rows(self, chunk: Tensor) -> int:
        return len(chunk) if self.model.predictor.level == "graph" else int(self.packed.num_nodes[chunk].sum())

    @torch.no_grad()
    def answer_for(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """What the engine's predictor says of given tuples [B, m, k], without a search: [rows, num_outputs]."""
        with matrix_products(self.precision):
            return self.model.predictor(graphs, tuples)

    def _answer_chunk(self, size: BatchSize, ids: Tensor) -> Tensor:
        with matrix_products(self.precision):
            return self.model(self.packed.gather(ids, size), generator=self.generator)
