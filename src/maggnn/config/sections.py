"""The sections of a run's settings: frozen dataclasses whose fields have a description, bounds and the paper's symbol.

`maggnn settings` and the settings page of the documentation are made from the descriptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

MarkingName = Literal["binary", "distance", "directed", "colours"]
"""The markings by their names (see `maggnn.model.marking`), that of the paper first."""

Precision = Literal["float32", "tf32", "bfloat16"]
"""The precision of matrix products on a GPU at inference: 24, 11 or 8 bits of each factor; sums are always float32."""


def option(
    default: Any,
    help_text: str,
    at_least: float | None = None,
    at_most: float | None = None,
    experimental: bool = False,
) -> Any:
    """Return a field with its one-line description and its bounds.

    Args:
        experimental: whether it is a setting for a single experiment, under `[experimental.<section>]` in files.
    """
    limits = {"at least": at_least, "at most": at_most}
    return field(default=default, metadata={"help": help_text, "limits": limits, "experimental": experimental})


@dataclass(frozen=True)
class DataConfig:
    """The data set and its split."""

    name: str = option("sr25", "data set, a name from `maggnn data list`")
    fold: int = option(0, "which split of the set's protocol (CSL, EXP: one of ten folds)", at_least=0)
    split_seed: int = option(0, "seed that assigns the graphs to folds", at_least=0, at_most=2**62)


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
        0, "random-walk steps whose return probabilities are additional node features", at_least=0, at_most=256
    )
    distances: bool = option(
        False, "add the numbers of nodes 1, 2, ... 12 edges away to node features", experimental=True
    )
    rings: bool = option(False, "gine: add the smallest ring that contains each edge, up to 8 nodes, to edge features")
    marking: MarkingName = option(  # noqa: RUF009 (ruff does not follow the alias)
        "binary",
        "X(v) of Eq. 2: marked or not; the distance of each node from each marked node; this, and whether each edge "
        "leads towards or away from each marked node (gine); or distances and the size of stable colour classes",
    )
    mark_every_layer: bool = option(
        False,
        "add X(v), through a separate linear map, to the input of every layer and not only of the first",
        experimental=True,
    )
    c_plus: float = option(1.0, "c+: the value of a mark (Eq. 2), for binary marking", experimental=True)
    c_minus: float = option(0.0, "c-: the value of unmarked nodes (Eq. 2), for binary marking", experimental=True)

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
        False, "R also reads the roots of a rooted graph, to which its target refers", experimental=True
    )
    graph_attr_optional: bool = option(
        False,
        "training reads each graph with and without its graph_attr, so that the model also answers without it",
        experimental=True,
    )
    whiten: bool = option(False, "decorrelate the pooled embedding before the MLP", experimental=True)
    ridge: float = option(
        1e-5, "added to the covariance when whitening; small batches need more", at_least=0, experimental=True
    )
    composition: bool = option(
        False,
        "regression: learn only what a linear fit to counts of node categories (first column) does not explain",
        experimental=True,
    )


@dataclass(frozen=True)
class AgentConfig:
    """The agent and its search."""

    num_tuples: int = option(1, "m: node tuples, that is marked copies of the graph", at_least=1, at_most=1_024)
    tuple_order: int = option(2, "k: nodes in a tuple; 0 is a plain GNN without marks", at_least=0, at_most=16)
    num_moves: int = option(4, "t: moves of a search", at_least=0, at_most=1_000)
    actions: Literal["simultaneous", "in_turn", "choose"] = option(
        "simultaneous", "all tuples move at once, tuples move in turn, or the agent also chooses the tuple"
    )
    keep: Literal["last", "confident"] = option(
        "last", "answer from the last state (the paper) or from the most confident state seen (label-free)"
    )
    encoder: Literal["own", "shared"] = option(
        "own",
        "g_rl: a separate encoder, or that of the predictor, whose passes then serve both Q and the answers",
        experimental=True,
    )
    state: Literal["q_network", "predictor"] = option(
        "q_network",
        "which embedding of U describes the state in Eq. 9: that of g_rl or of the predictor",
        experimental=True,
    )
    caution: float = option(
        0.0,
        "a mark moves only where the Q-value of the move exceeds that of staying by more than this",
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
        "radius of the subgraphs around a root, in edges; 0: the whole graph",
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
        6, "largest rings that gsn counts and cin uses as cells, in nodes", at_least=3, at_most=64, experimental=True
    )


@dataclass(frozen=True)
class ReplayConfig:
    """The buffer D of experience."""

    capacity: int = option(30_000, "largest number of experiences (memory size)", at_least=1, at_most=100_000_000)
    warmup: int = option(1_000, "experiences before the first Q update ('until D has enough memory')", at_least=1)
    walk_length: int = option(
        4,
        "moves before a walk restarts from random tuples; 1 is exactly Algorithm 2",
        at_least=1,
        experimental=True,
    )


@dataclass(frozen=True)
class TrainingConfig:
    """How f_p and the agent learn (Algorithm 2)."""

    paradigm: Literal["ord", "simul", "pre"] = option(
        "ord",
        "ORD: first the predictor on random tuples, then the agent; SIMUL: both in turn; "
        "PRE: a predictor on the tuples that are moved by an agent from other data",
    )
    predictor_steps: int = option(3_000, "optimiser steps of f_p", at_least=0)
    initial_weights: str = option(
        "",
        "weights that initialise f_p: molecules, which come with the package, or a model's file; empty: random",
        experimental=True,
    )
    agent_steps: int = option(
        2_000,
        "RL-Experience calls, each followed by Q updates; SIMUL spreads them over the predictor's steps",
        at_least=0,
    )
    batch_size: int = option(64, "graphs in a predictor step", at_least=1)
    held_out_share: float = option(
        0.0,
        "share of the training graphs that only the agent learns from; on those of f_p, rewards are less informative",
        at_least=0,
        at_most=0.9,
        experimental=True,
    )
    unmoved_share: float = option(
        0.0,
        "SIMUL and PRE: share of the graphs of a predictor step whose random tuples the agent does not move",
        at_least=0,
        at_most=1,
        experimental=True,
    )
    starts_per_graph: int = option(
        1, "random sets U drawn for each graph of a predictor step (edges are shared)", at_least=1
    )
    agent_batch_size: int = option(128, "experiences in a Q update", at_least=1)
    updates_per_experience: int = option(
        1, "Q updates after each RL-Experience; 1 is exactly Algorithm 2", at_least=1, experimental=True
    )
    walkers: int = option(64, "graphs that collect experience in parallel", at_least=1)
    learning_rate: float = option(1e-3, "peak learning rate", at_least=0)
    schedule: Literal["constant", "one_cycle"] = option("one_cycle", "learning rate over a phase", experimental=True)
    weight_decay: float = option(0.0, "decoupled weight decay", at_least=0)
    target: Literal["dqn", "double_dqn", "lookahead"] = option(
        "lookahead", "what Q learns: the paper's bootstrap, double DQN, or exact one-move outcomes"
    )
    gamma: float = option(0.0, "discount of future reward", at_least=0, at_most=1)
    returns: int = option(
        1,
        "dqn, double_dqn: number of moves whose rewards are summed before Q' is evaluated (n-step returns)",
        at_least=1,
        experimental=True,
    )
    q_loss: Literal["squared", "huber"] = option(
        "squared", "dqn, double_dqn: loss on the error of Q; huber is linear beyond 1", experimental=True
    )
    sync_every: int = option(
        150, "Q updates between copies to the target network (sync rate)", at_least=1, experimental=True
    )
    epsilon_end: float = option(0.1, "final epsilon, which starts at 1", at_least=0, at_most=1, experimental=True)
    epsilon_share: float = option(
        0.5, "share of the agent's steps over which epsilon falls", at_least=0, at_most=1, experimental=True
    )
    reward: Literal["loss", "error"] = option(
        "loss", "L in Eq. 8: the task's loss, or the bounded 1 - p(y) for classification"
    )
    standardise_rewards: bool = option(
        False,
        "lookahead: standardise the rewards of each state's moves, so that all states have the same weight",
        experimental=True,
    )
    fixed_norms: float = option(
        0.0,
        "share of the predictor's steps, at the end, in which its norms use fixed statistics",
        at_least=0,
        at_most=1,
        experimental=True,
    )
    validate_every: int = option(
        0, "predictor steps between validations; 0: no validation, the last weights are kept", at_least=0
    )
    patience: int = option(
        0, "validations without a new best before training stops; 0: all steps; the best weights are kept", at_least=0
    )


@dataclass(frozen=True)
class RuntimeConfig:
    """Seed, device, tests, logging and checkpoints of a run."""

    seed: int = option(0, "seed of every generator of the run", at_least=0, at_most=2**62)
    device: str = option("auto", "auto, cpu or cuda")
    precision: Literal["float32", "tf32"] = option("float32", "precision of matrix products while training on a GPU")
    threads: int = option(
        0, "torch threads while training on a CPU; 0: chosen by the size of a step", at_least=0, at_most=1_024
    )
    tests: int = option(10, "tests of a run, each from fresh random tuples", at_least=1)
    log_every: int = option(50, "steps between logged scalars", at_least=1)
    checkpoint_every: int = option(500, "steps between checkpoints", at_least=1)
