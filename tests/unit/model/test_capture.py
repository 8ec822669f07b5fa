"""On a CPU nothing is recorded: `Captured` just calls the function. See tests/gpu for the rest."""

import torch

from maggnn.model.kernels.capture import WARM_UP, Captured

CPU = torch.device("cpu")


def test_every_call_is_a_call():
    seen = []

    def double(shape, values):
        seen.append(shape)
        return 2 * values[:shape]

    captured = Captured(double, CPU)
    assert not captured.records
    for number in range(2 * WARM_UP + 2):
        shape = number % 3
        values = torch.arange(3.0) + number
        assert torch.equal(captured(shape, values), 2 * values[:shape])
    assert seen == [number % 3 for number in range(2 * WARM_UP + 2)]


def test_inputs_and_results_are_handed_through_as_they_are():
    values, other = torch.randn(3), torch.randn(2)
    captured = Captured(lambda shape, *inputs: inputs[shape], CPU)
    assert captured(0, values, other) is values
    assert captured(1, values, other) is other


def test_what_the_function_changes_stays_changed():
    weight, generator = torch.zeros(2), torch.Generator().manual_seed(0)

    def step(shape, values):
        weight.add_(values)
        return weight + torch.rand(shape, generator=generator)

    captured = Captured(step, CPU, [generator])
    drawn = torch.rand(5, 2, generator=torch.Generator().manual_seed(0))
    for number in range(5):
        torch.testing.assert_close(captured((2,), torch.ones(2)), number + 1 + drawn[number])


def test_gradients_pass():
    values = torch.ones(3, requires_grad=True)
    Captured(lambda shape, values: (values**shape).sum(), CPU)(2, values).backward()
    assert values.grad is not None and values.grad.tolist() == [2, 2, 2]
