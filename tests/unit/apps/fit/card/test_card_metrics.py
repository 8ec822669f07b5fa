"""Reported metrics: right values, missing targets, undefined cases, thresholds and intervals."""

import numpy as np
import pytest

from maggnn.apps.fit.card.metrics import (
    best_threshold,
    bootstrap_intervals,
    class_metrics,
    number_metrics,
    per_class,
    two_class_metrics,
)
from maggnn.apps.fit.card.reported import label_of, metric_rows, reports, threshold_words, to_json
from maggnn.apps.fit.fitted import Blend, Facts

RNG = np.random.default_rng(0)
TRUE = RNG.normal(size=60)
SAID = TRUE + 0.3 * RNG.normal(size=60)
LABELS = (TRUE > 0.3).astype(int)
LIKELY = 1 / (1 + np.exp(-2 * SAID))


def test_numbers_by_their_definitions():
    found = number_metrics(TRUE, SAID)
    errors = SAID - TRUE
    ranks = [values.argsort().argsort() for values in (TRUE, SAID)]
    assert found["rmse"] == pytest.approx(np.sqrt((errors**2).mean()))
    assert found["mae"] == pytest.approx(np.abs(errors).mean())
    assert found["r2"] == pytest.approx(1 - (errors**2).sum() / ((TRUE - TRUE.mean()) ** 2).sum())
    assert found["spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1])


def test_two_classes_by_their_definitions():
    found = two_class_metrics(LABELS, LIKELY, 0.6)
    positive, negative = LIKELY[LABELS == 1], LIKELY[LABELS == 0]
    assert found["roc_auc"] == pytest.approx((positive[:, None] > negative).mean())
    taken = LIKELY >= 0.6
    recall, specificity = taken[LABELS == 1].mean(), (~taken[LABELS == 0]).mean()
    assert found["balanced_accuracy"] == pytest.approx((recall + specificity) / 2)
    assert found["mcc"] == pytest.approx(np.corrcoef(LABELS, taken)[0, 1])
    order = np.argsort(-LIKELY)
    hits = LABELS[order]
    precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    assert found["pr_auc"] == pytest.approx(precisions[hits == 1].mean())


@pytest.mark.parametrize(
    ("metrics", "true", "answers"),
    [
        (number_metrics, TRUE, SAID),
        (two_class_metrics, LABELS, LIKELY),
        (class_metrics, LABELS, np.stack([1 - LIKELY, LIKELY], axis=1)),
    ],
    ids=["numbers", "two classes", "classes"],
)
def test_no_rows_have_no_metrics(metrics, true, answers):
    assert all(np.isnan(list(metrics(true[:0], answers[:0]).values())))


def test_what_rows_do_not_define_is_no_number():
    constant = number_metrics(np.ones(5), np.arange(5.0))
    assert np.isnan(constant["r2"]) and np.isnan(constant["spearman"]) and constant["mae"] > 0
    one_class = two_class_metrics(np.ones(5, dtype=int), np.linspace(0, 1, 5))
    assert all(np.isnan(list(one_class.values())))
    broken = SAID.copy()
    broken[3] = np.nan
    assert all(np.isnan(list(number_metrics(TRUE, broken).values())))


def test_several_classes_and_each_of_them():
    true = np.array([0, 0, 1, 1, 2, 2])
    said = np.array([[8, 1, 1], [1, 8, 1], [1, 8, 1], [1, 8, 1], [1, 1, 8], [8, 1, 1]]) / 10
    found, each = class_metrics(true, said), per_class(true, said)
    assert found["accuracy"] == found["balanced_accuracy"] == pytest.approx(4 / 6)
    assert [entry["recall"] for entry in each] == [0.5, 1.0, 0.5]
    assert [entry["precision"] for entry in each] == pytest.approx([0.5, 2 / 3, 1.0])
    assert found["roc_auc"] == pytest.approx(np.mean([entry["roc_auc"] for entry in each]))
    absent = per_class(true[:4], said[:4])[2]
    assert absent["count"] == 0 and np.isnan(absent["roc_auc"]) and np.isnan(absent["recall"])


def test_the_threshold_has_the_best_balanced_accuracy_of_all():
    best = best_threshold(LABELS, LIKELY)
    scores = [two_class_metrics(LABELS, LIKELY, value)["balanced_accuracy"] for value in (*LIKELY, 0.5)]
    assert two_class_metrics(LABELS, LIKELY, best)["balanced_accuracy"] == max(scores)
    assert best_threshold(np.ones(4, dtype=int), LIKELY[:4]) == 0.5


def test_intervals_hold_the_value_and_narrow_with_rows():
    values, intervals = number_metrics(TRUE, SAID), bootstrap_intervals(TRUE, SAID, number_metrics)
    assert all(low <= values[name] <= high for name, (low, high) in intervals.items())
    wider = bootstrap_intervals(TRUE[:12], SAID[:12], number_metrics)
    assert wider["rmse"][1] - wider["rmse"][0] > intervals["rmse"][1] - intervals["rmse"][0]


def test_reports_of_targets_with_missing_values():
    facts = Facts("smiles", "regression", targets=("a", "b"), metric="mae", units=("mg/L", ""))
    true = np.stack([TRUE, 2 * TRUE], axis=1)
    known = np.ones((60, 2), dtype=bool)
    known[:20, 1] = False
    answers = {"this model": np.stack([SAID, SAID], axis=1), "other": np.zeros((60, 2))}
    found = reports(facts, np.where(known, true, np.nan), answers)
    assert found["a"].own.count == 60 and found["b"].own.count == 40
    assert found["b"].own.values == number_metrics(2 * TRUE[20:], SAID[20:])
    assert found["a"].label == "a (mg/L)" and metric_rows(found["a"])[0][0] == "RMSE (mg/L)"
    assert metric_rows(found["a"])[3][2] == "–"  # a constant has no rank correlation
    assert to_json(found)["a"]["methods"]["other"]["spearman"] == {"value": None}
    assert threshold_words(found["a"], Blend(thresholds=(0.5,))) == ""


def test_reports_of_classes_use_the_threshold_of_the_model():
    blend = Blend(thresholds=(0.8,))
    facts = Facts("smiles", "classification", targets=("t",), classes=("no", "yes"), metric="auroc", blend=blend)
    answers = {"this model": np.stack([1 - LIKELY, LIKELY], axis=1)}
    report = reports(facts, LABELS, answers)["t"]
    assert report.own.values == two_class_metrics(LABELS, LIKELY, 0.8)
    assert report.own.classes["yes"]["recall"] == pytest.approx((LIKELY[LABELS == 1] >= 0.8).mean())
    words = threshold_words(report, Blend(folds=5, thresholds=(0.5,)))
    assert "at least 0.800 count as yes" in words and "out-of-fold" in words
    assert "predicted classes of `maggnn predict` are the more probable ones instead" in words
    assert "the default" in threshold_words(report, Blend()) and "instead" not in threshold_words(report, Blend())
    assert "the validation rows" in threshold_words(report, Blend(thresholds=(0.5,)))


def test_reports_of_several_targets_of_two_classes():
    blend = Blend(thresholds=(0.8, 0.3))
    labels = (("no", "yes"), ("inactive", "active"))
    facts = Facts("smiles", "multilabel", targets=("a", "b"), labels=labels, metric="auroc", blend=blend)
    true = np.stack([LABELS, LABELS], axis=1).astype(float)
    true[:10, 1] = np.nan
    found = reports(facts, true, {"this model": np.stack([LIKELY, LIKELY], axis=1)})
    assert found["a"].own.values == two_class_metrics(LABELS, LIKELY, 0.8)
    assert found["b"].own.values == two_class_metrics(LABELS[10:], LIKELY[10:], 0.3)
    assert (found["b"].own.count, found["b"].positive) == (len(LABELS) - 10, "active")


def test_labels_do_not_say_a_unit_twice():
    assert label_of("logS (mol/L)", "mol/L") == "logS (mol/L)"
    assert label_of("x [nM]", "nM") == "x [nM]"
    assert label_of("x", "nM") == "x (nM)" and label_of("x") == "x"
