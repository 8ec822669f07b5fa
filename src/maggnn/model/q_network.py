"""The Q-network of Eq. 9: an MPNN over the marked graph that scores every move of every tuple.

    [Q(s, v)]_l = MLP( [g_rl(G(v))]_l  +  R(g_rl(G(v)))  +  sum_v R(g_rl(G(v)))  +  R_W(W) )

The MLP's first layer is linear in its four inputs, so the three that belong to the graph are computed once per
graph and added to the nodes, not concatenated to each.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec
from maggnn.model.history import make_history
from maggnn.model.kernels.messages import spread_to_nodes
from maggnn.model.marking import marked_nodes
from maggnn.model.predictor import Predictor, graph_rows, pool_nodes
from maggnn.model.state import State


class QNetwork(nn.Module):
    """The Q-network: maps a state to a Q-table and the updated history.

    Args:
        encoder: g_rl; None if the predictor's embeddings of the nodes are used instead.

    Shapes:
        q_table: [N, m, k], row l of tuple i scores moving v_l into each slot; history: [B, m, w].
    """

    def __init__(
        self, encoder: Encoder | None, hidden: int, tuple_order: int, pooling: str, history: str, state_width: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.trained = False
        """Whether it has been trained: set by training code, and when weights are loaded."""
        self.register_load_state_dict_post_hook(_note_loaded)
        self.pooling = pooling
        self.update_history = make_history(history, hidden)
        width = self.update_history.width
        self.node = nn.Linear(hidden, hidden)
        self.own_tuple = nn.Linear(hidden, hidden, bias=False)
        self.all_tuples = nn.Linear(state_width, hidden, bias=False)
        self.past = nn.Linear(width, hidden, bias=False) if width else None
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(hidden, tuple_order))

    def forward(self, state: State, embeddings: Tensor | None = None, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Score all moves.

        Args:
            embeddings: the predictor's embedding of the state, used instead of g_rl's own, [B, m, state_width].
            h: the predictor's embeddings of the nodes, if it shares its encoder, [N, m, d].
        """
        graphs = state.graphs
        if self.encoder is not None:
            h = self.encoder(graphs, state.tuples)  # [N, m, d]
        assert h is not None, "a Q-network without its own encoder needs embeddings"
        own = pool_nodes(h, graphs, self.pooling)  # [B, m, d]
        all_tuples = (own if embeddings is None else embeddings).sum(dim=1, keepdim=True)
        marked = marked_nodes(h, graphs, state.tuples).mean(dim=2)  # [B, m, d]
        history = self.update_history(state.history.to(h.dtype), marked)  # a walk begins with zeros in float32
        context = self.own_tuple(own) + self.all_tuples(all_tuples)  # [B, m, d]
        if self.past is not None:
            context = context + self.past(history.mean(dim=1, keepdim=True))
        return self.head(self.node(h) + spread_to_nodes(context, graphs)), history


def predictor_embeddings(state: State, predictor: Predictor, agent: AgentConfig) -> tuple[Tensor | None, Tensor | None]:
    """Return the predictor's embedding of U (agent.state = predictor) and of the nodes (encoder = shared).

    Shapes: [B, m, width] and [N, m, d]; None for those that Q does not read.
    """
    if agent.state == "q_network" and agent.encoder == "own":
        return None, None
    h = predictor.encoder(state.graphs, state.tuples)
    embeddings = predictor.pool(h, state.graphs, state.tuples) if agent.state == "predictor" else None
    if embeddings is not None:
        embeddings = graph_rows(embeddings, state.graphs, predictor.level)
    return embeddings, h if agent.encoder == "shared" else None


def _note_loaded(network: nn.Module, _keys: object) -> None:
    """Mark a network as trained when weights are loaded."""
    network.trained = True  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType] (a QNetwork)


@dataclass(frozen=True)
class AgentShape:
    """The settings of a Q-network that reads only edges and marks, so that it can move marks in any graph.

    Attributes:
        encoder: the settings of g_rl.
        pooling: R in Eq. 9.
        history: f_W.
    """

    encoder: EncoderConfig
    pooling: str
    history: str

    def build(self, tuple_order: int) -> QNetwork:
        """Make the Q-network, with random weights."""
        encoder = Encoder(self.encoder, tuple_order, FeatureSpec(), FeatureSpec())
        hidden = self.encoder.hidden
        return QNetwork(encoder, hidden, tuple_order, self.pooling, self.history, hidden)
