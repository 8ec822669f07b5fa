"""The cells of the report's tables: a measured figure, a published figure, a setting in words."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from maggnn_paper import ledger
from maggnn_paper.ledger import BENCH_METHODS, CEILING_METHODS, CHEMIST_METHODS, METHODS, PRETRAINING_METHODS, LedgerRow
from maggnn_paper.published import Published

METHOD_ORDER = (*BENCH_METHODS, *CHEMIST_METHODS, *PRETRAINING_METHODS, *METHODS, *CEILING_METHODS)


@dataclasses.dataclass(frozen=True)
class Setting:
    """What one line of a table is about: a method, how it was set, and where it ran."""

    method: str
    m: int | None = None
    k: int | None = None
    t: int | None = None
    keep: str | None = None
    hardware: str | None = None
    marking: str | None = None
    inputs: str | None = None

    @classmethod
    def of(cls, row: LedgerRow) -> "Setting":
        """The setting of a measured row."""
        marking = None if row.marking == "binary" else row.marking
        return cls(row.method, row.m, row.k, row.t, row.keep, row.hardware, marking, row.inputs)

    @property
    def text(self) -> str:
        """The setting in words, without method and hardware."""
        parts = [
            f"{name}={value}" for name, value in (("m", self.m), ("k", self.k), ("t", self.t)) if value is not None
        ]
        words = [f"keep {self.keep}" if self.keep else "", f"{self.marking} marks" if self.marking else ""]
        return ", ".join([*parts, *(word for word in [*words, self.inputs] if word)])

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: the ledger's order of methods, then the numbers; lines without a number come first."""
        numbers = tuple(-1 if value is None else value for value in (self.m, self.k, self.t))
        words = (self.keep or "", self.hardware or "", self.marking or "", self.inputs or "")
        return (METHOD_ORDER.index(self.method), *numbers, *words)


class Footnotes:
    """Collects notes and gives each distinct text one number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, note: str | None) -> str:
        """The mark to set behind a cell, empty without a note."""
        return f" [{self.numbers.setdefault(one_line(note), len(self.numbers) + 1)}]" if note else ""

    def lines(self) -> list[str]:
        """The notes, as a Markdown list."""
        return [f"- [{number}] {note}" for note, number in self.numbers.items()]


def ours(row: LedgerRow) -> str:
    """A measured figure: mean, spread, runs and tests."""
    spread = f" ± {number(row.std, row.metric)}" if row.std is not None else ""
    return f"{number(row.mean, row.metric)}{spread} ({row.runs}×{row.tests_per_run})"


def paper(figure: Published | None) -> str:
    """A published figure."""
    if figure is None:
        return "–"
    return f"{figure.value:g}" + (f" ± {figure.std:g}" if figure.std is not None else "")


def number(value: float | None, metric: str) -> str:
    """A measured number with the digits that suit its metric; an almost perfect value is not rounded to perfect."""
    if value is None:
        return "failed"
    if metric in ("accuracy", "auroc"):
        return ">99.99" if value < 100 and f"{value:.2f}" == "100.00" else f"{value:.2f}"
    if metric in ("mae", "rmse", "difference"):
        return f"{value:#.3g}".removesuffix(".")
    if metric in ("score", "fineness", "finest", "telling"):
        return ">0.999" if value < 1 and f"{value:.3f}" == "1.000" else f"{value:.3f}"
    if metric.startswith(ledger.EXPONENT_PREFIX):
        return f"{value:.2f}"
    return f"{value:.1f}".removesuffix(".0")


def plain(value: float | None) -> str:
    """A number in full, nothing for none."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def markdown(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table, without columns that are empty in every line."""
    used = [i for i in range(len(header)) if any(line[i] for line in body)]
    lines = [[header[i] for i in used], ["---"] * len(used), *([line[i] for i in used] for line in body)]
    return "".join("| " + " | ".join(one_line(cell) for cell in line) + " |\n" for line in lines)


def one_line(text: str) -> str:
    """Text that cannot break out of a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def moves_grid(rows: Sequence[LedgerRow], notes: Footnotes) -> str:
    """One line a method and setting, one column a number of moves."""
    last = max(row.t or 0 for row in rows)
    lines: dict[Setting, dict[int, LedgerRow]] = {}
    for row in rows:
        lines.setdefault(dataclasses.replace(Setting.of(row), t=None), {})[row.t or 0] = row
    body = []
    for setting in sorted(lines, key=lambda s: s.order):
        by_moves = lines[setting]
        cells = [_moves_cell(by_moves.get(t), notes) for t in range(last + 1)]
        counts = sorted({(row.runs, row.tests_per_run) for row in by_moves.values()})
        runs = ", ".join(f"{runs}×{tests}" for runs, tests in counts)
        body.append([setting.method, setting.text, *cells, runs, setting.hardware or "–"])
    header = ["method", "setting", *(f"t={t}" for t in range(last + 1)), "runs×tests", "hardware"]
    return markdown(header, body)


def _moves_cell(row: LedgerRow | None, notes: Footnotes) -> str:
    return "" if row is None else number(row.mean, row.metric) + notes.mark(row.note)
