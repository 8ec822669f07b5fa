"""Rates as functions of the step."""

import pytest

from maggnn.training.schedules import epsilon, learning_rate


def test_constant():
    assert {learning_rate(0.1, "constant", step, 50) for step in range(50)} == {0.1}


def test_one_cycle_rises_for_a_tenth_and_falls_to_zero():
    rates = [learning_rate(0.1, "one_cycle", step, 100) for step in range(100)]
    peak = rates.index(max(rates))
    assert peak == 10 and rates[peak] == pytest.approx(0.1, rel=1e-3)
    assert rates[:11] == sorted(rates[:11]) and rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[0] == pytest.approx(0.005) and rates[-1] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 10, 1000])
def test_no_step_is_wasted(num_steps):
    rates = [learning_rate(0.1, "one_cycle", step, num_steps) for step in range(num_steps)]
    assert min(rates) > 0.0 and max(rates) <= 0.1
    if num_steps >= 10:  # the middles of the steps: the mean rate is that of the whole curve
        assert sum(rates) / num_steps == pytest.approx(0.05, rel=0.01)


def test_epsilon_falls_from_one_along_a_line():
    values = [epsilon(0.1, 0.5, step, 100) for step in range(100)]
    assert values[0] == 1.0
    assert values[25] == pytest.approx(0.55)
    assert values[50:] == pytest.approx([0.1] * 50)


def test_no_share_means_no_fall():
    assert epsilon(0.2, 0.0, 0, 100) == pytest.approx(0.2)
