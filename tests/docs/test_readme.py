"""The README is short, and every number in it is a row of the ledger."""

import re
from pathlib import Path

import pytest

from maggnn_paper import ledger
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.report.cells import number
from maggnn_paper.report.readme import BEGIN, END

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 110
GPU = "NVIDIA H200"

NOT_MEASURED = {
    "2023": "year of the paper",
    "3": "3-WL",
    "200": "H200",
    "25": "SR25",
    "2": "the index of I²-GNN",
    "5,000": "size of a test set",
    "2,000": "size of a table",
    "95": "level of an interval",
    "20": "encoder passes, m (t + 1) of ten starts",
    "6": "encoder passes of the agent and of three starts, m (t + 1)",
}
"""Numbers that are part of a name, a size or a setting."""


def moves(method: str) -> dict[str, object]:
    return {
        "table": "moves",
        "dataset": "sr25",
        "method": method,
        "m": 1,
        "k": 2,
        "t": 8,
        "keep": "last",
        "hardware": GPU,
    }


def at_moves(method: str, t: int, keep: str = "last") -> dict[str, object]:
    return {**moves(method), "t": t, "keep": keep}


def replay(method: str, keep: str = "last") -> dict[str, object]:
    return {"table": "moves", "dataset": "sr25_replay", "method": method, "t": 6, "keep": keep}


def time(method: str) -> dict[str, object]:
    return {"table": "bench_inference", "dataset": "zinc_full", "method": method, "metric": "ms", "hardware": GPU}


def zinc(method: str) -> dict[str, object]:
    return {"table": "molecules", "dataset": "zinc", "method": method, "metric": "mae", "inputs": None, "hardware": GPU}


def directed(method: str, keep: str) -> dict[str, object]:
    return {**zinc(method), "inputs": "atoms+bonds", "marking": "directed", "keep": keep}


def molhiv(method: str, keep: str) -> dict[str, object]:
    return {**directed(method, keep), "dataset": "molhiv", "metric": "auroc"}


def people(method: str) -> dict[str, object]:
    return {"table": "people", "dataset": "zinc2000", "method": method, "metric": "mae"}


SR25 = {"table": "synthetic", "dataset": "sr25", "metric": "accuracy"}
CLAIMS = {
    "our DQN stays at {mean} %": moves("mag-gnn-dqn"),
    "where random moves have {mean} %": moves("random-moves"),
    "lookahead has {mean} %": moves("mag-gnn"),
    "one run it reaches {mean} %": replay("mag-gnn-dqn"),
    "random moves reach {mean} %": replay("random-moves"),
    "as many updates {mean} %": replay("mag-gnn"),
    "as many random states {mean} %": replay("random-moves", "confident"),
    "two encoder passes they have {mean} %": at_moves("random-moves", 1, "confident"),
    "and the agent {mean} %, with": at_moves("mag-gnn", 1),
    "three passes {mean} %": at_moves("random-moves", 2, "confident"),
    "and the agent {mean} %.": at_moves("mag-gnn", 2),
    "it is correct on {mean} % of SR25": {**SR25, "method": "mag-gnn", "m": 1, "k": 2, "t": 4, "keep": "last"},
    "where GIN has {mean} %": {**SR25, "method": "gin"},
    "reach {mean} % on SR25": {**SR25, "method": "random-moves", "m": 1, "k": 2, "t": 4, "keep": "confident"},
    "GIN has an error of {mean} ± {std}": zinc("gin"),
    "MAG-GNN {mean} ± {std}": {**zinc("mag-gnn-pre"), "keep": "last"},
    "random marks {mean} ± {std}": directed("random-marks", "last"),
    "at equal cost, {mean}": directed("random-marks", "mean of 3"),
    "the most central nodes {mean}": directed("central-starts", "last"),
    "the agent has {mean} ± {std},": directed("mag-gnn-pre", "last"),
    "On MOLHIV the agent has {mean} ± {std} %": molhiv("mag-gnn-pre", "last"),
    "random marks have {mean} % and": molhiv("random-marks", "last"),
    "three random starts {mean} %": molhiv("random-marks", "mean of 3"),
    "{mean} ms for the 5,000 test graphs": time("mag-gnn"),
    "a GIN of PyG takes {mean} ms": time("pyg-gin+resident"),
    "our one-pass GNN {mean} ms": time("mpnn"),
    "I²-GNN {mean} ms": time("i2gnn"),
    "the model has an error of {exact}": people("mag-gnn-blend"),
    "descriptors alone {exact}": people("part-boosting"),
    "fingerprints {exact}": people("part-forest"),
    "an agent, distinguish {mean} pairs": {"table": "brec_rpc", "dataset": "all:finest", "method": "mag-gnn-finest"},
    "once on other graphs distinguishes {mean} pairs": {"table": "brec_rpc", "dataset": "all:agent"},
    "colour refinement guides, distinguish {mean}": {"table": "brec_rpc", "dataset": "all:moves"},
    "the best of 60 random tuples {mean}": {"table": "brec_rpc", "dataset": "all:walks"},
}
"""What the text says, and the row that it says it of."""

NOTES = {
    "95 % interval 0.156 to 0.507": people("mag-gnn-blend"),
    "58.5 s": {**people("mag-gnn"), "metric": "ms"},
    "paired sign-flip p = 0.070": molhiv("mag-gnn-pre", "last"),
}
"""What the text quotes from the note of a row."""


@pytest.fixture(scope="module")
def rows() -> list[LedgerRow]:
    return ledger.newest(ledger.read(ROOT / "results" / "ledger.jsonl"))


@pytest.fixture(scope="module")
def readme() -> str:
    return " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def the_row(rows: list[LedgerRow], wanted: dict[str, object]) -> LedgerRow:
    found = [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]
    assert len(found) == 1, f"{len(found)} rows for {wanted}"
    return found[0]


def said(claim: str, row: LedgerRow) -> str:
    return claim.format(
        mean=number(row.mean, row.metric),
        std=number(row.std, row.metric) if row.std is not None else "",
        exact=f"{row.mean:.4g}",
    )


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_a_row(claim, rows, readme):
    expected = said(claim, the_row(rows, CLAIMS[claim]))
    assert expected in readme, f"the ledger says: {expected}"


@pytest.mark.parametrize("quote", NOTES)
def test_a_quotation_is_a_note(quote, rows, readme):
    assert quote in readme and quote in str(the_row(rows, NOTES[quote]).note)


def test_the_fit_is_better_than_others_in_as_many_cells_as_it_says(rows, readme):
    """A cell is a table and a split; the error is the RMSE of numbers or what the ROC-AUC of classes lacks."""
    found = [row for row in rows if row.table == "chemist" and row.metric in ("rmse", "auroc") and row.mean is not None]
    error = {(row.dataset, row.method): row.mean if row.metric == "rmse" else 100 - row.mean for row in found}
    cells = [dataset for dataset, method in error if method == "chemprop"]
    others = ("descriptor-boosting", "fingerprint-forest")
    blend = {cell: error[cell, "mag-gnn-blend"] for cell in cells}
    commits = {re.findall(r"measured at (\w+)", str(row.note))[0] for row in found if row.dataset in cells}
    assert len(cells) == 10 and len(commits) == 1
    assert all(blend[cell] < error[cell, "chemprop"] for cell in cells)
    assert sum(blend[cell] < min(error[cell, other] for other in others) for cell in cells) == 9
    assert "chemprop with its default settings in all ten cells, and than both baselines in nine" in readme


def test_every_number_is_claimed(rows):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text[: text.index(BEGIN)] + text[text.index(END) :]  # rendered from the ledger, see test_report.py
    text = re.sub(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", " ", text, flags=re.MULTILINE | re.DOTALL)
    text = " ".join(text.split())
    for claim, wanted in CLAIMS.items():
        text = text.replace(said(claim, the_row(rows, wanted)), " ")
    for quote in NOTES:
        text = text.replace(quote, " ")
    left = set(re.findall(r"\d[\d,.]*\d|\d", text)) - NOT_MEASURED.keys()
    assert not left, f"numbers that no row of the ledger has: {sorted(left)}"


def test_it_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_LINES
