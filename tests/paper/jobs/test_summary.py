"""Means over tests, folds and runs equal plain loops; the paired test equals an enumeration by hand."""

import itertools
import math
import statistics

import pytest
import torch

from maggnn_paper.jobs.job import CENTRAL, WALK, averaged, mean_of
from maggnn_paper.jobs.summary import (
    RESULT_POLICY,
    equal_cost_note,
    inputs_of,
    paired_note,
    paired_p_value,
    passes_of,
    run_errors,
    run_means,
    score_row,
)

SEEDS, FOLDS, TESTS, MOVES = (4, 0, 7), (0, 1), 3, 2
CASES = [("mag-gnn", "last"), ("mag-gnn", "confident"), ("random-moves", "last"), ("random-marks", "last")]


def make_result(seed, fold, policies=("mag-gnn", "random-moves")):
    generator = torch.Generator().manual_seed(100 * seed + fold)
    shape = (TESTS, MOVES + 1)
    accuracy = {
        policy: {keep: (100 * torch.rand(shape, generator=generator)).tolist() for keep in ("last", "confident")}
        for policy in policies
    }
    return {
        "recipe": "sr25",
        "config": {
            "runtime": {"seed": seed},
            "data": {"name": "sr25", "fold": fold},
            "agent": {"num_tuples": 3, "tuple_order": 2},
            "encoder": {"marking": "distance", "random_walk": 0, "rings": False, "distances": False},
        },
        "metric": "accuracy",
        "scores": accuracy,
        "params": 1234,
        "predictor_params": 1000,
        "train_s": 10.0 + seed,
        "infer_ms": 1.0 + fold,
        "peak_mb": 300.0,
        "hardware": "cpu, 2 cores",
        "torch": "2.11.0",
        "commit": "abc",
    }


RESULTS = [make_result(seed, fold) for fold in FOLDS for seed in SEEDS]


def brute_force(method, keep, moves):
    """Accuracy of each run, in the order of the seeds."""
    means = []
    for seed in sorted(SEEDS):
        folds = []
        for result in RESULTS:
            if result["config"]["runtime"]["seed"] == seed:
                rows = result["scores"][RESULT_POLICY[method]][keep]
                folds.append(sum(row[moves] for row in rows) / TESTS)
        means.append(sum(folds) / len(FOLDS))
    return means


@pytest.mark.parametrize(("method", "keep"), CASES)
def test_run_means_equal_a_loop(method, keep):
    means = run_means(RESULTS, method, keep)
    assert means.shape == (len(SEEDS), MOVES + 1) and means.dtype == torch.float64
    for moves in range(MOVES + 1):
        assert means[:, moves].tolist() == pytest.approx(brute_force(method, keep, moves), abs=1e-4)


def test_other_targets_read_the_agents_walks():
    for method in ("mag-gnn-dqn", "mag-gnn-double-dqn", "mag-gnn-shared"):
        assert torch.equal(run_means(RESULTS, method, "last"), run_means(RESULTS, "mag-gnn", "last"))
    assert torch.equal(run_means(RESULTS, "random-marks", "last"), run_means(RESULTS, "random-moves", "last"))


@pytest.mark.parametrize(("method", "keep"), CASES)
def test_a_row_says_what_was_measured(method, keep):
    row = score_row("synthetic", method, RESULTS, moves=2, keep=keep, note="why")
    runs = brute_force(method, keep, 2)
    assert row.mean == pytest.approx(statistics.mean(runs), abs=1e-4)
    assert row.std == pytest.approx(statistics.stdev(runs), abs=1e-4)
    assert (row.table, row.dataset, row.method, row.metric) == ("synthetic", "sr25", method, "accuracy")
    assert (row.runs, row.tests_per_run) == (3, TESTS)  # two folds make one run
    assert (row.m, row.k, row.t, row.keep) == (3, 2, 2, keep)
    assert row.train_s == pytest.approx(10 + 11 / 3, abs=1e-3)
    assert (row.peak_mb, row.commit, row.note) == (300.0, "abc", "why")
    # Random marks need no agent, and the time that was measured is a search with one.
    assert (row.params, row.infer_ms) == ((1000, None) if method == "random-marks" else (1234, 1.5))
    assert row.config == "configs/sr25.toml"
    assert (row.marking, row.inputs) == ("distance", None)
    # Three tuples: two looks of the agent and one answer, or an answer for each of three states.
    passes = {("mag-gnn", "last"): 9, ("mag-gnn", "confident"): 15, ("random-moves", "last"): 3}
    assert row.passes == passes.get((method, keep), 3)


@pytest.mark.parametrize(
    ("method", "encoder", "keep", "passes"),
    [
        ("mag-gnn", "own", "last", 9),
        ("mag-gnn", "own", WALK, 15),
        ("mag-gnn-shared", "shared", "last", 9),
        ("mag-gnn-shared", "shared", WALK, 9),  # each pass of the walk gives an answer, too
        ("mag-gnn-shared", "shared", "confident", 9),
        ("random-moves", "own", WALK, 9),
        ("random-marks", "own", mean_of(3), 9),
    ],
)
def test_passes_count_both_networks_unless_they_share_an_encoder(method, encoder, keep, passes):
    moves = 0 if method == "random-marks" else 2
    assert passes_of(method, {"num_tuples": 3, "tuple_order": 2, "encoder": encoder}, moves, keep) == passes


def test_controls_at_equal_cost_are_named():
    row = {"last": [[3.0, 2.0, 1.0]], WALK: [[3.0, 2.5, 2.0]]}
    scores = {"mag-gnn": row, "random-moves": {**row, mean_of(3): [[1.5]]}, CENTRAL: {**row, mean_of(3): [[1.25]]}}
    result = make_result(0, 0) | {"scores": scores}
    note = equal_cost_note([result], "mag-gnn-shared", moves=2)
    assert "; mean of the walk 2.0000; " in note and "; mean of 3 random starts 1.5000; " in note
    assert "mean of 3 sets of central nodes 1.2500" in note and "; moves from central nodes 1.0000" in note
    still = {**scores, CENTRAL: {"last": [[3.0]], mean_of(3): [[1.25]]}}  # no agent was trained
    assert "moves from central nodes" not in equal_cost_note([result | {"scores": still}], "mag-gnn-shared", moves=2)


def test_errors_of_averaged_answers_have_their_own_name():
    errors = {"random-moves": [[[2.0, 4.0]]], averaged(3): [[[1.0, 3.0]]]}
    result = make_result(0, 0) | {"errors": errors}
    assert run_errors([result], "random-marks").tolist() == [[[2.0, 4.0]]]
    assert run_errors([result], "random-marks", mean_of(3)).tolist() == [[[1.0, 3.0]]]


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        ({"random_walk": 0, "rings": False, "distances": False}, "atoms+bonds"),
        ({"random_walk": 20, "rings": True, "distances": False}, "atoms+bonds+walks+rings"),
    ],
)
def test_inputs_of_molecules_are_named(encoder, words):
    assert inputs_of({"data": {"name": "zinc"}, "encoder": encoder}) == words
    for bare in ("sr25", "zinc_rings"):
        assert inputs_of({"data": {"name": bare}, "encoder": encoder}) is None


def test_a_plain_gnn_has_no_marks_and_one_run_no_spread():
    row = score_row("synthetic", "gin", [make_result(0, fold, ("gin",)) for fold in FOLDS], moves=0)
    assert (row.m, row.k, row.t, row.keep, row.std, row.runs) == (None, None, None, None, None, 1)


@pytest.mark.parametrize("runs", [1, 2, 5, 8])
def test_the_paired_test_equals_an_enumeration(runs):
    generator = torch.Generator().manual_seed(runs)
    for scale in (0.0, 0.3, 3.0):
        first = torch.rand(runs, generator=generator, dtype=torch.float64) + scale
        second = torch.rand(runs, generator=generator, dtype=torch.float64)
        difference = (first - second).tolist()
        extreme = 0
        for signs in itertools.product((1, -1), repeat=runs):
            flipped = abs(math.fsum(sign * value for sign, value in zip(signs, difference, strict=True)))
            extreme += flipped >= abs(math.fsum(difference)) - 1e-9
        assert paired_p_value(first, second) == pytest.approx(extreme / 2**runs)
        assert paired_p_value(second, first) == paired_p_value(first, second)


def test_the_note_of_a_pair_claims_nothing_from_few_runs():
    first, second = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.zeros(4)
    assert paired_note(first[:1], second[:1]) == "+1.0000 (1 run(s), no test)"
    assert paired_note(first, second) == "+2.5000, paired sign-flip p = 0.125 (at least 0.125 with 4 runs)"


def test_known_values_of_the_paired_test():
    better = torch.tensor([91.0, 95.5, 93.0, 99.9, 92.2, 97.0, 93.4, 92.0, 96.0, 98.0])
    assert paired_p_value(better, torch.full((10,), 90.0)) == pytest.approx(2 / 2**10)  # always better: the least
    assert paired_p_value(better, better) == 1.0
    assert paired_p_value(torch.tensor([1.0]), torch.tensor([0.0])) == 1.0  # one run proves nothing
    # Differences 1, 1, 1, -1: of 16 sign patterns all but the 6 that sum to zero are as extreme.
    assert paired_p_value(torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor([0.0, 0.0, 0.0, 1.0])) == 10 / 16


def test_the_paired_test_equals_scipys():
    from scipy import stats

    generator = torch.Generator().manual_seed(3)
    first, second = torch.rand(2, 9, generator=generator, dtype=torch.float64)
    reference = stats.permutation_test(
        (first.numpy() - second.numpy(),),
        lambda values, axis: values.sum(axis=axis),
        permutation_type="samples",
        n_resamples=2**9,
    )
    assert paired_p_value(first, second) == pytest.approx(reference.pvalue)
