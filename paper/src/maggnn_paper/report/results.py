"""The pages of results, `docs/results/`: one page and one plot for each table of the ledger, and a first page."""

import dataclasses
from collections.abc import Iterable, Sequence

from maggnn_paper import ledger
from maggnn_paper.ledger import TABLES, LedgerRow
from maggnn_paper.published import PUBLISHED, Published
from maggnn_paper.report.cells import Footnotes, Setting, markdown, moves_grid, number, ours, paper, plain
from maggnn_paper.report.plots import curve_plot, dot_plot, line_plot
from maggnn_paper.report.summary import render_summary
from maggnn_paper.tables.passes import WAYS, way_to_spend

COLUMNS_PER_TABLE = 6
"""Wider tables (QM9 has twelve targets) are cut into pieces a screen can show."""

TITLES = {
    "synthetic": (
        "Expressivity: EXP, CSL, SR25",
        "Accuracy in percent on the synthetic data sets of the paper (its Table 1).",
    ),
    "moves": (
        "Accuracy against the number of moves",
        "Accuracy in percent, for molecules the MAE, after t moves (Figure 5 of the paper); t = 0 is the random start.",
    ),
    "passes": (
        "Accuracy at equal cost",
        "Accuracy in percent against the number of encoder passes: the agent, and random marks with as many passes.",
    ),
    "theorem1": (
        "Theorem 1: random regular graphs",
        "Share of pairs of random cubic graphs that one mark distinguishes, and share of nodes whose mark does.",
    ),
    "theorem2": ("Theorem 2: super graphs", "Accuracy in percent of learned moves and of random moves."),
    "demo": (
        "The demo, from ten seeds",
        "Accuracy in percent on the two sets of `maggnn demo`: learned and random moves with the same predictors.",
    ),
    "own_loop": (
        "A custom training loop",
        "Accuracy in percent on SR25 of the training loop of the guide, and of random moves in the same predictor.",
    ),
    "ceilings": (
        "What marks can distinguish at all",
        "Pairs of BREC whose marked copies differ under exact colour refinement, without training, and its time.",
    ),
    "families": (
        "One agent on families it has never seen",
        (
            "After t moves: fineness of the stable colouring / share of finest tuples / share of informative tuples "
            "([terms](../glossary.md#further-terms)). `refinement` is the exact greedy search."
        ),
    ),
    "relabelling": (
        "Invariance to the numbering of nodes",
        "Largest difference between the outputs for a graph and for its relabellings; random marks are the control.",
    ),
    "motivation": (
        "Motivation: one random marked graph",
        "Accuracy in percent with one random tuple of two marks on SR25 (the motivation of the paper).",
    ),
    "brec_paper": (
        "BREC, the paper's test",
        "Pairs distinguished. A pair counts if at least 950 of 1,000 random starts are classified correctly.",
    ),
    "brec_rpc": (
        "BREC, the official protocol",
        (
            "Pairs distinguished by the official test (RPC). Rows `:agent` of the commits 110736e and ae14b90, "
            "`all:agent` among them, are withdrawn: their search ran in two numberings that all relabellings shared "
            "([why](../paper_map.md#brec-with-a-pretrained-agent))."
        ),
    ),
    "cycles": (
        "Cycle counting",
        "MAE of nodes on standardised counts; by convention a model with less than 0.01 can count.",
    ),
    "edges": ("Edge-level tasks", "Beyond the paper: AUROC of predicting hidden links, in percent."),
    "molecules": ("Molecules: ZINC, ZINC-FULL, MOLHIV", "MAE (lower is better) and AUROC in percent."),
    "qm9": ("QM9", "MAE, lower is better; energies in hartree; U0, U, H and G are total energies."),
    "transfer": (
        "Transfer",
        "The agent is pretrained on the first data set, and the predictor is trained on the second.",
    ),
    "ablation": (
        "Ablations on ZINC and other molecules",
        "Validation scores, by which settings are chosen; one line for each variant, on ZINC unless named otherwise.",
    ),
    "bench_inference": ("Inference time", "Milliseconds for the whole test set, and megabytes."),
    "bench_train": ("Training time", "Milliseconds per step, and megabytes."),
    "bench_scaling": ("Scaling", "Time and memory against the sizes of the problem."),
    "bench_floor": (
        "Inference time and its matrix products",
        "Milliseconds; `floor` is the time of the matrix products alone.",
    ),
    "people": (
        "Models for your own molecules",
        "Beyond the paper: accuracy and time of `maggnn fit` and `maggnn predict`.",
    ),
    "chemist": (
        "`maggnn fit` on practice tables",
        "Errors in the target's unit; ROC-AUC, PR-AUC and coverage of 90 % intervals in percent; means over splits.",
    ),
    "pretraining": (
        "Initial weights and marks in `maggnn fit`",
        (
            "Out-of-fold errors and ROC-AUC (percent) on practice tables: networks that start from random weights, or "
            "from weights that were trained to compute properties of public molecules; with random weights also "
            "without moves (marks on the most central atoms) and without marks."
        ),
    ),
    "right_answers": (
        "Robustness",
        "Beyond the paper: rewritten SMILES, other numberings, interruptions and damage must not change a result.",
    ),
}
"""Heading and one sentence for each table of the ledger."""

HOW_TO_READ = """\
A cell is a mean ± standard deviation over runs (runs × tests of each run). *paper* is the published figure of the same
method and data set, whatever its m, k and t; *published* is a figure from another source. The controls are listed next
to the agent: *random-marks* never moves its marks (t = 0), *random-moves* moves them as often as the agent, at random
and under the same keep rule.
"""

PREAMBLE = """\
# Results

Every measured figure is a row of `results/ledger.jsonl`, written by the program that measured it. These pages are
rendered from the ledger by `maggnn-paper report`; do not edit them by hand. A row also has its cost (parameters,
seconds of training, megabytes), machine, commit and config. Goals that were missed are on a
[page of their own](../not_reached.md).
"""

PAPER = "mag-gnn.tex"
"""How the source of the paper's own figures begins; others are only *published*."""

LISTS = ("ablation", "theorem1")
"""Tables whose rows have no columns in common, one line each and without a plot."""

WITHOUT_PLOT = (*LISTS, "relabelling", "motivation", "families", "bench_floor", "bench_scaling", "people")
"""Tables of a few lines, or whose columns are as many as their rows."""

MAIN_METRICS = ("rmse", "auroc")
"""Of numbers and of classes, in the plots of `chemist`."""

MOVES_OF_A_CURVE = 2
"""Fewer numbers of moves make no curve."""

AGAINST_MOVES = ("moves", "theorem2", "demo", "own_loop")
"""Tables with a row for each number of moves."""


def render_pages(rows: Iterable[LedgerRow]) -> dict[str, str]:
    """All pages and plots of `docs/results/`.

    Args:
        rows: The ledger, oldest row first.

    Returns:
        Their texts by the name of the file.
    """
    whole = list(rows)
    current = ledger.newest(whole)
    by_table = {table: [row for row in current if row.table == table] for table in TABLES}
    measured = {table: own for table, own in by_table.items() if own}
    pages = {"README.md": _first_page(whole, measured)}
    for table, own in measured.items():
        plots = _plots(table, own)
        pages |= plots
        pages[f"{table}.md"] = _page(table, own, list(plots))
    return pages


def _first_page(rows: Sequence[LedgerRow], measured: dict[str, list[LedgerRow]]) -> str:
    if not measured:
        return f"{PREAMBLE}\nNothing has been measured yet.\n"
    index = markdown(
        ["table", "contents", "rows"],
        [[f"[{TITLES[table][0]}]({table}.md)", TITLES[table][1], str(len(own))] for table, own in measured.items()],
    )
    return "\n".join([PREAMBLE, "## All tables\n", index, "## Summary\n", HOW_TO_READ, render_summary(rows)])


def _page(table: str, rows: list[LedgerRow], plots: Sequence[str]) -> str:
    title, sentence = TITLES[table]
    notes = Footnotes()
    parts = [f"# {title}\n", f"{sentence} [How to read a cell](README.md#summary).\n"]
    parts += [f"![{title}]({name})\n" for name in plots]
    parts += _tables(table, rows, notes)
    if notes.numbers:
        parts.append("\n".join(notes.lines()) + "\n")
    parts.append(
        f"Cost, machine, commit and config of each row: rows of `results/ledger.jsonl` with `table` = `{table}`.\n"
    )
    return "\n".join(parts)


def _tables(table: str, rows: list[LedgerRow], notes: Footnotes) -> list[str]:
    if table in LISTS:
        return [_list(rows)]
    if table == "passes":
        return [_passes_part(dataset, rows, notes) for dataset in _datasets(table, rows)]
    if table == "families":
        return [_families(rows)]
    if table in AGAINST_MOVES:
        return _against_moves(table, rows, notes)
    columns = _columns(table, rows)
    groups = [columns[start : start + COLUMNS_PER_TABLE] for start in range(0, len(columns), COLUMNS_PER_TABLE)]
    return [_grid(table, rows, group, notes) for group in groups]


def _against_moves(table: str, rows: list[LedgerRow], notes: Footnotes) -> list[str]:
    """One part for each data set, and a grid of the rows that do not count moves."""
    moving = [row for row in rows if row.t is not None]
    parts = [_moves_part(table, dataset, moving, notes) for dataset in _datasets(table, moving)]
    others = [row for row in rows if row.t is None]
    return parts + ([_grid(table, others, _columns(table, others), notes)] if others else [])


def _plots(table: str, rows: list[LedgerRow]) -> dict[str, str]:
    """The plots of a table by the names of their files; none where nothing but failures was measured."""
    rows = [row for row in rows if row.mean is not None]
    if table in WITHOUT_PLOT or not rows:
        return {}
    if table in AGAINST_MOVES:
        moving = [row for row in rows if row.t is not None]
        datasets = _datasets(table, moving)
        own = {dataset: [row for row in moving if row.dataset == dataset] for dataset in datasets}
        own = {dataset: of for dataset, of in own.items() if len({row.t for row in of}) > MOVES_OF_A_CURVE}
        return {f"{table}-{dataset}.svg": line_plot(f"{dataset}, {of[0].metric}", of) for dataset, of in own.items()}
    if table == "passes":
        return {
            f"{table}-{dataset}.svg": curve_plot(f"{dataset}, accuracy", "encoder passes", _ways(dataset, rows))
            for dataset in _datasets(table, rows)
        }
    if table == "chemist":
        return {f"{table}-{split}.svg": _cells_plot(rows, split) for split in ("random", "scaffold")}
    return {f"{table}.svg": dot_plot(table, rows, _columns(table, rows))}


def _cells_plot(rows: list[LedgerRow], split: str) -> str:
    """The tables on which another program was measured, with the error of numbers and the ROC-AUC of classes."""
    compared = {row.dataset for row in rows if row.method == "chemprop" and row.dataset.endswith(f"-{split}")}
    columns = [column for column in _columns("chemist", rows) if column[0] in compared and column[1] in MAIN_METRICS]
    return dot_plot("chemist", [row for row in rows if row.dataset in compared], columns, most=len(columns))


def _ways(dataset: str, rows: list[LedgerRow]) -> dict[str, dict[int, float | None]]:
    own = [row for row in rows if row.dataset == dataset]
    return {way: {row.passes or 0: row.mean for row in own if way_to_spend(row) == way} for way in WAYS}


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


def _moves_part(table: str, dataset: str, rows: list[LedgerRow], notes: Footnotes) -> str:
    figure = PUBLISHED.get((table, dataset, "mag-gnn", "accuracy"))
    published = f" (the paper's MAG-GNN: {paper(figure)} {figure.note})" if figure else ""
    own = [row for row in rows if row.dataset == dataset]
    return f"**{dataset}**, {own[0].metric}{published}\n\n{moves_grid(own, notes)}"


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
