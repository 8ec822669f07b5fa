"""The order of graphs in training: every graph once in each epoch, as a function of the batch's number.

There is no state between batches, so resuming is exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.model.runtime import make_generator


class Epochs:
    """Batches of graph ids [batch_size], cut from one shuffled epoch after another.

    Args:
        ids: the graphs, [G].
        stream: distinguishes several orders of the same graphs in one run.
        part, parts: this process and the number of processes, which share every batch of parts * batch_size graphs.
    """

    def __init__(self, ids: Tensor, batch_size: int, seed: int, stream: int = 0, part: int = 0, parts: int = 1) -> None:
        self.ids, self.batch_size, self.seed, self.stream = ids, batch_size, seed, stream
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
            self._shuffled = {epoch: torch.randperm(len(self.ids), generator=generator)}
        return self._shuffled[epoch]
