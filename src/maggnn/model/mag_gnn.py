"""MAG-GNN: the newcomer's first file. A graph in, a prediction out.

    graph -> tuples -> marking -> encoder -> Q -> move        one search step, t times
                       marking -> encoder -> pool -> predict  the answer

`MagGNN` is an ordinary `nn.Module`: it takes a PyG `Batch` (or our `GraphBatch`) and returns [B, num_outputs]
(or [N, num_outputs] for node-level targets).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig, check_section
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, Level, Task, values_known
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.rings import with_rings
from maggnn.graphs.structure import with_structure
from maggnn.model.agent import Ties, kept_state, search
from maggnn.model.encoder import AnyEncoder, Encoder, PygLayer
from maggnn.model.features import FeatureSpec
from maggnn.model.marking import Marking, marks
from maggnn.model.named_encoders import make_encoder
from maggnn.model.predictor import Predictor, graph_mean
from maggnn.model.q_network import AgentShape, QNetwork
from maggnn.model.state import State
from maggnn.model.targets import TargetScale
from maggnn.model.tuples import central_tuples, neighbour_tuples, sample_tuples

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data


def _finest_starts(graphs: GraphBatch, num_tuples: int, tuple_order: int) -> Tensor:
    from maggnn.model.finest import finest_starts  # few models need it

    return finest_starts(graphs, num_tuples, tuple_order)


STARTS: dict[str, Callable[[GraphBatch, int, int], Tensor]] = {
    "central": central_tuples,
    "neighbours": neighbour_tuples,
    "finest": _finest_starts,
}
"""Graphs, m and k -> U before the first move, [B, m, k]; by the names that `agent.start` uses. `random` draws."""


@dataclass(frozen=True)
class DataShape:
    """What a model must know of its data.

    Attributes:
        num_outputs: classes or regression targets.
        node_features, edge_features: what `x` and `edge_attr` hold.
        task: classification or regression.
        level: one answer for each graph or for each node.
        num_roots: roots of each graph, for rooted graphs.
    """

    num_outputs: int
    node_features: FeatureSpec = FeatureSpec()  # noqa: RUF009 (frozen)
    edge_features: FeatureSpec = FeatureSpec()  # noqa: RUF009
    task: Task = "classification"
    level: Level = "graph"
    num_roots: int = 0

    @classmethod
    def of(cls, graphs: PackedGraphs, num_outputs: int, task: Task) -> DataShape:
        """Read off a packed data set."""
        num_roots = 0 if graphs.roots is None else graphs.roots.shape[1]
        return cls(
            num_outputs, FeatureSpec.of(graphs.x), FeatureSpec.of(graphs.edge_attr), task, graphs.level, num_roots
        )


class MagGNN(nn.Module):
    """A prediction GNN that reads m marked copies of a graph, and an agent that moves their marks.

    Args:
        num_outputs: classes or regression targets.
        node_features, edge_features: what `x` and `edge_attr` hold (`FeatureSpec.of(tensor)` reads it off).
        task: the agent's keep rule `confident` needs a classifier.
        level: one answer a graph or one a node.
        num_roots: roots of each graph, for rooted graphs (see `maggnn.data.synthetic.rooted`).
        travelling: of an agent that was trained on other data (PRE); it sees the edges and the marks, no features.
        g_p: what the predictor reads in place of an MPNN over marked copies: a rival method (`named_encoders`).
        without_edges: allow `edge_features` that `encoder.conv` does not read, for a control that leaves them out.

    Features that nothing reads are refused: `edge_features` here, `x` and `edge_attr` in `forward`. What a `g_p` reads
    is its own affair. A config names its convolution beside its data set, so `from_config` allows gin on bonds.
    """

    def __init__(
        self,
        num_outputs: int,
        node_features: FeatureSpec = FeatureSpec(),  # noqa: B008 (frozen)
        edge_features: FeatureSpec = FeatureSpec(),  # noqa: B008
        encoder: EncoderConfig = EncoderConfig(),  # noqa: B008
        predictor: PredictorConfig = PredictorConfig(),  # noqa: B008
        agent: AgentConfig = AgentConfig(),  # noqa: B008
        task: Task = "classification",
        level: Level = "graph",
        num_roots: int = 0,
        travelling: AgentShape | None = None,
        g_p: AnyEncoder | None = None,
        without_edges: bool = False,
    ) -> None:
        super().__init__()
        for section in (encoder, predictor, agent):
            check_section(section)
        if agent.keep == "confident" and task != "classification":
            raise InputError("agent.keep = confident needs a classifier; use last for regression")
        if agent.start == "finest" and agent.tuple_order and level == "node":
            raise InputError(
                "agent.start = finest marks one of several places that look alike, which only answers for whole graphs "
                "do not depend on: use another start for node targets"
            )
        if g_p is None and not edge_features.empty and not encoder.reads_edges and not without_edges:
            raise InputError(
                f"edge_features are given, but encoder.conv = {encoder.conv} does not read them: "
                "set conv='gine' in EncoderConfig, or leave edge_features out"
            )
        self.reads_declared = g_p is None  # and nothing else: another encoder may read what it likes
        self.num_outputs = num_outputs
        self.node_features, self.edge_features = node_features, edge_features
        self.task: Task = task
        self.agent = agent
        order = agent.tuple_order
        g_p = Encoder(encoder, order, node_features, edge_features) if g_p is None else g_p
        if predictor.read_roots and not num_roots:
            raise InputError("predictor.read_roots needs rooted graphs (maggnn.data.synthetic.rooted): leave it out")
        self.num_roots = num_roots
        read = num_roots if predictor.read_roots else 0
        self.predictor = Predictor(predictor, g_p, level, num_outputs, read)
        self.targets = _target_scale(num_outputs, node_features, predictor, task, level)
        self.travelling = travelling
        self.q_network = None
        if order and travelling is not None:
            self.q_network = travelling.build(order)
        elif order:
            g_rl = Encoder(encoder, order, node_features, edge_features) if agent.encoder == "own" else None
            state_width = encoder.hidden if agent.state == "q_network" else self.predictor.width
            self.q_network = QNetwork(g_rl, encoder.hidden, order, predictor.pooling, agent.history, state_width)

    @classmethod
    def from_config(cls, config: Config, data: DataShape, travelling: AgentShape | None = None) -> MagGNN:
        """The model that a config describes, with fresh weights: the only place that assembles one from settings.

        Args:
            data: what the model must know of its data.
            travelling: the shape of an agent from other data (PRE), if any.
        """
        return cls(
            num_outputs=data.num_outputs,
            node_features=data.node_features,
            edge_features=data.edge_features,
            encoder=config.encoder,
            predictor=config.predictor,
            agent=config.agent,
            task=data.task,
            level=data.level,
            num_roots=data.num_roots,
            travelling=travelling,
            g_p=make_encoder(config.rival, config.encoder, data.node_features, data.edge_features),
            without_edges=True,
        )

    @property
    def data_shape(self) -> DataShape:
        """What the model knows of its data."""
        level = self.predictor.level
        return DataShape(self.num_outputs, self.node_features, self.edge_features, self.task, level, self.num_roots)

    def forward(
        self,
        graphs: GraphBatch | Batch | Data,
        tuples: Tensor | None = None,
        generator: torch.Generator | None = None,
        ties: Ties | None = None,
    ) -> Tensor:
        """Search from `tuples` [B, m, k] (`starts` if not given) and answer in the targets' units, [rows, out].

        Args:
            ties: which of equally promising moves is made; by default as the property `ties` says.
        """
        if not isinstance(graphs, GraphBatch):
            from maggnn.graphs.conversions import batch_from_pyg  # who only reads our own batches does not need it

            graphs = batch_from_pyg(graphs)
        self._check_features(graphs)
        answers: list[Tensor] = []  # of the states that Q has looked at, where that costs no further encoder pass
        reads = self.agent.encoder == "shared" and self.agent.keep != "last" and not torch.is_grad_enabled()
        states = self.walk(graphs, tuples, generator=generator, answers=answers if reads else None, ties=ties)
        if self.agent.keep == "last":
            return self.restored(self.predictor(graphs, states[-1].tuples), graphs)
        answers += [self.predictor(graphs, state.tuples) for state in states[len(answers) :]]
        return kept_answers(torch.stack(answers), self.agent.keep, graphs, self.predictor.level)

    def _check_features(self, graphs: GraphBatch) -> None:
        """Refuse features that the model was not made for: it would answer as if they were not there."""
        if not self.reads_declared:
            return
        if self.node_features.empty and graphs.x is not None and graphs.x.numel():
            raise InputError(
                "these graphs have x, which this model does not read: "
                "make it with node_features=FeatureSpec.of(x), or leave x out"
            )
        if self.edge_features.empty and graphs.edge_attr is not None and graphs.edge_attr.numel():
            raise InputError(
                "these graphs have edge_attr, which this model does not read: make it with "
                "edge_features=FeatureSpec.of(edge_attr) and EncoderConfig(conv='gine'), or leave edge_attr out"
            )

    def walk(
        self,
        graphs: GraphBatch,
        tuples: Tensor | None = None,
        num_moves: int | None = None,
        epsilon: float = 0.0,
        generator: torch.Generator | None = None,
        answers: list[Tensor] | None = None,
        ties: Ties | None = None,
    ) -> list[State]:
        """The t + 1 states of a search; epsilon = 1 walks at random.

        Args:
            answers: gathers the answer of each state that Q looks at; for networks that share their encoder.
            ties: which of equally promising moves is made; by default as the property `ties` says.
        """
        if tuples is None:
            tuples = self.starts(graphs, generator)
        _check_tuples(tuples, graphs, self.agent)
        moves = self.agent.num_moves if num_moves is None else num_moves
        start = State.start(graphs, tuples, self.history_width)
        scores = self.scores if answers is None else partial(self.scores, answers=answers)
        return search(scores, start, moves, self.agent.actions, epsilon, generator, ties or self.ties)

    @property
    def ties(self) -> Ties:
        """Drawn where starts are drawn; else nothing is, so that a graph has one answer wherever it stands."""
        return "random" if self.agent.start == "random" else "first"

    def starts(self, graphs: GraphBatch, generator: torch.Generator | None = None, count: int = 1) -> Tensor:
        """`count` sets U for each graph before their first move, side by side: [B, count * m, k]."""
        m, k = self.agent.num_tuples, self.agent.tuple_order
        if self.agent.start != "random" and k:
            return STARTS[self.agent.start](graphs, m, k).repeat(1, count, 1)
        return sample_tuples(graphs, count * m, k, generator)

    def restored(self, outputs: Tensor, graphs: GraphBatch) -> Tensor:
        """What the predictor says [rows, out] in the targets' own units."""
        return outputs if self.targets is None else self.targets(outputs, graphs)

    def prepared(self, packed: PackedGraphs) -> PackedGraphs:
        """The set with what this model reads of its graphs' structure worked out once, for all batches."""
        for module in self.modules():
            packed = module.prepared(packed) if isinstance(module, Marking) else packed
        if self.agent.start == "finest" and self.agent.tuple_order:
            from maggnn.model.finest import with_finest  # few models need it

            packed = with_finest(packed, self.agent.num_tuples, self.agent.tuple_order)
        read = [module.config for module in self.modules() if isinstance(module, Encoder)]
        if self.agent.start == "central" or any(encoder.random_walk or encoder.distances for encoder in read):
            steps = max(encoder.random_walk for encoder in read)
            packed = with_structure(packed, steps, any(encoder.distances for encoder in read))
        return with_rings(packed) if any(encoder.rings for encoder in read) else packed

    @torch.no_grad()
    def scores(self, state: State, answers: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Q-table and history of a state; the search is neither differentiated through nor counted in BatchNorm."""
        if self.q_network is None:
            raise InputError("a plain GNN (k = 0) has nothing to move")
        learning = self.training
        if learning:
            self.eval()
        embeddings, h = described(state, self.predictor, self.agent)
        if answers is not None and h is not None:
            pooled = self.predictor.pool(h, state.graphs, state.tuples)
            answers.append(self.predictor.read(pooled, state.graphs))
        q_table, history = self.q_network(state, embeddings, h)
        if self.agent.caution:  # staying is worth that much more
            q_table = q_table + marks(state.graphs, state.tuples, self.agent.caution, 0.0, q_table.dtype)
        if learning:
            self.train()
        return q_table, history

    @property
    def recordable(self) -> bool:
        """Whether its steps may be recorded as CUDA graphs: PyG's convolutions may look at values."""
        encoders = (module for module in self.modules() if isinstance(module, AnyEncoder))
        return all(encoder.recordable for encoder in encoders) and not any(
            isinstance(module, PygLayer) for module in self.modules()
        )

    @property
    def history_width(self) -> int:
        return 0 if self.q_network is None else self.q_network.update_history.width

    def extra_repr(self) -> str:
        """One line above the modules: m, k, t, the answer, and the size."""
        agent, order = self.agent, self.agent.tuple_order
        marks = f"m={agent.num_tuples}, k={order}, t={agent.num_moves}" if order else "no marks (k=0)"
        outputs = f"{self.num_outputs} {'classes' if self.task == 'classification' else 'targets'}"
        parameters = list(self.parameters())
        count, device = sum(weight.numel() for weight in parameters), parameters[0].device
        return f"{marks}, {outputs} ({self.predictor.level} level), {count:,} parameters, on {device}"


def _target_scale(
    num_outputs: int, node_features: FeatureSpec, predictor: PredictorConfig, task: Task, level: Level
) -> TargetScale | None:
    """None for classes, which have no unit."""
    if task == "classification":
        if predictor.composition:
            raise InputError("predictor.composition is for regression; leave it out for classes")
        return None
    if predictor.composition and (level != "graph" or not node_features.categories):
        raise InputError("predictor.composition needs one target a graph and nodes with integer categories")
    return TargetScale(num_outputs, node_features.categories[0] if predictor.composition else 0)


def _check_tuples(tuples: Tensor, graphs: GraphBatch, agent: AgentConfig) -> None:
    expected = (graphs.num_graphs, agent.num_tuples, agent.tuple_order)
    if tuples.shape != expected or tuples.is_floating_point():
        raise InputError(
            f"tuples have shape {tuple(tuples.shape)} of {tuples.dtype}, expected integers [B, m, k] = {expected}"
        )
    if values_known(tuples) and bool(((tuples < 0) | (tuples >= graphs.num_nodes[:, None, None])).any()):
        raise InputError("tuples hold a node id outside its graph: ids run from 0 to the number of nodes minus one")


def described(state: State, predictor: Predictor, agent: AgentConfig) -> tuple[Tensor | None, Tensor | None]:
    """What the predictor tells Q of a state: of U (agent.state = predictor), and of the nodes (encoder = shared).

    Shapes: [B, m, width] and [N, m, d]; None where Q does not ask.
    """
    if agent.state == "q_network" and agent.encoder == "own":
        return None, None
    h = predictor.encoder(state.graphs, state.tuples)
    embeddings = predictor.pool(h, state.graphs, state.tuples) if agent.state == "predictor" else None
    if embeddings is not None:
        embeddings = graph_rows(embeddings, state.graphs, predictor.level)
    return embeddings, h if agent.encoder == "shared" else None


def graph_rows(embeddings: Tensor, graphs: GraphBatch, level: Level) -> Tensor:
    """Embeddings [rows, m, d] as one row a graph, [B, m, d]."""
    return graph_mean(embeddings, graphs) if level == "node" else embeddings


def kept_answers(answers: Tensor, keep: str, graphs: GraphBatch, level: Level) -> Tensor:
    """Pick each graph's answer from those of all states of its walk, [t + 1, rows, out] -> [rows, out]."""
    confidence = answers.softmax(dim=-1).amax(dim=-1)  # [t + 1, rows]
    if level == "node":
        confidence = torch.stack([graph_mean(sure, graphs) for sure in confidence])
    kept = kept_state(confidence, keep)  # [B]
    kept = kept[graphs.node_graph] if level == "node" else kept
    return answers.gather(0, kept[None, :, None].expand(1, -1, answers.shape[-1]))[0]
