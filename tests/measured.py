"""The newest rows of the ledger, for tests that compare what a page says with what was measured."""

from pathlib import Path

from maggnn_paper import ledger
from maggnn_paper.ledger import LedgerRow

LEDGER = Path(__file__).resolve().parents[1] / "results" / "ledger.jsonl"


def newest_rows() -> list[LedgerRow]:
    return ledger.newest(ledger.read(LEDGER))


def the_row(rows: list[LedgerRow], wanted: dict[str, object]) -> LedgerRow:
    """The only row with these values."""
    found = [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]
    assert len(found) == 1, f"{len(found)} rows for {wanted}"
    return found[0]
