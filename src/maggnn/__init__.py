"""MAG-GNN: a GNN whose agent moves a few marks to where they tell graphs apart.

The public names are loaded when they are first used, so that `maggnn --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maggnn.apps.estimator import MagClassifier, MagRegressor
    from maggnn.apps.exported_model import load_exported
    from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig
    from maggnn.engine import Engine
    from maggnn.errors import InputError
    from maggnn.features import FeatureSpec
    from maggnn.graphs import GraphBatch
    from maggnn.model import MagGNN
    from maggnn.packed import PackedGraphs
    from maggnn.training.checkpoint import load_model
    from maggnn.training.pretrained import pretrained_agent
    from maggnn.training.run import train

__version__ = "0.1.0"

__all__ = [
    "AgentConfig",
    "Config",
    "EncoderConfig",
    "Engine",
    "FeatureSpec",
    "GraphBatch",
    "InputError",
    "MagClassifier",
    "MagGNN",
    "MagRegressor",
    "PackedGraphs",
    "PredictorConfig",
    "load_exported",
    "load_model",
    "pretrained_agent",
    "train",
]

_HOMES = {
    "AgentConfig": "config",
    "Config": "config",
    "EncoderConfig": "config",
    "Engine": "engine",
    "FeatureSpec": "features",
    "GraphBatch": "graphs",
    "InputError": "errors",
    "MagClassifier": "apps.estimator",
    "MagGNN": "model",
    "MagRegressor": "apps.estimator",
    "PackedGraphs": "packed",
    "PredictorConfig": "config",
    "load_exported": "apps.exported_model",
    "load_model": "training.checkpoint",
    "pretrained_agent": "training.pretrained",
    "train": "training.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'maggnn' has no attribute {name!r}")
    return getattr(import_module(f"maggnn.{_HOMES[name]}"), name)
