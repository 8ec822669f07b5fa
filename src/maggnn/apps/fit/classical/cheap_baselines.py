"""Methods that learn in seconds, on the same molecules and folds as the networks: baselines, and parts of a blend.

    forest     a random forest on Morgan fingerprints
    boosting   gradient boosting on descriptors
    kernel     a Gaussian process on both (`kernel`), only as a part of a blend

scikit-learn fits the trees, which are stored as plain arrays (`trees`). The cost is bounded by few trees, and by a
subset of the rows if there are many.

Shapes: G graphs, F folds, O outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from maggnn.apps.fit.classical.descriptors import BITS, NUMBERS, Descriptors
from maggnn.apps.fit.classical.kernel import KERNEL, NAME, Kernels
from maggnn.apps.fit.classical.trees import LEAF, Trees
from maggnn.data.dataset import Dataset
from maggnn.graphs.batch import Task

FOREST, BOOSTING = "forest", "boosting"
NAMES = {
    FOREST: "random forest, Morgan fingerprints",
    BOOSTING: "gradient boosting, RDKit descriptors",
    KERNEL: NAME,
}
COLUMNS = {FOREST: BITS, BOOSTING: NUMBERS, KERNEL: NUMBERS}

TREES, ROUNDS = 100, 100
TREES_A_FOLD = 40
"""The number of trees of a forest that is one of several."""

SLOWLY = {"max_leaf_nodes": 15, "min_samples_leaf": 10, "max_features": 0.3}
ROUNDS_SLOWLY, RATE_SLOWLY = 200, 0.06
"""Rounds and learning rate of a boosting that is one of several: smaller trees on some of the columns, in shorter
steps. A single baseline has scikit-learn's defaults."""

ROUNDS_IN_ALL, FEWEST_ROUNDS = 800, 60
"""The total number of rounds of a boosting with several targets, and the smallest number for each target."""

FEWEST_TREES = 12
"""The smallest number of trees of a forest for one of several targets with different known rows, in one of several
folds."""

MOST_ROWS = 10_000
"""The largest number of training molecules for one model; more would cost minutes and change little."""

LARGEST = float(np.finfo(np.float32).max)
ABSENT = -30.0
"""The log-probability of a class that no training row has."""


class TreeTask(NamedTuple):
    """The training of one baseline on one fold.

    Attributes:
        x: the inputs, [rows, columns].
        y: classes [rows] for classification; else [rows, targets], NaN for missing values.
        outputs: the number of classes or targets.
        trees: the number of trees of a forest.
        alone: whether this is the only fold.
        weights: the weight of each target, in the shape of y; None if all are equal.
        together: whether one forest predicts all targets, which requires that all are known in all rows.
    """

    kind: str
    x: np.ndarray
    y: np.ndarray
    task: Task
    outputs: int
    seed: int
    trees: int
    alone: bool = True
    weights: np.ndarray | None = None
    together: bool = True

    def of_target(self, place: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the inputs, values and weights of the rows where one of the targets is known."""
        known = ~np.isnan(self.y[:, place])
        return self.x[known], self.y[known, place], None if self.weights is None else self.weights[known, place]


def table(kind: str, molecules: Descriptors) -> np.ndarray:
    """Return the inputs of a baseline for molecules, [rows, columns] in float32."""
    return molecules.fingerprints if kind == FOREST else molecules.numbers


def tree_task(
    kind: str, molecules: Descriptors, dataset: Dataset, train: np.ndarray, seed: int, folds: int
) -> TreeTask:
    """Return the training task for the rows `train`."""
    seed %= 2**32  # scikit-learn takes no larger seeds
    train = _some(np.random.default_rng(seed).permutation(train), dataset)
    y, weights = dataset.y.numpy()[train], dataset.weights
    x = table(kind, molecules.select(train))
    weights = None if weights is None else weights.numpy()[train].astype(np.float64)
    trees = TREES if folds == 1 else TREES_A_FOLD
    return TreeTask(kind, x, y, dataset.task, dataset.num_outputs, seed, trees, folds == 1, weights, _together(dataset))


def _together(dataset: Dataset) -> bool:
    """Whether one forest predicts all targets; the same for all folds, whose trees are stored together."""
    weights = dataset.weights
    alike = weights is None or weights.ndim == 1 or bool((weights == weights[:, :1]).all())
    return alike and not bool(dataset.y.isnan().any())


def _some(rows: np.ndarray, dataset: Dataset) -> np.ndarray:
    """Return at most `MOST_ROWS` rows, the first ones, with at least one row of every class."""
    if len(rows) > MOST_ROWS and dataset.task == "classification":
        firsts = np.unique(dataset.y.numpy()[rows], return_index=True)[1]
        rows = np.concatenate([rows[firsts], np.delete(rows, firsts)])
    return rows[:MOST_ROWS]


def fit_trees(task: TreeTask) -> Trees:
    """Fit the trees of one fold, on one thread, so that no sum depends on the number of threads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return _forest(task) if task.kind == FOREST else _boosting(task)


def joined(folds: Sequence[Trees]) -> Trees:
    """Join the trees of all folds; the columns are those of the first fold, of the second, and so on."""
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


def part_answers(kind: str, part: Trees | Kernels, molecules: Descriptors, folds: int, task: Task) -> np.ndarray:
    """Return the answers of each fold of a classical part for molecules, [F, rows, O]."""
    if isinstance(part, Kernels):
        return part.answers(molecules, task)
    return tree_answers(kind, part, table(kind, molecules), folds, task)


def tree_answers(kind: str, trees: Trees, x: np.ndarray, folds: int, task: Task) -> np.ndarray:
    """Return probabilities or values by each fold's trees, [F, rows, O]."""
    sums = trees.sums(x).reshape(len(x), folds, -1).transpose(1, 0, 2)
    if task == "multilabel":  # in float32, shares sum to 1 only up to rounding
        return sums.clip(0.0, 1.0) if kind == FOREST else 1.0 / (1.0 + np.exp(-sums))
    if task == "regression" or kind == FOREST:
        return sums
    likely = np.exp(sums - sums.max(axis=-1, keepdims=True))
    return likely / likely.sum(axis=-1, keepdims=True)


# ---- forests --------------------------------------------------------------------------------------------


def _forest(task: TreeTask) -> Trees:
    if task.task == "classification":
        return _class_forest(task)
    if task.together and task.outputs > 1:  # costs as much as a forest for one of the targets
        return _joint_forest(task)
    trees = task.trees if task.outputs == 1 else max(FEWEST_TREES, task.trees // task.outputs)
    return _each_target(task, partial(_target_forest, task, trees))


def _each_target(task: TreeTask, fit: Callable[[int], tuple[list[Any], float]]) -> Trees:
    """Make trees of the nodes and the base that `fit` returns for each target."""
    found = [fit(place) for place in range(task.outputs)]
    columns = [place for place, (nodes, _) in enumerate(found) for _ in nodes]
    return _trees([tree for nodes, _ in found for tree in nodes], columns, np.array([base for _, base in found]))


def _class_forest(task: TreeTask) -> Trees:
    from sklearn.ensemble import RandomForestClassifier

    fitted = RandomForestClassifier(task.trees, random_state=task.seed).fit(task.x, task.y, task.weights)
    nodes = []
    for tree in _trees_of(fitted):
        value = tree.value.reshape(tree.node_count, -1)
        wide = np.zeros((len(value), task.outputs))
        wide[:, fitted.classes_.astype(int)] = value / value.sum(axis=1, keepdims=True)
        nodes.append((tree.children_right, tree.feature, tree.threshold, None, wide / task.trees))
    return _trees(nodes, [0] * len(nodes), np.zeros(task.outputs))


def _joint_forest(task: TreeTask) -> Trees:
    """Fit one forest whose leaves have a value for each target."""
    weights = None if task.weights is None else task.weights[:, 0]
    fitted, base, scale = _fitted_forest(task, task.x, task.y, weights, task.trees)
    nodes = [_forest_nodes(tree, fitted, task.outputs, scale / task.trees) for tree in _trees_of(fitted)]
    return _trees(nodes, [0] * len(nodes), base)


def _target_forest(task: TreeTask, trees: int, place: int) -> tuple[list[Any], float]:
    """Fit the forest of one target; a target that has only one value is the base itself, without trees."""
    x, y, weights = task.of_target(place)
    if len(np.unique(y)) < 2:
        return [], float(y[0]) if len(y) else 0.0
    fitted, base, scale = _fitted_forest(task, x, y[:, None], weights, trees)
    return [_forest_nodes(tree, fitted, 1, scale / trees) for tree in _trees_of(fitted)], float(base[0])


def _fitted_forest(
    task: TreeTask, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, trees: int
) -> tuple[Any, np.ndarray, Any]:
    """Return a forest for known values y [rows, targets], the base of its sums, [targets], and the unit of values."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if task.task == "multilabel":
        fitted = RandomForestClassifier(trees, random_state=task.seed)
        return fitted.fit(x, y.astype(int).squeeze(), weights), np.zeros(y.shape[1]), 1.0
    base, scale = y.mean(axis=0, dtype=np.float64), _spread(y)
    fitted = RandomForestRegressor(trees, max_features=0.1, min_samples_leaf=2, random_state=task.seed)
    return fitted.fit(x, ((y - base) / scale).squeeze(), weights), base, scale


def _trees_of(forest: Any) -> list[Any]:
    return [estimator.tree_ for estimator in forest.estimators_]


def _forest_nodes(tree: Any, forest: Any, targets: int, unit: Any) -> tuple[Any, ...]:
    """Return the nodes of a tree, whose values are numbers or shares of the second class, for each target."""
    value = tree.value  # [nodes, targets, 1 or classes]
    if hasattr(forest, "classes_"):
        classes = forest.classes_ if targets > 1 else [forest.classes_]
        total = value.sum(axis=2)
        shares = []
        for place, known in enumerate(classes):
            column = list(known).index(1) if 1 in known else None
            shares.append(np.zeros(len(value)) if column is None else value[:, place, column] / total[:, place])
        value = np.stack(shares, axis=1)
    value = value.reshape(tree.node_count, targets) * unit
    return tree.children_right, tree.feature, tree.threshold, None, value


# ---- boosting -------------------------------------------------------------------------------------------


def _boosting(task: TreeTask) -> Trees:
    return (
        _class_boosting(task) if task.task == "classification" else _each_target(task, partial(_target_boosting, task))
    )


def _class_boosting(task: TreeTask) -> Trees:
    from sklearn.ensemble import HistGradientBoostingClassifier

    fitted: Any = HistGradientBoostingClassifier(**_pace(task))
    fitted.fit(_with_numbers(task.x), task.y, task.weights)
    known = fitted.classes_.astype(int)
    base = np.full(task.outputs, ABSENT)
    base[known] = 0.0
    own = known[-fitted._baseline_prediction.shape[1] :]  # with two classes, only the second has trees
    base[own] = fitted._baseline_prediction[0]
    nodes = [_boosting_nodes(fitted, place, 1.0) for place in range(len(own))]
    columns = [column for column, trees in zip(own, nodes, strict=True) for _ in trees]
    return _trees([tree for trees in nodes for tree in trees], columns, base)


def _target_boosting(task: TreeTask, place: int) -> tuple[list[Any], float]:
    """Fit the trees of one target. Returns them and the base of their sums, which for two classes is in log-odds."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    x, y, weights = task.of_target(place)
    x = _with_numbers(x)
    if task.task == "multilabel":
        if len(np.unique(y)) < 2:  # training has only one of its classes
            return [], -ABSENT if len(y) and y[0] else ABSENT
        fitted = HistGradientBoostingClassifier(**_pace(task)).fit(x, y.astype(int), weights)
        return _boosting_nodes(fitted, 0, 1.0), float(fitted._baseline_prediction[0, 0])
    mean, scale = (float(values) for values in (y.mean(dtype=np.float64), _spread(y[:, None])[0]))
    fitted = HistGradientBoostingRegressor(**_pace(task))
    fitted.fit(x, (y - mean) / scale, weights)
    return _boosting_nodes(fitted, 0, scale), mean + scale * float(fitted._baseline_prediction[0, 0])


def _with_numbers(x: np.ndarray) -> np.ndarray:
    """Return the inputs with zeros in columns that have no number, in which scikit-learn looks for thresholds in vain.

    No tree reads such a column, so predictions are not concerned.
    """
    return np.where(np.isnan(x).all(axis=0), np.float32(0.0), x)


def _pace(task: TreeTask) -> dict[str, Any]:
    """Return rounds and learning rate: with many targets, fewer rounds in larger steps, so that a fit takes minutes."""
    most, rate, others = (ROUNDS, 0.1, {}) if task.alone else (ROUNDS_SLOWLY, RATE_SLOWLY, SLOWLY)
    rounds = min(most, max(FEWEST_ROUNDS, ROUNDS_IN_ALL // task.outputs))
    return {"max_iter": rounds, "learning_rate": rate * (most / rounds) ** 0.5, "random_state": task.seed, **others}


def _spread(y: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each target [rows, targets]; 1 if all its values are equal."""
    spread = y.std(axis=0, dtype=np.float64)
    return np.where(spread > 0, spread, 1.0)


def _boosting_nodes(fitted: Any, place: int, scale: float) -> list[Any]:
    """Return the trees of a boosting for its output `place`."""
    found = [trees[place].nodes for trees in fitted._predictors]
    return [
        (tree["right"], np.where(tree["is_leaf"], LEAF, tree["feature_idx"]), tree["num_threshold"],
         tree["missing_go_to_left"].astype(bool), scale * tree["value"][:, None])
        for tree in found
    ]  # fmt: skip


def _trees(nodes: Sequence[Any], columns: Sequence[int], base: np.ndarray) -> Trees:
    """Make trees from `nodes`: right children, features, thresholds, directions of missing values, and values."""
    if not nodes:  # every answer is the base: use a single leaf that adds nothing
        nodes, columns = [(np.zeros(1, int), np.full(1, LEAF), np.zeros(1), None, np.zeros((1, 1)))], [0]
    first = np.cumsum([0, *(len(right) for right, *_ in nodes)])
    feature = np.concatenate([np.maximum(feature, LEAF) for _, feature, *_ in nodes])
    right = np.concatenate([right + start for (right, *_), start in zip(nodes, first, strict=False)])
    missing = [np.zeros(len(right), bool) if ways is None else ways for right, _, _, ways, _ in nodes]
    trees = Trees(
        start=first[:-1], column=np.array(columns), right=np.where(feature == LEAF, 0, right), feature=feature,
        threshold=_rounded_down(np.concatenate([threshold for _, _, threshold, *_ in nodes])),
        missing_left=np.concatenate(missing), value=np.concatenate([value for *_, value in nodes]), base=base,
    )  # fmt: skip
    return Trees.checked(trees.arrays(), MOST_COLUMNS, len(base))  # also that left children follow their parents


MOST_COLUMNS = int(np.iinfo(np.int16).max)
"""The largest number of columns that a tree may read: their numbers are stored in 16 bits."""


def _rounded_down(threshold: np.ndarray) -> np.ndarray:
    """Round thresholds down to float32, so that comparisons of float32 numbers give the same result as in float64."""
    short = np.clip(threshold, -LARGEST, LARGEST).astype(np.float32)
    return np.where(short > threshold, np.nextafter(short, np.float32(-np.inf)), short)
