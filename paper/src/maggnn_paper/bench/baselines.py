"""Baselines in the time table: the same test sets and sizes, in chunks that fit the same memory.

Preprocessing of a baseline is excluded: its batches are gathered and its subgraphs, distances and cycles made before
the clock starts, as its authors make them when they load data; the time with preprocessing is given beside. MAG-GNN's
own time includes the gathering. GIN and GINE layers of a baseline have their norms folded into weights as MAG-GNN's
have, its other layers keep them. Baselines are not recorded as a CUDA graph, which would save them some launches.
Weights are random, which costs the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import torch

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.inference.frozen import frozen
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.named_encoders import make_encoder
from maggnn.training.run import count_parameters
from maggnn_paper.bench.timing import peak_mb, side_by_side
from maggnn_paper.bench.workloads import HIDDEN, HOPS, NUM_LAYERS, Workload
from maggnn_paper.recipes import baseline_recipe

FIRST_CHUNK = 8
"""Graphs of the first chunk that is tried; it is doubled while it fits."""

CHUNK_ON_CPU = 64
"""Graphs of a chunk where memory cannot be measured."""

RING = 6
REPEATS = 9


@dataclass(frozen=True)
class BaselineTime:
    """What a baseline took for a whole test set.

    Attributes:
        ms: with batches gathered and everything made that the graphs alone determine.
        from_graphs_ms: and with that; None where it was not measured.
        mag_gnn_ms: what MAG-GNN took, timed in turns with it.
        peak_mb: GPU memory for one chunk, answered from its graphs alone; None on a CPU.
        chunk: graphs of a chunk.
        params: of the model as it is trained, before norms are folded into weights and tables are made.
    """

    ms: float
    from_graphs_ms: float | None
    mag_gnn_ms: float
    peak_mb: float | None
    chunk: int
    params: int


def baseline_model(workload: Workload, name: str) -> MagGNN:
    """A baseline of the table's depth and width, with norms that have seen some graphs.

    A method that draws copies draws as many as where it is trained (`paper/configs/baselines/<method>.toml`).
    """
    torch.manual_seed(0)
    nodes, edges = FeatureSpec.of(workload.graphs.x), FeatureSpec.of(workload.graphs.edge_attr)
    encoder = EncoderConfig(conv=workload.conv, num_layers=NUM_LAYERS, hidden=HIDDEN)
    baseline = replace(baseline_recipe("zinc", name).baseline, hops=HOPS, largest_ring=RING)  # for all sets alike
    model = MagGNN(
        workload.num_outputs,
        nodes,
        edges,
        encoder,
        agent=AgentConfig(num_tuples=1, tuple_order=0, num_moves=0),
        task="regression",
        level=workload.level,
        g_p=make_encoder(baseline, encoder, nodes, edges),
    ).to(workload.graphs.device)
    some = workload.graphs[torch.arange(min(64, len(workload.graphs)))]
    model.train()
    with torch.no_grad():
        for _ in range(20):
            model.predictor(some, model.starts(some))
    return model.eval()


def time_baseline(
    workload: Workload, name: str, memory_mb: float, mag_gnn: Callable[[], object], repeats: int = REPEATS
) -> BaselineTime:
    """Answers for all of the workload's graphs, in turns with `mag_gnn`, which does the same."""
    trained, device = baseline_model(workload, name), workload.graphs.device
    params = count_parameters(trained)
    model = frozen(trained)
    chunk = fitting_chunk(len(workload.graphs), memory_mb, partial(answer_mb, model, workload))
    peak = answer_mb(model, workload, chunk)
    ids = torch.arange(len(workload.graphs)).split(chunk)
    ready = [workload.graphs[part] for part in ids]

    @torch.no_grad()
    def answer(batches: Iterable[GraphBatch]) -> None:
        for batch in batches:
            model(batch)

    functions: dict[str, Callable[[], object]] = {
        "ready": lambda: answer(ready),
        "from graphs": lambda: answer(workload.graphs[part] for part in ids),  # one at a time: memory is bounded
        "mag-gnn": mag_gnn,
    }
    times = side_by_side(functions, device, repeats, warm_up=2)
    return BaselineTime(times["ready"], times["from graphs"], times["mag-gnn"], peak, chunk, params)


def fitting_chunk(count: int, memory_mb: float, needed_mb: Callable[[int], float | None]) -> int:
    """The most of `count` graphs whose answer takes no more memory than that.

    Args:
        needed_mb: what so many graphs take; None where that cannot be measured.
    """

    def fits(chunk: int) -> bool:
        needed = needed_mb(chunk)
        return needed is not None and needed <= memory_mb

    return largest_chunk(count, fits) if needed_mb(min(FIRST_CHUNK, count)) is not None else min(CHUNK_ON_CPU, count)


def largest_chunk(count: int, fits: Callable[[int], bool]) -> int:
    """The largest of 8, 16, 32, ... and `count` before the first that does not fit; at least the first of them."""
    chunk = min(FIRST_CHUNK, count)
    while chunk < count and fits(min(2 * chunk, count)):
        chunk = min(2 * chunk, count)
    return chunk


@torch.no_grad()
def answer_mb(model: MagGNN, workload: Workload, chunk: int) -> float | None:
    """GPU memory for the first graphs, with making what they determine; None on a CPU.

    The largest graphs of the set together would need more.
    """
    return peak_mb(lambda: model(workload.graphs[torch.arange(chunk)]), workload.graphs.device)
