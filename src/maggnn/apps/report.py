"""The report: `docs/results.md` and the README's table, rendered from the ledger beside the paper's figures.

Nothing here measures or decides: the same ledger gives the same bytes, so that a test can tell whether the
committed pages are up to date. The newest row of each key counts (`maggnn.experiments.ledger.newest`).
"""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from maggnn.errors import InputError
from maggnn.experiments import ledger
from maggnn.experiments.ledger import BENCH_METHODS, METHODS, TABLES, LedgerRow
from maggnn.experiments.published import PUBLISHED, Published

LEDGER = Path("results/ledger.jsonl")
RESULTS = Path("docs/results.md")
README = Path("README.md")
BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"

COLUMNS_PER_TABLE = 6
"""Wider tables (QM9 has twelve targets) are cut into pieces a screen can show."""

TITLES = {
    "synthetic": (
        "Expressivity: EXP, CSL, SR25",
        "Accuracy in percent; the paper's table of synthetic results.",
    ),
    "moves": (
        "Accuracy against the number of moves",
        "Accuracy in percent after t moves; t = 0 is the random start. The paper's figure of RL steps.",
    ),
    "theorem1": (
        "Theorem 1: random regular graphs",
        "Of pairs of random cubic graphs, the share with a node whose marked graph the other lacks, and of such nodes.",
    ),
    "theorem2": ("Theorem 2: super graphs", "Accuracy in percent; learned moves against random moves."),
    "motivation": (
        "Motivation: one random marked graph",
        "Accuracy in percent of one random 2-tuple on SR25.",
    ),
    "brec_paper": ("BREC, the paper's test", "Pairs distinguished: 950 right of 1,000 random starts."),
    "brec_rpc": ("BREC, the official protocol", "Pairs distinguished by the official test (RPC)."),
    "cycles": ("Cycle counting", "Node MAE on standardised counts; below 0.01 a model is said to count."),
    "edges": ("Edge-level tasks", "Beyond the paper."),
    "molecules": ("Molecules: ZINC, ZINC-FULL, MOLHIV", "MAE (lower is better) and AUROC in percent."),
    "qm9": ("QM9", "MAE, lower is better; energies in hartree, total U0, U, H, G."),
    "transfer": ("Transfer", "Agent pre-trained on the first dataset, predictor trained on the second."),
    "ablation": (
        "What was tried on ZINC and other molecules",
        "On validation parts, on which settings are chosen; one line a variant, of ZINC unless it says otherwise.",
    ),
    "bench_inference": ("Inference time", "Milliseconds for the whole test set, and megabytes."),
    "bench_train": ("Training time", "Milliseconds a step, and megabytes."),
    "bench_scaling": ("Scaling", "How time and memory grow."),
    "bench_floor": ("Against the bare matrix products", "Milliseconds; `floor` is the arithmetic alone."),
    "people": ("For people with their own molecules", "Beyond the paper."),
}
"""Heading and one sentence for each table of the ledger."""

PREAMBLE = """\
# Results

Every figure of ours comes from `results/ledger.jsonl`, written by the program that measured it; this page is
rendered from it by `maggnn report`. Do not edit it by hand.

How to read a cell: mean ± standard deviation over runs (runs × tests of each run); *paper* is the published
figure for the same method and dataset, whatever its m, k and t (*published*: a figure from elsewhere). The
controls stand beside the agent: *random-marks* never moves (t = 0), *random-moves* moves as often as the
agent, under the same keep rule.
"""

PAPER = "mag-gnn.tex"
"""How the source of the paper's own figures begins; others are only *published*."""

METHOD_ORDER = (*BENCH_METHODS, *METHODS)


@dataclasses.dataclass(frozen=True)
class Setting:
    """What one line of a table is about: a method, how it was set, and where it ran."""

    method: str
    m: int | None = None
    k: int | None = None
    t: int | None = None
    keep: str | None = None
    hardware: str | None = None

    @classmethod
    def of(cls, row: LedgerRow) -> "Setting":
        """The setting of a measured row."""
        return cls(row.method, row.m, row.k, row.t, row.keep, row.hardware)

    @property
    def text(self) -> str:
        """The setting in words, without method and hardware."""
        parts = [
            f"{name}={value}" for name, value in (("m", self.m), ("k", self.k), ("t", self.t)) if value is not None
        ]
        return ", ".join([*parts, *([f"keep {self.keep}"] if self.keep else [])])

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: the ledger's order of methods, then the numbers; lines without a number come first."""
        numbers = tuple(-1 if value is None else value for value in (self.m, self.k, self.t))
        return (METHOD_ORDER.index(self.method), *numbers, self.keep or "", self.hardware or "")


class Footnotes:
    """Collects notes and gives each distinct text one number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, note: str | None) -> str:
        """The mark to set behind a cell, empty without a note."""
        return f" [{self.numbers.setdefault(_one_line(note), len(self.numbers) + 1)}]" if note else ""

    def lines(self) -> list[str]:
        """The notes, as a Markdown list."""
        return [f"- [{number}] {note}" for note, number in self.numbers.items()]


def render(rows: Iterable[LedgerRow]) -> str:
    """The whole of `docs/results.md`.

    Args:
        rows: The ledger, oldest row first.
    """
    current = ledger.newest(rows)
    parts = [PREAMBLE]
    for table in TABLES:
        ours = [row for row in current if row.table == table]
        if ours:
            parts.append(_section(table, ours))
    if not current:
        parts.append("Nothing has been measured yet.\n")
    return "\n".join(parts)


def render_summary(rows: Iterable[LedgerRow]) -> str:
    """The README's compact table: the synthetic datasets, and SR25 against the number of moves, last state only."""
    rows = [row for row in rows if row.keep in (None, "last")]  # the paper's rule; the other is on the results page
    datasets = ("exp", "csl", "sr25")
    header = ["accuracy, %", *(f"{name.upper()} {who}" for name in datasets for who in ("ours", "paper"))]
    body = []
    for method in ("gin", "random-marks", "random-moves", "mag-gnn"):
        line = [method]
        for dataset in datasets:
            row = _headline(rows, method, dataset)
            line += [
                _ours(row) if row else "–",
                _paper(PUBLISHED.get(("synthetic", dataset, method, "accuracy"))),
            ]
        body.append(line)
    lines = [_markdown(header, body)]
    moves = [row for row in ledger.newest(rows) if (row.table, row.dataset, row.m, row.k) == ("moves", "sr25", 1, 2)]
    if moves:
        lines += ["SR25 with one tuple of two marks, accuracy after t moves (the paper: 100 after six):\n"]
        lines += [_moves_grid([dataclasses.replace(row, note=None) for row in moves], Footnotes())]
    lines += _molecule_part(rows)
    lines += _time_part(rows)
    lines.append("mean ± standard deviation over runs (runs × tests); everything else: [results](docs/results.md).\n")
    return "\n".join(lines)


def _molecule_part(rows: Sequence[LedgerRow]) -> list[str]:
    """The README's table of molecules, last state only."""
    columns = {("zinc", "mae"): "ZINC", ("zinc_full", "mae"): "ZINC-FULL", ("molhiv", "auroc"): "MOLHIV"}
    found = [row for row in ledger.newest(rows) if row.table == "molecules" and (row.dataset, row.metric) in columns]
    if not found:
        return []
    body = []
    for method in METHODS:
        line = [method]
        for dataset, metric in columns:
            ours = [row for row in found if (row.dataset, row.metric, row.method) == (dataset, metric, method)]
            line += [
                _ours(ours[-1]) if ours else "–",
                _paper(PUBLISHED.get(("molecules", dataset, method, metric))),
            ]
        if any(row.method == method for row in found):
            body.append(line)
    names = [f"{name} {who}" for name in columns.values() for who in ("ours", "paper")]
    title = "Molecules, MAE of ZINC (lower is better, at most 500k parameters) and ROC-AUC of MOLHIV in percent:\n"
    return [title, _markdown(["method", *names], body)]


def _time_part(rows: Sequence[LedgerRow]) -> list[str]:
    """The README's table of inference times, one line a method and machine."""
    datasets = ("zinc_full", "cycle", "qm9")
    found = [row for row in ledger.newest(rows) if row.table == "bench_inference" and row.dataset in datasets]
    if not found:
        return []
    lines: dict[Setting, dict[str, LedgerRow]] = {}
    for row in found:
        lines.setdefault(Setting.of(row), {})[row.dataset] = row
    body = []
    for setting in sorted(lines, key=lambda setting: (setting.hardware or "", setting.order)):
        line = [setting.method, setting.text]
        for dataset in datasets:
            row = lines[setting].get(dataset)
            line += [
                "–" if row is None else _number(row.mean, row.metric),
                _paper(PUBLISHED.get(("bench_inference", dataset, setting.method, "ms"))),
            ]
        body.append([*line, setting.hardware or "–"])
    names = [f"{name} {who}" for name in ("ZINC-FULL", "CYCLE", "QM9") for who in ("ours", "paper")]
    title = "Inference, ms for a whole test set, five layers of width 100 (the paper's GPU is not named):\n"
    return [title, _markdown(["method", "setting", *names, "hardware"], body)]


def update_readme(readme_path: Path | str, rows: Iterable[LedgerRow]) -> None:
    """Replace what stands between the two result marks of a README by `render_summary`.

    Raises:
        InputError: The file has no such marks.
    """
    path = Path(readme_path)
    path.write_text(_with_summary(path, rows), encoding="utf-8")


def write_report(root: Path | str = ".") -> list[Path]:
    """Render `docs/results.md` and the README's table from the ledger under a checkout.

    Args:
        root: The checkout. A missing README is left missing.

    Returns:
        The files that changed.
    """
    changed = []
    for path, text in _pages(Path(root)).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def stale(root: Path | str = ".") -> list[Path]:
    """The pages that `write_report` would change: empty when the committed report is up to date."""
    pages = _pages(Path(root))
    return [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def _pages(root: Path) -> dict[Path, str]:
    rows = ledger.read(root / LEDGER)
    pages = {root / RESULTS: render(rows)}
    if (root / README).exists():
        pages[root / README] = _with_summary(root / README, rows)
    return pages


def _with_summary(path: Path, rows: Iterable[LedgerRow]) -> str:
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"{path}: no {BEGIN} … {END} to fill; add the two lines where the table should stand")
    return f"{before}{BEGIN}\n{render_summary(rows)}{END}{after}"


def _headline(rows: Sequence[LedgerRow], method: str, dataset: str) -> LedgerRow | None:
    """The row of the synthetic table that the README shows for a method.

    The agent's is the one with most runs, then the newest: never chosen by its score. A control must have the
    agent's tuples (and moves and keep rule, where it moves) wherever such a row exists.
    """
    found = [r for r in rows if (r.table, r.metric, r.dataset, r.method) == ("synthetic", "accuracy", dataset, method)]
    found = ledger.newest(found)
    if method in ("random-marks", "random-moves"):
        agent = _headline(rows, "mag-gnn", dataset)
        names = ("m", "k") if method == "random-marks" else ("m", "k", "t", "keep")
        alike = [r for r in found if agent and all(getattr(r, n) == getattr(agent, n) for n in names)]
        found = alike or found
    # max() keeps the first of equals; the newest stands last in the ledger.
    age = {id(row): position for position, row in enumerate(rows)}
    return max(found, key=lambda r: (r.runs * r.tests_per_run, age[id(r)]), default=None)


def _section(table: str, rows: list[LedgerRow]) -> str:
    title, sentence = TITLES[table]
    notes = Footnotes()
    parts = [f"## {title}\n", f"{sentence}\n"]
    if table in ("ablation", "theorem1"):
        parts.append(_list(rows))
    elif table == "moves":
        parts += [_moves_part(dataset, rows, notes) for dataset in _datasets(table, rows)]
    else:
        columns = _columns(table, rows)
        for start in range(0, len(columns), COLUMNS_PER_TABLE):
            parts.append(_grid(table, rows, columns[start : start + COLUMNS_PER_TABLE], notes))
    if notes.numbers:
        parts.append("\n".join(notes.lines()) + "\n")
    return "\n".join([*parts, _provenance(rows)])


def _grid(table: str, rows: list[LedgerRow], columns: list[tuple[str, str]], notes: Footnotes) -> str:
    """One line a setting, one column a (dataset, metric); methods only others measured show their figure."""
    cells = {(Setting.of(row), row.dataset, row.metric): row for row in rows if (row.dataset, row.metric) in columns}
    measured = {setting for setting, _, _ in cells}
    others = {m for t, d, m, metric in PUBLISHED if t == table and (d, metric) in columns}
    settings = measured | {Setting(method) for method in others - {s.method for s in measured}}
    body = []
    for setting in sorted(settings, key=lambda s: s.order):
        line = [setting.method, setting.text]
        for dataset, metric in columns:
            figure = PUBLISHED.get((table, dataset, setting.method, metric))
            row = cells.get((setting, dataset, metric))
            line.append(_cell(row, figure, notes))
        body.append([*line, setting.hardware or "–"])
    header = ["method", "setting", *(f"{dataset} ({metric})" for dataset, metric in columns), "hardware"]
    return _markdown(header, body)


def _list(rows: list[LedgerRow]) -> str:
    """One line a row, for tables whose rows have no columns in common."""
    body = []
    for row in rows:
        what = [row.dataset.removeprefix("zinc_val:"), row.method, Setting.of(row).text, row.metric]
        body.append([*what, _ours(row), _plain(row.params), row.commit])
    return _markdown(["what", "method", "setting", "metric", "value", "params", "commit"], body)


def _moves_part(dataset: str, rows: list[LedgerRow], notes: Footnotes) -> str:
    figure = PUBLISHED.get(("moves", dataset, "mag-gnn", "accuracy"))
    paper = f" (the paper's MAG-GNN: {_paper(figure)} {figure.note})" if figure else ""
    grid = _moves_grid([row for row in rows if row.dataset == dataset], notes)
    return f"**{dataset}**{paper}\n\n{grid}"


def _moves_grid(rows: list[LedgerRow], notes: Footnotes) -> str:
    """One line a method and setting, one column a number of moves."""
    last = max([8, *(row.t or 0 for row in rows)])
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
    return _markdown(header, body)


def _moves_cell(row: LedgerRow | None, notes: Footnotes) -> str:
    return "" if row is None else _number(row.mean, row.metric) + notes.mark(row.note)


def _provenance(rows: list[LedgerRow]) -> str:
    """Cost and origin of every row that counts, folded away."""
    header = ["dataset", "method", "setting", "metric", "params", "train s", "infer ms", "peak MB"]
    header += ["torch", "commit", "config"]
    body = []
    for row in sorted(rows, key=lambda r: (r.dataset, Setting.of(r).order, r.metric)):
        cost = [_plain(value) for value in (row.params, row.train_s, row.infer_ms, row.peak_mb)]
        origin = [row.torch, row.commit, row.config or ""]
        body.append([row.dataset, row.method, Setting.of(row).text, row.metric, *cost, *origin])
    return f"<details><summary>Cost and origin</summary>\n\n{_markdown(header, body)}\n</details>\n"


def _datasets(table: str, rows: list[LedgerRow]) -> list[str]:
    """Datasets we measured, in the paper's order, then ours by name."""
    papers = list(dict.fromkeys(dataset for t, dataset, _, _ in PUBLISHED if t == table))
    ours = {row.dataset for row in rows}
    return [d for d in papers if d in ours] + sorted(ours - set(papers))


def _columns(table: str, rows: list[LedgerRow]) -> list[tuple[str, str]]:
    """The (dataset, metric) pairs we measured, in the order of `_datasets`."""
    pairs = {(row.dataset, row.metric) for row in rows}
    return [pair for dataset in _datasets(table, rows) for pair in sorted(p for p in pairs if p[0] == dataset)]


def _cell(row: LedgerRow | None, figure: Published | None, notes: Footnotes) -> str:
    parts = [_ours(row) + notes.mark(row.note)] if row else []
    if figure:
        who = "paper" if figure.source.startswith(PAPER) else "published"
        parts.append(f"{who} {_paper(figure)}{notes.mark(figure.note)}")
    return "; ".join(parts) or "–"


def _ours(row: LedgerRow) -> str:
    spread = f" ± {_number(row.std, row.metric)}" if row.std is not None else ""
    return f"{_number(row.mean, row.metric)}{spread} ({row.runs}×{row.tests_per_run})"


def _paper(figure: Published | None) -> str:
    if figure is None:
        return "–"
    return f"{figure.value:g}" + (f" ± {figure.std:g}" if figure.std is not None else "")


def _number(value: float | None, metric: str) -> str:
    """A measured number with the digits its metric deserves; almost perfect never reads as perfect."""
    if value is None:
        return "failed"
    if metric in ("accuracy", "auroc"):
        return ">99.99" if value < 100 and f"{value:.2f}" == "100.00" else f"{value:.2f}"
    if metric == "mae":
        return f"{value:.3g}"
    if metric.startswith(ledger.EXPONENT_PREFIX):
        return f"{value:.2f}"
    return f"{value:.1f}".removesuffix(".0")


def _plain(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _markdown(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table, without columns that are empty in every line."""
    used = [i for i in range(len(header)) if any(line[i] for line in body)]
    lines = [[header[i] for i in used], ["---"] * len(used), *([line[i] for i in used] for line in body)]
    return "".join("| " + " | ".join(_one_line(cell) for cell in line) + " |\n" for line in lines)


def _one_line(text: str) -> str:
    """Text that cannot break out of a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")
