"""MAG-GNN, the file to read first: from a graph to a prediction.

    graph -> tuples -> marking -> encoder -> Q -> move        one search step, t times
                       marking -> encoder -> pool -> predict  the answer

`MagGNN` is an ordinary `nn.Module`: it takes a PyG `Batch` (or our `GraphBatch`, or `x, edge_index, batch, edge_attr`)
and returns [B, num_outputs] (or [N, num_outputs] for node-level targets). `MagGNN.for_data` makes one for PyG data.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, get_args

import torch
from torch import Tensor, nn

from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig, check_section
from maggnn.errors import InputError, UntrainedAgentWarning, did_you_mean
from maggnn.graphs.batch import GraphBatch, Level, Task
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.rings import with_rings
from maggnn.graphs.structure import with_structure
from maggnn.model.agent import Ties, kept_answers, search
from maggnn.model.encoder import AnyEncoder, Encoder
from maggnn.model.features import DataShape, FeatureSpec
from maggnn.model.marking import Marking, marks
from maggnn.model.normalise import in_evaluation
from maggnn.model.predictor import Predictor
from maggnn.model.q_network import AgentShape, QNetwork, predictor_embeddings
from maggnn.model.state import State
from maggnn.model.targets import make_target_scale
from maggnn.model.tuples import check_tuples, sample_tuples

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data

    from maggnn.model.base_gnn import BaseGNN
    from maggnn.model.shape_of_data import Graphs


class MagGNN(nn.Module):
    """A prediction GNN that reads m marked copies of a graph, and an agent that moves their marks.

    Args:
        num_outputs: the number of classes or regression targets.
        node_features: the features in `x` (`FeatureSpec.of(tensor)` infers them).
        edge_features: the features in `edge_attr`.
        encoder: settings of both encoders, g_p and g_rl.
        predictor: settings of the readout.
        agent: m, k and t, and how moves are made; `pretrained` names an agent that is loaded, such as "any".
        task: classification, multilabel or regression; `agent.keep = confident` needs a classifier.
        level: whether there is one answer for each graph or for each node.
        num_roots: the number of roots of each graph, for rooted graphs (see `maggnn.data.synthetic.rooted`).
        graph_features: the number of columns of `graph_attr`, features of whole graphs that the readout joins to the
            pooled embedding.
        pretrained: the shape of an agent from other data (PRE) whose weights are loaded later, as from a model's file;
            like a pretrained one it reads edges and marks, but no features.
        g_p: an encoder for the predictor instead of an MPNN over marked copies, such as a baseline (`named_encoders`).
        without_edges: allow `edge_features` that the layers do not read, for a control that ignores them.
        base: the convolution of every layer, instead of the one that `encoder.conv` names: a PyG module, of which each
            layer takes a new copy, or a function of the width d that makes one, such as
            `lambda d: GATv2Conv(d, d, heads=4, concat=False, edge_dim=d)`.

    Features that nothing reads are rejected: `edge_features` here, `x` and `edge_attr` in `forward`. There is no such
    check for a `g_p`, and `from_config` allows gin on graphs with bonds, because a config names data and convolution.
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
        graph_features: int = 0,
        pretrained: AgentShape | None = None,
        g_p: AnyEncoder | None = None,
        without_edges: bool = False,
        base: BaseGNN | None = None,
    ) -> None:
        super().__init__()
        for section in (encoder, predictor, agent):
            check_section(section)
        for name, value, known in (("task", task, get_args(Task)), ("level", level, get_args(Level))):
            if value not in known:
                raise InputError(f"unknown {name} {value!r}{did_you_mean(value, known)}")
        if num_outputs < 1:
            raise InputError(f"num_outputs is {num_outputs}, must be at least 1")
        if agent.keep == "confident" and task != "classification":
            raise InputError("agent.keep = confident needs a classifier; use last for other tasks")
        if agent.start == "finest" and agent.tuple_order and level == "node":
            raise InputError(
                "agent.start = finest marks one of several equivalent nodes, which changes answers for nodes: "
                "use another start for node targets"
            )
        if g_p is None and base is None and not edge_features.empty and not encoder.reads_edges and not without_edges:
            raise InputError(
                f"edge_features are given, but encoder.conv = {encoder.conv} does not read them: "
                "set conv='gine' in EncoderConfig, or leave edge_features out"
            )
        self.own_part = "g_p" if g_p is not None else "base" if base is not None else ""
        """The argument that gave a network which a model file cannot describe; empty if there is none."""
        self.reads_declared = g_p is None  # another encoder may read other features than the declared ones
        self.num_outputs = num_outputs
        self.node_features, self.edge_features = node_features, edge_features
        self.task: Task = task
        self.agent = agent
        order = agent.tuple_order
        g_p = Encoder(encoder, order, node_features, edge_features, base) if g_p is None else g_p
        if base is not None and not edge_features.empty and not without_edges and not getattr(g_p, "reads_edges", True):
            raise InputError(
                "edge_features are given, but base does not read edge_attr: some convolutions need edge_dim=d for it"
            )
        if predictor.read_roots and not num_roots:
            raise InputError("predictor.read_roots needs rooted graphs (maggnn.data.synthetic.rooted): leave it out")
        self.num_roots = num_roots
        read = num_roots if predictor.read_roots else 0
        if graph_features and level == "node":
            raise InputError("graph_features are for targets of graphs: repeat them in x for targets of nodes")
        self.graph_features = graph_features
        self.predictor = Predictor(predictor, g_p, level, num_outputs, read, graph_features)
        self.targets = make_target_scale(num_outputs, node_features, predictor, task, level)
        self.pretrained = pretrained
        self.q_network = None
        if order and pretrained is not None:
            self.q_network = pretrained.build(order)
        elif order and agent.pretrained:
            from maggnn.model.pretrained import pretrained_agent  # needed only if an agent is named

            known = pretrained_agent(agent.pretrained)
            known.check(agent)
            self.pretrained, self.q_network = known.shape, known.q_network()
        elif order:
            own = agent.encoder == "own"
            g_rl = Encoder(encoder, order, node_features, edge_features, base) if own else None
            state_width = encoder.hidden if agent.state == "q_network" else self.predictor.width
            self.q_network = QNetwork(g_rl, encoder.hidden, order, predictor.pooling, agent.history, state_width)

    @classmethod
    def from_config(
        cls,
        config: Config,
        data: DataShape,
        pretrained: AgentShape | None = None,
        base: BaseGNN | None = None,
        g_p: AnyEncoder | None = None,
    ) -> MagGNN:
        """Make the model that a config describes. No other place assembles a model from settings.

        Args:
            config: all settings.
            data: what the model must know about its data.
            pretrained: the shape of an agent from other data (PRE), if any.
            base: a custom convolution, as for `MagGNN`.
            g_p: a custom encoder, as for `MagGNN`.

        Returns:
            The model, with random weights.
        """
        if g_p is None and config.baseline.name:
            from maggnn.model.named_encoders import make_encoder  # few models need it

            g_p = make_encoder(config.baseline, config.encoder, data.node_features, data.edge_features)
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
            graph_features=data.graph_features,
            pretrained=pretrained,
            g_p=g_p,
            without_edges=True,
            base=base,
        )

    @classmethod
    def for_data(
        cls,
        data: Graphs,
        num_outputs: int | None = None,
        task: Task | None = None,
        level: Level | None = None,
        encoder: EncoderConfig | None = None,
        predictor: PredictorConfig = PredictorConfig(),  # noqa: B008 (frozen)
        agent: AgentConfig = AgentConfig(),  # noqa: B008
        base: BaseGNN | None = None,
        g_p: AnyEncoder | None = None,
    ) -> MagGNN:
        """Make a model for PyG data, whose features are inferred.

        Integer columns of `x` and `edge_attr` are categories, numbered from 0 to the largest value; floats are numbers.
        Give the whole data set, so that every category occurs.

        Args:
            data: a `Data`, a `Batch`, a PyG dataset or a list of `Data`.
            num_outputs: the number of classes or regression targets; by default the classes or columns of `y`.
            task: classification, multilabel or regression; by default regression if `y` has floats.
            level: one answer for each graph or for each node; by default inferred from the number of rows of `y`.
            encoder: settings of the GNN; by default `gine` if there are edge features and `gin` otherwise.
            predictor: settings of the readout.
            agent: m, k and t, and how moves are made.
            base: any PyG convolution as an object or a factory, as for `MagGNN`.
            g_p: a custom encoder, as for `MagGNN`.

        Returns:
            The model, with random weights.

        Example:
            >>> model = MagGNN.for_data(dataset, agent=AgentConfig(num_tuples=2, tuple_order=1, num_moves=2))
            >>> model(batch)  # [B, num_outputs]
        """
        from maggnn.model.shape_of_data import shape_of_data  # not needed when a model is loaded

        shape = shape_of_data(data, num_outputs, task, level)
        encoder = encoder or EncoderConfig(conv="gin" if shape.edge_features.empty else "gine")
        own = (shape.num_outputs, shape.node_features, shape.edge_features)
        more = (shape.task, shape.level, shape.num_roots, shape.graph_features)
        return cls(*own, encoder, predictor, agent, *more, base=base, g_p=g_p)

    @property
    def data_shape(self) -> DataShape:
        """What the model knows about its data."""
        specs, level = (self.node_features, self.edge_features), self.predictor.level
        return DataShape(self.num_outputs, *specs, self.task, level, self.num_roots, self.graph_features)

    def forward(
        self,
        graphs: GraphBatch | Batch | Data | Tensor | None,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        *,
        tuples: Tensor | None = None,
        generator: torch.Generator | None = None,
        ties: Ties | None = None,
    ) -> Tensor:
        """Search for informative marks and predict, in the targets' own units (logits for classes).

        The graphs are one object, `model(batch)`, or tensors, `model(x, edge_index, batch, edge_attr)`.

        Args:
            graphs: a PyG `Batch` or `Data`, or a `GraphBatch`; or `x` [N, F], which is None if nodes have no features.
            edge_index: the edges as node ids of the batch, if the first argument is `x`, [2, E].
            batch: the graph of each node, [N]; None if all nodes are of one graph.
            edge_attr: the features of edges, [E, F].
            tuples: the marked nodes before the first move, [B, m, k]; by default those of `starts`.
            generator: draws starts and breaks ties; by default torch's global one.
            ties: which of several moves with equal Q-values is made; by default the property `ties`.

        Returns:
            The answers, [B, num_outputs], or [N, num_outputs] at node level.
        """
        if not isinstance(graphs, GraphBatch) or edge_index is not None:
            from maggnn.graphs.call_forms import as_batch  # not needed for a GraphBatch

            graphs = as_batch(graphs, edge_index, batch, edge_attr)
        self.check_features(graphs)
        self._warn_if_untrained()
        answers: list[Tensor] = []  # of the scored states, if no additional encoder pass is needed
        reads = self.agent.encoder == "shared" and self.agent.keep != "last" and not torch.is_grad_enabled()
        states = self.walk(graphs, tuples, generator=generator, answers=answers if reads else None, ties=ties)
        if self.agent.keep == "last":
            return self.in_target_units(self.predictor(graphs, states[-1].tuples), graphs)
        answers += [self.predictor(graphs, state.tuples) for state in states[len(answers) :]]
        return kept_answers(torch.stack(answers), self.agent.keep, graphs, self.predictor.level)

    def check_features(self, graphs: GraphBatch) -> None:
        """Reject features that the model does not read and would silently ignore.

        Args:
            graphs: the batch to be read.

        Raises:
            InputError: the batch has features that the model does not read; the message names the argument to set.
        """
        unread = [("graph_attr", graphs.graph_attr, not self.graph_features, "graph_features=graph_attr.shape[1]")]
        if self.reads_declared:
            with_edges = "edge_features=FeatureSpec.of(edge_attr) and EncoderConfig(conv='gine')"
            unread.append(("x", graphs.x, self.node_features.empty, "node_features=FeatureSpec.of(x)"))
            unread.append(("edge_attr", graphs.edge_attr, self.edge_features.empty, with_edges))
        for name, values, is_unread, how in unread:
            if is_unread and values is not None and values.numel():
                raise InputError(
                    f"these graphs have {name}, which this model does not read: make it with {how}, or leave {name} out"
                )

    def _warn_if_untrained(self) -> None:
        """Warn about an untrained agent: a loss on the answers trains only the predictor and leaves Q unchanged."""
        if (
            self.q_network is None
            or self.q_network.trained
            or not self.agent.num_moves
            or torch.compiler.is_exporting()
        ):
            return
        warnings.warn(
            "the agent of this model is untrained, so its moves mean nothing: train it with maggnn.training_loss, "
            "take a pretrained agent, or set num_moves=0",
            UntrainedAgentWarning,
            stacklevel=5,  # the line that called the model
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
        """Search for t moves; with epsilon = 1, all moves are random.

        Args:
            graphs: the batch.
            tuples: the start of the search, [B, m, k]; by default those of `starts`.
            num_moves: t; by default the model's own.
            epsilon: the probability that a graph makes a random move in a step.
            generator: draws the start and random moves, and breaks ties.
            answers: a list to which the answer of each scored state is appended; for networks that share an encoder.
            ties: which of several moves with equal Q-values is made; by default the property `ties`.

        Returns:
            The t + 1 states, beginning with the start.
        """
        if tuples is None:
            tuples = self.starts(graphs, generator)
        check_tuples(tuples, graphs, self.agent.num_tuples, self.agent.tuple_order)
        tuples = tuples.long()
        moves = self.agent.num_moves if num_moves is None else num_moves
        start = State.start(graphs, tuples, self.history_width)
        scores = self.scores if answers is None else partial(self.scores, answers=answers)
        return search(scores, start, moves, self.agent.actions, epsilon, generator, ties or self.ties)

    @property
    def ties(self) -> Ties:
        """How ties are broken: at random with random starts; else the first move, so that answers are deterministic."""
        return "random" if self.agent.start == "random" else "first"

    def starts(self, graphs: GraphBatch, generator: torch.Generator | None = None, count: int = 1) -> Tensor:
        """Return the tuples before the first move.

        Args:
            graphs: the batch.
            generator: draws the tuples, if they are random.
            count: the number of sets U for each graph.

        Returns:
            The concatenated sets, [B, count * m, k].
        """
        m, k = self.agent.num_tuples, self.agent.tuple_order
        if self.agent.start != "random" and k:
            from maggnn.model.starts import STARTS  # most models start at random

            return STARTS[self.agent.start](graphs, m, k).repeat(1, count, 1)
        return sample_tuples(graphs, count * m, k, generator)

    def answers(self, outputs: Tensor, graphs: GraphBatch) -> Tensor:
        """Convert the predictor's outputs to probabilities or to the targets' own units.

        Args:
            outputs: the outputs of the predictor, [rows, out].
            graphs: the batch of these outputs.

        Returns:
            Probabilities of the classes (classification) or of the second class of each target (multilabel), in
            double precision; values in the targets' own units (regression). [rows, out]
        """
        if self.task == "classification":
            return outputs.double().softmax(dim=-1)
        return outputs.double().sigmoid() if self.task == "multilabel" else self.in_target_units(outputs, graphs)

    def in_target_units(self, outputs: Tensor, graphs: GraphBatch) -> Tensor:
        """Undo the standardisation of regression targets.

        Args:
            outputs: the outputs of the predictor, [rows, out].
            graphs: the batch of these outputs.

        Returns:
            The predictions in the targets' own units, [rows, out]; outputs for classes are unchanged.
        """
        return outputs if self.targets is None else self.targets(outputs, graphs)

    def precomputed(self, packed: PackedGraphs) -> PackedGraphs:
        """Precompute the structural features that this model reads, once for all batches of a set.

        Args:
            packed: the graphs.

        Returns:
            The same graphs with distances, random walks, rings or starting tuples, whichever the model reads.
        """
        for module in self.modules():
            packed = module.precomputed(packed) if isinstance(module, Marking) else packed
        if self.agent.start == "finest" and self.agent.tuple_order:
            from maggnn.model.refined.finest import with_finest  # few models need it

            packed = with_finest(packed, self.agent.num_tuples, self.agent.tuple_order)
        read = [module.config for module in self.modules() if isinstance(module, Encoder)]
        if self.agent.start == "central" or any(encoder.random_walk or encoder.distances for encoder in read):
            steps = max(encoder.random_walk for encoder in read)
            packed = with_structure(packed, steps, any(encoder.distances for encoder in read))
        return with_rings(packed) if any(encoder.rings for encoder in read) else packed

    @torch.no_grad()
    def scores(self, state: State, answers: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the Q-table and history of a state, without gradients and without updates of BatchNorm statistics."""
        if self.q_network is None:
            raise InputError("a plain GNN (k = 0) has nothing to move")
        with in_evaluation(self):
            embeddings, h = predictor_embeddings(state, self.predictor, self.agent)
            if answers is not None and h is not None:
                pooled = self.predictor.pool(h, state.graphs, state.tuples)
                answers.append(self.predictor.read(pooled, state.graphs))
            q_table, history = self.q_network(state, embeddings, h)
        if self.agent.caution:  # a bonus for not moving
            q_table = q_table + marks(state.graphs, state.tuples, self.agent.caution, 0.0, q_table.dtype)
        return q_table, history

    @property
    def recordable(self) -> bool:
        """Whether its steps may be recorded as CUDA graphs; PyG's convolutions may synchronise and thus may not."""
        encoders = (module for module in self.modules() if isinstance(module, AnyEncoder))
        return all(encoder.recordable for encoder in encoders)

    @property
    def history_width(self) -> int:
        return 0 if self.q_network is None else self.q_network.update_history.width

    def extra_repr(self) -> str:
        """Return one line for the repr: m, k, t, the outputs, and the size."""
        agent, order = self.agent, self.agent.tuple_order
        marks = f"m={agent.num_tuples}, k={order}, t={agent.num_moves}" if order else "no marks (k=0)"
        outputs = f"{self.num_outputs} {'classes' if self.task == 'classification' else 'targets'}"
        parameters = list(self.parameters())
        count, device = sum(weight.numel() for weight in parameters), parameters[0].device
        return f"{marks}, {outputs} ({self.predictor.level} level), {count:,} parameters, on {device}"
