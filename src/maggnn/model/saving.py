"""Model files: safetensors with plain facts as JSON in the header, so that loading unpickles nothing.

A file is replaced by a whole one or not at all (`data.files`). `training.checkpoint` keeps the state of a run the same
way, in a file of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from maggnn import config as configs
from maggnn.config import Config, EncoderConfig
from maggnn.errors import DamagedError, InputError, diverged
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import DataShape, MagGNN
from maggnn.model.q_network import AgentShape

FORMAT = "maggnn/2"
"""Changes when the names or shapes of weights do."""


def save(
    path: Path, tensors: dict[str, Tensor], facts: dict[str, Any], before_rename: Callable[[], None] = lambda: None
) -> None:
    """Write tensors and JSON facts to `path`, all or nothing.

    Args:
        before_rename: is called when the new file is complete and the old one, if any, still has its name.
    """
    from maggnn.data.files import whole_file  # who only reads models does not need it

    metadata = {"format": FORMAT, "facts": json.dumps(facts)}
    with whole_file(path, check=lambda _: before_rename()) as waiting:
        try:
            save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, waiting, metadata)
        except SafetensorError as error:  # a full disk, for one
            raise OSError(str(error)) from error


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save` wrote."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            found = metadata.get("format", "")
            if found != FORMAT:
                older = found.startswith("maggnn/")
                raise InputError(
                    f"{path}: written by another version ({found}, this one reads {FORMAT}): train it again"
                    if older
                    else f"{path}: not a maggnn file of format {FORMAT}"
                )
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(metadata["facts"])  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise DamagedError(f"{path}: truncated or damaged ({error})") from error


def check_finite(weights: Mapping[str, Tensor], where: str) -> None:
    """Refuse weights that are no finite numbers; a GPU is waited for once."""
    floats = {name: value for name, value in weights.items() if value.is_floating_point()}
    finite = torch.stack([value.isfinite().all() for value in floats.values()]).tolist() if floats else []
    for name, good in zip(floats, finite, strict=True):
        if not good:
            raise diverged(f"{name} is not finite at {where}")


def save_model(path: Path, model: MagGNN, config: Config) -> None:
    """Weights, which have to be finite, and everything needed to build the module again."""
    check_finite(model.state_dict(), f"the end, so {path} is not written")
    facts = {"config": configs.to_dict(config), "model": model_facts(model)}
    save(path, model.state_dict(), facts)


def load_model(path: Path) -> tuple[MagGNN, Config]:
    """The trained module, in evaluation mode, and the config it was trained with."""
    tensors, facts = load(path)
    if "model" not in facts:
        raise InputError(
            f"{path}: a training checkpoint, not a model; the model is {path.parent / 'model.safetensors'}"
        )
    config = configs.from_dict(facts["config"], origin=str(path))
    shape = facts["model"]
    model = MagGNN.from_config(config, _data_shape(shape), travelling_agent(shape.get("travelling")))
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise InputError(f"{path}: weights do not fit their config ({' '.join(str(error).split())[:200]})") from error
    return model.eval(), config


def model_facts(model: MagGNN) -> dict[str, Any]:
    """What the config does not say of a model, as plain values."""
    return asdict(model.data_shape) | {"travelling": None if model.travelling is None else asdict(model.travelling)}


def _data_shape(values: dict[str, Any]) -> DataShape:
    """The inverse of `asdict` of a `DataShape`; older files know no roots."""
    return DataShape(
        num_outputs=values["num_outputs"],
        node_features=_spec(values["node_features"]),
        edge_features=_spec(values["edge_features"]),
        task=values["task"],
        level=values["level"],
        num_roots=values.get("num_roots", 0),
    )


def travelling_agent(values: dict[str, Any] | None) -> AgentShape | None:
    """The inverse of `asdict` of an `AgentShape`."""
    if values is None:
        return None
    return AgentShape(EncoderConfig(**values["encoder"]), values["pooling"], values["history"])


def _spec(values: dict[str, Any]) -> FeatureSpec:
    return FeatureSpec(categories=tuple(values["categories"]), width=values["width"])
