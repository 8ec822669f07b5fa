"""`maggnn predict` for a model that was fitted to graphs: reads a file of graphs and writes a table of predictions.

The file formats are those of `maggnn.data.graph_files` (.g6, .npz, .pt, .edges); files are read as a whole. The column
`graph` numbers the graphs from 0.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maggnn.apps.fit.fitted import FittedModel, UnseenWarning
from maggnn.apps.fit.row_files import cell_text, join_parts, write_part
from maggnn.data.files import check_output, whole_file
from maggnn.data.graph_files import read_graphs

NOT_FINITE = "no prediction: the model's answer is not a finite number"

Columns = Callable[[Any, FittedModel, float], list[Any]]
"""A function that returns the columns for an answer."""


def predict_graphs(
    fitted: FittedModel,
    path: Path,
    out: Path,
    overwrite: bool,
    coverage: float,
    names: list[str],
    types: list[str | None],
    columns: Columns,
) -> dict[str, Any]:
    """Write the predictions for all graphs of a file.

    Args:
        names: the names of the columns to add, with the reason as the last.
        types: the types of these columns, as `arrow_table` names them.
        columns: returns all of these columns except the reason.
    """
    began = time.monotonic()
    check_output(out, overwrite)
    graphs = read_graphs(str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenWarning)
        answer = fitted.answer(graphs)
    finite = answer.values.isfinite().all(dim=1).tolist()
    found = [
        [value if good else None for value, good in zip(column, finite, strict=True)]
        for column in columns(answer, fitted, coverage)
    ]
    reasons = ["" if good else NOT_FINITE for good in finite]
    cells = [list(range(len(graphs))), *found, reasons]
    if out.suffix == ".csv":
        cells = [[cell_text(value) for value in column] for column in cells]
    header = ["graph", *names]
    with whole_file(out) as waiting:
        part = waiting.with_name(f"{waiting.name}.part")
        try:
            write_part(part, out.suffix, header, ["int64", *types], cells)
            join_parts([part], waiting, out.suffix, header)
        finally:
            part.unlink(missing_ok=True)
    return {"out": str(out), "rows": len(graphs), "without": finite.count(False), "seconds": time.monotonic() - began}
