"""The optimiser's state survives as named tensors, exactly."""

import torch
from torch import nn

from maggnn.config import TrainingConfig
from maggnn.training.optimiser import (
    load_optimiser_tensors,
    make_optimiser,
    optimiser_tensors,
    set_learning_rate,
)
from maggnn.training.schedules import learning_rate

CONFIG = TrainingConfig(weight_decay=0.01)


def make():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    return module, make_optimiser(module, CONFIG)


def train(module, optimiser, steps):
    for step in steps:
        set_learning_rate(optimiser, CONFIG, step, 10)
        optimiser.zero_grad()
        module(torch.full((2, 3), float(step + 1))).square().sum().backward()
        optimiser.step()


def test_going_on_from_tensors_is_exact():
    straight, optimiser = make()
    train(straight, optimiser, range(8))
    first, optimiser = make()
    train(first, optimiser, range(5))
    second, resumed = make()
    second.load_state_dict(first.state_dict())
    load_optimiser_tensors(resumed, {k: v.clone() for k, v in optimiser_tensors(optimiser).items()})
    train(second, resumed, range(5, 8))
    for a, b in zip(straight.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_an_unused_optimiser_round_trips():
    _, optimiser = make()
    assert optimiser_tensors(optimiser) == {}
    load_optimiser_tensors(optimiser, {})


def test_the_rate_comes_from_the_schedule():
    _, optimiser = make()
    set_learning_rate(optimiser, CONFIG, 3, 10)
    assert optimiser.param_groups[0]["lr"] == learning_rate(CONFIG.learning_rate, CONFIG.schedule, 3, 10)
    assert optimiser.param_groups[0]["weight_decay"] == 0.01
