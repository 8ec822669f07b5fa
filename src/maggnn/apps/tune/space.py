"""The search space of `maggnn tune`: m, k, t and the width, and the settings on which training depends most.

Every setting of the initial config is one of the choices, so that the first trial is that config and the best is never
worse on the validation split.

The choices of k depend on the agent:

- PRE: an agent that comes with the package has one k. A table's study chooses between that k and k = 0, a plain GNN,
  where the paradigm does not matter. Training an agent on the table (SIMUL) is not a choice: its trials take several
  times as long, and a study that mixes both would spend most of its time on them. Start from a config for that.
- ORD and SIMUL: the agent learns with the predictor, so k may be 1, 2 or that of the initial config.
- A plain GNN or a baseline has no m, k and t, so these are not searched.

Networks of molecules start from the initial weights of the package if depth, width and k are those of these weights,
and from random weights otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maggnn.config import Config
from maggnn.model.pretrained import with_fitting_weights

if TYPE_CHECKING:
    from optuna import Trial

HIDDEN = (32, 64, 96, 128)
DROPOUT = (0.0, 0.1, 0.2, 0.3)
WEIGHT_DECAY = (0.0, 0.01, 0.1, 0.3)
NUM_LAYERS = (2, 3, 4, 5, 6)
NUM_TUPLES = (1, 2, 4)
NUM_MOVES = (0, 1, 2, 4)
TUPLE_ORDER = (1, 2)
"""The choices of k besides that of the base; a validation reads all V^k marked copies of a few graphs."""

LEARNING_RATE = (3e-4, 1e-2)

Params = dict[str, Any]
"""The values of a trial in Optuna, by `section.key`."""


def suggested(trial: Trial, base: Config, own_table: bool) -> Config:
    """Return the config of a trial.

    Args:
        base: the initial config, from which all other settings are taken.
        own_table: whether k = 0 is a choice, as for `maggnn fit`.
    """
    training = {"weight_decay": _chosen(trial, base, "training.weight_decay", WEIGHT_DECAY)}
    low, high = min(LEARNING_RATE[0], base.training.learning_rate), max(LEARNING_RATE[1], base.training.learning_rate)
    training["learning_rate"] = trial.suggest_float("training.learning_rate", low, high, log=True)
    config = base.replaced(
        encoder={
            "hidden": _chosen(trial, base, "encoder.hidden", HIDDEN),
            "num_layers": _chosen(trial, base, "encoder.num_layers", NUM_LAYERS),
            "dropout": _chosen(trial, base, "encoder.dropout", DROPOUT),
        },
        training=training,
    )
    config = _with_marks(trial, config, own_table) if base.agent.tuple_order else config
    return with_fitting_weights(config)


def _with_marks(trial: Trial, config: Config, own_table: bool) -> Config:
    """Set m, k and t of a trial."""
    k = config.agent.tuple_order
    if config.training.paradigm != "pre":
        k = _chosen(trial, config, "agent.tuple_order", TUPLE_ORDER)
    elif own_table:
        k = trial.suggest_categorical("agent.tuple_order", (0, k))
    if not k:
        return without_marks(config)
    return config.replaced(
        agent={
            "tuple_order": k,
            "num_tuples": _chosen(trial, config, "agent.num_tuples", NUM_TUPLES),
            "num_moves": _chosen(trial, config, "agent.num_moves", NUM_MOVES),
        }
    )


def without_marks(config: Config) -> Config:
    """Return a config for a plain GNN without marks."""
    return config.replaced(
        agent={"tuple_order": 0, "num_tuples": 1, "num_moves": 0, "start": "random", "pretrained": ""},
        training={"paradigm": "ord", "agent_steps": 0},
    )


def start_params(base: Config, own_table: bool) -> Params:
    """Return the params for which `suggested` returns `base` itself."""
    keys = ["training.weight_decay", "training.learning_rate", "encoder.hidden", "encoder.num_layers"]
    keys.append("encoder.dropout")
    if base.agent.tuple_order:
        keys += ["agent.num_tuples", "agent.num_moves"]
        keys += ["agent.tuple_order"] if own_table or base.training.paradigm != "pre" else []
    return {key: _value(base, key) for key in keys}


def _chosen(trial: Trial, base: Config, key: str, choices: tuple[float, ...]) -> Any:
    """Suggest one of the choices, which always include the value of the base."""
    return trial.suggest_categorical(key, sorted({*choices, _value(base, key)}))


def _value(config: Config, key: str) -> Any:
    section, name = key.split(".")
    return getattr(getattr(config, section), name)
