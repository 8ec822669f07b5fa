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

from maggnn.inference.engine import Engine
from maggnn.model.mag_gnn import MagGNN
from maggnn.training.run import count_parameters
from maggnn_paper.bench.timing import peak_mb, side_by_side
from maggnn_paper.bench.workloads import Workload, load_workload
from maggnn_paper.ledger import LedgerRow

NUM_GRAPHS, NUM_LAYERS = 512, 6
"""What `maggnn-paper bench floor` compares: 512 molecules, m = 2, k = 3, six layers of width 100, two moves."""


def bench(
    device: torch.device,
    memory_mb: float = 1000.0,
    repeats: int = 15,
    limit: int = NUM_GRAPHS,
    tell: Callable[[str], None] = print,
) -> list[LedgerRow]:
    """Two rows: a search and answer by the engine, and the bare products of the same work."""
    workload = load_workload("zinc12k", device, limit)
    model = workload.model(num_layers=NUM_LAYERS)
    engine = Engine(model, device, memory_mb)
    graphs = engine.precomputed(workload.graphs)
    functions = {"mag-gnn": lambda: engine.predict(graphs), "floor": products(workload, model)}
    peaks = {method: peak_mb(function, device) for method, function in functions.items()}
    times = side_by_side(functions, device, repeats)
    share = times["mag-gnn"] / times["floor"]
    moved = feature_bytes(workload, model) / 1e9
    notes = {
        "mag-gnn": f"two moves and the answer; {share:.2f} x the bare matrix products of the same work",
        "floor": f"bare matrix products, float32; features of all layers are {moved:.2f} GB to read and write once",
    }
    rows = []
    for method, time in times.items():
        peak = peaks[method]
        rows.append(
            LedgerRow(
                table="bench_floor",
                dataset="zinc",
                method=method,
                metric="ms",
                mean=round(time, 4),
                m=model.agent.num_tuples,
                k=model.agent.tuple_order,
                t=model.agent.num_moves,
                keep=model.agent.keep,
                params=count_parameters(model),
                peak_mb=None if peak is None else round(peak, 1),
                config=f"gine, {NUM_LAYERS} layers, d = 100",
                note=f"{len(graphs)} graphs; {notes[method]}",
            )
        )
        tell(f"{'zinc':18} {method:18} {time:10.3f} ms  {notes[method]}")
    return rows


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


def feature_bytes(workload: Workload, model: MagGNN) -> float:
    """The least that a search and answer must move: each layer's features read once and written once."""
    agent, encoder = model.agent, model.predictor.encoder.config
    per_layer = 2 * 4 * len(workload.graphs.in_degree) * agent.num_tuples * encoder.hidden
    return per_layer * encoder.num_layers * (agent.num_moves + 1)
