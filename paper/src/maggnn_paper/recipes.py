"""The settings of the published rows, by name: `configs/` for MAG-GNN, `paper/configs/baselines/` for baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maggnn import config as configs
from maggnn.config import Config

BASELINES = "paper/configs/baselines"
"""Where the settings of baselines lie in a checkout, as the ledger names them."""


def recipe(name: str) -> Config:
    """The packaged config of that name."""
    return configs.load(name)


def baseline_recipe(task: str, method: str) -> Config:
    """A baseline on a data set: the settings `<method>.toml`, and over them what `<task>.toml` says.

    Where a method needs something else on one data set, `<task>_<method>.toml` says so.
    """
    plain = {"agent": {"tuple_order": 0, "num_moves": 0}, "training": {"agent_steps": 0}}
    names = [method, task, *baseline_exception(task, method)]
    layers = [plain, *(configs.read(baseline_folder() / f"{name}.toml") for name in names)]
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, entries in layer.items():
            merged.setdefault(section, {}).update(entries)
    return configs.from_dict(merged, origin=" + ".join(f"{BASELINES}/{name}.toml" for name in names))


def baseline_exception(task: str, method: str) -> list[str]:
    """The name of the file for this method on this data set alone; empty where there is none."""
    name = f"{task}_{method}"
    return [name] if (baseline_folder() / f"{name}.toml").is_file() else []


def baseline_folder() -> Path:
    """The baselines' settings in the installed package, or in the checkout when it is installed in place."""
    packaged = Path(__file__).parent / "configs"
    return (packaged if packaged.is_dir() else Path(__file__).parents[2] / "configs") / "baselines"


def plain_gnn(config: Config) -> Config:
    """The same predictor with the same budget and no marks: k = 0, the GIN control."""
    return config.replaced(
        agent={"num_tuples": 1, "tuple_order": 0, "num_moves": 0, "keep": "last"},
        training={"agent_steps": 0},
    )
