"""What a model has to beat: two rivals that take seconds, on the same molecules and the same split.

    random forest       on Morgan fingerprints (radius 2, 2,048 bits)
    gradient boosting   on RDKit's two-dimensional descriptors

Both are bounded: few trees, no descriptor that is slow out of proportion, and a part of the rows where there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np

from maggnn.data.molecules.smiles import parsed
from maggnn.errors import InputError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

RADIUS, BITS = 2, 2048
TREES, ROUNDS = 100, 100
MOST_ROWS = 10_000
"""Training molecules that a rival sees; more would cost minutes and change little."""

SLOW = frozenset({"qed", "SPS", "Ipc", "AvgIpc"})
"""Left out, with the BCUT2D ones: together they take longer than the other 200."""

CHUNK = 200
FOREST, BOOSTING = "random forest, Morgan fingerprints", "gradient boosting, RDKit descriptors"


def rivals(
    canonical: Sequence[str], y: np.ndarray, train: np.ndarray, test: np.ndarray, classes: int, seed: int, workers: int
) -> dict[str, np.ndarray]:
    """What each rival answers for the rows `test`: probabilities [rows, classes], or values [rows, targets].

    Args:
        y: [G] for classes, [G, targets] for numbers.
        classes: how many there are; 0 for numbers.
    """
    seed %= 2**32  # scikit-learn takes no more
    train = np.random.default_rng(seed).permutation(train)[:MOST_ROWS]
    rows = [canonical[int(row)] for row in (*train, *test)]
    described = _described(rows, workers)
    known, asked = slice(0, len(train)), slice(len(train), None)
    answers = {}
    for name, table in zip((FOREST, BOOSTING), described, strict=True):
        make = _forest if name == FOREST else _boosting
        answer = _classified if classes else _valued
        answers[name] = answer(lambda make=make: make(bool(classes), seed, workers), table[known], y[train],
                               table[asked], classes)  # fmt: skip
    return answers


def _classified(make: Callable[[], Any], x: np.ndarray, y: np.ndarray, asked: np.ndarray, classes: int) -> np.ndarray:
    fitted = make().fit(x, y)
    answers = np.zeros((len(asked), classes))
    answers[:, fitted.classes_.astype(int)] = fitted.predict_proba(asked)  # some classes may not be in training
    return answers


def _valued(make: Callable[[], Any], x: np.ndarray, y: np.ndarray, asked: np.ndarray, classes: int) -> np.ndarray:
    return np.stack([make().fit(x, column).predict(asked) for column in y.T], axis=1)


def _forest(classify: bool, seed: int, workers: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if classify:
        return RandomForestClassifier(TREES, random_state=seed, n_jobs=workers)
    return RandomForestRegressor(TREES, max_features=0.1, random_state=seed, n_jobs=workers)


def _boosting(classify: bool, seed: int, workers: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    return kind(max_iter=ROUNDS, random_state=seed)


def _described(rows: list[str], workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Fingerprints [rows, BITS] and descriptors [rows, columns]."""
    chunks = [rows[first : first + CHUNK] for first in range(0, len(rows), CHUNK)]
    if workers == 1 or len(chunks) == 1:
        tables = [_describe(chunk) for chunk in chunks]
    else:
        with ProcessPoolExecutor(min(workers, len(chunks)), get_context("spawn")) as pool:
            tables = list(pool.map(_describe, chunks))
    return np.concatenate([table[0] for table in tables]), np.concatenate([table[1] for table in tables])


def _describe(rows: list[str]) -> tuple[np.ndarray, np.ndarray]:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from rdkit.rdBase import BlockLogs

    generator = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    functions = _descriptors()
    bits, numbers = np.zeros((len(rows), BITS), dtype=np.uint8), np.zeros((len(rows), len(functions)))
    with BlockLogs():
        for place, smiles in enumerate(rows):
            try:
                mol = parsed(smiles)
                bits[place] = generator.GetFingerprintAsNumPy(mol)
                numbers[place] = [_number(function, mol) for function in functions]
            except (InputError, RuntimeError):  # odd valences: nothing is known of this molecule
                numbers[place] = np.nan
    return bits, numbers


def _descriptors() -> list[Callable[[Mol], float]]:
    from rdkit.Chem import Descriptors

    return [function for name, function in Descriptors.descList if name not in SLOW and not name.startswith("BCUT2D")]


def _number(function: Callable[[Mol], float], mol: Mol) -> float:
    """A descriptor in the range of float32; what cannot be worked out is missing."""
    try:
        value = float(function(mol))
    except (ValueError, RuntimeError, ZeroDivisionError):
        return float("nan")
    return value if abs(value) < 1e30 else float("nan")
