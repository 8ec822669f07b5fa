"""The README's tables: the headline of each of the paper's tables, between two marks in the file."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from maggnn.errors import InputError
from maggnn_paper import ledger
from maggnn_paper.ledger import METHODS, LedgerRow
from maggnn_paper.published import PUBLISHED
from maggnn_paper.report.cells import Footnotes, Setting, markdown, number, ours, paper
from maggnn_paper.report.results import moves_grid

PAPERS_INPUTS = "atoms+bonds"
"""What the paper's networks read of a molecule."""

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"

CONTROLLED = ("gin", "random-marks", "random-moves", "mag-gnn")
"""What the synthetic table always shows; of the others, those that the paper's has."""


def render_summary(rows: Iterable[LedgerRow]) -> str:
    """The README's compact table: the synthetic datasets, and SR25 against the number of moves, last state only."""
    whole = list(rows)
    rows = [row for row in whole if row.keep in (None, "last")]  # the paper's rule; others are on the results page
    datasets = ("exp", "csl", "sr25")
    header = ["accuracy, %", *(f"{name.upper()} {who}" for name in datasets for who in ("ours", "paper"))]
    body = []
    for method in METHODS:
        found = [_headline(rows, method, dataset) for dataset in datasets]
        published = [paper(PUBLISHED.get(("synthetic", dataset, method, "accuracy"))) for dataset in datasets]
        if method in CONTROLLED or (any(found) and any(cell != "–" for cell in published)):
            own = [_with_folds(row) if row else "–" for row in found]
            body.append([method, *(cell for pair in zip(own, published, strict=True) for cell in pair)])
    lines = [markdown(header, body)]
    moves = [row for row in ledger.newest(rows) if (row.table, row.dataset, row.m, row.k) == ("moves", "sr25", 1, 2)]
    if moves:
        lines += ["SR25 with one tuple of two marks, accuracy after t moves (the paper: 100 after six):\n"]
        lines += [moves_grid([dataclasses.replace(row, note=None) for row in moves], Footnotes())]
    lines += _brec_part(rows)
    lines += _molecule_part(rows)
    lines += _papers_inputs_part(ledger.newest(whole))
    lines += _time_part(rows)
    lines.append("mean ± standard deviation over runs (runs × tests); everything else: [results](docs/results.md).\n")
    return "\n".join(lines)


def _with_folds(row: LedgerRow) -> str:
    """A figure of which some folds are missing says so."""
    return f"{ours(row)}, {row.note}" if row.note and row.note.endswith(" folds") else ours(row)


def _brec_part(rows: Sequence[LedgerRow]) -> list[str]:
    """The README's table of BREC by the official test: ours, of one machine, beside published counts."""
    columns = {"basic": 60, "regular": 140, "extension": 100, "cfi": 100, "all": 400}
    found = [row for row in ledger.newest(rows) if row.table == "brec_rpc"]
    agent = [row for row in found if (row.dataset, row.method) == ("all", "mag-gnn")]
    if not agent:
        return []
    alike = [row for row in found if row.hardware == agent[-1].hardware]
    body = []
    for method in METHODS:
        own = {row.dataset: row for row in alike if row.method == method and _same_marks(row, agent[-1])}
        published = [paper(PUBLISHED.get(("brec_rpc", dataset, method, "pairs"))) for dataset in columns]
        if "all" in own:
            body.append([f"{method}, ours", *(ours(own[dataset]) if dataset in own else "–" for dataset in columns)])
        if published[-1] != "–":
            body.append([f"{method}, published", *published])
    finest = {row.dataset: row for row in found if row.method == "mag-gnn-finest"}
    if "all:finest" in finest:
        cells = [ours(finest[f"{dataset}:finest"]) if f"{dataset}:finest" in finest else "–" for dataset in columns]
        body.append(["the finest marks, ours", *cells])
    every = {row.dataset: row for row in alike if row.method == "random-marks" and row.k == agent[-1].k}
    if any(dataset.endswith(":all") for dataset in every):
        cells = [ours(every[f"{dataset}:all"]) if f"{dataset}:all" in every else "–" for dataset in columns]
        body.append(["every pair of marks, ours", *cells])
    title = (
        f"BREC, pairs told apart by the official test (a pair whose control fails does not count), k = {agent[-1].k}. "
        "Ours average the answers of 16 to 128 random sets of tuples; with four moves each that is 320 to 2,560 "
        "encoder passes a graph. The last line reads all |V|² marked copies instead, fewer for graphs of up to fifty "
        "nodes, and has a network of its own. The agents learn after the protocol's 20 epochs, in steps that it does "
        "not count, and settings differ by category: they were chosen on these pairs, BREC has no others.\n"
    )
    if "all:finest" in finest:
        title += (
            "The finest marks have no agent: exact colour refinement of all |V|² marked copies chooses those that the "
            f"network reads, {finest['all:finest'].passes} for each graph. Their settings are the same for all "
            "categories and were chosen on other pairs.\n"
        )
    return [title, markdown(["method", *(f"{name}/{count}" for name, count in columns.items())], body)]


def _same_marks(row: LedgerRow, agent: LedgerRow) -> bool:
    """Whether a row of the ledger has the agent's tuples, or none."""
    return row.m in (None, agent.m) and row.k in (None, agent.k)


def _molecule_part(rows: Sequence[LedgerRow]) -> list[str]:
    """The README's table of molecules, last state only."""
    columns = {("zinc", "mae"): "ZINC", ("zinc_full", "mae"): "ZINC-FULL", ("molhiv", "auroc"): "MOLHIV"}
    current = [row for row in ledger.newest(rows) if row.table == "molecules" and row.inputs != PAPERS_INPUTS]
    found = [row for row in current if (row.dataset, row.metric) in columns]
    if not found:
        return []
    body = []
    for method in METHODS:
        line = [method]
        for dataset, metric in columns:
            own = [row for row in found if (row.dataset, row.metric, row.method) == (dataset, metric, method)]
            line += [
                ours(own[-1]) if own else "–",
                paper(PUBLISHED.get(("molecules", dataset, method, metric))),
            ]
        if any(row.method == method for row in found):
            body.append(line)
    names = [f"{name} {who}" for name in columns.values() for who in ("ours", "paper")]
    title = (
        "Molecules: MAE of ZINC (lower is better; the 12k set at most 500k parameters), ROC-AUC of MOLHIV in percent. "
        "MAG-GNN's rows and its controls, GIN too, also read random walks, and on ZINC the smallest ring of each bond; "
        "the paper's, and the baselines that we ran, read atoms and bonds alone. That is where the distance to the "
        "paper comes from: with these inputs marks add little.\n"
    )
    return [title, markdown(["method", *names], body)]


def _papers_inputs_part(rows: Sequence[LedgerRow]) -> list[str]:
    """The README's table of ZINC from atoms and bonds alone, with what each method costs."""
    found = [row for row in rows if (row.table, row.dataset, row.inputs) == ("molecules", "zinc", PAPERS_INPUTS)]
    if not found:
        return []
    order = sorted(found, key=lambda row: METHODS.index(row.method))
    body = [
        [row.method, Setting.of(row).text.replace(f", {PAPERS_INPUTS}", ""), str(row.passes), ours(row),
         paper(PUBLISHED.get(("molecules", "zinc", row.method, "mae")))]
        for row in order
    ]  # fmt: skip
    notes = [f"{row.method}: {row.note}." for row in order if row.note and row.keep == "last"]
    title = (
        "ZINC with the paper's inputs, atoms and bonds alone, at most 500k parameters, MAE. *Distance marks* tell each "
        "node how far it is from each marked node; the paper's marks are 0 or 1. *Passes*: encoder passes over a graph "
        "for one answer, those of the Q-network included. *Keep mean* averages the answers of ten starts.\n"
    )
    return [title, markdown(["method", "setting", "passes", "ours", "paper"], body), *(f"{note}\n" for note in notes)]


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
                "–" if row is None else number(row.mean, row.metric),
                paper(PUBLISHED.get(("bench_inference", dataset, setting.method, "ms"))),
            ]
        body.append([*line, setting.hardware or "–"])
    names = [f"{name} {who}" for name in ("ZINC-FULL", "CYCLE", "QM9") for who in ("ours", "paper")]
    title = (
        "Inference, ms for a whole test set, five layers of width 100 (the paper's GPU is not named). Baselines find "
        "their subgraphs, distances and cycles made already; the notes of the results page say what making them "
        "takes. Rows that begin with pyg- are PyG's own layers, all others our kernels.\n"
    )
    return [title, markdown(["method", "setting", *names, "hardware"], body)]


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


def with_summary(path: Path, rows: Iterable[LedgerRow]) -> str:
    """The README with the tables of `rows` between its marks."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"{path}: no {BEGIN} … {END} to fill; add the two lines where the table should stand")
    return f"{before}{BEGIN}\n{render_summary(rows)}{END}{after}"
