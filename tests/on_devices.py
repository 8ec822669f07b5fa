"""What tests run in several processes: functions of a module that spawned processes can import."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maggnn.config import Config
from maggnn.data import registry
from maggnn.errors import InputError
from maggnn.model.normalise import Norm, Whitening, synchronise
from maggnn.training.devices import ONE, Devices
from maggnn.training.environment import mean_loss
from maggnn.training.paradigms import Ord
from maggnn.training.run import train

Found = dict[str, Tensor]

CASES = {
    "sr25": Config().replaced(
        data={"name": "sr25"},
        encoder={"num_layers": 2, "hidden": 12},
        agent={"num_tuples": 2, "tuple_order": 2},
        training={"batch_size": 6, "agent_steps": 0},
    ),
    "zinc": Config().replaced(
        data={"name": "zinc"},
        encoder={"conv": "gine", "num_layers": 2, "hidden": 12, "residual": True, "rings": True},
        agent={"num_tuples": 1, "tuple_order": 3},
        training={"batch_size": 16, "agent_steps": 0},
    ),
}
CASES["zinc_whitened"] = CASES["zinc"].replaced(predictor={"whiten": True})
"""Learned by plain gradient descent: see `test_two_processes_are_one_with_the_doubled_batch`."""


def learned(
    devices: Devices, case: str, batch_size: int, steps: int, adam: bool | None = None, rounding: float = 0.0
) -> Found:
    """Losses of some steps of the predictor on given tuples, the last gradients, and the weights and statistics.

    Args:
        adam: whether Adam learns or plain gradient descent; None for what the case asks for.
        rounding: the weights are changed by so much first.
    """
    torch.set_default_dtype(torch.float64)
    config = CASES[case].replaced(training={"batch_size": batch_size})
    dataset = registry.load(config.data.name)
    paradigm = Ord(config, dataset, dataset.split(0, 0), torch.device("cpu"), devices)
    network = paradigm.predictor
    if not (not config.predictor.whiten if adam is None else adam):
        paradigm.predictor_optimiser = torch.optim.SGD(network.parameters(), lr=0.01)  # pyright: ignore[reportAttributeAccessIssue]
    with torch.no_grad():
        for values in network.parameters():
            values += rounding * torch.randn(values.shape, generator=torch.Generator())
    agent, packed = config.agent, paradigm.packed
    drawn = torch.randint(2**30, (len(packed), agent.num_tuples, agent.tuple_order), generator=torch.Generator())
    tuples = drawn % packed.num_nodes[:, None, None]
    losses = []
    for step in range(steps):
        ids = paradigm.epochs.batch(step)
        losses.append(paradigm.train_predictor(packed.gather(ids, packed.room_for(ids)), tuples[ids], 1))
    gradients = {f"gradient {name}": value.grad for name, value in network.named_parameters() if value.grad is not None}
    return {"losses": torch.stack(losses), **gradients, **network.state_dict()}


def apart_after_rounding(case: str, batch_size: int, steps: int, adam: bool) -> float:
    """How far gradients of one process are from those with weights changed by 1e-15, of the largest gradient."""
    found, other = (learned(ONE, case, batch_size, steps, adam, rounding) for rounding in (0.0, 1e-15))
    names = [name for name in found if name.startswith("gradient")]
    largest = max(float(found[name].abs().max()) for name in names)
    return max(float((found[name] - other[name]).abs().max()) for name in names) / largest


def normalised(devices: Devices, kind: str, rows: Tensor, lengths: list[int], padding: int) -> Found:
    """A norm on this process's share of `rows` [R, copies, d], with rows of padding behind it."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    width = rows.shape[-1]
    norm = Whitening(width, 1e-3) if kind == "whitening" else Norm("batch", width)
    share = rows.split(lengths)[devices.rank] if devices.size > 1 else rows
    padded = torch.cat([share, torch.full((padding, *rows.shape[1:]), 1e6)]).requires_grad_()
    if devices.size > 1:
        synchronise(norm)
    norm.train()
    answers = norm(padded, torch.tensor(len(share)))[: len(share)]
    weights = torch.linspace(0.5, 2.0, rows[..., 0].numel()).reshape(*rows.shape[:2], 1)
    own = weights.split(lengths)[devices.rank] if devices.size > 1 else weights
    # The loss of all rows is the sum over processes, each of which starts from its own part.
    (own * answers.sin()).sum().backward()
    assert padded.grad is not None and not padded.grad[len(share) :].any()
    parts = {"answers": answers.detach(), "gradients": padded.grad[: len(share)]}
    whole = devices.gathered(parts)
    return {name: torch.cat([part[name] for part in whole]) for name in parts if whole} | norm.state_dict()


def averaged_over_nodes(devices: Devices, losses: Tensor, lengths: list[int]) -> Found:
    """The mean loss of rows of which processes have different numbers."""
    torch.set_default_dtype(torch.float64)
    share = losses.split(lengths)[devices.rank] if devices.size > 1 else losses

    class Graphs:
        is_real = None

    return {"mean": devices.mean(mean_loss(share, Graphs(), "node", devices=devices))}  # pyright: ignore[reportArgumentType]


def all_of(devices: Devices, calls: list[tuple[str, tuple[Any, ...]]]) -> list[dict[str, np.ndarray]]:
    """Several of these functions, one after the other: starting processes takes longer than what they do.

    Arrays, since tensors are handed on by reference, to a process that has ended by then.
    """
    found = [globals()[name](devices, *arguments) for name, arguments in calls]
    return [{name: value.detach().numpy() for name, value in values.items()} for values in found]


def weights_of_all(devices: Devices, config: Config, folder: Path) -> list[np.ndarray]:
    """A whole training; the weights that each process ends with, in one row each."""
    trained = train(config, folder, quiet=True, devices=devices)
    weights = torch.cat([value.reshape(-1).double() for value in trained.model.state_dict().values()])
    return [part["weights"].numpy() for part in devices.gathered({"weights": weights})]


def many_numbers(devices: Devices, count: int) -> np.ndarray:
    return np.ones(count)


def mistaken(devices: Devices) -> None:
    if devices.first:
        raise InputError("what was wrong, in one line")
    devices.wait()
