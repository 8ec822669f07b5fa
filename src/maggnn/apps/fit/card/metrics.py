"""The usual metrics of one target, computed by scikit-learn.

    numbers          RMSE, MAE, R² and Spearman's rank correlation
    two classes      ROC-AUC and PR-AUC (average precision) of the second class; MCC and balanced accuracy at a
                     threshold
    several classes  accuracy, balanced accuracy and MCC of the most probable class; ROC-AUC and PR-AUC of each class
                     against all others, and their means
    each class       its precision, recall, F1, ROC-AUC and PR-AUC

Callers leave out the rows where a target is missing. A metric that is not defined on the rows (ROC-AUC of a single
class, a correlation with a constant) is NaN.

Shapes: n rows, C classes, R bootstrap samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

WORDS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "spearman": "Spearman's ρ",
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
    "mcc": "MCC",
    "balanced_accuracy": "balanced accuracy",
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
}
"""The usual name of each metric; the first two have the target's unit."""

WITH_UNIT = ("rmse", "mae")
USUAL_THRESHOLD = 0.5
DRAWS = 200
"""Bootstrap samples for the intervals of all metrics: scikit-learn takes about a millisecond for each of them."""

LIMITS = (2.5, 97.5)

Values = dict[str, float]


@dataclass(frozen=True)
class Metrics:
    """The metrics of the answers for one target.

    Attributes:
        count: the number of rows that were compared.
        values: the metrics by name (`WORDS`); NaN if a metric is not defined on the rows.
        intervals: 95 % bootstrap intervals of some metrics.
        classes: count, precision, recall, F1, ROC-AUC and PR-AUC of each class.
        threshold: the threshold for the second of two classes; None for numbers and for several classes.
    """

    count: int
    values: Values
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    classes: Mapping[str, Values] = field(default_factory=dict)
    threshold: float | None = None


def number_metrics(true: np.ndarray, predicted: np.ndarray) -> Values:
    """Compute RMSE, MAE, R² and Spearman's rank correlation.

    Args:
        true: The measured values.
        predicted: The model's answers, in the same unit.

    Returns:
        The value of each metric.

    Shapes:
        true, predicted: [n]

    Example:
        >>> number_metrics(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 5.0]))["mae"]
        0.6666666666666666
    """
    from scipy.stats import spearmanr
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    if not len(true) or not np.isfinite(predicted).all():
        return dict.fromkeys(("rmse", "mae", "r2", "spearman"), np.nan)
    values = {"rmse": root_mean_squared_error(true, predicted), "mae": mean_absolute_error(true, predicted)}
    varied = len(true) > 1 and np.ptp(true) > 0
    values["r2"] = r2_score(true, predicted) if varied else np.nan
    both = varied and np.ptp(predicted) > 0
    values["spearman"] = spearmanr(true, predicted)[0] if both else np.nan  # pyright: ignore[reportArgumentType]
    return {name: float(value) for name, value in values.items()}


def two_class_metrics(true: np.ndarray, probability: np.ndarray, threshold: float = USUAL_THRESHOLD) -> Values:
    """Compute ROC-AUC, PR-AUC, MCC and balanced accuracy.

    Args:
        true: 0 or 1.
        probability: The probability of class 1.
        threshold: The probability from which on class 1 is predicted; never chosen on these rows.

    Shapes:
        true, probability: [n]
    """
    from sklearn.metrics import balanced_accuracy_score, matthews_corrcoef

    if not len(true) or not np.isfinite(probability).all():
        return dict.fromkeys(("roc_auc", "pr_auc", "mcc", "balanced_accuracy"), np.nan)
    taken = probability >= threshold
    both = 0 < true.sum() < len(true)
    return {
        **_areas(true == 1, probability),
        "mcc": float(matthews_corrcoef(true, taken)) if both else np.nan,
        "balanced_accuracy": float(balanced_accuracy_score(true, taken)) if both else np.nan,
    }


def class_metrics(true: np.ndarray, probabilities: np.ndarray, areas: bool = True) -> Values:
    """Compute accuracy, balanced accuracy and MCC of the most probable class, and mean ROC-AUC and PR-AUC over classes.

    Args:
        areas: Whether to compute the last two, which need a sort for each class.

    Shapes:
        true: [n]
        probabilities: [n, C]
    """
    from sklearn.metrics import balanced_accuracy_score, matthews_corrcoef

    if not len(true) or not np.isfinite(probabilities).all():
        return dict.fromkeys(
            ("accuracy", "balanced_accuracy", "mcc", *(("roc_auc", "pr_auc") if areas else ())), np.nan
        )
    likeliest = probabilities.argmax(axis=1)
    with warnings.catch_warnings(action="ignore"):  # scikit-learn warns that classes without rows do not count
        values = {
            "accuracy": float((true == likeliest).mean()),
            "balanced_accuracy": float(balanced_accuracy_score(true, likeliest)),
            "mcc": float(matthews_corrcoef(true, likeliest)) if len(np.unique(true)) > 1 else np.nan,
        }
        if areas:
            found = [_areas(true == place, column) for place, column in enumerate(probabilities.T)]
            values |= {name: float(np.nanmean([area[name] for area in found])) for name in ("roc_auc", "pr_auc")}
    return values


def chosen_classes(probabilities: np.ndarray, threshold: float | None) -> np.ndarray:
    """Return the predicted class of each row: the second of two from a threshold on, else the most probable one.

    Shapes:
        probabilities: [n, C]
        returns: [n]
    """
    return probabilities.argmax(axis=1) if threshold is None else (probabilities[:, 1] >= threshold).astype(int)


def per_class(true: np.ndarray, probabilities: np.ndarray, threshold: float | None = None) -> list[Values]:
    """Compute the count, precision, recall, F1, ROC-AUC and PR-AUC of each class against all others.

    Args:
        threshold: The threshold for the second of two classes; None predicts the most probable class.

    Shapes:
        true: [n]
        probabilities: [n, C]
    """
    from sklearn.metrics import precision_recall_fscore_support

    places = range(probabilities.shape[1])
    taken = chosen_classes(probabilities, threshold)
    found = precision_recall_fscore_support(true, taken, labels=list(places), zero_division=np.nan)  # pyright: ignore[reportArgumentType]
    scores = dict(zip(("precision", "recall", "f1"), found, strict=False))
    return [
        {"count": float((true == place).sum())}
        | {name: float(values[place]) for name, values in scores.items()}  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]
        | _areas(true == place, probabilities[:, place])
        for place in places
    ]


def best_threshold(true: np.ndarray, probability: np.ndarray) -> float:
    """Find the threshold with the best balanced accuracy (Youden's J), on rows that a model did not learn from.

    Returns:
        The probability from which on class 1 is predicted; one half if the rows have a single class.

    Shapes:
        true, probability: [n]
    """
    from sklearn.metrics import roc_curve

    if not 0 < true.sum() < len(true):
        return USUAL_THRESHOLD
    false_rate, true_rate, thresholds = roc_curve(true, probability)
    return float(np.clip(thresholds[int(np.argmax(true_rate - false_rate))], 0.0, 1.0))


def bootstrap_intervals(
    true: np.ndarray, answers: np.ndarray, metrics: Callable[[np.ndarray, np.ndarray], Values]
) -> dict[str, tuple[float, float]]:
    """Compute the intervals that contain the metrics of 95 % of bootstrap samples of the rows; none for a single row.

    Args:
        metrics: One of the functions above, as a function of only true values and answers.

    Shapes:
        true: [n]
        answers: [n] or [n, C]
    """
    if len(true) < 2:
        return {}
    rng = np.random.default_rng(0)
    draws = [metrics(true[rows], answers[rows]) for rows in rng.integers(len(true), size=(DRAWS, len(true)))]
    return {name: limits(np.array([draw[name] for draw in draws])) for name in draws[0]}


def limits(draws: np.ndarray) -> tuple[float, float]:
    """Return the interval that contains 95 % of the samples [R]; undefined (NaN) samples do not count."""
    finite = draws[np.isfinite(draws)]
    if not len(finite):
        return float("nan"), float("nan")
    low, high = np.percentile(finite, LIMITS)
    return float(low), float(high)


def _areas(positive: np.ndarray, scores: np.ndarray) -> Values:
    """Compute the areas under the ROC and the precision-recall curve; NaN if all rows have one class."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    if not 0 < positive.sum() < len(positive):
        return {"roc_auc": np.nan, "pr_auc": np.nan}
    return {
        "roc_auc": float(roc_auc_score(positive, scores)),
        "pr_auc": float(average_precision_score(positive, scores)),
    }
