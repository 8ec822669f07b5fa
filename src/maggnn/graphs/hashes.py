"""64-bit hashes in numpy, for colours of nodes; worker processes, which never import torch, use them too."""

from __future__ import annotations

import numpy as np

ODD = -0x61C8864680B583EB
"""2^64 over the golden ratio, as a signed number: multiplying by it is bijective and spreads low bits upwards."""

MOST_CATEGORIES = 1 << 12
"""Up to this many categories of integer features, each category is hashed once, and rows read the hash from a table."""


def mixed(values: np.ndarray) -> np.ndarray:
    """Scramble int64 bijectively, so that every input bit changes about half of the output bits.

    Multiply and fold the upper half onto the lower one, twice, in arithmetic that wraps around; the idea is that of
    SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
    """
    bits = (values * np.int64(ODD)).view(np.uint64)  # unsigned shifts bring in zeros
    for shift in (32, 29):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(ODD % 2**64)
    bits ^= bits >> np.uint64(32)
    return bits.view(np.int64)


def category_hashes(features: np.ndarray) -> np.ndarray | None:
    """Return a hash of each row of integer features [R, F], [R]; None if they are not a few categories."""
    if features.dtype.kind not in "iu" or not features.size:
        return None
    if int(features.min()) < 0 or int(features.max()) >= MOST_CATEGORIES:
        return None
    column = mixed(np.arange(1, features.shape[1] + 1))
    table = mixed(number_bits(np.arange(int(features.max()) + 1))[:, None] + column)  # [categories, F]
    total = np.zeros(len(features), dtype=np.int64)
    for own, values in zip(table.T, features.T, strict=True):
        total += own.take(values)
    return mixed(total)


def number_bits(values: np.ndarray) -> np.ndarray:
    """Return the bits of numbers in double precision as integers; adding 0 makes -0 and 0 equal."""
    return (values.astype(np.float64) + 0.0).view(np.int64)
