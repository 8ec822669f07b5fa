"""Rivals in the time table: the same test sets and sizes, in chunks that fit the same memory.

Subgraphs, distances and cycles of a rival are made before the clock starts, as its authors make them when they load
data; what making them takes as well is said beside. Weights are random, which costs the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from maggnn.baselines import make_encoder
from maggnn.bench.timing import peak_mb, side_by_side
from maggnn.bench.workloads import HIDDEN, NUM_LAYERS, Workload
from maggnn.config import AgentConfig, EncoderConfig, RivalConfig
from maggnn.features import FeatureSpec
from maggnn.frozen import frozen
from maggnn.graphs import GraphBatch
from maggnn.model import MagGNN

FIRST_CHUNK = 8
"""Graphs of the first chunk that is tried; it is doubled while it fits."""

CHUNK_ON_CPU = 64
"""Graphs of a chunk where memory cannot be measured."""

HOPS = 3
RING = 6
REPEATS = 3


@dataclass(frozen=True)
class RivalTime:
    """What a rival took for a whole test set.

    Attributes:
        ms: with everything made that the graphs alone determine.
        from_graphs_ms: and with making it.
        chunk: graphs of a chunk.
    """

    ms: float
    from_graphs_ms: float
    peak_mb: float | None
    chunk: int
    params: int


def rival_model(workload: Workload, name: str) -> MagGNN:
    """A rival of the table's depth and width, with norms that have seen some graphs."""
    torch.manual_seed(0)
    nodes, edges = FeatureSpec.of(workload.graphs.x), FeatureSpec.of(workload.graphs.edge_attr)
    encoder = EncoderConfig(conv=workload.conv, num_layers=NUM_LAYERS, hidden=HIDDEN)
    model = MagGNN(
        workload.num_outputs,
        nodes,
        edges,
        encoder,
        agent=AgentConfig(num_tuples=1, tuple_order=0, num_moves=0),
        task="regression",
        level=workload.level,
        g_p=make_encoder(RivalConfig(name=name, hops=HOPS, largest_ring=RING), encoder, nodes, edges),
    ).to(workload.graphs.device)
    some = workload.graphs[torch.arange(min(64, len(workload.graphs)))]
    model.train()
    with torch.no_grad():
        for _ in range(20):
            model.predictor(some, model.starts(some))
    return frozen(model.eval())


def time_rival(workload: Workload, name: str, memory_mb: float, repeats: int = REPEATS) -> RivalTime:
    """Answers for all of the workload's graphs."""
    model, device = rival_model(workload, name), workload.graphs.device
    chunk = fitting_chunk(model, workload, memory_mb)
    ids = torch.arange(len(workload.graphs)).split(chunk)
    ready = [workload.graphs[part] for part in ids]

    @torch.no_grad()
    def answer(batches: Sequence[GraphBatch]) -> None:
        for batch in batches:
            model(batch)

    def from_graphs() -> None:
        answer([workload.graphs[part] for part in ids])

    functions: dict[str, Callable[[], object]] = {"ready": lambda: answer(ready), "from graphs": from_graphs}
    times = side_by_side(functions, device, repeats, warm_up=2)
    peak = peak_mb(lambda: answer(ready[:1]), device)
    params = sum(parameter.numel() for parameter in model.parameters())
    return RivalTime(times["ready"], times["from graphs"], peak, chunk, params)


def fitting_chunk(model: MagGNN, workload: Workload, memory_mb: float) -> int:
    """The most graphs, of 8, 16, 32, ..., whose answer takes no more memory than that."""
    device, count = workload.graphs.device, len(workload.graphs)
    if device.type != "cuda":
        return min(CHUNK_ON_CPU, count)

    @torch.no_grad()
    def needed(chunk: int) -> float:
        # The largest graphs of the set together would need more; the budget is kept on average.
        peak = peak_mb(lambda: model(workload.graphs[torch.arange(chunk)]), device)
        assert peak is not None
        return peak

    chunk = FIRST_CHUNK
    while 2 * chunk <= count and needed(2 * chunk) <= memory_mb:
        chunk *= 2
    return min(chunk, count)
