"""All settings of a run: reads them from TOML, checks them, and writes them.

Unknown keys and wrong types raise an `InputError` that names the most similar valid key.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from maggnn.config.sections import (
    AgentConfig,
    BaselineConfig,
    DataConfig,
    EncoderConfig,
    Precision,
    PredictorConfig,
    ReplayConfig,
    RuntimeConfig,
    TrainingConfig,
)
from maggnn.errors import InputError, did_you_mean

__all__ = [
    "AgentConfig",
    "BaselineConfig",
    "Config",
    "DataConfig",
    "EncoderConfig",
    "Precision",
    "PredictorConfig",
    "ReplayConfig",
    "RuntimeConfig",
    "TrainingConfig",
    "check_section",
    "describe",
    "from_dict",
    "load",
    "packaged_folder",
    "read",
    "to_dict",
    "to_json",
    "to_toml",
]


@dataclass(frozen=True)
class Config:
    """All sections of a run's settings."""

    data: DataConfig = field(default_factory=DataConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    predictor: PredictorConfig = field(default_factory=PredictorConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    def with_settings(self, settings: Sequence[str]) -> Config:
        """Return a copy with settings of the command line applied.

        Args:
            settings: each as "section.key=value".

        Returns:
            The checked copy.
        """
        values = to_dict(self)
        for setting in settings:
            path, separator, text = setting.partition("=")
            section, dot, key = path.strip().partition(".")
            if not separator or not dot:
                raise InputError(f"--set {setting}: expected section.key=value, for example agent.num_moves=4")
            values.setdefault(section, {})[key] = _parse_value(text.strip())
        return from_dict(values, origin="--set")

    def replaced(self, **sections: Mapping[str, Any]) -> Config:
        """Return a copy with fields of sections replaced, checked like a file.

        Args:
            **sections: the changed fields of a section, as in `config.replaced(data={"fold": 3})`.

        Returns:
            The checked copy.
        """
        values = to_dict(self)
        for section, changes in sections.items():
            values.setdefault(section, {}).update(changes)
        return from_dict(values, origin="replaced()")


def load(source: Path | str) -> Config:
    """Read a TOML file, or a config that comes with the package.

    Args:
        source: the path of a TOML file, or a name such as "sr25".

    Returns:
        The checked settings.
    """
    path = Path(source)
    if path.suffix != ".toml" and not path.exists():
        path = _packaged(str(source))
    return from_dict(read(path), origin=str(path))


def packaged_folder() -> Path:
    """Return `configs/` of the installed package, or of the checkout if the package is installed in place."""
    packaged = Path(__file__).parents[1] / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "configs"


def _packaged(name: str) -> Path:
    names = sorted(path.stem for path in packaged_folder().glob("*.toml"))
    if name not in names:
        raise InputError(f"no config {name!r}{did_you_mean(name, names)}; the path of your own file ends in .toml")
    return packaged_folder() / f"{name}.toml"


def read(path: Path) -> dict[str, Any]:
    """Return the plain values of a TOML file, with experimental settings in their sections."""
    try:
        return _with_experimental(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such config file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}") from None


def _with_experimental(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """Merge `[experimental.<section>]` of a file's values into `[<section>]`; misplaced settings are errors."""
    known = {name for name, _, _ in describe(experimental=True)}
    for section, entries in values.items():
        for key in entries if isinstance(entries, Mapping) and section != "experimental" else ():
            if f"{section}.{key}" in known:
                raise InputError(f"{origin}: {section}.{key} is experimental: set it under [experimental.{section}]")
    experimental = values.pop("experimental", {})
    if not isinstance(experimental, Mapping):
        raise InputError(f"{origin}: experimental is {experimental!r}, must be sections such as [experimental.encoder]")
    for section, entries in experimental.items():
        if not isinstance(entries, Mapping):
            raise InputError(f"{origin}: no experimental setting {section}: write it under [experimental.<section>]")
        for key, value in entries.items():
            if f"{section}.{key}" not in known:
                raise InputError(
                    f"{origin}: no experimental setting {section}.{key}{did_you_mean(f'{section}.{key}', known)}"
                )
            values.setdefault(section, {})[key] = value
    return values


def from_dict(values: Mapping[str, Any], origin: str) -> Config:
    """Build a config from plain values; anything unknown or of the wrong type is an `InputError`."""
    if not isinstance(values, Mapping):
        raise InputError(f"{origin}: settings are of type {type(values).__name__}, must be sections")
    sections = {section.name: section for section in fields(Config)}
    hints = get_type_hints(Config)
    built: dict[str, Any] = {}
    for name, entries in values.items():
        name = _FORMER_SECTIONS.get(name, name)
        if name not in sections:
            raise InputError(f"{origin}: unknown section [{name}]{did_you_mean(name, sections)}")
        if name in built:
            raise InputError(f"{origin}: [{name}] is given twice, once under its former name")
        if not isinstance(entries, Mapping):
            raise InputError(f"{origin}: [{name}] must be a section, not a value")
        built[name] = _section(hints[name], name, entries, origin)
    config = Config(**built)
    _check_values(config, origin)
    return config


def to_dict(config: Config) -> dict[str, dict[str, Any]]:
    """Return plain nested values, the inverse of `from_dict`."""
    return {
        section.name: {entry.name: getattr(getattr(config, section.name), entry.name) for entry in _entries(section)}
        for section in fields(Config)
    }


def to_json(config: Config) -> str:
    """Return the settings that differ from the defaults as one line of JSON, equal for equal settings.

    New settings or sections, whose defaults do not change old configs, thus do not change the lines of old configs.
    """
    defaults = to_dict(Config())
    changed = {
        section: {key: value for key, value in entries.items() if value != defaults[section][key]}
        for section, entries in to_dict(config).items()
    }
    changed = {section: entries for section, entries in changed.items() if entries or section not in _LATER_SECTIONS}
    return json.dumps(changed, sort_keys=True)


def to_toml(config: Config) -> str:
    """Return a file that `load` reads: the settings that differ from the defaults, and the data set's name."""
    defaults, experimental = to_dict(Config()), {name for name, _, _ in describe(experimental=True)}
    usual: dict[str, list[str]] = {}
    apart: dict[str, list[str]] = {}
    for section, entries in to_dict(config).items():
        for key, value in entries.items():
            if value != defaults[section][key] or (section, key) == ("data", "name"):
                place = apart if f"{section}.{key}" in experimental else usual
                # Strings, numbers and booleans are written the same way in JSON and in TOML.
                place.setdefault(section, []).append(f"{key} = {json.dumps(value)}")
    named = usual | {f"experimental.{section}": lines for section, lines in apart.items()}
    return "\n\n".join("\n".join([f"[{section}]", *lines]) for section, lines in named.items()) + "\n"


def describe(experimental: bool = False) -> list[tuple[str, str, str]]:
    """Return (section.key, default, description) of all settings, or of all experimental ones, for help and docs."""
    return [
        (f"{section.name}.{entry.name}", repr(entry.default), entry.metadata["help"])
        for section in fields(Config)
        for entry in _entries(section)
        if entry.metadata["experimental"] == experimental
    ]


def _entries(section: Field[Any]) -> tuple[Field[Any], ...]:
    factory = section.default_factory
    assert is_dataclass(factory)
    return fields(factory)


def _section(kind: type, name: str, entries: Mapping[str, Any], origin: str) -> Any:
    hints = get_type_hints(kind)
    checked: dict[str, Any] = {}
    for key, value in entries.items():
        if key not in hints:
            raise InputError(f"{origin}: unknown key {name}.{key}{did_you_mean(key, hints)}")
        checked[key] = _typed(hints[key], value, f"{origin}: {name}.{key}")
    return kind(**checked)


def _typed(hint: Any, value: Any, where: str) -> Any:
    """Return the value if it has the hinted type (an int is accepted as a float); otherwise raise an `InputError`."""
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise InputError(f"{where} is {value!r}, must be one of {', '.join(choices)}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise InputError(f"{where} is too large a number") from None
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise InputError(f"{where} is {value!r} ({type(value).__name__}), must be {hint.__name__}")
    return value


_LATER_SECTIONS = ("baseline",)
"""Sections that `to_json` omits if they have their defaults."""

_FORMER_SECTIONS = {"rival": "baseline"}
"""The names of sections in model files of earlier versions."""


def check_section(section: Any, where: str = "config") -> None:
    """Check types, choices and ranges of one section's fields, and the relations between them."""
    if not is_dataclass(section):
        raise InputError(
            f"{where}: {section!r} is no section: give EncoderConfig(...), PredictorConfig(...) or the like"
        )
    hints = get_type_hints(type(section))
    metadata = {entry.name: entry.metadata for entry in fields(section)}
    for name, hint in hints.items():
        value = _typed(hint, getattr(section, name), f"{where}: {name}")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{where}: {name} is {value}, must be a finite number")
        for word, limit in metadata[name]["limits"].items():
            if limit is not None and (value < limit if word == "at least" else value > limit):
                raise InputError(f"{where}: {name} is {value}, must be {word} {limit}")
    if isinstance(section, AgentConfig) and section.tuple_order == 0 and section.num_moves > 0:
        raise InputError(f"{where}: agent.tuple_order = 0 is a plain GNN with nothing to move: set num_moves to 0")
    if isinstance(section, TrainingConfig) and section.target != "lookahead" and section.standardise_rewards:
        raise InputError(f"{where}: standardise_rewards needs all moves of a state: set target to lookahead")
    if isinstance(section, TrainingConfig) and section.target == "lookahead" and section.returns > 1:
        raise InputError(f"{where}: target = lookahead scores single moves exactly: set training.returns to 1")
    if isinstance(section, TrainingConfig) and section.target == "lookahead" and section.gamma > 0:
        raise InputError(
            f"{where}: target = lookahead scores moves exactly and discounts nothing: set training.gamma to 0"
        )


def _check_values(config: Config, origin: str) -> None:
    for section in fields(Config):
        check_section(getattr(config, section.name), f"{origin}: [{section.name}]")
    if config.agent.tuple_order == 0 and config.training.agent_steps:
        raise InputError(f"{origin}: agent.tuple_order = 0 has no agent to train: set training.agent_steps to 0")
    training = config.training
    if training.paradigm == "simul" and not _steps_divide(training):
        raise InputError(f"{origin}: SIMUL trains both in turn: predictor_steps must be a multiple of agent_steps")
    if training.paradigm == "simul" and training.starts_per_graph != 1:
        raise InputError(f"{origin}: SIMUL searches once for each graph of a step: set training.starts_per_graph to 1")
    _check_pretrained(config, origin)
    if config.baseline.name and config.agent.tuple_order:
        raise InputError(f"{origin}: baseline.name = {config.baseline.name} has no tuples: set agent.tuple_order to 0")
    if config.baseline.name and training.starts_per_graph != 1:
        raise InputError(
            f"{origin}: baseline.name = {config.baseline.name} has no starts: set training.starts_per_graph to 1"
        )
    if training.unmoved_share and (training.paradigm == "ord" or config.agent.start != "random"):
        raise InputError(
            f"{origin}: training.unmoved_share mixes random and moved tuples: "
            "use simul or pre with agent.start = random"
        )
    if training.patience and not training.validate_every:
        raise InputError(f"{origin}: training.patience counts validations: set validate_every too")
    if config.agent.start != "random" and training.starts_per_graph != 1:
        start = config.agent.start
        raise InputError(f"{origin}: agent.start = {start} allows one start only: set training.starts_per_graph to 1")
    if config.runtime.checkpoint_every % config.runtime.log_every:
        raise InputError(f"{origin}: runtime.checkpoint_every must be a multiple of runtime.log_every")
    smallest = max(config.replay.warmup, config.training.walkers)
    if config.replay.capacity < smallest:
        raise InputError(f"{origin}: replay.capacity must be at least {smallest} (replay.warmup, training.walkers)")


def _steps_divide(training: TrainingConfig) -> bool:
    steps = training.predictor_steps
    return 0 < training.agent_steps <= max(steps, 1) and steps % training.agent_steps == 0


def _check_pretrained(config: Config, origin: str) -> None:
    agent, training = config.agent, config.training
    if (training.paradigm == "pre") != bool(agent.pretrained):
        raise InputError(f"{origin}: training.paradigm = pre and agent.pretrained (as cycles6) must be set together")
    if training.paradigm != "pre":
        return
    if training.agent_steps:
        raise InputError(f"{origin}: PRE does not train its agent: set training.agent_steps to 0")
    if agent.encoder != "own" or agent.state != "q_network":
        raise InputError(f"{origin}: an agent from other data needs agent.encoder = own and agent.state = q_network")
    if training.starts_per_graph != 1:
        raise InputError(f"{origin}: PRE searches once for each graph of a step: set training.starts_per_graph to 1")


def _parse_value(text: str) -> Any:
    """Return a TOML value, or the text itself as a string, so that `--set data.name=csl` needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
