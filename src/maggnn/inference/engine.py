"""Predictions for many graphs: one frozen model, any number of data sets, and chunks that fit a memory budget.

On a GPU a search never synchronises the device: the t moves and the answer of a chunk are one replay of a recording,
and recordings are cached by the size of a chunk, for all sets. On a CPU, chunks fit into the caches, and each core
processes its own chunk.

Example:
    engine = Engine(model)                    # on the GPU if there is one
    answers = engine.predict(packed)          # [graphs, outputs]
    more = engine.predict(other, torch.tensor([3, 1, 4]))
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from maggnn.config import Precision
from maggnn.errors import InputError
from maggnn.graphs.batch import BatchSize, GraphBatch, batch_from_tensors, batch_tensors, rounded_down, rounded_up
from maggnn.graphs.checks import check_integers
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.frozen import Present, frozen, present_kinds
from maggnn.model.kernels.capture import Captured
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import make_generator, matrix_products, pick_device
from maggnn.model.tuples import check_tuples

LIVE_COPIES = 6
"""An upper bound of the number of [N, m, d] tensors in memory during a search: features, messages, hidden layers."""

CACHE_MB = 16.0
"""The memory of a chunk on a CPU: features that fit into the caches are faster to read than those in memory."""


BatchShape = tuple[BatchSize, tuple[tuple[str, tuple[int, ...]], ...]]
"""The key of a recording: the size of a batch, and the names and shapes of its tensors."""


class Engine:
    """Predicts with a frozen copy of a model on a device.

    Args:
        model: the model, which is copied, so that later training does not change the engine's answers.
        device: "auto" (the GPU if there is one), "cpu" or "cuda".
        memory_mb: the memory that a chunk may take. A single graph that needs more gets its own chunk.
        precision: the precision of matrix products on a GPU; a CPU always uses float32.
        seed: the seed of random starting tuples; equal seeds and chunks give equal answers.
        adapt: whether the frozen tables contain only the atoms and bonds of the graphs seen so far, which is faster if
            the model knows many. Otherwise they contain all known ones, if these are few, and no bit of an answer
            depends on earlier calls.
    """

    def __init__(
        self,
        model: MagGNN,
        device: torch.device | str = "auto",
        memory_mb: float = 1000.0,
        precision: Precision = "float32",
        seed: int = 0,
        adapt: bool = True,
    ) -> None:
        if memory_mb <= 0:
            raise InputError(f"the memory budget is {memory_mb} MB, must be more than 0")
        self.device = pick_device(str(device))
        self.precision: Precision = precision if self.device.type == "cuda" else "float32"
        self.memory_mb = memory_mb  # for one chunk
        if self.device.type != "cuda":
            self.memory_mb = min(memory_mb / torch.get_num_threads(), CACHE_MB)
        self.generator = make_generator(seed, self.device)
        self.draws = model.predictor.encoder.draws
        # A copy, since tables may have to be made again after the caller's model was trained further.
        self._source, self._adapt = copy.deepcopy(model).eval().requires_grad_(False), adapt
        self._known: PackedGraphs | GraphBatch | None = None  # the graphs that the tables last covered, precomputed
        self._freeze(None)

    def _freeze(self, present: list[Present] | None) -> None:
        """Make the frozen model, with tables of the kinds that are present; None if they are not known yet."""
        self._present = present
        self.model = frozen(self._source, self.precision, present).to(self.device)
        recordable = self._source.recordable
        self._replay = Captured(self._answer_recorded, self.device, [self.generator], recordable, share_memory=True)

    def precomputed(self, packed: PackedGraphs) -> PackedGraphs:
        """Return the set on the engine's device, with the precomputed structural features that the model reads.

        `predict` does this itself; call it before if the same set is used several times.
        """
        packed = packed if _same_device(packed.device, self.device) else packed.to(self.device)
        return self.model.precomputed(packed)  # in full precision and once, not in every chunk

    def predict(
        self,
        graphs: PackedGraphs | Iterable[GraphBatch],
        ids: Tensor | None = None,
        done: Callable[[int], None] | None = None,
        seed: int | None = None,
        tuples: Tensor | None = None,
    ) -> Tensor:
        """Predict for many graphs, in chunks that fit the memory budget.

        Args:
            graphs: a data set, or batches, each of which is processed as a whole.
            ids: the ids of graphs of a set, [B] on the CPU, possibly repeated; all if not given.
            done: called after each chunk with the number of graphs answered so far.
            seed: a new seed for the random starting tuples.
            tuples: the results of `search` for all graphs of the set, [G, m, k]; by default a search is made.

        Returns:
            One row for each graph (or node), in order: [rows, num_outputs].
        """
        if seed is not None:
            self.generator.manual_seed(seed)
        if not isinstance(graphs, PackedGraphs):
            return self._predict_batches(graphs, done)
        ids = torch.arange(len(graphs)) if ids is None else _checked(ids, len(graphs))
        if tuples is not None and len(tuples) != len(graphs):
            raise InputError(
                f"{len(tuples)} sets of tuples for {len(graphs)} graphs: give one for each graph of the set"
            )
        if not len(ids):
            return torch.empty(0, self.model.num_outputs, device=self.device)
        # What the last call precomputed is ready: walking through the model's modules again takes as long as a launch.
        packed = graphs if graphs is self._known else self.precomputed(graphs)
        self._cover(packed)
        parts, count = [], 0
        chunks = list(self.chunks(packed, ids))
        with self._own_draws():
            for chunk, answers in zip(chunks, self._answers(packed, chunks, tuples), strict=True):
                parts.append(answers[: self._rows(packed, chunk)])
                count += len(chunk)
                if done is not None:
                    done(count)
        return torch.cat(parts)

    @torch.no_grad()
    def search(self, packed: PackedGraphs) -> Tensor | None:
        """Return the final tuples of the agent's search in each graph, for starts that are not random: [G, m, k].

        Returns None on a GPU, where a search and its answer are one recording.
        """
        if self.device.type == "cuda":
            return None
        packed = self.precomputed(packed)
        self._cover(packed)
        chunks = list(self.chunks(packed, torch.arange(len(packed))))
        return torch.cat(list(self._side_by_side(lambda chunk: self.model.walk(packed[chunk])[-1].tuples, chunks)))

    def _predict_batches(self, batches: Iterable[GraphBatch], done: Callable[[int], None] | None) -> Tensor:
        parts, count = [torch.empty(0, self.model.num_outputs, device=self.device)], 0
        with self._own_draws():
            for batch in batches:
                if not isinstance(batch, GraphBatch):
                    raise InputError(
                        f"the engine takes PackedGraphs or GraphBatches, and got a {type(batch).__name__}: "
                        "maggnn.graphs.conversions.pack_pyg packs a list of PyG graphs"
                    )
                on_device = batch if _same_device(batch.device, self.device) else batch.to(self.device)
                self._cover(on_device)
                with matrix_products(self.precision):
                    parts.append(self._answer(on_device, self.generator))
                count += batch.num_graphs
                if done is not None:
                    done(count)
        return torch.cat(parts)

    def _cover(self, graphs: PackedGraphs | GraphBatch) -> None:
        """Note which graphs are answered; if they have atoms or bonds that no earlier set had, extend the tables."""
        if graphs is self._known:
            return
        if self._adapt:
            self._extend_tables(present_kinds(self._source, graphs))
        self._known = graphs

    def _extend_tables(self, found: list[Present]) -> None:
        if self._present is None:
            self._freeze(found)
        elif not all(new.within(old) for new, old in zip(found, self._present, strict=True)):
            self._freeze([new.joined(old) for new, old in zip(found, self._present, strict=True)])

    @contextmanager
    def _own_draws(self) -> Iterator[None]:
        """Seed torch's global generator, from which random baselines draw, and restore its state afterwards."""
        if not self.draws:
            yield
            return
        seed = int(torch.randint(2**62, (), generator=self.generator, device=self.device))
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield

    def _answers(self, packed: PackedGraphs, chunks: Sequence[Tensor], tuples: Tensor | None) -> Iterable[Tensor]:
        """Yield the answers of each chunk in order. A GPU replays a recording; a CPU has one chunk on each thread."""
        if tuples is not None:
            return self._side_by_side(lambda chunk: self._answer_at(packed[chunk], tuples[chunk]), chunks)
        if self.device.type == "cuda":
            return (self._replayed(packed, chunk) for chunk in chunks)
        # Each chunk has its own generator, so that answers do not depend on the order of threads.
        seeds = torch.randint(2**62, (len(chunks),), generator=self.generator).tolist()

        def answer(chunk: Tensor, seed: int) -> Tensor:
            return self._answer(packed[chunk], make_generator(seed))

        return self._side_by_side(answer, chunks, seeds)

    def _side_by_side(self, work: Callable[..., Tensor], *arguments: Sequence[Any]) -> Iterator[Tensor]:
        """Yield the results of `work` for each of the arguments, in order, on as many threads as torch has."""
        threads = 1 if self.draws else min(len(arguments[0]), torch.get_num_threads())  # draws would race
        if threads == 1:
            yield from map(work, *arguments)
            return
        with one_thread_each(threads) as pool:
            yield from pool.map(work, *arguments)

    def _replayed(self, packed: PackedGraphs, chunk: Tensor) -> Tensor:
        """Return the answers of one chunk on a GPU, in a padded batch whose size other chunks share."""
        ids = torch.cat([chunk, chunk[-1:].expand(rounded_up(len(chunk)) - len(chunk))])
        size = packed.common_size(ids)
        batch = packed.with_own_pairs(packed.gather(ids.to(self.device, non_blocking=True), size), ids)
        tensors = batch_tensors(batch)
        shape = (size, tuple((name, tuple(value.shape)) for name, value in tensors.items()))
        return self._replay(shape, *(value.contiguous() for value in tensors.values()))

    def chunks(self, packed: PackedGraphs, ids: Tensor) -> Iterator[Tensor]:
        """Yield `ids` in chunks of one length, halved if their graphs are too large for the budget."""
        most = self._most_nodes()
        total = int(packed.num_nodes.index_select(0, ids).sum())
        # Less than the budget allows on average, so that most chunks need no halving and have the same length.
        length = max(1, int(0.9 * most / total * len(ids)))
        if length >= len(ids):
            yield ids
            return
        if self.device.type == "cuda":
            length = rounded_down(length)  # a length that other sets share
        for chunk in ids.split(length):
            yield from self._halved(packed, chunk, most)

    def _halved(self, packed: PackedGraphs, chunk: Tensor, most: float) -> Iterator[Tensor]:
        if len(chunk) == 1 or int(packed.num_nodes.index_select(0, chunk).sum()) <= most:
            yield chunk
        else:
            for half in chunk.split(-(-len(chunk) // 2)):
                yield from self._halved(packed, half, most)

    def _most_nodes(self) -> float:
        """Return the number of nodes of a chunk that fills the memory budget."""
        hidden = self.model.predictor.encoder.config.hidden
        return 1e6 * self.memory_mb / (4 * hidden * self.model.agent.num_tuples * LIVE_COPIES)

    def _rows(self, packed: PackedGraphs, chunk: Tensor) -> int:
        return len(chunk) if self.model.predictor.level == "graph" else int(packed.num_nodes[chunk].sum())

    @torch.no_grad()
    def answer_for(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Return the predictor's answers for given tuples [B, m, k], without a search: [rows, out]."""
        self._cover(graphs)
        return self._answer_at(graphs, tuples)

    @torch.no_grad()
    def _answer_at(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        check_tuples(tuples, graphs, self.model.agent.num_tuples, self.model.agent.tuple_order)
        with matrix_products(self.precision):
            return self.model.in_target_units(self.model.predictor(graphs, tuples), graphs)

    def _answer_recorded(self, shape: BatchShape, *tensors: Tensor) -> Tensor:
        size, layout = shape
        named = {name: value for (name, _), value in zip(layout, tensors, strict=True)}
        with matrix_products(self.precision):
            return self._answer(batch_from_tensors(named, size), self.generator)

    @torch.no_grad()
    def _answer(self, graphs: GraphBatch, generator: torch.Generator) -> Tensor:
        return self.model(graphs, generator=generator)


def _checked(ids: Tensor, count: int) -> Tensor:
    """Return the ids of graphs [B] if they are whole numbers from 0 to `count` - 1."""
    check_integers("ids", ids)
    if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= count):
        raise InputError(f"ids must contain numbers of graphs, from 0 to {count - 1}")
    return ids


def _same_device(one: torch.device, other: torch.device) -> bool:
    return one.type == other.type and (one.index or 0) == (other.index or 0)


@contextmanager
def one_thread_each(count: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that each use one core of torch: several chunks at once are faster than one chunk on all cores."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)
