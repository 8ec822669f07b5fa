"""Pretrained agents and predictors.

    agents        Q-networks trained by ORD on graphs without features, which can move marks in any graph (PRE)
    predictors    weights that initialise the prediction GNN for molecules (`training.initial_weights`)

A file contains weights, the config they were trained with and, for agents, the ledger row of the evaluation. Those of
`AGENTS` and `PREDICTORS` come with the package; any other is named by its path.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from maggnn import config as configs
from maggnn.config import AgentConfig, Config, check_section
from maggnn.errors import InputError, did_you_mean
from maggnn.model import weights_file
from maggnn.model.features import FeatureSpec
from maggnn.model.q_network import AgentShape, QNetwork
from maggnn.model.weights_file import agent_shape, section, whole

if TYPE_CHECKING:
    from maggnn.model.mag_gnn import MagGNN

AGENT_FOLDER = Path(__file__).parent / "agents"
"""The folder of the agents that come with the package."""

AGENTS = ("cycles3", "cycles6", "sr25", "rings", "any", "colours")
"""They were trained to count 3-cycles and 6-cycles through nodes, to distinguish the 15 graphs of SR25, and to find the
rings of molecules without labels. `any` and `colours` were trained to refine stable colourings of generated graphs of
many kinds; `colours` also reads the stable colouring of its own marked copy (`encoder.marking = "colours"`)."""

PREDICTOR_FOLDER = Path(__file__).parent / "predictors"
"""The folder of the predictors that come with the package."""

PREDICTORS = ("molecules",)
"""`molecules` was trained to compute properties of public molecules, whose measured labels it has not seen."""

FREE = {"dropout", "pooling", "graph_attr_optional", "composition", "ridge"}
"""The settings of encoder and predictor that may differ from those with which initial weights were trained."""

PREDICTOR, TABLES = "predictor.", ".embeddings."
"""The prefix of the weights of the prediction GNN in a model's file, and what names its tables of categories."""


@dataclass(frozen=True)
class PretrainedAgent:
    """An agent that was trained on other data.

    Attributes:
        name: its name in `agent.pretrained`.
        shape: depth, width and pooling of its Q-network.
        tuple_order: k, the number of marks in the tuples that it moves.
        weights: the weights of its Q-network.
        config: the settings of its training.
        ledger: the row of the ledger with its score on the data that it was trained on.
    """

    name: str
    shape: AgentShape
    tuple_order: int
    weights: dict[str, Tensor]
    config: Config
    ledger: dict[str, Any]

    def q_network(self) -> QNetwork:
        """Return the trained Q-network."""
        network = self.shape.build(self.tuple_order)
        network.load_state_dict(self.weights)
        return network.eval()

    @property
    def moves_tuples_alone(self) -> bool:
        """Whether it reads only the tuple that it moves: then it can be used with any number of tuples."""
        return not self.weights["all_tuples.weight"].any() and self.shape.history == "zero"

    def check(self, agent: AgentConfig) -> None:
        """Check whether a model with these settings can use it."""
        if agent.tuple_order != self.tuple_order:
            raise InputError(
                f"agent {self.name} moves tuples of order {self.tuple_order}, the model has agent.tuple_order = "
                f"{agent.tuple_order}: set it to {self.tuple_order} or choose another agent"
            )
        if agent.history != self.shape.history:
            raise InputError(f"agent {self.name} has agent.history = {self.shape.history}, not {agent.history}")
        own = self.config.agent
        if (agent.num_tuples, agent.actions) != (own.num_tuples, own.actions) and not self.moves_tuples_alone:
            warnings.warn(
                f"agent {self.name} learned with agent.num_tuples = {own.num_tuples} and actions = {own.actions}; "
                "it may do less well with others",
                stacklevel=2,
            )


def pretrained_agent(name: str) -> PretrainedAgent:
    """Load an agent that was trained on other data.

    Args:
        name: one of `maggnn agents`, or the path of a file that `save_agent` wrote.

    Returns:
        The agent.
    """
    path = _path(name)
    tensors, facts, plan = weights_file.load_planned(path, lambda facts: _plan(facts, path))
    shape = agent_shape(facts["agent"])
    assert shape is not None
    return PretrainedAgent(name, shape, facts["tuple_order"], tensors, plan.config, facts["ledger"])


def _plan(facts: dict[str, Any], path: Path) -> weights_file.Plan:
    if "agent" not in facts:
        raise InputError(f"{path}: contains no agent; `save_agent` writes one from a trained model")
    shape = agent_shape(section(facts, "agent"))
    assert shape is not None
    config = configs.from_dict(section(facts, "config"), origin=str(path))
    order = whole(facts, "tuple_order", 1)
    section(facts, "ledger")
    check_section(replace(config.agent, tuple_order=order), str(path))
    return weights_file.Plan(lambda: shape.build(order), (shape.encoder,), (FeatureSpec(),), config)


def agent_digest(name: str) -> str:
    """Return a digest of the agent's file, so that results with a retrained agent count as new results."""
    return hashlib.sha256(_path(name).read_bytes()).hexdigest()[:8]


def save_agent(path: Path, model: MagGNN, config: Config, ledger: dict[str, Any]) -> None:
    """Write the agent of a model that was trained on graphs without features.

    Args:
        ledger: the row of the ledger with its score, as plain values.
    """
    agent = model.agent
    if model.q_network is None:
        raise InputError("a plain GNN (k = 0) has no agent to save")
    if not (model.node_features.empty and model.edge_features.empty):
        raise InputError("an agent that reads features cannot be used on other data: train it on graphs without them")
    if agent.encoder != "own" or agent.state != "q_network":
        raise InputError(
            "an agent that reads the predictor cannot be saved alone: use agent.encoder = own, state = q_network"
        )
    shape = AgentShape(config.encoder, config.predictor.pooling, agent.history)
    facts = {
        "agent": asdict(shape),
        "tuple_order": agent.tuple_order,
        "config": configs.to_dict(config),
        "ledger": ledger,
    }
    weights_file.save(path, model.q_network.state_dict(), facts, with_checksum=True)


def _path(name: str) -> Path:
    return _named(name, "agent", AGENTS, AGENT_FOLDER)


@dataclass(frozen=True)
class PretrainedPredictor:
    """Weights of a predictor that was trained on other data, to initialise another one (`training.initial_weights`).

    Attributes:
        name: its name in `training.initial_weights`.
        weights: the weights, by their names in `MagGNN.state_dict()`.
        config: the settings of its training.
    """

    name: str
    weights: dict[str, Tensor]
    config: Config

    def misfit(self, config: Config) -> str | None:
        """Return the first setting that gives a model other layers than these weights have, in words; None if none."""
        for part in ("encoder", "predictor", "agent"):
            known, given = asdict(getattr(self.config, part)), asdict(getattr(config, part))
            names = ("tuple_order",) if part == "agent" else known.keys() - FREE
            for name in sorted(names):
                if known[name] != given[name]:
                    return f"{part}.{name} = {known[name]}, and the model has {given[name]}"
        return None

    def check(self, config: Config, model: MagGNN) -> None:
        """Check whether the predictor of a model with these settings has the same layers and reads the same features.

        Tables of categories are compared by their number, which is the number of columns: their rows may differ.
        """
        misfit = self.misfit(config)
        if misfit is not None:
            raise InputError(f"training.initial_weights: {self.name} was trained with {misfit}; leave it out")
        own = {name for name in model.state_dict() if name.startswith(PREDICTOR) and TABLES in name}
        if own != {name for name in self.weights if TABLES in name}:
            raise InputError(
                f"training.initial_weights: {self.name} was trained on graphs with other columns of features than "
                f"those of {config.data.name}; leave it out"
            )


def pretrained_predictor(name: str) -> PretrainedPredictor:
    """Load the weights of a predictor that was trained on other data.

    Args:
        name: one of `PREDICTORS`, or the path of a model's file.

    Returns:
        The weights with the settings of their training.
    """
    path = _named(name, "pretrained predictor", PREDICTORS, PREDICTOR_FOLDER)
    tensors, facts = weights_file.load(path)
    found = {key: value for key, value in tensors.items() if key.startswith(PREDICTOR)}
    if not found:
        raise InputError(f"{path}: contains no predictor; give the file of a model")
    return PretrainedPredictor(name, found, configs.from_dict(section(facts, "config"), origin=str(path)))


def with_fitting_weights(config: Config) -> Config:
    """Return the config without initial weights, if these were trained with other layers than the config names."""
    name = config.training.initial_weights
    if name and pretrained_predictor(name).misfit(config) is not None:
        return config.replaced(training={"initial_weights": ""})
    return config


def _named(name: str, what: str, shipped: Sequence[str], folder: Path) -> Path:
    """Return the path of a file that comes with the package, or of any other .safetensors file."""
    if name in shipped:
        return folder / f"{name}.safetensors"
    path = Path(name)
    if path.suffix != ".safetensors":
        raise InputError(f"no {what} {name!r}{did_you_mean(name, shipped)}, or the path of a .safetensors file")
    return path
