"""The README is short, and every number in it is a row of the ledger."""

import re
from pathlib import Path

import pytest

from maggnn_paper.ledger import LedgerRow
from maggnn_paper.report.cells import number
from maggnn_paper.report.readme import BEGIN, END
from measured import newest_rows, the_row

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
    "3.84": "states that a learner sees, in millions",
    "160,000": "the same of another learner",
    "9": "a discount",
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


def passes(dataset: str, method: str, **values: object) -> dict[str, object]:
    return {"table": "passes", "dataset": dataset, "method": method, "hardware": GPU, **values}


def replay(method: str) -> dict[str, object]:
    return {"table": "moves", "dataset": "sr25_replay_large", "method": method, "t": 6, "keep": "last"}


def time(method: str) -> dict[str, object]:
    return {"table": "bench_inference", "dataset": "zinc_full", "method": method, "metric": "ms", "hardware": GPU}


def zinc(method: str) -> dict[str, object]:
    return {"table": "molecules", "dataset": "zinc", "method": method, "metric": "mae", "inputs": None, "hardware": GPU}


def with_walks(method: str) -> dict[str, object]:
    return {**zinc(method), "inputs": "atoms+bonds+walks+rings", "marking": "directed", "keep": "last"}


def directed(method: str, keep: str) -> dict[str, object]:
    return {**zinc(method), "inputs": "atoms+bonds", "marking": "directed", "keep": keep}


def molhiv(method: str, keep: str) -> dict[str, object]:
    return {**directed(method, keep), "dataset": "molhiv", "metric": "auroc"}


def people(method: str) -> dict[str, object]:
    return {"table": "people", "dataset": "zinc2000", "method": method, "metric": "mae"}


SR25 = {"table": "synthetic", "dataset": "sr25", "metric": "accuracy"}
CLAIMS = {
    "our DQN has {mean} % after six moves": replay("mag-gnn-dqn"),
    "where random moves have {mean} %, if": replay("random-moves"),
    "it stays at {mean} %": moves("mag-gnn-dqn"),
    "below the {mean} % of random moves": moves("random-moves"),
    "lookahead has {mean} %": moves("mag-gnn"),
    "it is correct on {mean} % of SR25": {**SR25, "method": "mag-gnn", "m": 1, "k": 2, "t": 4, "keep": "last"},
    "where GIN has {mean} %": {**SR25, "method": "gin"},
    "has an error of {mean} ± {std}": zinc("gin"),
    "have {mean} ± {std} and": with_walks("random-marks"),
    "MAG-GNN has {mean} ± {std}": with_walks("mag-gnn-pre"),
    "without an agent, have {mean}": directed("central-starts", "last"),
    "it takes {mean} ms on an H200": time("mag-gnn"),
    "a GIN of PyG takes {mean} ms": time("pyg-gin+resident"),
    "our one-pass GNN {mean} ms": time("mpnn"),
    "I²-GNN {mean} ms": time("i2gnn"),
    "the model has an error of {exact}": people("mag-gnn-blend"),
    "descriptors alone {exact}": people("part-boosting"),
    "fingerprints {exact}": people("part-forest"),
    "an agent, distinguish {mean} pairs": {"table": "brec_rpc", "dataset": "all:finest", "method": "mag-gnn-finest"},
    "once on other graphs distinguishes {mean} pairs": {"table": "brec_rpc", "dataset": "all:agent"},
    "for which no agent is needed, adds {mean}": {"table": "brec_rpc", "dataset": "all:agent3"},
    "colour refinement guides, distinguish {mean}": {"table": "brec_rpc", "dataset": "all:moves"},
    "the best of 60 random tuples {mean}": {"table": "brec_rpc", "dataset": "all:walks"},
}
"""What the text says, and the row that it says it of."""

NOTES = {
    "95 % interval 0.156 to 0.507": people("mag-gnn-blend"),
    "58.5 s": {**people("mag-gnn"), "metric": "ms"},
    "paired sign-flip p = 0.009": molhiv("mag-gnn-pre", "last"),
    "paired sign-flip p = 0.002": passes("sr25", "mag-gnn", t=2, keep="last"),
}
"""What the text quotes from the note of a row."""


@pytest.fixture(scope="module")
def rows() -> list[LedgerRow]:
    return newest_rows()


@pytest.fixture(scope="module")
def readme() -> str:
    return " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


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
