"""Whitening: uncorrelated features of unit variance, however ill-conditioned, and a running covariance for tests."""

import pytest
import torch

from builders import seeded
from maggnn.model.normalise import MEMORY, Norm, Whitening

RIDGE = 1e-5


def correlated(rows, width, condition=10.0, dtype=torch.float32):
    """Rows with mean 3 whose covariance has this condition number."""
    scales = torch.logspace(0, 1, width, base=condition**-0.5, dtype=torch.float64)
    rotation, _ = torch.linalg.qr(torch.randn(width, width, generator=seeded(1), dtype=torch.float64))
    h = torch.randn(rows, width, generator=seeded(2), dtype=torch.float64) * scales
    return (h @ rotation.T + 3.0).to(dtype)


def covariance(z):
    z = z.double().reshape(-1, z.shape[-1])
    return (z - z.mean(0)).T @ (z - z.mean(0)) / len(z)


@pytest.mark.parametrize("shape", [(600, 6), (20, 30, 6)])
def test_a_training_batch_gets_the_identity(shape):
    white = Whitening(6, RIDGE).train()(correlated(600, 6).reshape(shape))
    assert white.shape == shape
    # Up to the ridge and BatchNorm's own epsilon, both relative to directions of unit variance.
    torch.testing.assert_close(covariance(white), torch.eye(6).double(), atol=2e-3, rtol=0)
    torch.testing.assert_close(white.reshape(-1, 6).mean(0), torch.zeros(6), atol=1e-4, rtol=0)


def test_the_ridge_keeps_empty_directions_small():
    h = correlated(500, 4)
    doubled = torch.cat([h, h[:, :1]], dim=1)  # rank 4 of 5
    white = Whitening(5, RIDGE).train()(doubled)
    assert white.isfinite().all() and white.std(0)[:4].min() > 0.9
    assert white[:, 4].abs().max() < 1.0


@pytest.mark.parametrize("share", [1e-3, RIDGE, 1e-7])
def test_directions_of_less_variance_than_the_ridge_stay_small(share):
    """What a feature adds to another, of variance v, comes out with variance v / (v + 2 ridge): one for each."""
    a, b = torch.randn(2, 20_000, generator=seeded(), dtype=torch.float64)
    white = Whitening(2, RIDGE).double().train()(torch.stack([a, a + share**0.5 * b], dim=1)).detach()
    assert float(white[:, 0].std()) == pytest.approx(1.0, abs=0.01)
    expected = (share / (share + 2 * RIDGE)) ** 0.5
    assert float(white[:, 1].std()) == pytest.approx(expected, rel=0.02)


def test_fewer_rows_than_features():
    white = Whitening(50, RIDGE).train()(correlated(10, 50, dtype=torch.float64).float())
    assert white.isfinite().all()


@pytest.mark.parametrize(
    ("width", "condition", "mean_error"), [(24, 1e2, 2e-5), (24, 1e4, 2e-4), (24, 1e6, 8e-4), (192, 1e6, 5.5e-4)]
)
def test_single_precision_is_accurate_on_ill_conditioned_data(width, condition, mean_error):
    """The small directions are the ones that matter; the reference is all in double precision."""
    h = correlated(1500, width, condition)
    ours, reference = Whitening(width, RIDGE).train()(h), Whitening(width, RIDGE).double().train()(h.double())
    assert ours.dtype == torch.float32
    error = (ours.double() - reference).abs()
    assert error.max() < 0.02 and error.mean() < mean_error


def test_evaluation_uses_the_running_covariance():
    whitening, h = Whitening(4, RIDGE), correlated(400, 4)
    assert torch.equal(whitening.covariance, torch.eye(4))
    whitening.train()(h)
    x = (h - h.mean(0)) / h.std(0, correction=0)
    expected = (1 - MEMORY) * torch.eye(4) + MEMORY * (x.T @ x / len(x))
    torch.testing.assert_close(whitening.covariance, expected, atol=1e-4, rtol=1e-4)

    whitening.eval()
    for _ in range(2):  # nothing is learned from a test batch
        one_by_one = torch.cat([whitening(row[None]) for row in h[:20]])
        torch.testing.assert_close(whitening(h[:20]), one_by_one, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(whitening.covariance, expected, atol=1e-4, rtol=1e-4)
    factor = torch.linalg.cholesky(whitening.covariance.double() + RIDGE * torch.eye(4))
    by_hand = whitening.standardise(h).double() @ torch.linalg.inv(factor).T
    torch.testing.assert_close(whitening(h).double(), by_hand, atol=1e-5, rtol=1e-5)


def test_settling_keeps_the_statistics_of_one_batch_alone():
    """Whatever was averaged before, evaluation gives that batch what training gives it."""
    whitening, h = Whitening(4, RIDGE).train(), correlated(400, 4, condition=1e4)
    for number in range(30):  # batches of other spreads, as an encoder in training makes them
        whitening(h * (1 + 0.2 * torch.rand(4, generator=seeded(number))))
    averaged = whitening.eval()(h)
    with whitening.settling():
        trained = whitening(h)
    assert not whitening.training and whitening.memory == MEMORY
    settled = whitening(h)
    torch.testing.assert_close(settled, trained, atol=0.02, rtol=0.01)  # the variance is the unbiased one
    torch.testing.assert_close(covariance(settled), torch.eye(4).double(), atol=0.02, rtol=0)
    assert (covariance(averaged) - torch.eye(4)).abs().max() > 0.5


def test_the_running_covariance_becomes_that_of_the_data():
    whitening, h = Whitening(4, RIDGE).train(), correlated(400, 4)
    for _ in range(200):
        trained = whitening(h)
    torch.testing.assert_close(whitening.eval()(h), trained, atol=0.02, rtol=0.02)
    torch.testing.assert_close(covariance(whitening(h)), torch.eye(4).double(), atol=0.02, rtol=0)


@pytest.mark.parametrize("training", [True, False])
def test_one_row_works(training):
    whitening = Whitening(5, RIDGE).train(training)
    h = torch.randn(1, 5, generator=seeded())
    torch.testing.assert_close(whitening(h), h, atol=1e-4, rtol=1e-4)  # nothing is known yet: the identity
    assert torch.equal(whitening.covariance, torch.eye(5))


def test_gradients_flow_through_the_covariance():
    whitening = Whitening(3, RIDGE).double().train()
    h = correlated(12, 3, dtype=torch.float64).requires_grad_()
    weight = torch.randn(12, 3, generator=seeded(), dtype=torch.float64)

    def total(rows):
        return (whitening(rows) * weight).sum()

    assert torch.autograd.gradcheck(total, (h,), atol=1e-5)
    total(h).backward()
    assert h.grad is not None and h.grad.abs().sum() > 0
    assert all(parameter.grad is not None for parameter in whitening.parameters())


def test_gradients_are_finite_where_directions_are_empty():
    whitening = Whitening(8, RIDGE).train()
    h = correlated(100, 4).repeat(1, 2).requires_grad_()  # every feature twice
    whitening(h).square().sum().backward()
    assert h.grad is not None and h.grad.isfinite().all()


def test_state_travels_with_the_weights():
    trained, fresh = Whitening(4, RIDGE).train(), Whitening(4, RIDGE)
    trained(correlated(50, 4))
    fresh.load_state_dict(trained.state_dict())
    h = correlated(7, 4)
    assert torch.equal(fresh.eval()(h), trained.eval()(h))


@pytest.mark.parametrize("kind", ["batch", "layer"])
def test_norm_treats_copies_as_rows(kind):
    norm, h = Norm(kind, 6).train(), torch.randn(5, 3, 6, generator=seeded())
    torch.testing.assert_close(norm(h), Norm(kind, 6).train()(h.reshape(15, 6)).reshape(h.shape))


def padded_rows(h, rows=4):
    """Rows that are no rows, far from the others."""
    return torch.cat([h, torch.full((rows, *h.shape[1:]), 1e3, dtype=h.dtype)])


@pytest.mark.parametrize("shape", [(7, 3), (5, 2, 3), (4, 2, 3, 3)])
@pytest.mark.parametrize("make", [lambda: Norm("batch", 3), lambda: Norm("layer", 3), lambda: Whitening(3, RIDGE)])
@pytest.mark.parametrize("training", [True, False])
def test_padding_is_not_looked_at(make, shape, training):
    exact, padded = (make().double().train(training) for _ in range(2))
    num_real = torch.tensor(shape[0])
    for step in range(3):
        h = 3 + torch.randn(shape, generator=seeded(step)).double()
        weight = torch.randn(shape, generator=seeded(10 + step)).double()
        rows = [h.clone().requires_grad_(), padded_rows(h).requires_grad_()]
        outs = [exact(rows[0]), padded(rows[1], num_real)[: shape[0]]]
        torch.testing.assert_close(*outs)
        grads = [
            torch.autograd.grad(out, [values, *module.parameters()], weight)
            for out, values, module in zip(outs, rows, (exact, padded), strict=True)
        ]
        torch.testing.assert_close(grads[1][0][: shape[0]], grads[0][0])
        assert (grads[1][0][shape[0] :] == 0).all()
        for ours, theirs in zip(grads[1][1:], grads[0][1:], strict=True):
            torch.testing.assert_close(ours, theirs)
        for name, value in exact.state_dict().items():
            torch.testing.assert_close(padded.state_dict()[name], value)


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("kind", ["batch", "layer"])
@pytest.mark.parametrize("training", [True, False])
def test_relu_is_the_norm_then_relu_then_the_residual(kind, training, padding):
    first, second = (Norm(kind, 3).train(training) for _ in range(2))
    h, residual = torch.randn(2, 6, 2, 3, generator=seeded())
    num_real = torch.tensor(4) if padding else None
    expected = first(h, num_real).relu()
    torch.testing.assert_close(second.relu(h, num_real), expected)
    torch.testing.assert_close(second.relu(h, num_real, residual), first(h, num_real).relu() + residual)
    for name, value in first.state_dict().items():
        torch.testing.assert_close(second.state_dict()[name], value)


def test_one_row_among_padding_leaves_the_statistics_finite():
    norm = Norm("batch", 3).train()
    h = padded_rows(torch.randn(1, 3, generator=seeded()))
    assert norm(h, torch.tensor(1)).isfinite().all()
    assert norm.norm.running_mean.isfinite().all() and norm.norm.running_var.isfinite().all()


def test_a_folded_norm_is_the_linear_map_followed_by_the_norm():
    norm, linear = Norm("batch", 3).double().train(), torch.nn.Linear(5, 3).double()
    rows = torch.randn(40, 5, generator=seeded()).double()
    for _ in range(3):
        norm(linear(rows))
    norm.eval()
    folded = norm.folded(linear)
    assert folded is not None
    torch.testing.assert_close(rows @ folded[0] + folded[1], norm(linear(rows)))
    assert Norm("layer", 3).folded(linear) is None


def test_weights_have_the_names_of_torchs_own_norm():
    """Models that were saved before load."""
    names = {f"norm.{name}" for name in torch.nn.BatchNorm1d(3).state_dict()}
    assert Norm("batch", 3).state_dict().keys() == names
