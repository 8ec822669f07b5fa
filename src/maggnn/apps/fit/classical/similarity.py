"""Tanimoto similarity of fingerprints, for all pairs of molecules at once.

Apart from `descriptors`, which worker processes import: they need no torch.
"""

from __future__ import annotations

import numpy as np
import torch


def tanimoto(bits: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The similarity of all pairs of packed fingerprints, [n, bytes] and [R, bytes] -> [n, R].

    Few bits of a fingerprint are set, so the numbers of shared ones are products of a sparse matrix with a dense one.
    """
    known = torch.from_numpy(np.unpackbits(np.ascontiguousarray(others.T), axis=0).astype(np.float32))  # [bits, R]
    own = np.unpackbits(bits, axis=1)
    counts = own.sum(axis=1, dtype=np.int32)
    shared = (_ones_at(own.nonzero()[1], counts, len(known)) @ known).numpy()  # whole numbers, so exact
    either = counts[:, None].astype(np.float32) + known.sum(dim=0).numpy() - shared
    return shared / np.maximum(either, 1.0)


def _ones_at(columns: np.ndarray, counts: np.ndarray, width: int) -> torch.Tensor:
    """A sparse matrix with ones at some columns, `counts` [n] of them in each row."""
    offsets = torch.from_numpy(np.append(0, counts.cumsum()).astype(np.int32))
    columns32, size = torch.from_numpy(columns.astype(np.int32)), (len(counts), width)
    return torch.sparse_csr_tensor(offsets, columns32, torch.ones(len(columns)), size=size, check_invariants=False)
