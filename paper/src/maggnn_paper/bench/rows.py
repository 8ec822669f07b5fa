"""The ledger row of a time that several benchmarks measure."""

from __future__ import annotations

from maggnn_paper.ledger import LedgerRow


def milliseconds_row(dataset: str, milliseconds: float, note: str) -> LedgerRow:
    """Return a time with the default settings as a row of the table `people`."""
    return LedgerRow(
        table="people",
        dataset=dataset,
        method="mag-gnn",
        metric="ms",
        mean=round(milliseconds, 2),
        config="defaults",
        note=note,
    )
