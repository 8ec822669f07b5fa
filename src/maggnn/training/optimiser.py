"""AdamW, its learning rate from the schedule, and its state as plain named tensors for checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.config import TrainingConfig
from maggnn.training.schedules import learning_rate


def make_optimiser(module: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """Return AdamW over all parameters of `module`; it is fused, so that a step is one kernel.

    On a GPU the learning rate is a tensor on the device, so that recorded steps see its changes.
    """
    parameters = list(module.parameters())
    on_gpu = parameters[0].device.type == "cuda"
    rate = torch.tensor(config.learning_rate, device=parameters[0].device) if on_gpu else config.learning_rate
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=config.weight_decay, fused=True, capturable=on_gpu)


def set_learning_rate(optimiser: torch.optim.AdamW, config: TrainingConfig, step: int, num_steps: int) -> None:
    """Set the scheduled learning rate of `step` for all parameters."""
    set_rate(optimiser, learning_rate(config.learning_rate, config.schedule, step, num_steps))


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set a learning rate for all parameters; on a GPU in place, so that recorded steps see it."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def optimiser_tensors(optimiser: torch.optim.AdamW) -> dict[str, Tensor]:
    """Return Adam's moments and step counts, named `<parameter>.<moment>`."""
    states = optimiser.state_dict()["state"]
    return {f"{index}.{name}": value for index, state in states.items() for name, value in state.items()}


def load_optimiser_tensors(optimiser: torch.optim.AdamW, tensors: dict[str, Tensor]) -> None:
    """Load the tensors of `optimiser_tensors`."""
    states: dict[int, dict[str, Tensor]] = {}
    for path, value in tensors.items():
        index, name = path.split(".")
        states.setdefault(int(index), {})[name] = value
    optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
