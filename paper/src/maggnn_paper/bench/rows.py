"""Ledger rows of the kinds that several benchmarks measure: a time, and a mean over splits."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

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


def mean_row(table: str, dataset: str, method: str, metric: str, values: Sequence[float], note: str) -> LedgerRow:
    """Return the mean and the standard deviation over splits, with the default settings, as a row."""
    return LedgerRow(
        table=table,
        dataset=dataset,
        method=method,
        metric=metric,
        mean=round(statistics.fmean(values), 5),
        std=round(statistics.stdev(values), 5) if len(values) > 1 else None,
        runs=len(values),
        config="defaults",
        note=note,
    )
