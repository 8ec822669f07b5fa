"""The configs of the published rows, by name: the files of `configs/`."""

from __future__ import annotations

from pathlib import Path

from maggnn import config as configs
from maggnn.config import Config


def recipe(name: str) -> Config:
    """The config `configs/<name>.toml`."""
    return configs.load(config_folder() / f"{name}.toml")


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
