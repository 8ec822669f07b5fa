"""The floor: the bare matrix products of a search and answer, on the same device, with nothing else done.

| product | shape | times |
|---|---|---|
| marks of Eq. 2 through their linear map | [N m, k] [k, d] | t + 1 |
| the two linear maps of each layer | [N m, d] [d, d] | 2 T (t + 1) |
| Q-head, node part and last layer (Eq. 9) | [N m, d] [d, d] and [d, k] | t |
| Q-head, graph parts | [B m, d] [d, d] and [B, d] [d, d] | t |
| readout | [rows, d] [d, d] and [d, out] | 1 |
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from maggnn.bench.timing import median_ms
from maggnn.bench.workloads import Workload
from maggnn.model import MagGNN


def products(workload: Workload, model: MagGNN) -> Callable[[], None]:
    """A function that does the products of one search and answer for the whole set, in float32."""
    graphs, agent, encoder = workload.graphs, model.agent, model.predictor.encoder.config
    device, d, k = graphs.device, encoder.hidden, agent.tuple_order
    nodes, copies = len(graphs.in_degree), agent.num_tuples
    rows = torch.randn(nodes * copies, d, device=device)
    own = torch.randn(len(graphs) * copies, d, device=device)
    answers = torch.randn(len(graphs) if workload.level == "graph" else nodes, d, device=device)
    square, narrow = torch.randn(d, d, device=device), torch.randn(d, max(1, k), device=device)
    marks, first = torch.randn(nodes * copies, max(1, k), device=device), torch.randn(max(1, k), d, device=device)
    last = torch.randn(d, workload.num_outputs, device=device)

    @torch.no_grad()
    def run() -> None:
        for step in range(agent.num_moves + 1):
            if k:
                torch.mm(marks, first)
            for _ in range(2 * encoder.num_layers):
                torch.mm(rows, square)
            if step < agent.num_moves:
                torch.mm(rows, square)
                torch.mm(rows, narrow)
                torch.mm(own, square)
                torch.mm(own[: len(graphs)], square)
        torch.mm(answers, square)
        torch.mm(answers, last)

    return run


def floor_ms(workload: Workload, model: MagGNN, repeats: int = 9) -> float:
    """Median time of the bare products."""
    return median_ms(products(workload, model), workload.graphs.device, repeats)


def feature_bytes(workload: Workload, model: MagGNN) -> float:
    """The least that a search and answer must move: each layer's features read once and written once."""
    agent, encoder = model.agent, model.predictor.encoder.config
    per_layer = 2 * 4 * len(workload.graphs.in_degree) * agent.num_tuples * encoder.hidden
    return per_layer * encoder.num_layers * (agent.num_moves + 1)
