"""MAG-GNN as scikit-learn estimators: `MagClassifier` and `MagRegressor`.

    from sklearn.model_selection import cross_val_score, train_test_split
    from maggnn import MagRegressor

    smiles = ["CCO", "c1ccccc1", "CC(=O)O", ...]
    solubility = [-0.77, -2.13, 1.22, ...]
    train, test, y_train, y_test = train_test_split(smiles, solubility, random_state=0)
    model = MagRegressor().fit(train, y_train)
    print(model.predict(test), model.score(test, y_test))
    print(cross_val_score(MagRegressor(steps=500), smiles, solubility, cv=5))
    model.save("solubility")  # a folder that `maggnn predict` reads, and MagRegressor.load("solubility")

Cross-validation indexes X, so it needs a sequence; `maggnn.graphs.conversions.to_pyg` converts a packed set to one.

Shapes: n graphs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from maggnn.apps.fit.answers.estimator_file import labels_from, plain_labels
from maggnn.apps.fit.answers.given_y import class_numbers, finite_numbers, has_columns, several_labels
from maggnn.apps.fit.estimator_base import MagEstimator
from maggnn.apps.fit.fitted import Answer
from maggnn.apps.fit.uncertainty import COVERAGE, check_coverage
from maggnn.errors import InputError
from maggnn.graphs.checks import short_floats


class MagClassifier(ClassifierMixin, MagEstimator):
    """A classifier of graphs whose agent moves a few node marks to informative nodes.

    X is a sequence of SMILES or InChI strings, RDKit molecules, graph6 strings (`inputs="graph6"`), NetworkX graphs or
    PyG `Data`; a pandas or Polars column of strings, or a frame with one column or a column "smiles"; or a whole set:
    `PackedGraphs` or the path of a packed `.npz` file, whose own targets and split are ignored.

    An element or bond that does not occur in training is replaced by the most frequent one, with an `UnseenWarning`.
    Marks start at a graph's most central nodes, so its prediction does not depend on the other items of X.

    Args:
        steps: optimiser steps; None chooses them by the number of graphs (300 to 20,000).
        random_state: seeds the weights, the split and the marks.
        validation: share of the graphs held out to select the best weights; with 0, or fewer than 20 graphs, the last
            weights are kept.
        features: the features of atoms and bonds of SMILES: "mol", "ogb", "zinc" or "qm9".
        inputs: "auto" reads strings as SMILES; "smiles" and "graph6" read strings as such and reject other inputs.
        num_tuples: m, the number of marked copies of a graph; None uses the default of `own_config`.
        num_moves: t, the number of moves of a search; None uses the default of `own_config`.
        agent: moves the marks: a name from `maggnn agents`, such as "any", or an agent's file; None is "cycles6".
        ensemble: number of folds. Each has a network that learns from the other folds and, for SMILES, also gradient
            boosting, a random forest and a Gaussian process, and the network also answers with RDKit's descriptors; all
            are weighted by their out-of-fold predictions.
            The default, 1, is a single network: it takes a fifth of the time of 5, the default of `maggnn fit`, and
            cross-validation fits many times. The networks of folds keep their last weights. A single network keeps
            the best on its validation part, on which its intervals are calibrated too, so they are a little narrow.
        device: where networks are trained and run: "auto" (a GPU if there is one), "cpu" or "cuda".
        verbose: show progress.

    Attributes:
        classes_: the labels in the order of `predict_proba`'s columns; for several targets, a list of two labels each.
        fitted_: the model with a description of its data; `save(folder)` writes it and `load(folder)` reads it.
        seed_: the seed that `random_state` gave.
        is_fitted: whether `fit` has been called.

    Example:
        >>> import networkx as nx
        >>> from maggnn import MagClassifier
        >>> graphs = [make(n) for n in range(4, 24) for make in (nx.cycle_graph, nx.path_graph)]
        >>> labels = ["ring", "chain"] * 20
        >>> model = MagClassifier(steps=60).fit(graphs, labels)
        >>> model.classes_.tolist()
        ['chain', 'ring']
        >>> model.predict([nx.cycle_graph(30), nx.path_graph(30)]).tolist()
        ['ring', 'chain']
        >>> model.predict_proba([nx.cycle_graph(30)]).shape
        (1, 2)
    """

    classes_: np.ndarray | list[np.ndarray]

    def fit(self, X: Any, y: Any) -> Self:
        """Train on graphs and their labels.

        Args:
            X: graphs or molecules, in one of the forms that the class describes.
            y: one label for each graph, of any sortable type, [n]; or two-class labels of several targets,
                [n, targets], with NaN or None for missing ones.

        Returns:
            The estimator itself.
        """
        who = type(self).__name__
        if has_columns(y):
            several, numbers = several_labels(y, who)
            self._fit(X, numbers, "multilabel", labels=tuple(tuple(map(str, pair)) for pair in several), given=y)
            self.classes_ = several
            return self
        classes, numbers = class_numbers(y, who)
        self._fit(X, numbers, "classification", tuple(map(str, classes)), given=y)
        self.classes_ = classes
        return self

    def _fitted_attributes(self) -> dict[str, Any]:
        several = self.classes_ if isinstance(self.classes_, list) else [self.classes_]
        return {"classes": [plain_labels(labels) for labels in several]}

    def _restore_attributes(self, found: dict[str, Any] | None, folder: Path) -> None:
        facts = self.fitted_.facts
        if found is None:
            classes = [np.array(labels) for labels in (facts.labels or (facts.classes,))]
        else:
            classes = [labels_from(labels, folder) for labels in found.get("classes", [])]
        named, known = [tuple(map(str, labels)) for labels in classes], list(facts.labels or (facts.classes,))
        if not facts.labels:  # the labels of a single target are sorted, numbers as numbers and words as words
            named, known = ([sorted(labels) for labels in each] for each in (named, known))
        if named != known:
            raise InputError(f"{folder}: the estimator and its model have different labels")
        self.classes_ = classes if facts.labels else np.sort(classes[0])

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable label of each graph.

        Args:
            X: graphs or molecules, in one of the forms that the class describes.

        Returns:
            Labels, [n], or for several targets [n, targets].
        """
        likely = self.predict_proba(X)
        if not isinstance(self.classes_, list):
            return self.classes_[likely.argmax(axis=1)]
        pairs = zip(self.classes_, likely.T, strict=True)
        columns = [labels[(share > 0.5).astype(int)] for labels, share in pairs]
        alike = len({column.dtype.kind for column in columns}) == 1
        # numpy would turn the numbers 0 and 1 next to a column of words into the words "0" and "1"
        return np.stack(columns if alike else [column.astype(object) for column in columns], axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probabilities of the labels.

        Args:
            X: graphs or molecules, in one of the forms that the class describes.

        Returns:
            Probabilities in the order of `classes_`, [n, classes]; for several targets, the probability of the second
            label of each, [n, targets].
        """
        answers = self._answers(X)
        if isinstance(self.classes_, list):
            return answers
        # scikit-learn takes columns in sorted order for granted: "10" before "2", which a table has in the other order
        answers = answers[:, [self.fitted_.facts.classes.index(str(label)) for label in self.classes_]]
        return answers / answers.sum(axis=1, keepdims=True)  # in float32 the sum is 1 only up to rounding


class MagRegressor(RegressorMixin, MagEstimator):
    """A regressor of graphs with one or several targets. X and the attributes are those of `MagClassifier`.

    `score` is R², as for all regressors of scikit-learn; training keeps the weights with the smallest mean absolute
    error on the validation split.

    Args:
        steps: optimiser steps; None chooses them by the number of graphs (300 to 20,000).
        random_state: seeds the weights, the split and the marks.
        validation: share of the graphs held out to select the best weights; with 0, or fewer than 20 graphs, the last
            weights are kept.
        features: the features of atoms and bonds of SMILES: "mol", "ogb", "zinc" or "qm9".
        inputs: "auto" reads strings as SMILES; "smiles" and "graph6" read strings as such and reject other inputs.
        num_tuples: m, the number of marked copies of a graph; None uses the default of `own_config`.
        num_moves: t, the number of moves of a search; None uses the default of `own_config`.
        agent: moves the marks: a name from `maggnn agents`, such as "any", or an agent's file; None is "cycles6".
        ensemble: number of folds. Each has a network that learns from the other folds and, for SMILES, also gradient
            boosting, a random forest and a Gaussian process, and the network also answers with RDKit's descriptors; all
            are weighted by their out-of-fold predictions.
            The default, 1, is a single network: it takes a fifth of the time of 5, the default of `maggnn fit`, and
            cross-validation fits many times. The networks of folds keep their last weights. A single network keeps
            the best on its validation part, on which its intervals are calibrated too, so they are a little narrow.
        device: where networks are trained and run: "auto" (a GPU if there is one), "cpu" or "cuda".
        verbose: show progress.

    Example:
        >>> from maggnn import MagRegressor
        >>> smiles = ["CCO", "CC", "OCCO", "CCC", "OCC(O)CO", "CCCC", "CO", "O", "C", "OCO"]
        >>> oxygens = [1, 0, 2, 0, 3, 0, 1, 1, 0, 2]
        >>> model = MagRegressor(steps=60, random_state=0).fit(smiles, oxygens)
        >>> model.predict(["OCCCO", "CCCCC"]).shape
        (2,)
        >>> model.score(smiles, oxygens) > 0.5
        True
    """

    one_dimensional_: bool

    def fit(self, X: Any, y: Any) -> Self:
        """Train on graphs and their targets.

        Args:
            X: graphs or molecules, in one of the forms that the class describes.
            y: numbers, [n] or [n, targets]; with several targets, NaN is a missing value.

        Returns:
            The estimator itself.
        """
        numbers = finite_numbers(y, type(self).__name__)
        self._fit(X, short_floats(torch.from_numpy(numbers.reshape(len(numbers), -1))), "regression", given=y)
        self.one_dimensional_ = numbers.ndim == 1
        return self

    def _fitted_attributes(self) -> dict[str, Any]:
        return {"one_dimensional": self.one_dimensional_}

    def _restore_attributes(self, found: dict[str, Any] | None, folder: Path) -> None:
        one = len(self.fitted_.facts.targets) == 1
        self.one_dimensional_ = one if found is None else bool(found.get("one_dimensional")) and one

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the targets of each graph.

        Args:
            X: graphs or molecules, in one of the forms that `MagClassifier` describes.
            return_std: whether to return the standard deviation of each number too, in the same shape.

        Returns:
            Numbers in the shape of y, [n] or [n, targets]; with `return_std` a pair of such arrays.
        """
        answer = self._answer(X)
        values = self._shaped(answer.values.double().numpy())
        return (values, self._shaped(_known_errors(answer).std)) if return_std else values

    def predict_interval(self, X: Any, coverage: float = COVERAGE) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals.

        Args:
            X: graphs or molecules, in one of the forms that `MagClassifier` describes.
            coverage: the share of true values that the intervals contain, from 0.5 to 0.99; R held-out rows are enough
                for R / (R + 1) at most.

        Returns:
            Lower and upper limits, each in the shape of y.
        """
        check_is_fitted(self)
        check_coverage(coverage, self.fitted_.facts.blend.spreads)
        low, high = _known_errors(self._answer(X)).interval(coverage)
        return self._shaped(low), self._shaped(high)

    def _shaped(self, numbers: np.ndarray) -> np.ndarray:
        return numbers[:, 0] if self.one_dimensional_ else numbers

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _known_errors(answer: Answer) -> Answer:
    if answer.errors is None:
        raise InputError("no graphs were held out, so the errors are unknown: set ensemble=5, or fit to more graphs")
    return answer
