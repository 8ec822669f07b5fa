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

Cross-validation picks items, so it needs X as a sequence; `maggnn.graphs.conversions.to_pyg` makes one of a packed set.

Shapes: n graphs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from maggnn.apps.fit.answers.estimator_file import labels_from, plain_labels
from maggnn.apps.fit.answers.given_y import class_numbers, finite_numbers, has_columns, several_labels
from maggnn.apps.fit.estimator_base import MagEstimator
from maggnn.apps.fit.fitted import Answer
from maggnn.apps.fit.uncertainty import COVERAGE, check_coverage
from maggnn.errors import InputError
from maggnn.graphs.checks import short_floats


class MagClassifier(ClassifierMixin, MagEstimator):
    """A classifier of graphs whose agent moves a few node marks to informative places.

    X is a sequence of SMILES or InChI strings, RDKit molecules, graph6 strings (`inputs="graph6"`), NetworkX graphs or
    PyG `Data`; a pandas or Polars column of strings, or a frame with one column or a column "smiles"; or a whole set:
    `PackedGraphs` or the path of a packed `.npz` file, whose own targets and split are not looked at.

    An element or bond that does not occur in training is replaced by the most frequent one, with an `UnseenWarning`.
    Marks start at a graph's most central nodes, so its prediction does not depend on the other items of X.

    Args:
        steps: of the optimiser; None chooses by the number of graphs (300 to 20,000).
        random_state: seeds the weights, the split and the marks.
        validation: share of the graphs held out to keep the best weights; 0, or fewer than 20 graphs, keeps the last.
        features: what atoms and bonds of SMILES become: "mol", "ogb", "zinc" or "qm9".
        inputs: "smiles" and "graph6" say what strings are and allow nothing else; "auto" takes strings for SMILES.
        num_tuples: m, marked copies of a graph; None leaves it to `own_config`.
        num_moves: t, moves of the marks; None leaves it to `own_config`.
        agent: who moves them: a name of `maggnn agents`, such as "any", or an agent's file; None is "cycles6".
        ensemble: number of folds. Each has a network that learns from the other folds and, for SMILES, also gradient
            boosting, a random forest and a Gaussian process, which are weighted by their out-of-fold predictions.
            1, the default, is one network: it takes a fifth of the time of `maggnn fit`'s 5, and cross-validation fits
            many times. The networks of folds keep their last weights; a single one keeps the best of its validation
            part, from which its intervals come too, so that these are a little too narrow.
        device: where networks learn and predict: "auto" (a GPU where there is one), "cpu" or "cuda".
        verbose: show progress.

    Attributes:
        classes_: the labels in the order of `predict_proba`'s columns; of several targets a list of two labels each.
        fitted_: the model and what it was fitted to; `save(folder)` keeps it, and `load(folder)` brings it back.
        seed_: what `random_state` came to.
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
            X: what the class describes: one graph or molecule for each item, or a whole set.
            y: one label for each graph, of any kind that can be sorted, [n]; or two-class labels of several targets,
                [n, targets], with NaN or None where one is missing.

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

    def _learned(self) -> dict[str, Any]:
        several = self.classes_ if isinstance(self.classes_, list) else [self.classes_]
        return {"classes": [plain_labels(labels) for labels in several]}

    def _recall(self, found: dict[str, Any] | None, folder: Path) -> None:
        facts = self.fitted_.facts
        if found is None:
            classes = [np.array(labels) for labels in (facts.labels or (facts.classes,))]
        else:
            classes = [labels_from(labels, folder) for labels in found.get("classes", [])]
        if [tuple(map(str, labels)) for labels in classes] != list(facts.labels or (facts.classes,)):
            raise InputError(f"{folder}: the labels of the estimator are not those of its model")
        self.classes_ = classes if facts.labels else classes[0]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each graph.

        Args:
            X: what the class describes: one graph or molecule for each item, or a whole set.

        Returns:
            Labels, [n], or of each of several targets, [n, targets].
        """
        likely = self.predict_proba(X)
        if not isinstance(self.classes_, list):
            return self.classes_[likely.argmax(axis=1)]
        columns = zip(self.classes_, likely.T, strict=True)
        return np.stack([labels[(share > 0.5).astype(int)] for labels, share in columns], axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels.

        Args:
            X: what the class describes: one graph or molecule for each item, or a whole set.

        Returns:
            Probabilities in the order of `classes_`, [n, classes]; of several targets the probability of the second
            label of each, [n, targets].
        """
        answers = self._answers(X)
        if isinstance(self.classes_, list):
            return answers
        return answers / answers.sum(axis=1, keepdims=True)  # float32 adds up to 1 but for its rounding


class MagRegressor(RegressorMixin, MagEstimator):
    """Predicts one or several numbers of a graph; X and attributes are those of `MagClassifier`.

    `score` is R², as everywhere in scikit-learn; the weights that are kept have the smallest mean absolute error on
    the validation split.

    Args:
        steps: of the optimiser; None chooses by the number of graphs (300 to 20,000).
        random_state: seeds the weights, the split and the marks.
        validation: share of the graphs held out to keep the best weights; 0, or fewer than 20 graphs, keeps the last.
        features: what atoms and bonds of SMILES become: "mol", "ogb", "zinc" or "qm9".
        inputs: "smiles" and "graph6" say what strings are and allow nothing else; "auto" takes strings for SMILES.
        num_tuples: m, marked copies of a graph; None leaves it to `own_config`.
        num_moves: t, moves of the marks; None leaves it to `own_config`.
        agent: who moves them: a name of `maggnn agents`, such as "any", or an agent's file; None is "cycles6".
        ensemble: number of folds. Each has a network that learns from the other folds and, for SMILES, also gradient
            boosting, a random forest and a Gaussian process, which are weighted by their out-of-fold predictions.
            1, the default, is one network: it takes a fifth of the time of `maggnn fit`'s 5, and cross-validation fits
            many times. The networks of folds keep their last weights; a single one keeps the best of its validation
            part, from which its intervals come too, so that these are a little too narrow.
        device: where networks learn and predict: "auto" (a GPU where there is one), "cpu" or "cuda".
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
            X: what the class describes: one graph or molecule for each item, or a whole set.
            y: numbers, [n] or [n, targets]; of several targets, NaN is a missing value.

        Returns:
            The estimator itself.
        """
        numbers = finite_numbers(y, type(self).__name__)
        self._fit(X, short_floats(torch.from_numpy(numbers.reshape(len(numbers), -1))), "regression", given=y)
        self.one_dimensional_ = numbers.ndim == 1
        return self

    def _learned(self) -> dict[str, Any]:
        return {"one_dimensional": self.one_dimensional_}

    def _recall(self, found: dict[str, Any] | None, folder: Path) -> None:
        one = len(self.fitted_.facts.targets) == 1
        self.one_dimensional_ = one if found is None else bool(found.get("one_dimensional")) and one

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted numbers of each graph.

        Args:
            X: SMILES, graph6, NetworkX or PyG graphs, one for each item, or a whole set.
            return_std: also return the standard deviation of each number, in the same shape.

        Returns:
            Numbers in the shape that y had, [n] or [n, targets]; with `return_std` a pair of such arrays.
        """
        answer = self._answer(X)
        values = self._shaped(answer.values.double().numpy())
        return (values, self._shaped(_known_errors(answer).std)) if return_std else values

    def predict_interval(self, X: Any, coverage: float = COVERAGE) -> tuple[np.ndarray, np.ndarray]:
        """Prediction intervals.

        Args:
            X: SMILES, graph6, NetworkX or PyG graphs, one for each item, or a whole set.
            coverage: share of the true numbers that lie inside, from 0.5 to 0.99.

        Returns:
            Lower and upper limits, each in the shape that y had.
        """
        check_coverage(coverage)
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
        raise InputError(
            "no graphs were held out, so nothing is known of errors: set ensemble=5, or fit to more graphs"
        )
    return answer
