"""How much predictions change with the numbering of nodes: from deterministic starts only by rounding.

Graphs of each set are renumbered at random, `RELABELLINGS` times in all, and the largest difference to the answer for
the graph as it came is the row. The network is a fresh one in double precision with larger weights than usual: a
trained one hardly moves where marks do not matter, and that would prove nothing. The control starts anywhere
(`random-marks`).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.data import registry
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.tuples import sample_tuples
from maggnn_paper.datasets.regular_graphs import random_regular
from maggnn_paper.equivariance import answer_equivariantly
from maggnn_paper.ledger import LedgerRow

RELABELLINGS, GRAPHS = 1000, 10
"""In all, and of so many graphs of each set."""

LOUDER = 1.5
"""Factor on weight matrices: what no symmetry makes equal then differs by far more than rounding."""

AGENT = AgentConfig(num_tuples=1, tuple_order=2, num_moves=2)


def reproduce(folder: Path) -> list[LedgerRow]:
    """Two rows for each set: deterministic starts and random ones."""
    sets = {
        "sr25": registry.load("sr25").graphs,
        "regular3_n20": random_regular(20, 3, GRAPHS, seed=0),
        "zinc": registry.load("zinc").graphs,
    }
    return [row for name, graphs in sets.items() for row in _rows(name, graphs.select(torch.arange(GRAPHS)))]


def _rows(name: str, graphs: PackedGraphs) -> list[LedgerRow]:
    torch.manual_seed(0)
    model = _network(graphs)
    generator = torch.Generator().manual_seed(0)
    others = [relabelled(graphs, generator) for _ in range(RELABELLINGS // GRAPHS)]
    every = torch.arange(GRAPHS)
    first = answer_equivariantly(model, graphs, every)
    apart = max(float((answer_equivariantly(model, other, every) - first).abs().max()) for other in others)
    drawn = [_from_random_marks(model, other, generator) for other in (graphs, *others)]
    apart_drawn = max(float((answer - drawn[0]).abs().max()) for answer in drawn)
    size = f"answers of size {float(first.abs().max()):.0f}"
    return [_row(name, "random-marks", apart_drawn, 0, size), _row(name, "mag-gnn", apart, AGENT.num_moves, size)]


def _network(graphs: PackedGraphs) -> MagGNN:
    encoder = EncoderConfig(conv="gine", num_layers=4, hidden=16, residual=True)
    features = FeatureSpec.of(graphs.x), FeatureSpec.of(graphs.edge_attr)
    model = MagGNN(1, *features, encoder=encoder, agent=AGENT, task="regression").double().eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data *= LOUDER
    return model


def relabelled(graphs: PackedGraphs, generator: torch.Generator) -> PackedGraphs:
    """Every graph with its nodes renumbered at random; features go with their nodes and edges."""
    places = [torch.randperm(int(size), generator=generator) for size in graphs.num_nodes]  # a node's new number
    rows = torch.cat([place.argsort() + first for place, first in zip(places, graphs.node_offsets, strict=False)])
    first = torch.repeat_interleave(graphs.node_offsets[:-1], graphs.num_edges)
    edges = torch.cat(places)[graphs.edge_index + first]
    x = None if graphs.x is None else graphs.x[rows]
    return PackedGraphs.build(graphs.num_nodes, graphs.num_edges, edges, x=x, edge_attr=graphs.edge_attr)


@torch.no_grad()
def _from_random_marks(model: MagGNN, graphs: PackedGraphs, generator: torch.Generator) -> Tensor:
    batch = graphs[torch.arange(len(graphs))]
    tuples = sample_tuples(batch, AGENT.num_tuples, AGENT.tuple_order, generator)
    return model.in_target_units(model.predictor(batch, tuples), batch)


def _row(name: str, method: str, apart: float, moves: int, size: str) -> LedgerRow:
    return LedgerRow(
        table="relabelling",
        dataset=name,
        method=method,
        metric="difference",
        mean=float(f"{apart:.3g}"),
        tests_per_run=RELABELLINGS,
        m=AGENT.num_tuples,
        k=AGENT.tuple_order,
        t=moves,
        config=f"a fresh network in double precision, weight matrices x {LOUDER}",
        note=f"the largest of {RELABELLINGS:,} relabellings of {GRAPHS} graphs; {size}",
    )
