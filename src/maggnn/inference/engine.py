"""Answers for many graphs: a frozen model and chunks that fit a memory budget.

On a GPU a search never waits for the device: t moves and the answer of a chunk are one replay of a recording. On a CPU
chunks stay in the caches and lie side by side on the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

from maggnn.config import Precision
from maggnn.errors import InputError
from maggnn.graphs.batch import BatchSize, GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.frozen import frozen
from maggnn.model.kernels.capture import Captured
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import make_generator, matrix_products

LIVE_COPIES = 6
"""How many [N, m, d] tensors a search holds at once, with some room: features, messages, the layer's hidden part."""

CACHE_MB = 16.0
"""What a chunk may take on a CPU: features that stay in the caches are faster to go over than those in memory."""


class Engine:
    """Answers of `model` for graphs of `packed`, which lie on the device that does the work.

    Args:
        memory_mb: memory that a chunk may take. A single graph that needs more gets a chunk of its own.
        precision: of matrix products on a GPU; a CPU always works in float32.
        seed: of the random starting tuples: equal seeds and chunks give equal answers.
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
        packed = model.prepared(packed)  # in full precision and once, not in every chunk
        self.packed = packed
        precision = precision if packed.device.type == "cuda" else "float32"
        self.model = frozen(model, precision, packed).to(packed.device)
        self.precision: Precision = precision
        self.memory_mb = memory_mb  # of one chunk
        if packed.device.type != "cuda":
            self.memory_mb = min(memory_mb / torch.get_num_threads(), CACHE_MB)
        self.generator = make_generator(seed, packed.device)
        self.draws = model.predictor.encoder.draws
        self._replay = Captured(self._answer_recorded, packed.device, [self.generator], model.recordable)

    def predict(self, ids: Tensor, done: Callable[[int], None] | None = None) -> Tensor:
        """One row a graph (or a node) of graphs `ids` [B], in their order: [rows, num_outputs].

        Args:
            done: is told after each chunk how many graphs have been answered so far.
        """
        if not len(ids):
            return torch.empty(0, self.model.num_outputs, device=self.packed.device)
        parts, count = [], 0
        chunks = list(self.chunks(ids))
        with self._own_draws():
            for chunk, answers in zip(chunks, self._answers(chunks), strict=True):
                parts.append(answers[: self._rows(chunk)])
                count += len(chunk)
                if done is not None:
                    done(count)
        return torch.cat(parts)

    @contextmanager
    def _own_draws(self) -> Iterator[None]:
        """Rivals that draw do so from torch's own generator: it gets this engine's seed, and back what it had."""
        if not self.draws:
            yield
            return
        device = self.packed.device
        seed = int(torch.randint(2**62, (), generator=self.generator, device=device))
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield

    def _answers(self, chunks: Sequence[Tensor]) -> Iterator[Tensor]:
        """Of each chunk in order. A GPU replays a recording; a CPU has a chunk on each of its threads."""
        if self.packed.device.type == "cuda":
            for chunk in chunks:
                size = self.packed.room_for(chunk)
                yield self._replay(size, chunk.to(self.packed.device, non_blocking=True))
            return
        # Each chunk has a generator of its own, so that answers do not depend on which thread is faster.
        seeds = torch.randint(2**62, (len(chunks),), generator=self.generator).tolist()
        if len(chunks) == 1 or self.draws:  # threads would race for torch's own generator
            for chunk, seed in zip(chunks, seeds, strict=True):
                yield self._answer(self.packed[chunk], make_generator(seed))
            return

        def answer(chunk: Tensor, seed: int) -> Tensor:
            return self._answer(self.packed[chunk], make_generator(seed))

        with one_thread_each(min(len(chunks), torch.get_num_threads())) as pool:
            yield from pool.map(answer, chunks, seeds)

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
        """What the engine's predictor says of given tuples [B, m, k] of its graphs, without a search: [rows, out]."""
        with matrix_products(self.precision):
            return self.model.restored(self.model.predictor(graphs, tuples), graphs)

    def _answer_recorded(self, size: BatchSize, ids: Tensor) -> Tensor:
        with matrix_products(self.precision):
            return self._answer(self.packed.gather(ids, size), self.generator)

    @torch.no_grad()
    def _answer(self, graphs: GraphBatch, generator: torch.Generator) -> Tensor:
        return self.model(graphs, generator=generator)


@contextmanager
def one_thread_each(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that do not share their work: several chunks side by side waste less than one chunk on several cores."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)
