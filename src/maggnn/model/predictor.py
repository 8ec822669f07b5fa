"""The prediction GNN f_p of Eq. 5: encode each marked copy, pool with R, and predict with an MLP.

`embed` and `read` are separate because a tuple's embedding does not depend on the other tuples: after a change of one
tuple, only that one has to be embedded again (see `environment`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from maggnn.config import PredictorConfig
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, Level
from maggnn.model.encoder import AnyEncoder
from maggnn.model.kernels.messages import sum_nodes
from maggnn.model.marking import marked_nodes
from maggnn.model.normalise import Norm, Whitening

if TYPE_CHECKING:
    from maggnn.model.graph_features import GraphFeatures


def pool_nodes(h: Tensor, graphs: GraphBatch, pooling: str) -> Tensor:
    """Pool the nodes of each marked copy (R^(G)): [N, m, d] -> [B, m, d]."""
    total = sum_nodes(h, graphs)
    return total / graphs.num_nodes[:, None, None] if pooling == "mean" else total


def graph_mean(values: Tensor, graphs: GraphBatch) -> Tensor:
    """Return the mean over each graph's nodes, [N, ...] -> [B, ...]."""
    return sum_nodes(values, graphs) / graphs.num_nodes.reshape(-1, *[1] * (values.ndim - 1))


def graph_rows(embeddings: Tensor, graphs: GraphBatch, level: Level) -> Tensor:
    """Return embeddings [rows, m, d] as one row for each graph, [B, m, d]."""
    return graph_mean(embeddings, graphs) if level == "node" else embeddings


def _roots(h: Tensor, graphs: GraphBatch, num_roots: int) -> Tensor:
    """Return the embeddings of the roots of rooted graphs, [N, m, d] -> [B, m, r * d]."""
    roots = graphs.roots
    if roots is None or roots.shape[1] != num_roots:
        raise InputError(f"the model was made for graphs with {num_roots} root(s), these have another number or none")
    node = roots + graphs.first_node[:, None]  # [B, r]
    return h[node].transpose(1, 2).flatten(2)


class Predictor(nn.Module):
    """f_p and its MLP. Rows are graphs for R^(G) and nodes for R^(N).

    Args:
        num_roots: the number of roots of each graph, which R reads too.
        graph_features: the number of features of whole graphs, which are joined to the pooled embedding.

    Shapes:
        tuples: [B, m, k]; embed: [rows, m, width]; result: [rows, num_outputs].
    """

    def __init__(
        self,
        config: PredictorConfig,
        encoder: AnyEncoder,
        level: Level,
        num_outputs: int,
        num_roots: int = 0,
        graph_features: int = 0,
    ) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder
        self.level: Level = level
        hidden, norm = encoder.config.hidden, encoder.config.norm
        self.reads_marked = config.read_marked and level == "graph"
        parts = 1 + (encoder.tuple_order if self.reads_marked else 0) + num_roots
        self.width = hidden * parts + graph_features
        self.graph_features: GraphFeatures | None = None
        if graph_features:
            from maggnn.model.graph_features import GraphFeatures  # few models need it

            self.graph_features = GraphFeatures(graph_features, config.graph_attr_optional)
        self.num_roots = num_roots
        # A few marks among many nodes hardly change a pooled embedding; the first norm amplifies that change.
        self.scale = Whitening(self.width, config.ridge) if config.whiten else Norm(norm, self.width)
        self.first = nn.Linear(self.width, hidden)
        self.norm = Norm(norm, hidden)
        self.second = nn.Linear(hidden, num_outputs)

    def forward(self, graphs: GraphBatch, tuples: Tensor, starts: int | None = None) -> Tensor:
        """Return the outputs [rows, num_outputs].

        Args:
            starts: the number of sets U in `tuples` [B, starts * m, k]. Each set has its own output, so the result is
                [rows, starts, num_outputs]; in training with `graph_attr_optional` it has one with and one without the
                features of graphs, [rows, 2 * starts, num_outputs]. Training calls this method too, so that hooks on
                the module run.
        """
        embeddings = self.embed(graphs, tuples)
        if starts is not None:
            embeddings = embeddings.unflatten(1, (starts, -1))
            learning = self.training or self.scale.training  # `Whitening.settling` trains the scale alone
            if self.config.graph_attr_optional and learning and self.graph_features is not None:
                embeddings = self.graph_features.with_and_without(embeddings)
        return self.read(embeddings, graphs)

    def embed(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Return g_p(G(v)) of each tuple, pooled over nodes at graph level, [rows, m, width]."""
        return self.pool(self.encoder(graphs, tuples), graphs, tuples)

    def pool(self, h: Tensor, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Compute `embed` from the encoder's node embeddings [N, m, d]."""
        if self.level == "node":
            return h
        parts = [pool_nodes(h, graphs, self.config.pooling)]  # [B, m, d]
        if self.reads_marked:
            parts.append(marked_nodes(h, graphs, tuples).flatten(2))
        if self.num_roots:
            parts.append(_roots(h, graphs, self.num_roots))
        if self.graph_features is not None:
            parts.append(self.graph_features(graphs)[:, None].expand(-1, h.shape[1], -1))
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    def read(self, embeddings: Tensor, graphs: GraphBatch) -> Tensor:
        """Pool over the tuples with R, then apply the MLP: [rows, ..., m, width] -> [rows, ..., num_outputs]."""
        return self.read_pooled(embeddings.sum(dim=-2), embeddings.shape[-2], graphs)

    def read_pooled(self, total: Tensor, num_tuples: int, graphs: GraphBatch | None) -> Tensor:
        """Return the outputs for a sum over tuples, [rows, ..., width] -> [rows, ..., num_outputs].

        Args:
            graphs: the batch of these rows; None if there is no padding.
        """
        num_real = graphs.num_real if graphs is not None and self.level == "node" else None
        pooled = total / num_tuples if self.config.pooling == "mean" else total
        return self.second(self.norm.relu(self.first(self.scale(pooled, num_real)), num_real))
