"""What all baselines are: another encoder in place of g_p, from a graph to embeddings of its nodes.

The predictor's pooling and head, training, evaluation, the engine and the ledger are MAG-GNN's own, so that a
comparison compares encoders. A baseline has no tuples (k = 0); methods that draw copies of a graph at random return
several, and the predictor pools over them as over tuples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.rings import edge_rings
from maggnn.graphs.structure import node_structure
from maggnn.model.encoder import AnyEncoder, Encoder
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.copies import cached


class Baseline(AnyEncoder):
    """A baseline method; `baselines` has one file for each.

    Shapes: graphs with N nodes -> [N, copies, d].
    """

    recordable = False

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(config, tuple_order=0)
        self.baseline = baseline
        self.node_features, self.edge_features = node_features, edge_features

    def with_structure(self, graphs: GraphBatch) -> GraphBatch:
        """With the walks, distances and rings that the config reads: copies keep those of the whole graph."""
        config = self.config
        reads_structure = bool(config.random_walk or config.distances)
        if not reads_structure and not config.rings:
            return graphs

        def make() -> GraphBatch:
            structure = node_structure(graphs, config.random_walk) if reads_structure else graphs.structure
            return replace(graphs, structure=structure, rings=edge_rings(graphs) if config.rings else graphs.rings)

        return cached(graphs, f"structure, {config.random_walk} {reads_structure} {config.rings}", make)

    def inner(self, tuple_order: int = 0, node_features: FeatureSpec | None = None, **other: Any) -> Encoder:
        """The base GNN of the config, for marked copies of a graph; `other` replaces entries of the config."""
        config = replace(self.config, **other)
        features = self.node_features if node_features is None else node_features
        return Encoder(config, tuple_order, features, self.edge_features)
