"""Tanimoto similarity of fingerprints, for all pairs of molecules at once.

This is not in `descriptors`, because worker processes import that module and need no torch.
"""

from __future__ import annotations

import numpy as np
import torch


def tanimoto(bits: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the similarity of all pairs of packed fingerprints, [n, bytes] and [R, bytes] -> [n, R].

    Few bits of a fingerprint are set, so the shared bits are counted by a product of a sparse and a dense matrix.
    """
    known = torch.from_numpy(np.unpackbits(np.ascontiguousarray(others.T), axis=0).astype(np.float32))  # [bits, R]
    own = np.unpackbits(bits, axis=1)
    counts = own.sum(axis=1, dtype=np.int32)
    shared = (_ones_at(own.nonzero()[1], counts, len(known)) @ known).numpy()  # integers, so exact
    either = counts[:, None].astype(np.float32) + known.sum(dim=0).numpy() - shared
    return shared / np.maximum(either, 1.0)


def _ones_at(columns: np.ndarray, counts: np.ndarray, width: int) -> torch.Tensor:
    """Return a sparse matrix with ones in `columns`, `counts` [n] of them in each row."""
    offsets = torch.from_numpy(np.append(0, counts.cumsum()).astype(np.int32))
    columns32, size = torch.from_numpy(columns.astype(np.int32)), (len(counts), width)
    return torch.sparse_csr_tensor(offsets, columns32, torch.ones(len(columns)), size=size, check_invariants=False)
