"""Names of a model's outputs, and notes about its scores and gains, for `maggnn explain` and `maggnn show`."""

from __future__ import annotations

from maggnn.config import Config
from maggnn.model.mag_gnn import MagGNN


def output_names(
    model: MagGNN, class_names: tuple[str, ...] | None, target_names: tuple[str, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the classes and targets of a model by the names in its data set; without names they are numbered."""
    numbered = tuple(str(number) for number in range(model.num_outputs))
    if model.task == "classification":
        return class_names or numbered, ("class",)
    return (), target_names or (("y",) if model.num_outputs == 1 else tuple(f"y{number}" for number in numbered))


def score_unit(model: MagGNN) -> str:
    """Return the text that follows a score; empty for classes, whose loss has no unit."""
    if model.task == "classification" or model.targets is None:
        return ""
    return "in units of the target's spread" if model.num_outputs == 1 else "in units of each target's spread"


def gain_notes(model: MagGNN, config: Config) -> tuple[str, ...]:
    """Return notes about the units of the gains that Q expects."""
    if model.q_network is None:
        return ()
    if config.agent.pretrained:
        agent = config.agent.pretrained
        return (f"The agent ({agent}) learned on other graphs: its Q-values are in the units of that task.",)
    if config.training.standardise_rewards:
        return ("Expected gains are in units of their spread over a state's moves.",)
    return ()
