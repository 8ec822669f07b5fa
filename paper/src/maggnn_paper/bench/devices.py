"""What distributed training costs in one process, beside plain training: milliseconds for a predictor step.

    plain       `maggnn train`
    one         in a process that Lightning Fabric starts, as for `--devices`, and a process group of size 1 (NCCL on a
                GPU, gloo on a CPU)
    messages    the same, with all messages of several processes, each to itself; on a GPU steps are then launched
                kernel by kernel, since messages within a step are not recorded

All three are measured in turns in the process that Fabric starts. Only torch, numpy, safetensors, Lightning Fabric and
typer have to be installed:

    python -m maggnn_paper.bench.devices
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import torch

from maggnn.config import Config
from maggnn.data import registry
from maggnn.model.runtime import pick_device
from maggnn.training.devices import ONE, Devices, launched
from maggnn.training.paradigms import Ord
from maggnn_paper import ledger
from maggnn_paper.bench import train
from maggnn_paper.bench.timing import side_by_side
from maggnn_paper.ledger import LedgerRow

WORKLOADS = ("sr25", "zinc")
ZINC_BATCH = 128
AT_ONCE = 10
"""Steps that are timed together."""


def bench(
    device: torch.device,
    tell: Callable[[str], None] = print,
    workloads: Sequence[str] = WORKLOADS,
    repeats: int = 15,
    at_once: int = AT_ONCE,
) -> list[LedgerRow]:
    """One row for each workload: by how many percent a step takes longer in a process group of size 1."""
    rows = []
    for workload in workloads:
        times = launched(_times, 1, 1, device.type, workload, repeats, at_once)
        more = 100 * (times["one"] / times["plain"] - 1)
        backend = "NCCL" if device.type == "cuda" else "gloo"
        note = (
            f"plain {times['plain']:.3f} ms a step, in a process group of size 1 ({backend}) {times['one']:.3f} ms; "
            f"with the messages of several processes, which are not recorded, {times['messages']:.3f} ms"
        )
        rows.append(_row(f"devices-{workload}", more, note))
        tell(f"{rows[-1].dataset:14} {more:+.2f} %  {note}")
    return rows


def _times(devices: Devices, workload: str, repeats: int, at_once: int) -> dict[str, float]:
    """Return the median milliseconds of a step; runs in the process that Fabric starts."""
    assert devices.device is not None and devices.size == 1 and torch.distributed.is_initialized()
    config = _config(workload)
    dataset = train.zinc() if workload == "zinc" else registry.load(workload)
    # A process that is told that it is one of two sends every message; its group, of size 1, answers at once.
    kinds = {"plain": ONE, "one": devices, "messages": replace(devices, size=2)}
    split = dataset.splits(0)[0]
    steps = {
        name: _several(Ord(config, dataset, split, devices.device, kind).predictor_step, at_once)
        for name, kind in kinds.items()
    }
    times = side_by_side(steps, devices.device, repeats, warm_up=2)
    return {name: time / at_once for name, time in times.items()}


def _config(workload: str) -> Config:
    """Return the settings of the bench of training for ZINC, and those of `configs/sr25.toml` for SR25."""
    if workload == "zinc":
        return train.config(ZINC_BATCH, "ord")
    return Config().replaced(
        encoder={"num_layers": 6, "hidden": 128},
        agent={"num_tuples": 1, "tuple_order": 2, "num_moves": 4},
        training={
            "batch_size": 15,
            "starts_per_graph": 100,
            "predictor_steps": train.STEPS,
            "agent_steps": train.STEPS,
            "agent_batch_size": 768,
            "learning_rate": 2e-3,
            "reward": "error",
        },
    )


def _several(step: Callable[[int], object], at_once: int) -> Callable[[], None]:
    numbers = count()

    def run() -> None:
        for _ in range(at_once):
            step(next(numbers))

    return run


def _row(dataset: str, percent: float, note: str) -> LedgerRow:
    return LedgerRow(
        table="bench_train",
        dataset=dataset,
        method="mag-gnn",
        metric="percent",
        mean=round(percent, 2),
        config="gine, 6 layers, d = 100" if dataset.endswith("zinc") else "configs/sr25.toml",
        note=note,
    )


if __name__ == "__main__":
    ledger.append(bench(pick_device("auto")))
