"""One training step on ZINC-sized molecules, by batch size: ORD's predictor, the Q update, and a whole step of SIMUL.

m = 2, k = 3, six layers of width 100. A step of SIMUL is a search of t = 2 moves with a predictor update, an
RL-Experience, and a Q update with the lookahead target on a sixteenth of the batch (each of its tuples is scored in
k |V| places, so that it embeds more marked graphs than the predictor's update does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from maggnn.config import Config, Precision
from maggnn.data.registry import Dataset
from maggnn.data.sources import load_packed_file
from maggnn.data.splits import Split
from maggnn.model.runtime import matrix_products
from maggnn.training.paradigms import Ord, Simul
from maggnn.training.run import count_parameters
from maggnn_paper.bench.timing import median_ms, peak_mb
from maggnn_paper.ledger import LedgerRow

GPU_BATCH_SIZES, CPU_BATCH_SIZES = (128, 512, 2048), (32, 128)
LOOKAHEAD_SHARE = 16
TEN = 10
"""Steps timed together."""

STEPS = 1_000_000
"""Far more than are timed, so that no schedule ends."""


def bench(
    device: torch.device = torch.device("cpu"),  # noqa: B008
    batch_sizes: Sequence[int] | None = None,
    repeats: int | None = None,
    tell: Callable[[str], None] = print,
) -> list[LedgerRow]:
    """Rows of every batch size: ms of each kind of step."""
    dataset = zinc()
    precisions: tuple[Precision, ...] = ("float32", "tf32") if device.type == "cuda" else ("float32",)
    on_gpu = device.type == "cuda"
    repeats = repeats or (9 if on_gpu else 3)
    rows = []
    for batch_size in batch_sizes or (GPU_BATCH_SIZES if on_gpu else CPU_BATCH_SIZES):
        for precision in precisions:
            with matrix_products(precision):
                rows += _measure(batch_size, dataset, device, repeats, precision, tell)
    return rows


def _measure(
    batch_size: int,
    dataset: Dataset,
    device: torch.device,
    repeats: int,
    precision: Precision,
    tell: Callable[[str], None],
) -> list[LedgerRow]:
    """Rows of one batch size."""
    split = dataset.splits(0)[0]
    rows = []
    simul = Simul(config(batch_size, "simul"), dataset, split, device)
    simul.gather_warmup()
    plain = Ord(config(batch_size, "ord"), dataset, split, device)
    steps: dict[str, Callable[[], object]] = {
        "predictor": _numbered(plain.predictor_step),
        "agent": _numbered(simul.agent_step),
        "simul": _numbered(simul.step),
    }
    for name, step in steps.items():
        peak = peak_mb(step, device)  # while it is launched: a recording holds its memory for good
        steps_of_ten = _repeated(step)
        time = median_ms(steps_of_ten, device, repeats, warm_up=2) / TEN  # sizes that occur are recorded by then
        row = _row(name, batch_size, time, peak, simul, precision)
        tell(f"{row.dataset:24} {row.mean:10.3f} ms")
        rows.append(row)
    return rows


def config(batch_size: int, paradigm: str) -> Config:
    """The setting of the issue's table at one batch size."""
    return Config().replaced(
        encoder={"conv": "gine", "num_layers": 6, "hidden": 100},
        agent={"num_tuples": 2, "tuple_order": 3, "num_moves": 2},
        training={
            "paradigm": paradigm,
            "batch_size": batch_size,
            "walkers": min(64, batch_size),
            "agent_batch_size": max(1, batch_size // LOOKAHEAD_SHARE),
            "predictor_steps": STEPS,
            "agent_steps": STEPS,
        },
    )


def zinc() -> Dataset:
    """ZINC-12k as the packed file has it."""
    graphs, extra = load_packed_file("zinc12k")
    parts = [torch.from_numpy(extra[name]) for name in ("train", "val", "test")]
    return Dataset("zinc", graphs, "regression", 1, lambda *_: [Split(*parts)])


def _repeated(step: Callable[[], object]) -> Callable[[], None]:
    """Several steps in a row, as training makes them: nothing waits for the device in between."""

    def run() -> None:
        for _ in range(TEN):
            step()

    return run


def _numbered(step: Callable[[int], object]) -> Callable[[], object]:
    """`step` called with 0, 1, 2, ..."""
    count = iter(range(STEPS))
    return lambda: step(next(count))


def _row(name: str, batch_size: int, time: float, peak: float | None, simul: Simul, precision: Precision) -> LedgerRow:
    agent, suffix = simul.config.agent, "" if precision == "float32" else f"-{precision}"
    what = {
        "predictor": "one predictor update of ORD",
        "agent": "one RL-Experience and one Q update, lookahead target",
        "simul": "search of 2 moves, predictor update, RL-Experience and Q update",
    }[name]
    return LedgerRow(
        table="bench_train",
        dataset=f"zinc-{name}-b{batch_size}{suffix}",
        method="mag-gnn",
        metric="ms",
        mean=round(time, 4),
        m=agent.num_tuples,
        k=agent.tuple_order,
        t=agent.num_moves,
        keep=agent.keep,
        params=count_parameters(simul.model),
        peak_mb=None if peak is None else round(peak, 1),
        config="gine, 6 layers, d = 100",
        note=f"{what}; batch of {batch_size} molecules, {precision}",
    )
