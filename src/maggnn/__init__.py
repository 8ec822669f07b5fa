"""MAG-GNN: a graph neural network whose agent moves a few node marks to informative places.

The public names are loaded when they are first used, so that `maggnn --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maggnn.errors import missing_extra

if TYPE_CHECKING:
    from maggnn.apps.fit.estimator import MagClassifier, MagRegressor
    from maggnn.apps.pyg.add_marks import AddMarks
    from maggnn.apps.pyg.lightning import LitMagGNN
    from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig
    from maggnn.errors import InputError
    from maggnn.graphs.batch import GraphBatch
    from maggnn.graphs.packed import PackedGraphs
    from maggnn.inference.engine import Engine
    from maggnn.inference.export.program import load_exported
    from maggnn.model.features import FeatureSpec
    from maggnn.model.mag_gnn import MagGNN
    from maggnn.model.pretrained import pretrained_agent
    from maggnn.model.saving import load_model
    from maggnn.training.losses import agent_loss, predictor_loss, training_loss
    from maggnn.training.run import train
    from maggnn.training.tuple_losses import with_tuple_losses

__version__ = "0.1.0"

__all__ = [
    "AddMarks",
    "AgentConfig",
    "Config",
    "EncoderConfig",
    "Engine",
    "FeatureSpec",
    "GraphBatch",
    "InputError",
    "LitMagGNN",
    "MagClassifier",
    "MagGNN",
    "MagRegressor",
    "PackedGraphs",
    "PredictorConfig",
    "agent_loss",
    "load_exported",
    "load_model",
    "predictor_loss",
    "pretrained_agent",
    "train",
    "training_loss",
    "with_tuple_losses",
]

_HOMES = {
    "AddMarks": "apps.pyg.add_marks",
    "AgentConfig": "config",
    "Config": "config",
    "EncoderConfig": "config",
    "Engine": "inference.engine",
    "FeatureSpec": "model.features",
    "GraphBatch": "graphs.batch",
    "InputError": "errors",
    "LitMagGNN": "apps.pyg.lightning",
    "MagClassifier": "apps.fit.estimator",
    "MagGNN": "model.mag_gnn",
    "MagRegressor": "apps.fit.estimator",
    "PackedGraphs": "graphs.packed",
    "PredictorConfig": "config",
    "agent_loss": "training.losses",
    "load_exported": "inference.export.program",
    "load_model": "model.saving",
    "predictor_loss": "training.losses",
    "pretrained_agent": "model.pretrained",
    "train": "training.run",
    "training_loss": "training.losses",
    "with_tuple_losses": "training.tuple_losses",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'maggnn' has no attribute {name!r}")
    try:
        return getattr(import_module(f"maggnn.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(missing_extra(error) or str(error), name=error.name) from error


def __dir__() -> list[str]:
    return sorted(__all__)
