"""Gaussian process regression on descriptors and fingerprints: a smooth function of molecules, where trees have steps.

    k(x, z) = a T(x, z) + (1 - a) exp(-|d(x) - d(z)|^2 / w)

T is the Tanimoto similarity of fingerprints, d the standardised logarithms of descriptors. The share a, the width w and
the noise of each fold maximise the marginal likelihood of some of its training rows. Classes are learned as numbers 0
and 1, and the answers are converted to probabilities.

Shapes: R training rows, n rows to predict, D descriptors, F folds, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Self

import numpy as np

from maggnn.apps.fit.classical.descriptors import BITS, Descriptors
from maggnn.apps.fit.classical.similarity import tanimoto
from maggnn.data.dataset import Dataset
from maggnn.errors import InputError
from maggnn.graphs.batch import Task

KERNEL = "kernel"
NAME = "Gaussian process, descriptors and fingerprints"
MOST_ROWS = 2_500
"""The largest number of training molecules of all folds: the time to fit grows with the third power."""

ROWS_TO_CHOOSE_BY = 400
SHARES, WIDTHS = (0.0, 0.25, 0.5, 0.75), (0.5, 2.0, 8.0)
"""The values of a that are tried and, in units of the typical squared distance between molecules, those of w."""

NOISES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""The noise variances that are tried, in units of the kernel's variance."""

FARTHEST = 6.0
"""The number of standard deviations at which descriptors are clipped."""

EDGE = 0.02
"""Probabilities closer than this to 0 or 1 are compressed, so that none is outside and the ranking stays the same."""

BLOCK = 1024
TYPES = {"descriptors": "float32", "bits": "uint8", "centre": "float32", "unit": "float32", "shape": "float64",
         "dual": "float32", "base": "float64"}  # fmt: skip


@dataclass(frozen=True)
class Kernels:
    """The fitted Gaussian processes of all folds.

    Attributes:
        descriptors: standardised descriptors of the training molecules, [R, D].
        bits: their packed fingerprints, [R, bytes].
        centre, unit: the mean and scale by which descriptors are standardised, [D].
        shape: a and w of each fold, [F, 2].
        dual: the dual weight of each training molecule, [F, R, O]; 0 for those that a fold did not learn from.
        base: the means of the targets, [F, O].
    """

    descriptors: np.ndarray
    bits: np.ndarray
    centre: np.ndarray
    unit: np.ndarray
    shape: np.ndarray
    dual: np.ndarray
    base: np.ndarray

    def answers(self, molecules: Descriptors, task: Task) -> np.ndarray:
        """Return values or probabilities by each fold, [F, n, O]."""
        blocks = [molecules.select(slice(first, first + BLOCK)) for first in range(0, len(molecules), BLOCK)]
        empty = np.empty((len(self.dual), 0, self.dual.shape[2]))
        said = np.concatenate([empty, *map(self._values, blocks)], axis=1)
        if task == "regression":
            return said
        shares = _share(said)
        return shares if task == "multilabel" else shares / shares.sum(axis=-1, keepdims=True)

    def _values(self, molecules: Descriptors) -> np.ndarray:
        own = _standardised(molecules.numbers, self.centre, self.unit)
        apart = _squared_distances(own, self.descriptors)
        alike = tanimoto(molecules.bits, self.bits) if self.shape[:, 0].any() else np.zeros(1)
        folds = [_kernel(alike, apart, *shape) @ dual for shape, dual in zip(self.shape, self.dual, strict=True)]
        return np.stack(folds) + self.base[:, None]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, for a file."""
        return {name: np.ascontiguousarray(getattr(self, name), dtype=kind) for name, kind in TYPES.items()}

    @classmethod
    def checked(cls, arrays: Mapping[str, np.ndarray], columns: int, folds: int, outputs: int) -> Self:
        """Check the arrays of a file and make kernels of them; raises an `InputError` that says what is wrong."""
        missing = [entry.name for entry in fields(cls) if entry.name not in arrays]
        if missing:
            raise InputError(f"the Gaussian process is damaged ({missing[0]} is missing)")
        kernels = cls(**{entry.name: arrays[entry.name] for entry in fields(cls)})
        rows = len(kernels.bits)
        expected = {
            "descriptors": (rows, columns), "bits": (rows, BITS // 8), "centre": (columns,), "unit": (columns,),
            "shape": (folds, 2), "dual": (folds, rows, outputs), "base": (folds, outputs),
        }  # fmt: skip
        for name, shape in expected.items():
            array = getattr(kernels, name)
            if array.dtype != TYPES[name] or array.shape != shape or rows > MOST_ROWS:
                raise InputError(f"the Gaussian process is damaged ({name} is {array.dtype} of shape {array.shape})")
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise InputError(f"the Gaussian process is damaged ({name} contains NaN or infinity)")
        if (kernels.shape[:, 1] <= 0).any() or (kernels.unit <= 0).any():
            raise InputError("the Gaussian process is damaged (a width is not positive)")
        return kernels


def fit_kernels(molecules: Descriptors, dataset: Dataset, folds: Sequence[np.ndarray], seed: int) -> Kernels:
    """Fit a Gaussian process to the rows of each fold.

    Args:
        molecules: descriptors of all rows of the data set.
        folds: the rows that each fold learns from.
        seed: draws a subset of the rows if there are many.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # so that no sum depends on the number of threads
        return _fit(molecules, dataset, folds, np.random.default_rng(seed % 2**32))


def _fit(molecules: Descriptors, dataset: Dataset, folds: Sequence[np.ndarray], random: np.random.Generator) -> Kernels:
    rows = np.unique(np.concatenate(folds))
    rows = np.sort(random.permutation(rows)[:MOST_ROWS])
    logs = _logarithms(molecules.numbers[rows])
    centre, unit = logs.mean(axis=0), logs.std(axis=0)
    unit = np.where(unit > 1e-6, unit, 1.0)
    own, bits = _standardised(molecules.numbers[rows], centre, unit), molecules.bits[rows]
    alike, apart = tanimoto(bits, bits), _squared_distances(own, own)
    targets, weights = _targets(dataset, rows)
    shapes, duals, bases = [], [], []
    for learned in folds:
        places = np.flatnonzero(np.isin(rows, learned))
        shape, noise = _chosen(alike, apart, targets, places, random)
        dual, base = _solved(_kernel(alike, apart, *shape), noise, targets, weights, places)
        shapes.append(shape)
        duals.append(dual)
        bases.append(base)
    made = Kernels(own, bits, centre, unit, np.array(shapes), np.stack(duals), np.stack(bases))
    return Kernels(**made.arrays())  # in the precision of a file


def _targets(dataset: Dataset, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the targets, [R, O], NaN for missing ones, and their weights, [R, O]."""
    y = dataset.y.numpy()[rows]
    if dataset.task == "classification":
        y = np.eye(dataset.num_outputs)[y.reshape(-1).astype(int)]
    y = y.reshape(len(rows), -1).astype(np.float64)
    if dataset.weights is None:
        return y, np.ones_like(y)
    weights = dataset.weights.numpy()[rows].reshape(len(rows), -1)
    return y, np.broadcast_to(weights, y.shape).astype(np.float64)


def _chosen(
    alike: np.ndarray, apart: np.ndarray, targets: np.ndarray, places: np.ndarray, random: np.random.Generator
) -> tuple[tuple[float, float], float]:
    """Return a, w and the noise with the largest marginal likelihood of some rows, averaged over targets."""
    some = np.sort(random.permutation(places)[:ROWS_TO_CHOOSE_BY])
    known = ~np.isnan(targets[some])
    y = np.where(known, targets[some], 0.0)
    y = np.where(known, y - y.sum(axis=0) / np.maximum(known.sum(axis=0), 1), 0.0)
    y = y / np.where(y.std(axis=0) > 0, y.std(axis=0), 1.0)
    near, far = alike[np.ix_(some, some)], apart[np.ix_(some, some)]
    usual = float(np.median(far[~np.eye(len(some), dtype=bool)])) or 1.0
    best, most = ((0.5, usual), 0.1), -np.inf
    for share, width in product(SHARES, WIDTHS):
        shape = share, max(width * usual, 1e-6)
        values, vectors = np.linalg.eigh(_kernel(near, far, *shape))
        turned = (vectors.T @ y) ** 2  # [rows, O]
        for noise in NOISES:
            spectrum = values.clip(0.0) + noise
            variance = (turned / spectrum[:, None]).mean(axis=0).clip(1e-12)
            likelihood = float(-len(some) * np.log(variance).mean() - np.log(spectrum).sum())
            if likelihood > most:
                best, most = (shape, noise), likelihood
    return best


def _solved(
    kernel: np.ndarray, noise: float, targets: np.ndarray, weights: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the dual weights [R, O] and the means [O]; a target is learned from the rows where it is known."""
    from scipy.linalg import cho_factor, cho_solve

    dual, base = np.zeros(targets.shape), np.zeros(targets.shape[1])
    alike: dict[bytes, tuple[np.ndarray, tuple[np.ndarray, bool]]] = {}
    for column in range(targets.shape[1]):
        known = places[~np.isnan(targets[places, column]) & (weights[places, column] > 0)]
        if not len(known):
            continue
        heavy = weights[known, column] / weights[known, column].mean()
        key = known.tobytes() + heavy.tobytes()
        if key not in alike:  # targets that are known in the same rows share a factorisation
            matrix = kernel[np.ix_(known, known)] + np.diag(noise / heavy)
            alike = {key: (known, cho_factor(matrix, lower=True, overwrite_a=True))}
        base[column] = np.average(targets[known, column], weights=heavy)
        dual[known, column] = cho_solve(alike[key][1], targets[known, column] - base[column])
    return dual, base


def _share(values: np.ndarray) -> np.ndarray:
    """Map numbers around 0 and 1 to probabilities: the identity, but with exponential tails beyond `EDGE`."""

    def above_zero(share: np.ndarray) -> np.ndarray:
        return np.where(share < EDGE, EDGE * np.exp(np.clip(share / EDGE - 1.0, -25.0, 0.0)), share)

    return np.where(values < 0.5, above_zero(values), 1.0 - above_zero(1.0 - values))


def _kernel(alike: np.ndarray, apart: np.ndarray, share: float, width: float) -> np.ndarray:
    return share * alike + (1.0 - share) * np.exp(apart / -width)


def _logarithms(numbers: np.ndarray) -> np.ndarray:
    """Return the signed logarithms of descriptors, with 0 for missing ones."""
    known = np.nan_to_num(numbers)
    return np.sign(known) * np.log1p(np.abs(known))


def _standardised(numbers: np.ndarray, centre: np.ndarray, unit: np.ndarray) -> np.ndarray:
    return np.clip((_logarithms(numbers) - centre) / unit, -FARTHEST, FARTHEST).astype(np.float32)


def _squared_distances(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Compute in float64, so that rounding does not depend on the number of rows in a call."""
    x, z = x.astype(np.float64), z.astype(np.float64)
    return np.maximum((x**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2.0 * (x @ z.T), 0.0)
