"""Two methods that learn in seconds, on the same molecules and folds as the networks: baselines, and parts of a blend.

    forest     a random forest on Morgan fingerprints
    boosting   gradient boosting on descriptors

scikit-learn fits them; what they learned is kept as plain arrays (`trees`). Both are bounded: few trees, and a part of
the rows where there are many.

Shapes: G graphs, F folds, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maggnn.apps.fit.descriptors import BITS, NUMBERS, Described
from maggnn.apps.fit.trees import LEAF, Trees

FOREST, BOOSTING = "forest", "boosting"
NAMES = {FOREST: "random forest, Morgan fingerprints", BOOSTING: "gradient boosting, RDKit descriptors"}
COLUMNS = {FOREST: BITS, BOOSTING: NUMBERS}

TREES, ROUNDS = 100, 100
TREES_A_FOLD = 40
"""Of a forest that is one of several."""

MOST_ROWS = 10_000
"""Training molecules that one of them sees; more would cost minutes and change little."""

LARGEST = float(np.finfo(np.float32).max)
ABSENT = -30.0
"""The logarithm of how likely a class is that no training row had."""


class TreeTask(NamedTuple):
    """One baseline of one fold: y is [rows] for classes, [rows, targets] for numbers; `classes` is 0 for numbers."""

    kind: str
    x: np.ndarray
    y: np.ndarray
    classes: int
    seed: int
    trees: int


def table(kind: str, molecules: Described) -> np.ndarray:
    """What a baseline reads of molecules, [rows, columns] in float32."""
    return molecules.fingerprints if kind == FOREST else molecules.numbers


def tree_task(
    kind: str, molecules: Described, y: np.ndarray, train: np.ndarray, classes: int, seed: int, folds: int
) -> TreeTask:
    """What there is to fit on the rows `train`."""
    seed %= 2**32  # scikit-learn takes no more
    train = _some(np.random.default_rng(seed).permutation(train), y, classes)
    trees = TREES if folds == 1 else TREES_A_FOLD
    return TreeTask(kind, table(kind, molecules.select(train)), y[train], classes, seed, trees)


def _some(rows: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """At most `MOST_ROWS` of the rows, the first ones, with one of every class that there is."""
    if len(rows) > MOST_ROWS and classes:
        firsts = np.unique(y[rows], return_index=True)[1]
        rows = np.concatenate([rows[firsts], np.delete(rows, firsts)])
    return rows[:MOST_ROWS]


def fit_trees(task: TreeTask) -> Trees:
    """The trees of one fold. On one thread, so that no sum depends on how many there are."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return _forest(task) if task.kind == FOREST else _boosting(task)


def joined(folds: Sequence[Trees]) -> Trees:
    """The trees of all folds as one, whose columns are those of the first fold, of the second, and so on."""
    nodes = np.cumsum([0, *(len(trees.right) for trees in folds)])
    width = len(folds[0].base)
    shifted = {
        "start": [trees.start + first for trees, first in zip(folds, nodes, strict=False)],
        "column": [trees.column + width * fold for fold, trees in enumerate(folds)],
        "right": [np.where(trees.feature == LEAF, 0, trees.right + first)
                  for trees, first in zip(folds, nodes, strict=False)],
    }  # fmt: skip
    names = ("feature", "threshold", "missing_left", "value", "base")
    whole = shifted | {name: [getattr(trees, name) for trees in folds] for name in names}
    trees = Trees(**{name: np.concatenate(arrays) for name, arrays in whole.items()})
    return Trees(**trees.arrays())


def tree_answers(kind: str, trees: Trees, x: np.ndarray, folds: int, classify: bool) -> np.ndarray:
    """Probabilities or values by each fold's trees, [F, rows, O]."""
    sums = trees.sums(x).reshape(len(x), folds, -1).transpose(1, 0, 2)
    if not classify or kind == FOREST:
        return sums
    likely = np.exp(sums - sums.max(axis=-1, keepdims=True))
    return likely / likely.sum(axis=-1, keepdims=True)


def _forest(task: TreeTask) -> Trees:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if task.classes:
        fitted = RandomForestClassifier(task.trees, random_state=task.seed).fit(task.x, task.y)
        base, scale = np.zeros(task.classes), np.ones(1)
    else:
        base, scale = task.y.mean(axis=0, dtype=np.float64), _spread(task.y)
        fitted = RandomForestRegressor(task.trees, max_features=0.1, min_samples_leaf=2, random_state=task.seed)
        fitted.fit(task.x, ((task.y - base) / scale).reshape(len(task.y), -1).squeeze())
    nodes = []
    for tree in (estimator.tree_ for estimator in fitted.estimators_):
        value = tree.value.reshape(tree.node_count, -1)
        if task.classes:
            wide = np.zeros((len(value), task.classes))
            wide[:, fitted.classes_.astype(int)] = value / value.sum(axis=1, keepdims=True)
            value = wide
        nodes.append((tree.children_right, tree.feature, tree.threshold, None, value * scale / task.trees))
    return _trees(nodes, [0] * len(nodes), base)


def _boosting(task: TreeTask) -> Trees:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    nodes: list[Any] = []
    columns: list[int] = []
    if task.classes:
        fitted = HistGradientBoostingClassifier(max_iter=ROUNDS, random_state=task.seed).fit(task.x, task.y)
        known = fitted.classes_.astype(int)
        base = np.full(task.classes, ABSENT)
        base[known] = 0.0
        own = known[-fitted._baseline_prediction.shape[1] :]  # of two classes the second has the trees
        base[own] = fitted._baseline_prediction[0]
        _add_rounds(fitted, own, 1.0, nodes, columns)
        return _trees(nodes, columns, base)
    base, scale = task.y.mean(axis=0, dtype=np.float64), _spread(task.y)
    for column, values in enumerate(((task.y - base) / scale).T):
        fitted = HistGradientBoostingRegressor(max_iter=ROUNDS, random_state=task.seed).fit(task.x, values)
        base[column] += scale[column] * float(fitted._baseline_prediction[0, 0])
        _add_rounds(fitted, [column], scale[column], nodes, columns)
    return _trees(nodes, columns, base)


def _spread(y: np.ndarray) -> np.ndarray:
    """Of each target [rows, targets]; 1 where all are equal."""
    spread = y.std(axis=0, dtype=np.float64)
    return np.where(spread > 0, spread, 1.0)


def _add_rounds(fitted: Any, own: Sequence[int], scale: float, nodes: list[Any], columns: list[int]) -> None:
    """Append the trees of a boosting, those of one column after those of another."""
    for place, column in enumerate(own):
        for trees in fitted._predictors:
            found = trees[place].nodes
            feature = np.where(found["is_leaf"], LEAF, found["feature_idx"])
            value = scale * found["value"][:, None]
            missing = found["missing_go_to_left"].astype(bool)
            nodes.append((found["right"], feature, found["num_threshold"], missing, value))
            columns.append(column)


def _trees(nodes: Sequence[Any], columns: Sequence[int], base: np.ndarray) -> Trees:
    """Trees of which `nodes` has the right children, features, thresholds, ways of missing values, and values."""
    first = np.cumsum([0, *(len(right) for right, *_ in nodes)])
    feature = np.concatenate([np.maximum(feature, LEAF) for _, feature, *_ in nodes])
    right = np.concatenate([right + start for (right, *_), start in zip(nodes, first, strict=False)])
    missing = [np.zeros(len(right), bool) if ways is None else ways for right, _, _, ways, _ in nodes]
    trees = Trees(
        start=first[:-1], column=np.array(columns), right=np.where(feature == LEAF, 0, right), feature=feature,
        threshold=_rounded_down(np.concatenate([threshold for _, _, threshold, *_ in nodes])),
        missing_left=np.concatenate(missing), value=np.concatenate([value for *_, value in nodes]), base=base,
    )  # fmt: skip
    return Trees.checked(trees.arrays(), LARGEST_COLUMN, len(base))  # also that left children follow their parents


LARGEST_COLUMN = max(COLUMNS.values())


def _rounded_down(threshold: np.ndarray) -> np.ndarray:
    """Thresholds as the next float32 below, by which numbers in float32 are compared as by those in float64."""
    short = np.clip(threshold, -LARGEST, LARGEST).astype(np.float32)
    return np.where(short > threshold, np.nextafter(short, np.float32(-np.inf)), short)
