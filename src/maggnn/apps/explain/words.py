"""What a reader has to know beside a model's numbers: what they are called, and what scores and promises are made of.

`maggnn explain` and `maggnn show` say the same of a model.
"""

from __future__ import annotations

from maggnn.config import Config
from maggnn.data.benchmarks import QM9_TARGETS
from maggnn.data.dataset import Dataset
from maggnn.model.mag_gnn import MagGNN


def output_names(model: MagGNN, data: str, dataset: Dataset | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Classes and targets of a run on the set `data`; where nobody has named them they are numbered.

    Args:
        dataset: the set itself, if it has been loaded; without it QM9's targets alone have names.
    """
    numbered = tuple(str(number) for number in range(model.num_outputs))
    if model.task == "classification":
        return (dataset.class_names if dataset is not None and dataset.class_names else numbered), ("class",)
    named = dataset.target_names if dataset is not None else _qm9_targets(data)
    return (), named or (("y",) if model.num_outputs == 1 else tuple(f"y{number}" for number in numbered))


def _qm9_targets(data: str) -> tuple[str, ...]:
    if data == "qm9":
        return QM9_TARGETS
    return tuple(target for target in QM9_TARGETS if data == f"qm9_{target}")


def score_unit(model: MagGNN) -> str:
    """As it follows a score; empty for classes, whose loss has no unit."""
    if model.task == "classification" or model.targets is None:
        return ""
    return "in units of the target's spread" if model.num_outputs == 1 else "in units of each target's spread"


def promise_notes(model: MagGNN, config: Config) -> tuple[str, ...]:
    """What the gains that Q promises cannot be compared with."""
    if model.q_network is None:
        return ()
    if config.agent.pretrained:
        agent = config.agent.pretrained
        return (f"The agent ({agent}) learned on other graphs: its promises are in the units of that task.",)
    if config.training.standardise_rewards:
        return ("Promised gains are in units of their spread over a state's moves.",)
    return ()
