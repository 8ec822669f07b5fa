"""The page of results, `docs/results.md`: every table of the ledger beside the paper's figures."""

import dataclasses
from collections.abc import Iterable

from maggnn_paper import ledger
from maggnn_paper.ledger import TABLES, LedgerRow
from maggnn_paper.published import PUBLISHED, Published
from maggnn_paper.report.cells import Footnotes, Setting, markdown, number, ours, paper, plain
from maggnn_paper.tables.passes import WAYS, way_to_spend

COLUMNS_PER_TABLE = 6
"""Wider tables (QM9 has twelve targets) are cut into pieces a screen can show."""

TITLES = {
    "synthetic": (
        "Expressivity: EXP, CSL, SR25",
        "Accuracy in percent; the paper's table of synthetic results.",
    ),
    "moves": (
        "Against the number of moves",
        "The paper's figure of RL steps: accuracy in percent, of molecules the MAE; t = 0 is the random start.",
    ),
    "passes": (
        "At equal cost",
        "Accuracy in percent against encoder passes over a graph: the agent and what random marks do with as many.",
    ),
    "theorem1": (
        "Theorem 1: random regular graphs",
        "Of pairs of random cubic graphs, the share with a node whose marked graph the other lacks, and of such nodes.",
    ),
    "theorem2": ("Theorem 2: super graphs", "Accuracy in percent; learned moves against random moves."),
    "demo": (
        "The demo, from ten seeds",
        "Accuracy in percent of `maggnn demo`'s two sets; learned moves against random moves with the same predictors.",
    ),
    "ceilings": (
        "What marks can tell apart at all",
        "Pairs of BREC whose marked copies differ under colour refinement, exact and without training, and its time.",
    ),
    "families": (
        "One agent on families it has never seen",
        "After t moves: fineness of the stable colouring / share of finest tuples / share of telling tuples.",
    ),
    "relabelling": (
        "Other numbers for the nodes",
        "The largest difference of answers for a graph and for its relabellings; random marks are the control.",
    ),
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
    "right_answers": ("Right answers", "Beyond the paper."),
}
"""Heading and one sentence for each table of the ledger."""

PREAMBLE = """\
# Results

Every figure of ours comes from `results/ledger.jsonl`, written by the program that measured it; this page is
rendered from it by `maggnn-paper report`. Do not edit it by hand.

How to read a cell: mean ± standard deviation over runs (runs × tests of each run); *paper* is the published
figure for the same method and dataset, whatever its m, k and t (*published*: a figure from elsewhere). The
controls stand beside the agent: *random-marks* never moves (t = 0), *random-moves* moves as often as the
agent, under the same keep rule.
"""

PAPER = "mag-gnn.tex"
"""How the source of the paper's own figures begins; others are only *published*."""


def render(rows: Iterable[LedgerRow]) -> str:
    """The whole of `docs/results.md`.

    Args:
        rows: The ledger, oldest row first.
    """
    current = ledger.newest(rows)
    parts = [PREAMBLE]
    for table in TABLES:
        own = [row for row in current if row.table == table]
        if own:
            parts.append(_section(table, own))
    if not current:
        parts.append("Nothing has been measured yet.\n")
    return "\n".join(parts)


def _section(table: str, rows: list[LedgerRow]) -> str:
    title, sentence = TITLES[table]
    notes = Footnotes()
    parts = [f"## {title}\n", f"{sentence}\n"]
    if table in ("ablation", "theorem1"):
        parts.append(_list(rows))
    elif table == "passes":
        parts += [_passes_part(dataset, rows, notes) for dataset in _datasets(table, rows)]
    elif table == "families":
        parts.append(_families(rows))
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
    return markdown(header, body)


def _list(rows: list[LedgerRow]) -> str:
    """One line a row, for tables whose rows have no columns in common."""
    body = []
    for row in rows:
        what = [row.dataset.removeprefix("zinc_val:"), row.method, Setting.of(row).text, row.metric]
        body.append([*what, ours(row), plain(row.params), row.commit])
    return markdown(["what", "method", "setting", "metric", "value", "params", "commit"], body)


def _passes_part(dataset: str, rows: list[LedgerRow], notes: Footnotes) -> str:
    """One line for each number of passes, one column for each way to spend them."""
    own = [row for row in rows if row.dataset == dataset]
    cells = {(row.passes, way_to_spend(row)): row for row in own}
    most = max(row.passes or 0 for row in own)
    body = [
        [str(passes), *(_cell(cells.get((passes, way)), None, notes) for way in WAYS)] for passes in range(1, most + 1)
    ]
    return f"**{dataset}**\n\n{markdown(['passes', *WAYS], body)}"


def _families(rows: list[LedgerRow]) -> str:
    """One line for each agent, family and method, one column for each number of moves: three shares in a cell."""
    lines: dict[tuple[str, Setting], dict[int | None, list[str]]] = {}
    for row in rows:
        line = lines.setdefault((row.dataset, dataclasses.replace(Setting.of(row), t=None)), {})
        line.setdefault(row.t, []).append(number(row.mean, row.metric))
    moves = sorted({row.t for row in rows if row.t is not None})
    body = []
    for dataset, setting in sorted(lines, key=lambda key: (key[0], key[1].order)):
        cells = [" / ".join(lines[dataset, setting].get(t, [])) for t in (*moves, None)]
        body.append([dataset, setting.method, setting.text, *cells, setting.hardware or "–"])
    header = ["agent>family", "method", "setting", *(f"t={t}" for t in moves), "all tuples", "hardware"]
    return markdown(header, body)


def _moves_part(dataset: str, rows: list[LedgerRow], notes: Footnotes) -> str:
    figure = PUBLISHED.get(("moves", dataset, "mag-gnn", "accuracy"))
    published = f" (the paper's MAG-GNN: {paper(figure)} {figure.note})" if figure else ""
    own = [row for row in rows if row.dataset == dataset]
    return f"**{dataset}**, {own[0].metric}{published}\n\n{moves_grid(own, notes)}"


def moves_grid(rows: list[LedgerRow], notes: Footnotes) -> str:
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
    return markdown(header, body)


def _moves_cell(row: LedgerRow | None, notes: Footnotes) -> str:
    return "" if row is None else number(row.mean, row.metric) + notes.mark(row.note)


def _provenance(rows: list[LedgerRow]) -> str:
    """Cost and origin of every row that counts, folded away."""
    header = ["dataset", "method", "setting", "metric", "params", "train s", "infer ms", "peak MB"]
    header += ["torch", "commit", "config"]
    body = []
    for row in sorted(rows, key=lambda r: (r.dataset, Setting.of(r).order, r.metric)):
        cost = [plain(value) for value in (row.params, row.train_s, row.infer_ms, row.peak_mb)]
        origin = [row.torch, row.commit, row.config or ""]
        body.append([row.dataset, row.method, Setting.of(row).text, row.metric, *cost, *origin])
    return f"<details><summary>Cost and origin</summary>\n\n{markdown(header, body)}\n</details>\n"


def _datasets(table: str, rows: list[LedgerRow]) -> list[str]:
    """Datasets we measured, in the paper's order, then ours by name."""
    papers = list(dict.fromkeys(dataset for t, dataset, _, _ in PUBLISHED if t == table))
    measured = {row.dataset for row in rows}
    return [d for d in papers if d in measured] + sorted(measured - set(papers))


def _columns(table: str, rows: list[LedgerRow]) -> list[tuple[str, str]]:
    """The (dataset, metric) pairs we measured, in the order of `_datasets`."""
    pairs = {(row.dataset, row.metric) for row in rows}
    return [pair for dataset in _datasets(table, rows) for pair in sorted(p for p in pairs if p[0] == dataset)]


def _cell(row: LedgerRow | None, figure: Published | None, notes: Footnotes) -> str:
    parts = [ours(row) + notes.mark(row.note)] if row else []
    if figure:
        who = "paper" if figure.source.startswith(PAPER) else "published"
        parts.append(f"{who} {paper(figure)}{notes.mark(figure.note)}")
    return "; ".join(parts) or "–"
