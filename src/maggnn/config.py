"""Every setting of a run: nested frozen dataclasses, read from TOML, each field with its paper symbol.

Unknown keys and wrong types stop at once and name the nearest valid key. `docs` and the command line's help
are made from the same one-line descriptions.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from maggnn.errors import InputError, did_you_mean

Precision = Literal["float32", "tf32", "bfloat16"]
"""Of matrix products on a GPU while answering: 24, 11 or 8 bits of each factor; sums are always float32."""


def option(
    default: Any,
    help_text: str,
    at_least: float | None = None,
    at_most: float | None = None,
    experimental: bool = False,
) -> Any:
    """A field with its one-line description and its bounds.

    Args:
        experimental: the setting of a single experiment. In a file it stands under `[experimental.<section>]`.
    """
    limits = {"at least": at_least, "at most": at_most}
    return field(default=default, metadata={"help": help_text, "limits": limits, "experimental": experimental})


@dataclass(frozen=True)
class DataConfig:
    """Which graphs."""

    name: str = option("sr25", "data set, a name from `maggnn data list`")
    fold: int = option(0, "which split of the set's protocol (CSL, EXP: one of ten folds)", at_least=0)
    split_seed: int = option(0, "seed that deals the graphs into folds", at_least=0, at_most=2**62)


@dataclass(frozen=True)
class EncoderConfig:
    """The MPNN g of Eq. 1, used for g_p and for g_rl."""

    conv: str = option("gin", "gin, gine, or the name of any PyG convolution such as GATConv")
    num_layers: int = option(5, "T: message-passing layers", at_least=1, at_most=1_000)
    hidden: int = option(96, "d: width", at_least=1, at_most=16_384)
    norm: Literal["batch", "layer"] = option("batch", "normalisation after each linear map")
    jk: Literal["none", "sum", "last"] = option(
        "none",
        "jumping knowledge: last layer's output, sum over layers, or last layer through a linear map",
        experimental=True,
    )
    residual: bool = option(False, "add a layer's input to its output")
    dropout: float = option(0.0, "share of a layer's outputs that training drops", at_least=0, at_most=0.9)
    random_walk: int = option(
        0, "steps whose return probabilities describe each node beside its features", at_least=0, at_most=256
    )
    distances: bool = option(
        False, "describe each node also by how many nodes are 1, 2, ... 12 edges away", experimental=True
    )
    rings: bool = option(False, "gine: each edge also knows the smallest ring it lies in, up to 8 nodes")
    marking: Literal["binary", "distance"] = option(
        "binary", "X(v) of Eq. 2: marked or not, or each node's distance from each marked node"
    )
    mark_every_layer: bool = option(
        False,
        "add X(v), through a linear map of its own, to the input of every layer and not only of the first",
        experimental=True,
    )
    c_plus: float = option(1.0, "c+: the value of a mark (Eq. 2); of binary marking", experimental=True)
    c_minus: float = option(0.0, "c-: the value where there is no mark (Eq. 2); of binary marking", experimental=True)

    @property
    def reads_edges(self) -> bool:
        """Whether the convolution reads features of edges."""
        return self.conv == "gine"


@dataclass(frozen=True)
class PredictorConfig:
    """The prediction GNN f_p (Eq. 5)."""

    pooling: Literal["mean", "sum"] = option("mean", "R: how nodes and tuples are pooled")
    read_marked: bool = option(False, "R also reads the marked nodes themselves, slot by slot")
    read_roots: bool = option(
        False, "R also reads the roots of a rooted graph, the nodes that its target is about", experimental=True
    )
    whiten: bool = option(False, "decorrelate the pooled embedding before the MLP", experimental=True)
    ridge: float = option(
        1e-5, "added to the covariance when whitening; small batches want more", at_least=0, experimental=True
    )
    composition: bool = option(
        False,
        "regression: learn what the counts of node categories (the first column) do not explain linearly",
        experimental=True,
    )


@dataclass(frozen=True)
class AgentConfig:
    """The agent and its search."""

    num_tuples: int = option(1, "m: node tuples, that is marked copies of the graph", at_least=1, at_most=1_024)
    tuple_order: int = option(2, "k: nodes in a tuple; 0 is a plain GNN without marks", at_least=0, at_most=16)
    num_moves: int = option(4, "t: moves of a search", at_least=0, at_most=1_000)
    actions: Literal["simultaneous", "in_turn", "choose"] = option(
        "simultaneous", "every tuple moves at once, tuples move in turn, or the agent chooses the tuple too"
    )
    keep: Literal["last", "confident"] = option(
        "last", "answer from the last state (the paper) or from the most confident state seen (label-free)"
    )
    encoder: Literal["own", "shared"] = option(
        "own",
        "g_rl: an encoder of its own, or the predictor's, whose passes then serve Q and the answers alike",
        experimental=True,
    )
    state: Literal["q_network", "predictor"] = option(
        "q_network",
        "whose embedding of U describes the state in Eq. 9: g_rl's own or the predictor's",
        experimental=True,
    )
    caution: float = option(
        0.0,
        "a mark moves only where Q promises more than this beyond what staying promises",
        at_least=0,
        experimental=True,
    )
    history: Literal["zero", "mean", "lstm"] = option(
        "zero", "f_W: the update of the state matrix W", experimental=True
    )
    start: Literal["random", "central", "neighbours", "finest"] = option(
        "random",
        "U before the first move: random tuples, the nodes of highest subgraph centrality in order, "
        "a tuple on each neighbour of a rooted graph's root, "
        "or the tuples whose marks give the finest stable colouring (tries all |V|^k of a graph, once for a data set)",
    )
    pretrained: str = option("", "PRE: an agent that comes with the package, such as cycles6, or an agent's file")


@dataclass(frozen=True)
class BaselineConfig:
    """Another method in place of MAG-GNN's own encoder g_p, without tuples or agent."""

    name: str = option("", "a baseline of maggnn-paper, such as ngnn or i2gnn, in place of g_p; empty: MAG-GNN itself")
    hops: int = option(
        3,
        "how far the subgraphs of a root reach, in edges; 0: the whole graph",
        at_least=0,
        at_most=64,
        experimental=True,
    )
    pooling: Literal["mean", "sum"] = option(
        "mean", "how ngnn, i2gnn and gnn-ak+ pool the nodes of a subgraph", experimental=True
    )
    copies: int = option(
        4, "copies of each graph, for methods that draw some at random", at_least=1, at_most=1_024, experimental=True
    )
    largest_ring: int = option(
        6, "of the rings that gsn counts and cin makes cells of, in nodes", at_least=3, at_most=64, experimental=True
    )


@dataclass(frozen=True)
class ReplayConfig:
    """The buffer D of experience."""

    capacity: int = option(30_000, "experiences kept (memory size)", at_least=1, at_most=100_000_000)
    warmup: int = option(1_000, "experiences before the first Q update ('until D has enough memory')", at_least=1)
    walk_length: int = option(
        4,
        "moves before a walk restarts from random tuples; 1 is Algorithm 2 to the letter",
        at_least=1,
        experimental=True,
    )


@dataclass(frozen=True)
class TrainingConfig:
    """How f_p and the agent learn (Algorithm 2)."""

    paradigm: Literal["ord", "simul", "pre"] = option(
        "ord",
        "ORD: first the predictor on random tuples, then the agent; SIMUL: both in turn; "
        "PRE: a predictor on the tuples that an agent from other data moves",
    )
    predictor_steps: int = option(3_000, "optimiser steps of f_p", at_least=0)
    agent_steps: int = option(
        2_000,
        "RL-Experience calls, each followed by Q updates; SIMUL spreads them over the predictor's steps",
        at_least=0,
    )
    batch_size: int = option(64, "graphs in a predictor step", at_least=1)
    held_out_share: float = option(
        0.0,
        "share of the training graphs that only the agent learns from: of those that f_p knows, rewards say little",
        at_least=0,
        at_most=0.9,
        experimental=True,
    )
    starts_per_graph: int = option(
        1, "random sets U drawn for each graph of a predictor step (edges are shared)", at_least=1
    )
    agent_batch_size: int = option(128, "experiences in a Q update", at_least=1)
    updates_per_experience: int = option(
        1, "Q updates after each RL-Experience; 1 is Algorithm 2 to the letter", at_least=1, experimental=True
    )
    walkers: int = option(64, "graphs that gather experience at once", at_least=1)
    learning_rate: float = option(1e-3, "peak learning rate", at_least=0)
    schedule: Literal["constant", "one_cycle"] = option("one_cycle", "learning rate over a phase", experimental=True)
    weight_decay: float = option(0.0, "decoupled weight decay", at_least=0)
    target: Literal["dqn", "double_dqn", "lookahead"] = option(
        "lookahead", "what Q learns: the paper's bootstrap, double DQN, or exact one-move outcomes"
    )
    gamma: float = option(0.0, "discount of future reward", at_least=0, at_most=1)
    returns: int = option(
        1,
        "dqn, double_dqn: rewards of so many moves of a walk are added up before Q' is asked (n-step returns)",
        at_least=1,
        experimental=True,
    )
    q_loss: Literal["squared", "huber"] = option(
        "squared", "dqn, double_dqn: how an error of Q counts; huber is linear beyond 1", experimental=True
    )
    sync_every: int = option(
        150, "Q updates between copies to the target network (sync rate)", at_least=1, experimental=True
    )
    epsilon_end: float = option(0.1, "where epsilon, which starts at 1, ends", at_least=0, at_most=1, experimental=True)
    epsilon_share: float = option(
        0.5, "share of the agent's steps over which epsilon falls", at_least=0, at_most=1, experimental=True
    )
    reward: Literal["loss", "error"] = option(
        "loss", "L in Eq. 8: the task's loss, or the bounded 1 - p(y) for classification"
    )
    standardise_rewards: bool = option(
        False,
        "lookahead: the rewards of a state's moves in units of their own spread, so that all states count alike",
        experimental=True,
    )
    fixed_norms: float = option(
        0.0,
        "share of the predictor's steps, the last ones, in which its norms keep the statistics they have by then",
        at_least=0,
        at_most=1,
        experimental=True,
    )
    validate_every: int = option(
        0, "predictor steps between validations; 0: no validation, the last weights are kept", at_least=0
    )
    patience: int = option(
        0, "looks without a new best before training stops; 0: all steps; the best weights are kept", at_least=0
    )


@dataclass(frozen=True)
class RuntimeConfig:
    """Where and how a run is kept."""

    seed: int = option(0, "seed of every generator of the run", at_least=0, at_most=2**62)
    device: str = option("auto", "auto, cpu or cuda")
    precision: Literal["float32", "tf32"] = option("float32", "of matrix products while training on a GPU")
    threads: int = option(
        0, "of torch while training on a CPU; 0: as many as a step of this size gains from", at_least=0, at_most=1_024
    )
    tests: int = option(10, "tests of a run, each from fresh random tuples", at_least=1)
    log_every: int = option(50, "steps between logged scalars", at_least=1)
    checkpoint_every: int = option(500, "steps between checkpoints", at_least=1)


@dataclass(frozen=True)
class Config:
    """All sections of a run."""

    data: DataConfig = field(default_factory=DataConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    predictor: PredictorConfig = field(default_factory=PredictorConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    def with_settings(self, settings: Sequence[str]) -> Config:
        """A copy with settings of the command line applied.

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
        """A copy with fields of sections replaced, checked like a file.

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
    """`configs/` of the installed package, or of the checkout when the package is installed in place."""
    packaged = Path(__file__).parent / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "configs"


def _packaged(name: str) -> Path:
    names = sorted(path.stem for path in packaged_folder().glob("*.toml"))
    if name not in names:
        raise InputError(f"no config {name!r}{did_you_mean(name, names)}; a file of your own ends in .toml")
    return packaged_folder() / f"{name}.toml"


def read(path: Path) -> dict[str, Any]:
    """The plain values of a TOML file, experimental settings in the sections that they belong to."""
    try:
        return _with_experimental(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such config file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}") from None


def _with_experimental(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """A file's values with `[experimental.<section>]` merged into `[<section>]`, each setting where it must stand."""
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
        raise InputError(f"{origin}: settings are a {type(values).__name__}, must be sections")
    sections = {section.name: section for section in fields(Config)}
    hints = get_type_hints(Config)
    built: dict[str, Any] = {}
    for name, entries in values.items():
        name = _FORMER_SECTIONS.get(name, name)
        if name not in sections:
            raise InputError(f"{origin}: unknown section [{name}]{did_you_mean(name, sections)}")
        if name in built:
            raise InputError(f"{origin}: [{name}] is there twice, once under its former name")
        if not isinstance(entries, Mapping):
            raise InputError(f"{origin}: [{name}] must be a section, not a value")
        built[name] = _section(hints[name], name, entries, origin)
    config = Config(**built)
    _check_values(config, origin)
    return config


def to_dict(config: Config) -> dict[str, dict[str, Any]]:
    """Plain nested values, the inverse of `from_dict`."""
    return {
        section.name: {entry.name: getattr(getattr(config, section.name), entry.name) for entry in _entries(section)}
        for section in fields(Config)
    }


def to_json(config: Config) -> str:
    """One line that is equal for equal settings: what differs from the defaults.

    A new setting or section, whose defaults leave old configs as they were, then leaves their line as it was too.
    """
    defaults = to_dict(Config())
    changed = {
        section: {key: value for key, value in entries.items() if value != defaults[section][key]}
        for section, entries in to_dict(config).items()
    }
    changed = {section: entries for section, entries in changed.items() if entries or section not in _LATER_SECTIONS}
    return json.dumps(changed, sort_keys=True)


def to_toml(config: Config) -> str:
    """A file that `load` reads: what differs from the defaults, and the data set's name."""
    defaults, experimental = to_dict(Config()), {name for name, _, _ in describe(experimental=True)}
    usual: dict[str, list[str]] = {}
    apart: dict[str, list[str]] = {}
    for section, entries in to_dict(config).items():
        for key, value in entries.items():
            if value != defaults[section][key] or (section, key) == ("data", "name"):
                place = apart if f"{section}.{key}" in experimental else usual
                # A string, a number or a truth value is written alike in JSON and in TOML.
                place.setdefault(section, []).append(f"{key} = {json.dumps(value)}")
    named = usual | {f"experimental.{section}": lines for section, lines in apart.items()}
    return "\n\n".join("\n".join([f"[{section}]", *lines]) for section, lines in named.items()) + "\n"


def describe(experimental: bool = False) -> list[tuple[str, str, str]]:
    """(section.key, default, description) of every setting, or of every experimental one, for help texts and docs."""
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
    """The value if it has the hinted type (an int may stand for a float); otherwise one clear line."""
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
"""Not in the line of a config that leaves them alone."""

_FORMER_SECTIONS = {"rival": "baseline"}
"""Names that sections have in model files of earlier versions."""


def check_section(section: Any, where: str = "config") -> None:
    """Types, choices and ranges of one section's fields, and what must hold between them."""
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
    if training.paradigm == "simul" and not _takes_turns(training):
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
    if training.patience and not training.validate_every:
        raise InputError(f"{origin}: training.patience counts looks at the validation part: set validate_every too")
    if config.agent.start != "random" and training.starts_per_graph != 1:
        start = config.agent.start
        raise InputError(f"{origin}: agent.start = {start} is one start a graph: set training.starts_per_graph to 1")
    if config.runtime.checkpoint_every % config.runtime.log_every:
        raise InputError(f"{origin}: runtime.checkpoint_every must be a multiple of runtime.log_every")
    smallest = max(config.replay.warmup, config.training.walkers)
    if config.replay.capacity < smallest:
        raise InputError(f"{origin}: replay.capacity must be at least {smallest} (replay.warmup, training.walkers)")


def _takes_turns(training: TrainingConfig) -> bool:
    steps = training.predictor_steps
    return 0 < training.agent_steps <= max(steps, 1) and steps % training.agent_steps == 0


def _check_pretrained(config: Config, origin: str) -> None:
    agent, training = config.agent, config.training
    if (training.paradigm == "pre") != bool(agent.pretrained):
        raise InputError(f"{origin}: training.paradigm = pre and agent.pretrained (such as cycles6) come together")
    if training.paradigm != "pre":
        return
    if training.agent_steps:
        raise InputError(f"{origin}: PRE takes its agent as it is: set training.agent_steps to 0")
    if agent.encoder != "own" or agent.state != "q_network":
        raise InputError(f"{origin}: an agent from other data needs agent.encoder = own and agent.state = q_network")
    if training.starts_per_graph != 1:
        raise InputError(f"{origin}: PRE searches once for each graph of a step: set training.starts_per_graph to 1")


def _parse_value(text: str) -> Any:
    """A TOML value, or the text itself as a string, so that `--set data.name=csl` needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
