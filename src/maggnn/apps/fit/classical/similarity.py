"""Tanimoto similarity of fingerprints, for all pairs of molecules at once.

This is not in `descriptors`, because worker processes import that module and need no torch.

Shapes: n molecules, K others.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

BLOCK = 1024
"""The number of molecules that are compared at a time."""


class Fingerprints:
    """Fingerprints with which others are compared, unpacked once.

    Args:
        bits: packed fingerprints, [K, bytes].
        device: the device that compares. Shared bits are counted exactly, so both devices find equal similarities.
    """

    def __init__(self, bits: np.ndarray, device: torch.device | str = "cpu") -> None:
        unpacked = np.unpackbits(np.ascontiguousarray(bits.T), axis=0)
        self._bits = torch.from_numpy(unpacked).to(device).float()  # [bits, K]
        self._counts = self._bits.sum(dim=0)

    def similarity(self, bits: np.ndarray) -> Tensor:
        """Return the similarity to all of packed fingerprints [n, bytes], [n, K] on the device."""
        shared, counts = self._shared(bits)
        either = counts[:, None].float() + self._counts - shared
        return shared / either.clamp(min=1.0)

    def nearest(self, bits: np.ndarray) -> np.ndarray:
        """Return the similarity to the most similar one, [n], of packed fingerprints [n, bytes]."""
        blocks = (bits[first : first + BLOCK] for first in range(0, len(bits), BLOCK))
        found = [self.similarity(block).amax(dim=1) for block in blocks]
        return torch.cat([self._counts.new_empty(0), *found]).cpu().numpy()

    def _shared(self, bits: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return the numbers of shared bits, [n, K], and of own bits, [n].

        Few bits of a fingerprint are set, so that a CPU multiplies a sparse matrix.
        """
        if self._bits.device.type != "cpu":
            packed = torch.from_numpy(bits).to(self._bits.device)
            own = ((packed[:, :, None] >> torch.arange(7, -1, -1, device=packed.device)) & 1).flatten(1)
            return own.float() @ self._bits, own.sum(dim=1)
        ones = np.unpackbits(bits, axis=1)
        counts = ones.sum(axis=1, dtype=np.int32)
        return _ones_at(ones.nonzero()[1], counts, len(self._bits)) @ self._bits, torch.from_numpy(counts)


def tanimoto(bits: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the similarity of all pairs of packed fingerprints, [n, bytes] and [K, bytes] -> [n, K]."""
    return Fingerprints(others).similarity(bits).numpy()


def _ones_at(columns: np.ndarray, counts: np.ndarray, width: int) -> torch.Tensor:
    """Return a sparse matrix with ones in `columns`, `counts` [n] of them in each row."""
    offsets = torch.from_numpy(np.append(0, counts.cumsum()).astype(np.int32))
    columns32, size = torch.from_numpy(columns.astype(np.int32)), (len(counts), width)
    return torch.sparse_csr_tensor(offsets, columns32, torch.ones(len(columns)), size=size, check_invariants=False)
