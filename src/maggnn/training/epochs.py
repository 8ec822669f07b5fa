"""The order of graphs in training: every graph once in each epoch, as a function of the batch's number.

There is no state between batches, so resuming is exact. Of a set that is read from disk while training, graphs that are
neighbours on disk come soon after one another: an epoch is a random order of blocks, and the graphs of some blocks are
shuffled together. Otherwise each graph of a batch would be a read of its own, which takes longer than the step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.model.runtime import make_generator

BLOCK, TOGETHER = 2_048, 16
"""Of graphs on disk: the graphs of a block, half a megabyte of molecules, and the number of blocks that are shuffled
together. Smaller sets than one such group are shuffled as a whole."""


class Epochs:
    """Batches of graph ids [batch_size], cut from one shuffled epoch after another.

    Args:
        ids: the graphs, [G].
        stream: distinguishes several orders of the same graphs in one run.
        part, parts: this process and the number of processes, which share every batch of parts * batch_size graphs.
        on_disk: whether the graphs are read from disk batch by batch; then `ids` must ascend.
    """

    def __init__(
        self,
        ids: Tensor,
        batch_size: int,
        seed: int,
        stream: int = 0,
        part: int = 0,
        parts: int = 1,
        on_disk: bool = False,
    ) -> None:
        self.ids, self.batch_size, self.seed, self.stream = ids, batch_size, seed, stream
        self._order = in_blocks if on_disk and len(ids) > BLOCK * TOGETHER else in_one
        self.part, self.parts = part, parts
        self._shuffled: dict[int, Tensor] = {}

    def batch(self, number: int) -> Tensor:
        """Return batch `number`; a batch that reaches past its epoch continues in the next."""
        first, parts, missing = (number * self.parts + self.part) * self.batch_size, [], self.batch_size
        while missing:
            epoch, place = divmod(first, len(self.ids))
            part = self._epoch(epoch)[place : place + missing]
            parts.append(part)
            first, missing = first + len(part), missing - len(part)
        return self.ids[torch.cat(parts)]

    def _epoch(self, epoch: int) -> Tensor:
        if epoch not in self._shuffled:
            # Seeds of runs and streams are neighbouring numbers, which the generator's own mixing decorrelates.
            generator = make_generator(((self.seed * 2 + self.stream) * 1_000_003 + epoch) % 2**62)
            self._shuffled = {epoch: self._order(len(self.ids), generator)}
        return self._shuffled[epoch]


def in_one(count: int, generator: torch.Generator) -> Tensor:
    """Return a random permutation of `count` places, [count]."""
    return torch.randperm(count, generator=generator)


def in_blocks(count: int, generator: torch.Generator) -> Tensor:
    """Return a permutation of `count` places, [count], in which places of `TOGETHER` random blocks are shuffled."""
    blocks = in_one(-(-count // BLOCK), generator)
    places = (BLOCK * blocks[:, None] + torch.arange(BLOCK)).view(-1)
    groups = places[places < count].split(BLOCK * TOGETHER)
    return torch.cat([group[in_one(len(group), generator)] for group in groups])
