"""A model of screening a billion molecules on nodes of 16 cores, from ledger rows, and its plot beside measured rates.

Shapes of the model, with seconds of a core for a molecule from `maggnn-paper bench predict`:

    reads      reading, parsing, featurising, describing, packing: what a reader does
    answers    ordering, preparing, answering, finishing, writing: what an answerer does
    workers    W readers and W answerers on C cores take  1 / rate = max(reads / W, answers / W, (reads + answers) / C)
    nodes      n nodes have W = C = 16 n; one driver takes in a shard of 32,768 rows after the other

Nothing else grows with the rows: shards are independent, and their files lie side by side. `share` is the measured rate
with two workers divided by the model's, and stands for all that the model leaves out; 1 where it was not measured
(`maggnn-paper bench workers`), and then the model's rates are upper bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maggnn.apps.draw.style import COLOURS, SOFT_INK, new_figure, save, tidy
from maggnn.errors import InputError
from maggnn_paper.ledger import LedgerRow, newest

READS = ("reading", "parsing", "featurising", "describing", "packing")
ANSWERS = ("ordering", "preparing", "answering", "finishing", "writing")
ROWS = 1_000_000_000
ROWS_A_SHARD = 32_768
CORES_A_NODE = 16
DOLLARS_A_CORE_HOUR = 0.045
"""Assumed: about what clouds ask for a core (virtual, on demand) in 2025."""

NODES = (1, 8, 64)


@dataclass(frozen=True)
class Model:
    """Costs of one molecule and of one shard.

    Attributes:
        reads, answers: seconds of a core for a molecule.
        driver: seconds of the driver's core for a shard; 0 where it was not measured.
        cores: of the machine that costs were measured on.
        measured: molecules a second with so many workers there; may be empty.
    """

    reads: float
    answers: float
    driver: float
    cores: int
    measured: dict[int, float]

    def rate(self, workers: int, cores: int) -> float:
        """Molecules a second."""
        return 1 / max(self.reads / workers, self.answers / workers, (self.reads + self.answers) / cores)

    @property
    def share(self) -> float:
        """Of the model's rate, what was measured with two workers."""
        return self.measured[2] / self.rate(2, self.cores) if self.measured else 1.0

    def screen(self, nodes: int) -> dict[str, Any]:
        """Hours, dollars and the bottleneck of `ROWS` rows."""
        cores = CORES_A_NODE * nodes
        by_cores = self.share * self.rate(cores, cores)
        by_driver = ROWS_A_SHARD / self.driver if self.driver else math.inf
        hours = ROWS / min(by_cores, by_driver) / 3600
        return {
            "nodes": nodes,
            "molecules a second": min(by_cores, by_driver),
            "hours": hours,
            "dollars": hours * cores * DOLLARS_A_CORE_HOUR,
            "bottleneck": "cores" if by_cores < by_driver else "the driver",
            "driver": by_cores / by_driver,
        }


def model_of(rows: Sequence[LedgerRow]) -> Model:
    """The model, from the newest rows of `bench predict` and `bench workers` that were measured on a CPU."""
    found = {row.dataset: row for row in newest(rows) if row.table == "people" and row.hardware.startswith("cpu")}
    means = {name: row.mean for name, row in found.items() if row.mean is not None}
    try:
        reads, answers = (sum(1e-6 * means[f"predict-{stage}"] for stage in stages) for stages in (READS, ANSWERS))
    except KeyError as error:
        raise InputError(f"the ledger has no row {error.args[0]}: run `maggnn-paper bench predict`") from None
    names = {workers: f"screen-workers{workers}" for workers in (1, 2, 4)}
    known = all(name in means for name in (*names.values(), "screen-driver"))
    measured = {workers: 1e6 / means[name] for workers, name in names.items()} if known else {}
    cores = int(found["predict-parsing"].hardware.split(",")[1].split()[0])
    return Model(reads, answers, 1e-3 * means["screen-driver"] if known else 0.0, cores, measured)


def exponent(points: dict[int, float]) -> float:
    """The slope of a straight line through (log x, log y)."""
    xs, ys = [math.log(x) for x in points], [math.log(y) for y in points.values()]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return slope / sum((x - mean_x) ** 2 for x in xs)


def draw_screening(rows: Sequence[LedgerRow], path: Path) -> list[str]:
    """Draw rates against workers and hours against nodes; the rows of the table of `docs/scale.md`, as Markdown."""
    model = model_of(rows)
    figure = new_figure(height=3.4, width=9.0)
    left, right = figure.subplots(1, 2)
    workers = [1, 2, 4]
    expected = {count: model.rate(count, model.cores) for count in workers}
    lines = [(expected, "--", "model", COLOURS[1])]
    if model.measured:
        lines.append((model.measured, "o-", "measured", COLOURS[0]))
    for points, style, name, colour in lines:
        label = f"{name}, exponent {exponent({count: points[count] for count in workers}):.2f}"
        left.loglog(workers, [points[count] for count in workers], style, color=colour, label=label)
    left.set_xticks(workers, [str(count) for count in workers])
    left.minorticks_off()
    left.set_ylim(500, 10_000)
    left.set_yticks([500, 1000, 2000, 5000, 10_000], ["500", "1,000", "2,000", "5,000", "10,000"])
    left.legend(frameon=False, fontsize=9, labelcolor=SOFT_INK)
    tidy(left, f"workers on {model.cores} cores", "molecules a second")
    found = [model.screen(nodes) for nodes in NODES]
    hours = {row["nodes"]: row["hours"] for row in found}
    right.loglog(list(hours), list(hours.values()), "o-", color=COLOURS[1], label=f"exponent {exponent(hours):.2f}")
    right.set_xticks(NODES, [str(nodes) for nodes in NODES])
    right.minorticks_off()
    ticks = [value for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if min(hours.values()) / 2 < value < 2 * hours[1]]
    right.set_yticks(ticks, [f"{value:g}" for value in ticks])
    right.legend(frameon=False, fontsize=9, labelcolor=SOFT_INK)
    tidy(right, f"nodes of {CORES_A_NODE} cores (model)", "hours for a billion molecules")
    save(figure, path)
    return [_line(row) for row in found]


def _line(row: dict[str, Any]) -> str:
    driver = f" (driver busy {100 * row['driver']:.1f} %)" if row["driver"] else ""
    return (
        f"| {row['nodes']} | {row['molecules a second']:,.0f} | {row['hours']:.2g} | {row['dollars']:.1f} | "
        f"{row['bottleneck']}{driver} |"
    )
