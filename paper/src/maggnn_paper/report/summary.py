"""The summary of the results: the main rows of each of the paper's tables, on the first page of the results."""

import dataclasses
from collections.abc import Iterable, Sequence

from maggnn_paper import ledger
from maggnn_paper.ledger import METHODS, LedgerRow
from maggnn_paper.published import PUBLISHED
from maggnn_paper.report.cells import Footnotes, Setting, markdown, moves_grid, number, ours, paper

PAPERS_INPUTS = "atoms+bonds"
"""What the paper's networks read of a molecule."""

CONTROLLED = ("gin", "random-marks", "random-moves", "mag-gnn")
"""What the synthetic table always shows; of the others, those that the paper's has."""


CONTROLS = (
    "The controls use the same predictor: *gin* has no marks, *random-marks* never moves its marks (t = 0), and "
    "*random-moves* moves them as often as the agent, at random.\n"
)
TARGETS = (
    "One tuple of two marks, accuracy after t moves (the paper: 100 after six). *mag-gnn* is trained on the exact "
    "reward of every move (one-step lookahead), *mag-gnn-dqn* and *mag-gnn-double-dqn* as in the paper, and "
    "*mag-gnn-shared* shares the encoder of the predictor.\n"
)


def render_summary(rows: Iterable[LedgerRow]) -> str:
    """The synthetic data sets, SR25 against the number of moves, BREC, molecules and inference times.

    Args:
        rows: The ledger, oldest row first.

    Returns:
        Markdown; empty tables are left out.
    """
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
    lines = ["### Expressivity\n", CONTROLS, markdown(header, body)]
    moves = [row for row in ledger.newest(rows) if (row.table, row.dataset, row.m, row.k) == ("moves", "sr25", 1, 2)]
    if moves:
        lines += ["### SR25 against the number of moves\n", TARGETS]
        lines += [moves_grid([dataclasses.replace(row, note=None) for row in moves], Footnotes())]
    lines += _brec_part(rows)
    lines += _molecule_part(rows)
    lines += _papers_inputs_part(ledger.newest(whole))
    lines += _time_part(rows)
    return "\n".join(lines)


def _with_folds(row: LedgerRow) -> str:
    """A figure of which some folds are missing says so."""
    return f"{ours(row)}, {row.note}" if row.note and row.note.endswith(" folds") else ours(row)


def _brec_part(rows: Sequence[LedgerRow]) -> list[str]:
    """The table of BREC by the official test: ours, of one machine, beside published counts."""
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
        f"Pairs distinguished by the official test (a pair whose reliability check fails does not count), k = "
        f"{agent[-1].k}. Our rows average the outputs of 16 to 128 random sets of tuples; with four moves each, that "
        "is 320 to 2,560 encoder passes per graph. *Every pair of marks* reads all |V|² marked copies instead, which "
        "is fewer for graphs of up to fifty nodes, and uses a separate network. The agents are trained after the 20 "
        "epochs of the protocol, in steps that the protocol does not count, and their settings differ by category. "
        "These settings were chosen on the same pairs, because BREC has no others.\n"
    )
    if "all:finest" in finest:
        title += (
            "\n*The finest marks* uses no agent: exact colour refinement of all |V|² marked copies selects the "
            f"{finest['all:finest'].passes} that the network reads. Its settings are the same for all categories and "
            "were chosen on other pairs.\n"
        )
    return ["### BREC\n", title, markdown(["method", *(f"{name}/{count}" for name, count in columns.items())], body)]


def _same_marks(row: LedgerRow, agent: LedgerRow) -> bool:
    """Whether a row of the ledger has the agent's tuples, or none."""
    return row.m in (None, agent.m) and row.k in (None, agent.k)


def _molecule_part(rows: Sequence[LedgerRow]) -> list[str]:
    """The table of molecules, last state only."""
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
        "MAE of ZINC (lower is better; the 12k set with at most 500k parameters) and ROC-AUC of MOLHIV in percent. "
        "MAG-GNN and its controls, GIN included, also read return probabilities of random walks and, on ZINC, the size "
        "of the smallest ring of each bond. The paper's models, and the baselines that we ran, read atoms and bonds "
        "only. The additional inputs explain the distance to the paper: with them, marks add little.\n"
    )
    return ["### Molecules\n", title, markdown(["method", *names], body)]


def _papers_inputs_part(rows: Sequence[LedgerRow]) -> list[str]:
    """The table of ZINC from atoms and bonds alone, with what each method costs."""
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
        "MAE with the paper's inputs, atoms and bonds only, and at most 500k parameters. *Distance marks* give each "
        "node its distance from each marked node; the paper's marks are 0 or 1. *Passes*: encoder passes over a graph "
        "for one answer, including those of the Q-network. *Keep mean* averages the answers of ten starts.\n"
    )
    table = markdown(["method", "setting", "passes", "ours", "paper"], body)
    return ["### ZINC with the inputs of the paper\n", title, table, *(f"{note}\n" for note in notes)]


def _time_part(rows: Sequence[LedgerRow]) -> list[str]:
    """The table of inference times, one line a method and machine."""
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
        "Milliseconds for a whole test set, five layers of width 100 (the paper does not name its GPU). Timings of the "
        "baselines exclude preprocessing (subgraphs, distances, cycles); the notes of [the table](bench_inference.md) "
        "give its cost. Rows that begin with pyg- use the layers of PyG, all others our kernels.\n"
    )
    return ["### Inference time\n", title, markdown(["method", "setting", *names, "hardware"], body)]


def _headline(rows: Sequence[LedgerRow], method: str, dataset: str) -> LedgerRow | None:
    """The row of the synthetic table that the summary shows for a method.

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
