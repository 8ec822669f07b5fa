"""What a reader has to know beside a model's numbers: what they are called, what scores and gains are made of.

`maggnn explain` and `maggnn show` say the same of a model.
"""

from __future__ import annotations

from maggnn.config import Config
from maggnn.model.mag_gnn import MagGNN


def output_names(
    model: MagGNN, class_names: tuple[str, ...] | None, target_names: tuple[str, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Classes and targets of a model, by the names that its data set has for them; without any they are numbered."""
    numbered = tuple(str(number) for number in range(model.num_outputs))
    if model.task == "classification":
        return class_names or numbered, ("class",)
    return (), target_names or (("y",) if model.num_outputs == 1 else tuple(f"y{number}" for number in numbered))


def score_unit(model: MagGNN) -> str:
    """As it follows a score; empty for classes, whose loss has no unit."""
    if model.task == "classification" or model.targets is None:
        return ""
    return "in units of the target's spread" if model.num_outputs == 1 else "in units of each target's spread"


def gain_notes(model: MagGNN, config: Config) -> tuple[str, ...]:
    """What the gains that Q expects cannot be compared with."""
    if model.q_network is None:
        return ()
    if config.agent.pretrained:
        agent = config.agent.pretrained
        return (f"The agent ({agent}) learned on other graphs: its Q-values are in the units of that task.",)
    if config.training.standardise_rewards:
        return ("Promised gains are in units of their spread over a state's moves.",)
    return ()
