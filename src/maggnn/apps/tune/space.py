"""Which settings `maggnn tune` searches: m, k, t and the width first, then those that training hangs on most.

Every setting of the config to start from is one of the choices, so that the first trial is that config and the best is
never worse on the validation split.

Which k can be searched depends on who moves the marks:

- PRE: an agent that comes with the package knows one k. A table's study chooses between that k and k = 0, a plain GNN,
  where the paradigm no longer matters. An agent of the table's own (SIMUL) is not searched beside them: its trials take
  several times as long, and a study that mixes both would spend its time there. Start from a config for that.
- ORD and SIMUL: the agent learns with the predictor, so k may be 1, 2 or the base's own.
- A plain GNN or a baseline stays one: m, k and t mean nothing there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maggnn.config import Config

if TYPE_CHECKING:
    from optuna import Trial

HIDDEN = (32, 64, 96, 128)
DROPOUT = (0.0, 0.1, 0.2, 0.3)
WEIGHT_DECAY = (0.0, 0.01, 0.1, 0.3)
NUM_LAYERS = (2, 3, 4, 5, 6)
NUM_TUPLES = (1, 2, 4)
NUM_MOVES = (0, 1, 2, 4)
TUPLE_ORDER = (1, 2)
"""Beside the base's own: a validation goes over all V^k marked copies of a few graphs."""

LEARNING_RATE = (3e-4, 1e-2)

Params = dict[str, Any]
"""What Optuna keeps of a trial: values by `section.key`."""


def suggested(trial: Trial, base: Config, own_table: bool) -> Config:
    """The config of a trial.

    Args:
        base: the config to start from; whatever is not searched stays as it is there.
        own_table: whether marks may be left out, as for `maggnn fit`.
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
    return _with_marks(trial, config, own_table) if base.agent.tuple_order else config


def _with_marks(trial: Trial, config: Config, own_table: bool) -> Config:
    """m, k and t of a trial."""
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
    """The plain GNN of a config."""
    return config.replaced(
        agent={"tuple_order": 0, "num_tuples": 1, "num_moves": 0, "start": "random", "pretrained": ""},
        training={"paradigm": "ord", "agent_steps": 0},
    )


def start_params(base: Config, own_table: bool) -> Params:
    """The params that `suggested` turns into `base` itself."""
    keys = ["training.weight_decay", "training.learning_rate", "encoder.hidden", "encoder.num_layers"]
    keys.append("encoder.dropout")
    if base.agent.tuple_order:
        keys += ["agent.num_tuples", "agent.num_moves"]
        keys += ["agent.tuple_order"] if own_table or base.training.paradigm != "pre" else []
    return {key: _value(base, key) for key in keys}


def _chosen(trial: Trial, base: Config, key: str, choices: tuple[float, ...]) -> Any:
    """One of the choices, of which the base's own is always one."""
    return trial.suggest_categorical(key, sorted({*choices, _value(base, key)}))


def _value(config: Config, key: str) -> Any:
    section, name = key.split(".")
    return getattr(getattr(config, section), name)
