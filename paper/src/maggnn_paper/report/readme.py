"""The README's table: one line for each benchmark, with its controls, between two marks in the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maggnn.errors import InputError
from maggnn_paper import ledger
from maggnn_paper.ledger import METHODS, LedgerRow
from maggnn_paper.published import PUBLISHED
from maggnn_paper.report.cells import markdown, number, paper

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"


@dataclass(frozen=True)
class Benchmark:
    """A line of the table.

    Attributes:
        name: as the reader knows it.
        table, dataset, metric: where its rows are.
        agent: what the row of MAG-GNN has to agree with; its `table`, if it is another one.
        control: the same of the control without an agent, at the cost that the caption states.
        gin: the same of the row without marks.
        published: the method whose published figure counts as the paper's.
    """

    name: str
    table: str
    dataset: str
    metric: str
    agent: dict[str, Any]
    control: dict[str, Any]
    gin: dict[str, Any]
    published: str = "mag-gnn"


LAST = {"keep": "last"}
GIN = {"method": "gin"}
EQUAL_COST = {"keep": "mean of 3"}
SEARCH = {"table": "passes", "method": "mag-gnn", "t": 2, **LAST}
RANDOM = {"table": "passes", "method": "random-marks", **EQUAL_COST}
FOUR_MARKS = {"marking": "directed", "m": 4, "k": 4}
SEARCH_CYCLES = {"method": "mag-gnn", **FOUR_MARKS, **LAST}
RANDOM_CYCLES = {"method": "random-marks", **FOUR_MARKS, **EQUAL_COST}
WITH_WALKS = {"marking": "directed", "inputs": "atoms+bonds+walks+rings"}
DIRECTED = {"marking": "directed", "inputs": "atoms+bonds"}
BENCHMARKS = (
    Benchmark("SR25, accuracy", "synthetic", "sr25", "accuracy", SEARCH, RANDOM, GIN),
    Benchmark("EXP, accuracy", "synthetic", "exp", "accuracy", SEARCH, RANDOM, GIN),
    Benchmark(
        "BREC, pairs of 400", "brec_rpc", "all", "pairs",
        {"method": "mag-gnn", "m": 4, "k": 2}, {"method": "random-moves", "m": 4, "k": 2}, GIN,
    ),
    Benchmark("4-cycles, MAE", "cycles", "cycle4", "mae", SEARCH_CYCLES, RANDOM_CYCLES, GIN),
    Benchmark("6-cycles, MAE", "cycles", "cycle6", "mae", SEARCH_CYCLES, RANDOM_CYCLES, GIN),
    Benchmark(
        "ZINC, MAE, atoms and bonds", "molecules", "zinc", "mae",
        {"method": "mag-gnn-pre", **DIRECTED, **LAST}, {"method": "random-marks", **EQUAL_COST, **DIRECTED},
        {"method": "gine"}, "mag-gnn-pre",
    ),
    Benchmark(
        "MOLHIV, ROC-AUC, atoms and bonds", "molecules", "molhiv", "auroc",
        {"method": "mag-gnn-pre", **DIRECTED, **LAST}, {"method": "random-marks", **EQUAL_COST, **DIRECTED},
        {**GIN, "inputs": "atoms+bonds"}, "mag-gnn-pre",
    ),
    Benchmark(
        "ZINC, MAE, with walks and rings", "molecules", "zinc", "mae",
        {"method": "mag-gnn-pre", **WITH_WALKS, **LAST}, {"method": "random-marks", **EQUAL_COST, **WITH_WALKS},
        {**GIN, "inputs": None}, "mag-gnn-pre",
    ),
)  # fmt: skip
"""The lines of the README's table."""

HEADER = ("benchmark", "GIN", "control", "MAG-GNN", "paper", "best baseline")


def render_table(rows: Iterable[LedgerRow]) -> str:
    """The README's table.

    Args:
        rows: The ledger, oldest row first.

    Returns:
        A Markdown table; a benchmark whose agent has not been measured has no line.
    """
    current = ledger.newest(list(rows))
    body = [_line(benchmark, current) for benchmark in BENCHMARKS if _newest(current, benchmark, benchmark.agent)]
    return markdown(HEADER, body)


def _line(benchmark: Benchmark, rows: Sequence[LedgerRow]) -> list[str]:
    found = [_newest(rows, benchmark, wanted) for wanted in (benchmark.gin, benchmark.control, benchmark.agent)]
    figure = PUBLISHED.get((benchmark.table, benchmark.dataset, benchmark.published, benchmark.metric))
    cells = [_figure(row) for row in found]
    return [benchmark.name, *cells[:2], f"**{cells[2]}**", paper(figure), _best_baseline(benchmark, rows)]


def _newest(rows: Sequence[LedgerRow], benchmark: Benchmark, wanted: dict[str, Any]) -> LedgerRow | None:
    """The newest row with these values; rows are never chosen by their score."""
    place = {"table": benchmark.table, "dataset": benchmark.dataset, "metric": benchmark.metric}
    values = {**place, **wanted}
    found = [
        row
        for row in rows
        if row.mean is not None and all(getattr(row, name) == value for name, value in values.items())
    ]
    return max(found, key=lambda row: row.runs * row.tests_per_run, default=None)


def _figure(row: LedgerRow | None) -> str:
    """Mean and spread."""
    if row is None:
        return "–"
    spread = f" ± {number(row.std, row.metric)}" if row.std is not None else ""
    return number(row.mean, row.metric) + spread


def _best_baseline(benchmark: Benchmark, rows: Sequence[LedgerRow]) -> str:
    """The best of the other methods, run here or published: (value, name)."""
    ours = ("gin", "gine", "random-marks", "random-moves", "central-marks", "central-starts")
    others = [name for name in METHODS if name not in ours and not name.startswith("mag-gnn")]
    found: list[tuple[float, str]] = []
    for name in others:
        row = _newest(rows, benchmark, {"method": name})
        if row is not None and row.mean is not None:
            found.append((row.mean, f"{number(row.mean, row.metric)} ({name})"))
        figure = PUBLISHED.get((benchmark.table, benchmark.dataset, name, benchmark.metric))
        if figure is not None:
            found.append((figure.value, f"{figure.value:g} ({name}, published)"))
    if not found:
        return "–"
    best = min(found) if benchmark.metric == "mae" else max(found, key=lambda entry: entry[0])
    return best[1]


def with_table(path: Path, rows: Iterable[LedgerRow]) -> str:
    """The README with the table of `rows` between its marks.

    Args:
        path: The README.
        rows: The ledger, oldest row first.

    Returns:
        Its whole text.

    Raises:
        InputError: The file has no such marks.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"{path}: no {BEGIN} … {END} to fill; add the two lines where the table should stand")
    return f"{before}{BEGIN}\n{render_table(rows)}{END}{after}"
