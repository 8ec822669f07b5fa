"""Saves models to files (`model.weights_file`) and loads them.

The state of a training run is saved in a separate file by `training.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from maggnn import config as configs
from maggnn.config import Config, TrainingConfig
from maggnn.errors import InputError, diverged
from maggnn.graphs.batch import Level, Task
from maggnn.model import weights_file
from maggnn.model.encoder import AnyEncoder, Encoder
from maggnn.model.features import DataShape, FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.weights_file import Plan, agent_shape, load_planned, save

if TYPE_CHECKING:
    from maggnn.model.base_gnn import BaseGNN


MODEL = "model.safetensors"
"""The name of a model's file in the folder of a run or of a fitted model."""


def model_file(path: Path) -> Path:
    """Return the file of a model, given its path or that of its folder."""
    return path / MODEL if path.is_dir() else path


def check_finite(weights: Mapping[str, Tensor], where: str) -> None:
    """Raise a `DivergenceError` if a weight is not finite; a GPU is synchronised once."""
    floats = {name: value for name, value in weights.items() if value.is_floating_point()}
    finite = torch.stack([value.isfinite().all() for value in floats.values()]).tolist() if floats else []
    for name, good in zip(floats, finite, strict=True):
        if not good:
            raise diverged(f"{name} is not finite at {where}")


def save_model(path: Path | str, model: MagGNN, config: Config | None = None) -> None:
    """Write a model's weights, which have to be finite, and everything that is needed to rebuild the module.

    Args:
        path: a file that ends in .safetensors; it is written atomically.
        model: any model. One with a custom `base` or `g_p` can be loaded if that is given again.
        config: the config it was trained with; by default one with the model's own settings.
    """
    check_finite(model.state_dict(), f"the end, so {path} is not written")
    config = own_config(model) if config is None else config
    facts = {"config": configs.to_dict(config), "model": model_facts(model)}
    if model.own_part and not config.baseline.name:
        facts["own"] = {"part": model.own_part, "kind": _kind_of_own_part(model)}
    save(Path(path), model.state_dict(), facts, with_checksum=True)


def own_config(model: MagGNN) -> Config:
    """Return a config with the settings of a model that was not made from a config."""
    steps = 0 if model.agent.tuple_order == 0 else TrainingConfig().agent_steps
    training = TrainingConfig(agent_steps=steps)
    encoder = model.predictor.encoder.config
    return Config(encoder=encoder, predictor=model.predictor.config, agent=model.agent, training=training)


def _kind_of_own_part(model: MagGNN) -> str:
    """Return the name of the class of the custom part."""
    encoder = model.predictor.encoder
    return type(encoder.layers[0].conv if isinstance(encoder, Encoder) else encoder).__name__


def load_model(
    path: Path | str, base: BaseGNN | None = None, g_p: Callable[[], AnyEncoder] | None = None
) -> tuple[MagGNN, Config]:
    """Load a trained model.

    An untrusted file is safe to load: nothing in it is executed, and its size bounds the memory that is allocated.
    Inconsistent contents raise an `InputError`.

    Args:
        path: a model.safetensors.
        base: the convolution or factory that the model was made with, if any, since a file cannot contain code.
        g_p: the same for a custom encoder: a function that makes it with random weights.

    Returns:
        The module, in evaluation mode, and the config it was trained with.
    """
    path = Path(path)
    tensors, _, plan = load_planned(path, lambda facts: _model_plan(facts, path, base, g_p))
    model = plan.make()
    assert isinstance(model, MagGNN)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise InputError(f"{path}: weights do not fit their config ({weights_file.one_line(error)})") from error
    return model.eval(), plan.config


def _check_own_part(facts: dict[str, Any], given: Mapping[str, object]) -> None:
    """Check that exactly the custom part that a file cannot contain is given again."""
    own = facts.get("own")
    part, kind = (
        ("", "") if own is None else (own.get("part"), own.get("kind")) if isinstance(own, dict) else (None, None)
    )
    if part not in ("", *given) or not isinstance(kind, str):
        raise InputError("facts are damaged (the custom part is unknown)")
    if part and given[part] is None:
        again = {"base": "base=...", "g_p": "g_p=lambda: ..."}[part]
        raise InputError(
            f"this model was made with {part} = {weights_file.one_line(kind)}, which a file cannot contain: "
            f"give it again, load_model(path, {again})"
        )
    for name, value in given.items():
        if value is not None and name != part:
            raise InputError(f"{name} is given, but this model was made without it: leave it out")


def _model_plan(facts: dict[str, Any], path: Path, base: BaseGNN | None, g_p: Callable[[], AnyEncoder] | None) -> Plan:
    if "model" not in facts:
        raise InputError(f"a training checkpoint, not a model; the model is {path.parent / 'model.safetensors'}")
    _check_own_part(facts, {"base": base, "g_p": g_p})
    config = configs.from_dict(weights_file.section(facts, "config"), origin=str(path))
    shape = weights_file.section(facts, "model")
    data, pretrained = _data_shape(shape), agent_shape(shape.get("travelling"))
    encoders = (config.encoder,) if pretrained is None else (config.encoder, pretrained.encoder)
    specs = (data.node_features, data.edge_features)

    def make() -> MagGNN:
        return MagGNN.from_config(config, data, pretrained, base, None if g_p is None else g_p())

    return Plan(make, encoders, specs, config)


def model_facts(model: MagGNN) -> dict[str, Any]:
    """Return what a config does not say about a model, as plain values."""
    return asdict(model.data_shape) | {"travelling": None if model.pretrained is None else asdict(model.pretrained)}


def _data_shape(values: dict[str, Any]) -> DataShape:
    """Return the inverse of `asdict` of a `DataShape`; older files have no entry for roots and features of graphs."""
    return DataShape(
        num_outputs=weights_file.whole(values, "num_outputs", 1),
        node_features=_spec(weights_file.section(values, "node_features")),
        edge_features=_spec(weights_file.section(values, "edge_features")),
        task=weights_file.choice(values, "task", get_args(Task)),
        level=weights_file.choice(values, "level", get_args(Level)),
        num_roots=weights_file.whole({"num_roots": 0} | values, "num_roots"),
        graph_features=weights_file.whole({"graph_features": 0} | values, "graph_features"),
    )


def _spec(values: dict[str, Any]) -> FeatureSpec:
    categories = values.get("categories")
    if not isinstance(categories, list):
        raise InputError(f"facts are damaged (categories are {type(categories).__name__}, must be a list)")
    counts = tuple(weights_file.whole({"categories": count}, "categories", 1) for count in categories)
    width = weights_file.whole(values, "width")
    if counts and width:
        raise InputError("facts are damaged (features are categories or floats, not both)")
    return FeatureSpec(counts, width)
