"""I2-GNN of PyG's layers in the time table, in batches that fit the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from maggnn.training.run import count_parameters
from maggnn_paper.bench.baselines import BaselineTime, fitting_chunk
from maggnn_paper.bench.pyg_models import PygI2GNN, copies_for_pyg
from maggnn_paper.bench.timing import peak_mb, side_by_side
from maggnn_paper.bench.workloads import Workload

REPEATS = 3
"""A pass of the loader takes seconds, not milliseconds."""


@torch.no_grad()
def time_pyg_i2gnn(
    workload: Workload, memory_mb: float, mag_gnn: Callable[[], object], repeats: int = REPEATS
) -> dict[str, BaselineTime]:
    """`loader`: fed by PyG's loader; `resident`: with all batches on the device before; in turns with `mag_gnn`."""
    from torch_geometric.data import Batch
    from torch_geometric.loader import DataLoader

    device = workload.graphs.device
    data = copies_for_pyg(workload)
    torch.manual_seed(0)
    model = PygI2GNN(workload).to(device).eval()

    @torch.no_grad()
    def answer(batches: Any) -> None:
        for batch in batches:
            model(batch.to(device))

    def needed_mb(chunk: int) -> float | None:
        return peak_mb(lambda: answer([Batch.from_data_list(data[:chunk])]), device)

    chunk = fitting_chunk(len(data), memory_mb, needed_mb)
    loader: Any = DataLoader(data, batch_size=chunk)
    ready = [batch.to(device) for batch in loader]
    functions = {"loader": lambda: answer(loader), "resident": lambda: answer(ready), "mag-gnn": mag_gnn}
    times = side_by_side(functions, device, repeats, warm_up=1)
    peak, params = needed_mb(chunk), count_parameters(model)
    ours = times.pop("mag-gnn")
    return {name: BaselineTime(ms, None, ours, peak, chunk, params) for name, ms in times.items()}
