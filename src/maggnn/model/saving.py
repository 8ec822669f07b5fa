"""Model files: safetensors with plain facts as JSON in the header, so that loading unpickles nothing.

A file is replaced by a whole one or not at all (`data.files`). `training.checkpoint` keeps the state of a run the same
way, in a file of its own. What a file says is checked before memory is taken for it (`model.file_checks`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from maggnn import config as configs
from maggnn.config import Config, EncoderConfig, TrainingConfig, check_section
from maggnn.errors import DamagedError, InputError, diverged
from maggnn.graphs.batch import Level, Task
from maggnn.model import file_checks
from maggnn.model.encoder import AnyEncoder, Encoder
from maggnn.model.features import DataShape, FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.q_network import AgentShape

if TYPE_CHECKING:
    from maggnn.model.base_gnn import BaseGNN

FORMAT = "maggnn/2"
"""Changes when the names or shapes of weights do."""

POOLINGS, HISTORIES = ("mean", "sum"), ("zero", "mean", "lstm")
"""Of an agent that travels."""


class Plan(NamedTuple):
    """What a file's facts say of its module.

    Attributes:
        make: builds it with fresh weights.
        encoders: settings of its encoders.
        specs: of the features it reads.
        config: that it was trained with.
    """

    make: Callable[[], nn.Module]
    encoders: tuple[EncoderConfig, ...]
    specs: tuple[FeatureSpec, ...]
    config: Config


def save(
    path: Path,
    tensors: dict[str, Tensor],
    facts: dict[str, Any],
    with_checksum: bool = False,
    before_rename: Callable[[], None] = lambda: None,
) -> None:
    """Write tensors and JSON facts to `path`, all or nothing.

    Args:
        with_checksum: for files that travel; that of a large checkpoint would cost time at every write.
        before_rename: is called when the new file is complete and the old one, if any, still has its name.
    """
    from maggnn.data.files import whole_file  # who only reads models does not need it

    metadata = {"format": FORMAT, "facts": json.dumps(facts)}
    if with_checksum:
        metadata["checksum"] = file_checks.checksum(tensors, metadata["facts"])
    with whole_file(path, check=lambda _: before_rename()) as waiting:
        try:
            save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, waiting, metadata)
        except SafetensorError as error:  # a full disk, for one
            raise OSError(str(error)) from error


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save` wrote."""
    with _opened(path) as (file, metadata, facts):
        return _tensors(file, metadata), facts


def load_planned(path: Path, plan: Callable[[dict[str, Any]], Plan]) -> tuple[dict[str, Tensor], dict[str, Any], Plan]:
    """Read weights that must be those of the module which the facts describe; else nothing is allocated."""
    with _opened(path) as (file, metadata, facts):
        try:
            planned = plan(facts)
            _check_plan(planned, {name: _described(file, name) for name in file.keys()})  # noqa: SIM118
            tensors = _tensors(file, metadata)
            file_checks.check_finite(tensors)
        except InputError as error:
            said = str(error).removeprefix(f"{path}: ")
            raise InputError(file_checks.one_line(f"{path}: {said}")) from error
    return tensors, facts, planned


def checksum_of(path: Path) -> str:
    """Of a model's file; empty in files from before there was one."""
    with _opened(path) as (_, metadata, _):
        return metadata.get("checksum", "")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str], dict[str, Any]]]:
    """An open file, its header's texts and its facts; whatever is wrong with it becomes one line."""
    file_checks.check_header_size(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            _check_format(path, metadata.get("format", ""))
            yield file, metadata, _facts(metadata)
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise DamagedError(f"{path}: truncated or damaged ({file_checks.one_line(error)})") from error


def _check_format(path: Path, found: str) -> None:
    if found != FORMAT:
        shown = file_checks.one_line(found)
        raise InputError(
            f"{path}: written by another version ({shown}, this one reads {FORMAT}): train it again"
            if found.startswith("maggnn/")
            else f"{path}: not a maggnn file of format {FORMAT}"
        )


def _facts(metadata: Mapping[str, str]) -> dict[str, Any]:
    text = metadata["facts"]
    if len(text) > file_checks.MOST_FACTS:
        raise ValueError(f"facts of {len(text)} characters")
    facts = json.loads(text)
    if not isinstance(facts, dict):
        raise ValueError(f"facts are a {type(facts).__name__}, must be an object")
    return facts


def _tensors(file: Any, metadata: Mapping[str, str]) -> dict[str, Tensor]:
    tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    said = metadata.get("checksum")
    if said is not None and said != file_checks.checksum(tensors, metadata["facts"]):
        raise ValueError("weights and facts do not have the checksum that was written with them")
    return tensors


def _described(file: Any, name: str) -> tuple[tuple[int, ...], str]:
    part = file.get_slice(name)
    return tuple(part.get_shape()), part.get_dtype()


def _check_plan(plan: Plan, header: file_checks.Header) -> None:
    counts = {"encoder.num_layers": max(encoder.num_layers for encoder in plan.encoders)}
    counts["columns of features"] = max(len(spec.categories) for spec in plan.specs)
    file_checks.check_fits(plan.make, header, counts, [encoder.hidden for encoder in plan.encoders])


def check_finite(weights: Mapping[str, Tensor], where: str) -> None:
    """Refuse weights that are no finite numbers; a GPU is waited for once."""
    floats = {name: value for name, value in weights.items() if value.is_floating_point()}
    finite = torch.stack([value.isfinite().all() for value in floats.values()]).tolist() if floats else []
    for name, good in zip(floats, finite, strict=True):
        if not good:
            raise diverged(f"{name} is not finite at {where}")


def save_model(path: Path | str, model: MagGNN, config: Config | None = None) -> None:
    """Write a model's weights, which have to be finite, and what is needed to build the module again.

    Args:
        path: a file that ends in .safetensors; replaced by a whole one or not at all.
        model: any model. One with a `base` or `g_p` of its own can be read where that is given again.
        config: that it was trained with; by default one with the model's own settings.
    """
    check_finite(model.state_dict(), f"the end, so {path} is not written")
    config = own_config(model) if config is None else config
    facts = {"config": configs.to_dict(config), "model": model_facts(model)}
    if model.own_part and not config.baseline.name:
        facts["own"] = {"part": model.own_part, "kind": _kind_of_own_part(model)}
    save(Path(path), model.state_dict(), facts, with_checksum=True)


def own_config(model: MagGNN) -> Config:
    """The settings that a model was made with, for one that no config was trained from."""
    steps = 0 if model.agent.tuple_order == 0 else TrainingConfig().agent_steps
    training = TrainingConfig(agent_steps=steps)
    encoder = model.predictor.encoder.config
    return Config(encoder=encoder, predictor=model.predictor.config, agent=model.agent, training=training)


def _kind_of_own_part(model: MagGNN) -> str:
    """The class of it, for people."""
    encoder = model.predictor.encoder
    return type(encoder.layers[0].conv if isinstance(encoder, Encoder) else encoder).__name__


def load_model(
    path: Path | str, base: BaseGNN | None = None, g_p: Callable[[], AnyEncoder] | None = None
) -> tuple[MagGNN, Config]:
    """Load a trained model.

    A file from a stranger is safe to load: nothing of it is executed, and it takes no more memory than its own size
    allows; what does not fit together is an `InputError`.

    Args:
        path: a model.safetensors.
        base: the convolution or factory that the model was made with, where it was: a file cannot hold code.
        g_p: the same for an encoder of one's own: a function that makes it with fresh weights.

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
        raise InputError(f"{path}: weights do not fit their config ({file_checks.one_line(error)})") from error
    return model.eval(), plan.config


def _check_own_part(facts: dict[str, Any], given: Mapping[str, object]) -> None:
    """What a file could not hold must be given again, and nothing else."""
    own = facts.get("own")
    part, kind = (
        ("", "") if own is None else (own.get("part"), own.get("kind")) if isinstance(own, dict) else (None, None)
    )
    if part not in ("", *given) or not isinstance(kind, str):
        raise InputError("facts are damaged (the part of one's own is none)")
    if part and given[part] is None:
        again = {"base": "base=...", "g_p": "g_p=lambda: ..."}[part]
        raise InputError(
            f"this model was made with {part} = {file_checks.one_line(kind)}, which a file cannot hold: "
            f"give it again, load_model(path, {again})"
        )
    for name, value in given.items():
        if value is not None and name != part:
            raise InputError(f"{name} is given, but this model was made without it: leave it out")


def _model_plan(facts: dict[str, Any], path: Path, base: BaseGNN | None, g_p: Callable[[], AnyEncoder] | None) -> Plan:
    if "model" not in facts:
        raise InputError(
            f"{path}: a training checkpoint, not a model; the model is {path.parent / 'model.safetensors'}"
        )
    _check_own_part(facts, {"base": base, "g_p": g_p})
    config = configs.from_dict(file_checks.section(facts, "config"), origin=str(path))
    shape = file_checks.section(facts, "model")
    data, pretrained = _data_shape(shape), agent_shape(shape.get("travelling"))
    encoders = (config.encoder,) if pretrained is None else (config.encoder, pretrained.encoder)
    specs = (data.node_features, data.edge_features)

    def make() -> MagGNN:
        return MagGNN.from_config(config, data, pretrained, base, None if g_p is None else g_p())

    return Plan(make, encoders, specs, config)


def model_facts(model: MagGNN) -> dict[str, Any]:
    """What the config does not say of a model, as plain values."""
    return asdict(model.data_shape) | {"travelling": None if model.pretrained is None else asdict(model.pretrained)}


def _data_shape(values: dict[str, Any]) -> DataShape:
    """The inverse of `asdict` of a `DataShape`; older files know no roots."""
    return DataShape(
        num_outputs=file_checks.whole(values, "num_outputs", 1),
        node_features=_spec(file_checks.section(values, "node_features")),
        edge_features=_spec(file_checks.section(values, "edge_features")),
        task=file_checks.choice(values, "task", get_args(Task)),
        level=file_checks.choice(values, "level", get_args(Level)),
        num_roots=file_checks.whole({"num_roots": 0} | values, "num_roots"),
    )


def agent_shape(values: Any) -> AgentShape | None:
    """The inverse of `asdict` of an `AgentShape`."""
    if values is None:
        return None
    entries = file_checks.section({"travelling": values}, "travelling")
    try:
        encoder = EncoderConfig(**file_checks.section(entries, "encoder"))
    except TypeError as error:
        raise InputError(f"facts are damaged ({error})") from error
    check_section(encoder, "pretrained agent")
    history = file_checks.choice(entries, "history", HISTORIES)
    return AgentShape(encoder, file_checks.choice(entries, "pooling", POOLINGS), history)


def _spec(values: dict[str, Any]) -> FeatureSpec:
    categories = values.get("categories")
    if not isinstance(categories, list):
        raise InputError(f"facts are damaged (categories are {type(categories).__name__}, must be a list)")
    counts = tuple(file_checks.whole({"categories": count}, "categories", 1) for count in categories)
    width = file_checks.whole(values, "width")
    if counts and width:
        raise InputError("facts are damaged (features are categories or floats, not both)")
    return FeatureSpec(counts, width)
