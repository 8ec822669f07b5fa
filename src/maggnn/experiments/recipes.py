"""The configs of the published rows, by name: the files of `configs/`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maggnn import config as configs
from maggnn.config import Config


def recipe(name: str) -> Config:
    """The config `configs/<name>.toml`."""
    return configs.load(config_folder() / f"{name}.toml")


def rival_recipe(task: str, method: str) -> Config:
    """A rival on a data set: `configs/rivals/<method>.toml`, and over it what `configs/rivals/<task>.toml` says.

    Where a method needs something else on one data set, `configs/rivals/<task>_<method>.toml` says so.
    """
    plain = {"agent": {"tuple_order": 0, "num_moves": 0}, "training": {"agent_steps": 0}}
    names = [f"rivals/{method}", f"rivals/{task}", *rival_exception(task, method)]
    layers = [plain, *(configs.read(config_folder() / f"{name}.toml") for name in names)]
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, entries in layer.items():
            merged.setdefault(section, {}).update(entries)
    return configs.from_dict(merged, origin=" + ".join(f"configs/{name}.toml" for name in names))


def rival_exception(task: str, method: str) -> list[str]:
    """The name of the file for this method on this data set alone; empty where there is none."""
    name = f"rivals/{task}_{method}"
    return [name] if (config_folder() / f"{name}.toml").is_file() else []


def config_folder() -> Path:
    """`configs/` of the installed package, or of the checkout when the package is installed in place."""
    packaged = Path(__file__).parents[1] / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "configs"


def plain_gnn(config: Config) -> Config:
    """The same predictor with the same budget and no marks: k = 0, the GIN control."""
    return config.replaced(
        agent={"num_tuples": 1, "tuple_order": 0, "num_moves": 0, "keep": "last"},
        training={"agent_steps": 0},
    )
